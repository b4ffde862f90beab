"""The `causeway` command. What a command needs is imported only when it runs."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from causeway.cli import (
    archive,
    convert,
    cutover,
    decrypt,
    diff,
    directives,
    explain,
    failback,
    lists,
    moves,
    plan,
    restore,
    run,
    status,
    translate,
    try_out,
    verify,
    wait,
)
from causeway.cli.guard import EXIT_CODES, guarded
from causeway.cli.lazy import LazyGroup

app = typer.Typer(
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Mirrors topics between Apache Kafka clusters: byte for byte, exactly once.",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", epilog=EXIT_CODES)(run.command)
app.command("plan", epilog=EXIT_CODES)(plan.command)
app.command("status", epilog=EXIT_CODES)(status.command)
app.command("topics", epilog=EXIT_CODES)(lists.topics)
app.command("groups", epilog=EXIT_CODES)(lists.groups)
app.command("lanes", epilog=EXIT_CODES)(lists.lanes)
app.command("events", epilog=EXIT_CODES)(lists.events)
app.command("explain", epilog=EXIT_CODES)(explain.command)
app.command("wait", epilog=EXIT_CODES)(wait.command)
app.command("pause", epilog=EXIT_CODES)(directives.pause)
app.command("resume", epilog=EXIT_CODES)(directives.resume)
app.command("restart", epilog=EXIT_CODES)(directives.restart)
app.command("throttle", epilog=EXIT_CODES)(directives.throttle)
app.command("step-down", epilog=EXIT_CODES)(directives.step_down)
app.command("translate", epilog=EXIT_CODES)(translate.command)
app.command("cutover", epilog=EXIT_CODES)(cutover.command)
app.command("promote", epilog=EXIT_CODES)(moves.promote)
app.command("verify", epilog=EXIT_CODES)(verify.command)
app.command("failover", epilog=EXIT_CODES)(moves.failover)
app.command("failback", epilog=EXIT_CODES)(failback.command)
app.command("try", epilog=EXIT_CODES)(try_out.command)
app.command("diff", epilog=EXIT_CODES)(diff.command)
app.command("convert", epilog=EXIT_CODES)(convert.command)
app.command("decrypt", epilog=EXIT_CODES)(decrypt.command)
app.command("archive", epilog=EXIT_CODES)(archive.command)
app.command("restore", epilog=EXIT_CODES)(restore.command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; anywhere on the line.")
    ] = False,
    secrets: Annotated[
        str | None,
        typer.Option(
            "--secrets",
            metavar="DIR",
            help="Where the Secrets of a KafkaMirrorMaker2 resource are, a folder each; anywhere on"
            " the line, or as CAUSEWAY_SECRETS.",
            show_default=False,
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


@app.command(
    "mirror-maker",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def _mirror_maker(context: typer.Context) -> int:
    """MirrorMaker 1's command and options (--consumer.config, --producer.config, --include …)."""
    from causeway.cli import mirror_maker

    return mirror_maker.command(context.args)


@app.command("version")
def _version() -> None:
    """Print the version."""
    from importlib.metadata import version

    typer.echo(f"causeway {version('causeway')}")


def _first(arguments: list[str], option: str) -> list[str]:
    """`option` with its value before all others, wherever it stood: so each command has it."""
    at = next((at for at, each in enumerate(arguments) if each.split("=")[0] == option), None)
    if at is None or "--" in arguments[:at]:
        return arguments
    end = at + (1 if "=" in arguments[at] else 2)
    if end > len(arguments):
        return [option]  # which is told to need a value
    return [*arguments[at:end], *arguments[:at], *arguments[end:]]


# Objects made between two looks for cycles among them. A command makes many values and hardly any
# cycle: with Python's 700, a third of the time of `status` of 10,000 partitions went there.
BETWEEN_LOOKS = 50_000


def main(arguments: Sequence[str] | None = None) -> None:
    """The whole process; with `arguments`, a call within another one."""
    if arguments is None:
        gc.set_threshold(BETWEEN_LOOKS)
        arguments = sys.argv[1:]
    arguments = list(arguments)
    if "--debug" in arguments:
        arguments.remove("--debug")
        os.environ["CAUSEWAY_DEBUG"] = "1"
    arguments = _first(arguments, "--secrets")
    sys.exit(guarded(lambda: app(args=arguments, prog_name="causeway", standalone_mode=False) or 0))
