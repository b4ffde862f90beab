"""Registers commands with their help, exit codes and panel; loads `dev` and `geo` on demand.

One table of exit codes serves `--help` of each command, `causeway --help` and the manual page.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

import typer
from typer.core import TyperGroup

RUN: Final = "Run"
LOOK: Final = "Look"
CONTROL: Final = "Control"
MOVE: Final = "Move"
TRANSFORM: Final = "Transform"
CONVERT: Final = "Convert"
LOCAL: Final = "Local"

# name -> module that has `app`, and its panel
LAZY: Final = {
    "dev": ("causeway.cli.dev", LOCAL),
    "geo": ("causeway.cli.geo", RUN),
}

F = TypeVar("F", bound=Callable[..., Any])

INTERRUPTED: Final = 130  # the shell's code for SIGINT
UNREAD: Final = 141  # the shell's code for SIGPIPE

_NO_CLUSTER: Final = frozenset(
    {"lanes", "diff", "convert", "version", "reload", "dev up", "dev down", "dev status"}
)
_NO_FILE: Final = frozenset({"version", "dev down", "dev status"})
_DIRECTIVES: Final = ("pause", "resume", "restart", "throttle", "step-down")
_MOVES: Final = ("cutover", "promote", "failover", "failback")
_GEO_CHANGES: Final = (
    "geo destination add",
    "geo destination remove",
    "geo topics add",
    "geo topics pause",
    "geo topics resume",
    "geo topics remove",
)


class Meaning(NamedTuple):
    """`commands`: the commands with this code; empty: all commands except those in `but`."""

    code: int
    text: str
    commands: Collection[str] = ()
    but: Collection[str] = ()

    def is_of(self, command: str) -> bool:
        return command in self.commands if self.commands else command not in self.but


MEANINGS: Final = (
    Meaning(0, "done"),
    Meaning(1, "internal error, or a response that does not follow Kafka's protocol"),
    Meaning(2, "a file, option or value cannot be used"),
    Meaning(
        2,
        "a change was only shown, because --yes is missing",
        (*_MOVES, "geo destination remove"),
    ),
    Meaning(
        2,
        "something in the changed file is wrong: the settings in force stay, as with 3 to 8",
        ("reload",),
    ),
    Meaning(3, "no broker answered in time", but=_NO_CLUSTER),
    Meaning(3, "a cluster of the changed file does not answer the driver", ("reload",)),
    Meaning(4, "a cluster refuses credentials of the changed file", ("reload",)),
    Meaning(5, "a permission is missing for the changed file", ("reload",)),
    Meaning(8, "a broker answered the driver with another error", ("reload",)),
    Meaning(
        3,
        "one of several links did not answer (the others are shown or changed)",
        ("status", "topics", "groups", "events", "plan", "failover", *_DIRECTIVES),
    ),
    Meaning(4, "TLS or SASL refused", but=_NO_CLUSTER),
    Meaning(5, "a permission is missing", but=_NO_CLUSTER),
    Meaning(6, "Java, Spark or a package is missing or too old", but=_NO_FILE),
    Meaning(7, "some partitions stopped or failed", ("run", "mirror-maker", "wait", "geo run")),
    Meaning(
        7,
        "--check: some partitions stopped, failed, are held by a promotion or wait for a lane, or "
        "topics cannot be mirrored",
        ("status", "geo status"),
    ),
    Meaning(7, "a partition cannot continue, or problems with different codes", ("plan",)),
    Meaning(7, "an offset is not exact", ("translate",)),
    Meaning(7, "an operator must act first, or the fence expired", ("cutover",)),
    Meaning(7, "not all records are mirrored", ("promote",)),
    Meaning(7, "the offsets of a group could not be committed", ("failover",)),
    Meaning(7, "the old source cannot be read to its end yet", ("failback",)),
    Meaning(7, "a batch needs too much memory", ("verify",)),
    Meaning(7, "a record is refused, or the query fails", ("try",)),
    Meaning(7, "no key fits an encrypted text, or the text was changed", ("decrypt",)),
    Meaning(7, "topic and archive no longer match", ("archive", "restore")),
    Meaning(7, "some topics could not be restored", ("restore",)),
    Meaning(8, "a broker answered with another error", but=_NO_CLUSTER),
    Meaning(9, "--check: no driver runs", ("status", "geo status")),
    Meaning(9, "no driver acted in time", (*_DIRECTIVES, *_GEO_CHANGES)),
    Meaning(9, "a running driver did not act in time", _MOVES),
    Meaning(9, "no driver started within 10 minutes", ("wait",)),
    Meaning(9, "no driver answers on this machine", ("lanes", "reload")),
    Meaning(9, "--running: no driver of the file's flows answers", ("plan",)),
    Meaning(
        10,
        "a concurrent administrative request; nothing was changed",
        (*_DIRECTIVES, *_MOVES, *_GEO_CHANGES),
    ),
    Meaning(10, "another link writes the same schemas", ("plan",)),
    Meaning(11, "--check --lag-above: a partition lags more", ("status", "geo status")),
    Meaning(11, "not reached before --timeout", ("wait", "cutover")),
    Meaning(12, "a change needs a restart: the settings in force stay", ("reload",)),
    Meaning(13, "source and target differ", ("verify",)),
    Meaning(14, "--strict: some records could not be compared", ("verify",)),
    Meaning(INTERRUPTED, "interrupted"),
    Meaning(UNREAD, "the reader of the output ended early"),
)

IN_SHORT: Final = {
    0: "done",
    1: "internal error, or a response that does not follow Kafka's protocol",
    2: "a file, option or value cannot be used, or a change was not confirmed",
    3: "no broker answered in time",
    4: "TLS or SASL refused",
    5: "a permission is missing",
    6: "Java, Spark or a package is missing or too old",
    7: "partitions, groups or records need an operator",
    8: "a broker answered with another error",
    9: "no driver runs, or none acted in time",
    10: "a concurrent administrative request",
    11: "more lag than allowed, or not reached in time",
    12: "a changed file needs a restart",
    13: "source and target differ",
    14: "some records could not be compared",
    INTERRUPTED: "interrupted",
    UNREAD: "the reader of the output ended early",
}


def command(
    app: typer.Typer, path: str, panel: str | None = None, **options: Any
) -> Callable[[F], F]:
    """Registers a function as a command of `app`. `path`: the command as typed, such as
    `geo status`; `panel`: its panel in `--help` of the group; `options`: typer's."""
    name = path.rpartition(" ")[2]

    def register(function: F) -> F:
        return app.command(
            name,
            help=flowing(function.__doc__ or ""),
            epilog=epilog(path),
            rich_help_panel=panel,
            **options,
        )(function)

    return register


