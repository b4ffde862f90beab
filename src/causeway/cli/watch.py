"""Repeats a look at the clusters until Ctrl-C (`--watch`)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from causeway.cli.common import console
from causeway.cli.guard import complain
from causeway.cli.options import TIME, at_least
from causeway.cli.words import printable_json
from causeway.errors import CausewayError

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_S = 2.0

WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Refresh the output every few seconds until Ctrl-C; with --json, one line each time.",
    ),
]
EveryOption = Annotated[
    float,
    typer.Option(
        "--every",
        metavar=TIME,
        parser=at_least(0.1),
        help="Interval of --watch.",
    ),
]

T = TypeVar("T")


def watch(
    look: Callable[[], T],
    render: Callable[[T], RenderableType],
    to_json: Callable[[T], Any],
    every_s: float,
    *,
    as_json: bool,
) -> int:
    """Returns 0 at Ctrl-C. Reports a cluster that does not answer, and tries again. Raises
    CausewayError at the first look, and if trying again cannot help."""
    if as_json:
        show: Callable[[T], None] = lambda seen: _write(to_json(seen))  # noqa: E731
        return _repeat(look, show, complain, every_s)
    out = console()
    if not out.is_terminal:

        def print_all(seen: T) -> None:
            out.print(render(seen))
            out.print()
            sys.stdout.flush()

        return _repeat(look, print_all, complain, every_s)
    return _in_place(look, render, every_s)


def _in_place(look: Callable[[], T], render: Callable[[T], RenderableType], every_s: float) -> int:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from causeway.cli.words import printable

    last: list[RenderableType] = []
    with Live(console=console(), auto_refresh=False, vertical_overflow="ellipsis") as live:

        def show(seen: T) -> None:
            last[:] = [render(seen)]
            live.update(Group(_stamp(every_s), *last), refresh=True)

        def fail(text: str) -> None:
            # The last output stays, with the error below it.
            live.update(Group(*last, Text(printable(f"not now: {text}"), "red")), refresh=True)

        return _repeat(look, show, fail, every_s)


def _stamp(every_s: float) -> RenderableType:
    from rich.text import Text

    return Text(f"{time.strftime('%H:%M:%S')}, every {every_s:g} s; Ctrl-C ends", "dim")


def _repeat(
    look: Callable[[], T],
    show: Callable[[T], None],
    fail: Callable[[str], None],
    every_s: float,
) -> int:
    seen_any = False
    try:
        while True:
            try:
                show(look())
                seen_any = True
            except CausewayError as error:
                if not seen_any or not error.retriable:
                    raise
                fail(str(error))
            time.sleep(every_s)
    except KeyboardInterrupt:
        return 0


def _write(value: Any) -> None:
    text = printable_json(json.dumps(value, ensure_ascii=False))
    sys.stdout.write(text.encode(errors="replace").decode() + "\n")
    sys.stdout.flush()
