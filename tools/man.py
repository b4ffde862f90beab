"""causeway(1), a manual page made of the texts that `--help` shows.

    python -m tools.man > tools/causeway.1

Kept in the source tree, so that a wheel can be built without what the commands import.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from causeway import __version__
from causeway.cli import commands, mirror_maker
from causeway.cli.main import app

_MIRROR_MAKER = "kafka-mirror-maker"


def page() -> str:
    root = typer.main.get_command(app)
    context = root.make_context("causeway", [], resilient_parsing=True)
    lines = [
        f'.TH CAUSEWAY 1 "" "causeway {__version__}" "Causeway"',
        ".SH NAME",
        "causeway \\- mirror topics between Apache Kafka clusters",
        ".SH SYNOPSIS",
        ".B causeway",
        "COMMAND [OPTIONS] [FILE]",
        ".SH DESCRIPTION",
        *_prose(root.help),
        ".SH OPTIONS",
        *_parameters(root, context),
        ".SH COMMANDS",
        *_commands(root, context),
        f".SS {_text(_MIRROR_MAKER)}",
        *_mirror_maker(),
        ".SH EXIT STATUS",
        *_exit_codes(),
        ".SH SEE ALSO",
        "The property file is MirrorMaker 2's. docs/reference/configuration.md lists its keys, and"
        " Causeway's own.",
    ]
    return "\n".join(lines) + "\n"


def _commands(group: Any, context: Any) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        inner = command.make_context(name, [], parent=context, resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(inner))
        yield f".SS {_text(inner.command_path)} {_text(usage)}"
        yield from _prose(command.help)
        yield from _parameters(command, inner)
        if hasattr(command, "list_commands"):
            yield from _commands(command, inner)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    records = (each.get_help_record(context) for each in command.get_params(context))
    for names, text in filter(None, records):
        yield from _entry(names, text)


def _mirror_maker() -> Iterator[str]:
    """Its options are parsed as MirrorMaker 1 did, by a parser of its own."""
    parser = mirror_maker.make_parser()
    yield from _prose(parser.description)
    for action in parser._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield from _entry(f"{action.option_strings[0]} {action.metavar or ''}", action.help)


def _exit_codes() -> Iterator[str]:
    for code, text in commands.all_exit_codes().items():
        yield from _entry(str(code), text)


def _entry(names: str, text: str) -> Sequence[str]:
    return [".TP", f"\\fB{_text(names)}\\fR", _line(text)]


def _prose(text: str | None) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        yield ".PP"
        yield _line(paragraph)


def _line(text: str) -> str:
    """One line of running text, which never reads as a request."""
    escaped = _text(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped or "\\&"


def _text(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")


if __name__ == "__main__":
    sys.stdout.write(page())
