"""Shows a running daemon's snapshots: live to a person at a terminal, in logs to everybody else."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from causeway.cli import logs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from causeway.daemon.status import Snapshot

Show = Callable[["Snapshot"], None]

_LOG_EVERY_S = 10.0

_log = logging.getLogger("causeway.run")


@contextmanager
def presenter(*, bounded: bool) -> Iterator[Show]:
    """What to call with each snapshot while the block lasts; sets logging up to fit."""
    if sys.stdout.isatty():
        with _terminal(bounded=bounded) as show:
            yield show
    else:
        logs.set_up()
        yield _Logged() if bounded else _nothing


def _nothing(_: Snapshot) -> None:
    """The daemon logs what changes; that all goes well needs no lines."""


class _Logged:
    """How far a bounded run is, every ten seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _LOG_EVERY_S

    def __call__(self, snapshot: Snapshot) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LOG_EVERY_S
        done, total = share(snapshot)
        _log.info("catching up", extra={"done": done, "of": total})


@contextmanager
def _terminal(*, bounded: bool) -> Iterator[Show]:
    from rich.console import Console, Group, RenderableType
    from rich.live import Live

    from causeway.cli.live import render

    console = Console()
    logs.set_up(logging.WARNING, _Above(console))
    bar, task = _bar(console)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(snapshot: Snapshot) -> None:
            shown: RenderableType = render(snapshot, console.height - (2 if bounded else 1))
            if bounded:
                done, total = share(snapshot)
                known = all(link.planned for link in snapshot.links)
                bar.update(task, completed=done, total=total if known else None)
                shown = Group(shown, bar.get_renderable())
            live.update(shown, refresh=True)

        yield show


def _bar(console: Console) -> tuple[Progress, TaskID]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("catching up"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("records, left"),
        TimeRemainingColumn(compact=True),
        TextColumn("gone"),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
    )
    return bar, bar.add_task("", total=None)


class _Above(logging.Handler):
    """Log lines scroll by above the live table instead of breaking it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(self.format(record), markup=False, highlight=False, soft_wrap=True)


def share(snapshot: Snapshot) -> tuple[int, int]:
    """How many source offsets of a bounded run are done, and how many there are in all."""
    done = total = 0
    for link in snapshot.links:
        for partition in link.partitions:
            if partition.stop_at is None or partition.first < 0:
                continue
            total += max(0, partition.stop_at - partition.first)
            done += max(0, min(partition.position, partition.stop_at) - partition.first)
    return done, total