def epilog(path: str) -> str:
    """Returns the exit codes of the command `path`."""
    return _in_words(exit_codes_of(path))


def flowing(text: str) -> str:
    """Returns a docstring with one line for each paragraph: the terminal wraps it."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


class LazyGroup(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *LAZY]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in LAZY:
            return super().get_command(ctx, cmd_name)
        module, panel = LAZY[cmd_name]
        command = typer.main.get_group(import_module(module).app)
        command.name = cmd_name
        command.rich_help_panel = panel
        return command


def exit_codes_of(command: str) -> dict[int, str]:
    """Returns the codes of one command, such as `geo status`, with their texts, ascending."""
    return _joined((each.code, each.text) for each in MEANINGS if each.is_of(command))


def all_exit_codes() -> dict[int, str]:
    """Returns the codes of all commands. If a text is about some commands only, it names them."""
    return _joined(
        (each.code, f"{each.text} ({', '.join(each.commands)})" if each.commands else each.text)
        for each in MEANINGS
    )


def short_exit_codes() -> str:
    """Returns the codes of all commands, with short texts."""
    return f"{_in_words(IN_SHORT)}. `--help` of a command explains its codes."


def _in_words(codes: dict[int, str]) -> str:
    """Returns a text like `Exit codes: 0 done · 1 internal error …`."""
    return "Exit codes: " + " · ".join(f"{code} {text}" for code, text in codes.items())


def _joined(meanings: Iterator[tuple[int, str]]) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for code, text in meanings:
        found.setdefault(code, []).append(text)
    return {code: "; or ".join(texts) for code, texts in found.items()}
