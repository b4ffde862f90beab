"""The `causeway` command. A command imports its packages only when it runs."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from causeway.cli import (
    archive,
    commands,
    convert,
    cutover,
    decrypt,
    directives,
    explain,
    failback,
    failover,
    lists,
    plan,
    reload,
    run,
    status,
    translate,
    try_transform,
    verify,
    wait,
)
from causeway.cli.commands import LazyGroup, command
from causeway.cli.guard import guarded
from causeway.cli.options import valued

app = typer.Typer(
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Mirrors topics between Apache Kafka clusters: byte for byte, exactly once.",
    epilog=commands.short_exit_codes(),
    context_settings={"help_option_names": ["-h", "--help"]},
)
command(app, "run", commands.RUN)(run.command)
command(app, "plan", commands.LOOK)(plan.command)
command(app, "status", commands.LOOK)(status.command)
command(app, "topics", commands.LOOK)(lists.topics)
command(app, "groups", commands.LOOK)(lists.groups)
command(app, "lanes", commands.LOOK)(lists.lanes)
command(app, "events", commands.LOOK)(lists.events)
command(app, "explain", commands.LOOK)(explain.command)
command(app, "wait", commands.LOOK)(wait.command)
command(app, "verify", commands.LOOK)(verify.command)
command(app, "pause", commands.CONTROL)(directives.pause)
command(app, "resume", commands.CONTROL)(directives.resume)
command(app, "restart", commands.CONTROL)(directives.restart)
command(app, "throttle", commands.CONTROL)(directives.throttle)
command(app, "step-down", commands.CONTROL)(directives.step_down)
command(app, "reload", commands.CONTROL)(reload.command)
command(app, "translate", commands.MOVE)(translate.command)
command(app, "cutover", commands.MOVE)(cutover.command)
command(app, "promote", commands.MOVE)(failover.promote)
command(app, "failover", commands.MOVE)(failover.failover)
command(app, "failback", commands.MOVE)(failback.command)
command(app, "try", commands.TRANSFORM)(try_transform.command)
command(app, "decrypt", commands.TRANSFORM)(decrypt.command)
command(app, "diff", commands.CONVERT)(convert.diff)
command(app, "convert", commands.CONVERT)(convert.convert)
command(app, "archive", commands.CONVERT)(archive.archive)
command(app, "restore", commands.CONVERT)(archive.restore)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks. Accepted at any position.")
    ] = False,
    secrets: Annotated[
        str | None,
        valued(
            "--secrets",
            "DIR",
            "Directory with the Secrets of a KafkaMirrorMaker2 resource, one folder each."
            " Accepted at any position, or as CAUSEWAY_SECRETS.",
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if secrets is not None:
        os.environ["CAUSEWAY_SECRETS"] = secrets
    if version:
        _version()
        context.exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@command(
    app,
    "mirror-maker",
    commands.RUN,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def _mirror_maker(context: typer.Context) -> int:
    """Mirror with MirrorMaker 1's options (--consumer.config, --producer.config, --include …)."""
    from causeway.cli import mirror_maker

    return mirror_maker.command(context.args)


@command(app, "version", commands.LOCAL)
def _version() -> None:
    """Print the version."""
    from importlib.metadata import version

    typer.echo(f"causeway {version('causeway')}")


def _first(arguments: list[str], option: str) -> list[str]:
    """Returns `arguments` with `option` and its value first, so that it is accepted at any
    position."""
    at = next((at for at, each in enumerate(arguments) if each.split("=")[0] == option), None)
    if at is None or "--" in arguments[:at]:
        return arguments
    end = at + (1 if "=" in arguments[at] else 2)
    if end > len(arguments):
        return [option]  # the parser reports the missing value
    return [*arguments[at:end], *arguments[:at], *arguments[end:]]


# Allocations between two garbage collections. A command makes many values and few cycles: with
# Python's default of 700, collections took a third of the time of `status` for 10,000 partitions.
GC_THRESHOLD = 50_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the process. With `arguments`: runs one command inside another process."""
    if arguments is None:
        gc.set_threshold(GC_THRESHOLD)
        arguments = sys.argv[1:]
    arguments = list(arguments)
    if "--debug" in arguments:
        arguments.remove("--debug")
        os.environ["CAUSEWAY_DEBUG"] = "1"
    arguments = _first(arguments, "--secrets")
    sys.exit(guarded(lambda: app(args=arguments, prog_name="causeway", standalone_mode=False) or 0))
