"""Registers commands: each with its text, its exit codes and its panel in `--help`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer

from causeway.cli import exit_codes

RUN: Final = "Run"
LOOK: Final = "Look"
CONTROL: Final = "Control"
MOVE: Final = "Move"
TRANSFORM: Final = "Transform"
CONVERT: Final = "Convert"
LOCAL: Final = "Local"

F = TypeVar("F", bound=Callable[..., Any])


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
    return exit_codes.in_words(exit_codes.of(path))


def flowing(text: str) -> str:
    """A docstring with a line a paragraph, so that a terminal of any width wraps it once."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)
