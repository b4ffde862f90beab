"""Registers commands: each with its text, its exit codes and its panel in `--help`."""

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

INTERRUPTED: Final = 130  # as a shell names a process that SIGINT ended
UNREAD: Final = 141  # as a shell names a process that SIGPIPE ended

_NO_CLUSTER: Final = frozenset(
    {"lanes", "diff", "convert", "version", "dev up", "dev down", "dev status"}
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
    """`commands`: those that end with the code; empty: all but those in `but`."""

    code: int
    text: str
    commands: Collection[str] = ()
    but: Collection[str] = ()

    def is_of(self, command: str) -> bool:
        return command in self.commands if self.commands else command not in self.but


MEANINGS: Final = (
    Meaning(0, "done"),
    Meaning(1, "internal error, or bytes that are not Kafka's"),
    Meaning(2, "a file, option or value that cannot be used"),
    Meaning(
        2,
        "an act that was only shown, as --yes was not given",
        (*_MOVES, "geo destination remove"),
    ),
    Meaning(3, "no broker answered in time", but=_NO_CLUSTER),
    Meaning(
        3,
        "one link of several did not answer (the others are shown, or done)",
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
    Meaning(7, "a partition that could not go on, or problems of several kinds", ("plan",)),
    Meaning(7, "a place is not exact", ("translate",)),
    Meaning(7, "a person has to act first, or the time of the fence was over", ("cutover",)),
    Meaning(7, "not all is mirrored", ("promote",)),
    Meaning(7, "a group could not be committed", ("failover",)),
    Meaning(7, "the old source cannot be read to its end yet", ("failback",)),
    Meaning(7, "a batch takes too much memory unpacked", ("verify",)),
    Meaning(7, "a record is refused, or the query fails", ("try",)),
    Meaning(7, "no key fits a text, or the text was changed", ("decrypt",)),
    Meaning(7, "topic and archive no longer fit together", ("archive", "restore")),
    Meaning(7, "some topics could not be restored", ("restore",)),
    Meaning(8, "a broker answered with another error", but=_NO_CLUSTER),
    Meaning(9, "--check: no driver runs", ("status", "geo status")),
    Meaning(9, "no driver acted in time", (*_DIRECTIVES, *_GEO_CHANGES)),
    Meaning(9, "a driver goes on and does not act", _MOVES),
    Meaning(9, "no driver came for 10 minutes", ("wait",)),
    Meaning(9, "no driver answers on this machine", ("lanes",)),
    Meaning(
        10,
        "somebody else gave directives at the same time",
        (*_DIRECTIVES, *_MOVES, *_GEO_CHANGES),
    ),
    Meaning(10, "another link writes the same schemas", ("plan",)),
    Meaning(11, "--check --lag-above: more lag than that", ("status", "geo status")),
    Meaning(11, "not there in time", ("wait", "cutover")),
    Meaning(13, "source and target differ", ("verify",)),
    Meaning(14, "--strict: not all could be compared", ("verify",)),
    Meaning(INTERRUPTED, "interrupted"),
    Meaning(UNREAD, "the output was not read to its end"),
)

IN_SHORT: Final = {
    0: "done",
    1: "internal error, or bytes that are not Kafka's",
    2: "a file, option or value that cannot be used, or an act that was not confirmed",
    3: "no broker answered in time",
    4: "TLS or SASL refused",
    5: "a permission is missing",
    6: "Java, Spark or a package is missing or too old",
    7: "partitions, groups or records that need a person",
    8: "a broker answered with another error",
    9: "no driver runs, or none acted in time",
    10: "somebody else acted at the same time",
    11: "more lag than asked for, or not there in time",
    13: "source and target differ",
    14: "not all could be compared",
    INTERRUPTED: "interrupted",
    UNREAD: "the output was not read to its end",
}


def command(
    app: typer.Typer, path: str, panel: str | None = None, **options: Any
) -> Callable[[F], F]:
    """Registers a function as a command of `app`. `path`: as a person types it, such as
    `geo status`; `panel`: where `--help` of the group lists it; `options`: typer's."""
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
    """The exit codes of the command `path`."""
    return _in_words(exit_codes_of(path))


def flowing(text: str) -> str:
    """A docstring with a line a paragraph, so that a terminal of any width wraps it once."""
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
    """The codes of one command, such as `geo status`, each with its text, ascending."""
    return _joined((each.code, each.text) for each in MEANINGS if each.is_of(command))


def all_exit_codes() -> dict[int, str]:
    """The codes of all commands; where a text is of some commands only, it names them."""
    return _joined(
        (each.code, f"{each.text} ({', '.join(each.commands)})" if each.commands else each.text)
        for each in MEANINGS
    )


def short_exit_codes() -> str:
    """The codes of all commands, in a few words each."""
    return f"{_in_words(IN_SHORT)}. `--help` of a command says what its codes mean."


def _in_words(codes: dict[int, str]) -> str:
    """`Exit codes: 0 done · 1 internal error …`."""
    return "Exit codes: " + " · ".join(f"{code} {text}" for code, text in codes.items())


def _joined(meanings: Iterator[tuple[int, str]]) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for code, text in meanings:
        found.setdefault(code, []).append(text)
    return {code: "; or ".join(texts) for code, texts in found.items()}
