"""Shows a running daemon: as a live table on a terminal, otherwise as logs on stderr.

Logs are logfmt, one line for each event: `time=… level=… event="…" key=value …`. The subject of an
event is passed as `extra`, so that a machine can read it:

    log.warning("partition failed", extra={"link": "A->B", "partition": "orders-3"})
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from causeway.cli.guard import debugging
from causeway.cli.words import printable_json, printable_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from causeway.status import Look, Snapshot

Show = Callable[["Look"], None]

_LOG_EVERY_S = 10.0
_REST = 20.0  # times the drawing time: the table uses at most a twentieth of a core

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_BARE: Final = re.compile(r"[\w.,:/+@>-]+")
_log = logging.getLogger("causeway.run")


@contextmanager
def presenter(
    *, bounded: bool, address: str | None = None, trouble: str | None = None
) -> Iterator[Show]:
    """Yields a function to call several times a second; it takes a snapshot when it has something
    to show. Sets up logging, and reports the server's address or its `trouble`."""
    if sys.stdout.isatty():
        with _terminal(bounded=bounded, address=address) as show:
            _warn_of(trouble)
            yield show
    else:
        set_up_logs()
        if address is not None:
            _log.info("served", extra={"address": address})
        _warn_of(trouble)
        next_at = time.monotonic() + _LOG_EVERY_S

        def log_progress(look: Look) -> None:
            """Shows a bounded run. For other runs the daemon's logs of changes are enough."""
            nonlocal next_at
            if bounded and time.monotonic() >= next_at:
                next_at = time.monotonic() + _LOG_EVERY_S
                done, total = share(look())
                _log.info("catching up", extra={"done": done, "of": total})

        yield log_progress


def _warn_of(trouble: str | None) -> None:
    if trouble is not None:
        _log.warning("not served yet", extra={"reason": trouble})


@contextmanager
def _terminal(*, bounded: bool, address: str | None) -> Iterator[Show]:
    from rich.console import Group, RenderableType
    from rich.live import Live

    from causeway.cli.live import render
    from causeway.cli.output import Output

    console = Output()
    set_up_logs(logging.WARNING, _Above(console))
    if address is not None:
        console.print(f"status, metrics and API: {address}")
    bar, task = _bar(console)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def draw(snapshot: Snapshot) -> None:
            lines = console.height - (2 if bounded else 1)
            shown: RenderableType = render(snapshot, lines, console.width)
            if bounded:
                done, total = share(snapshot)
                known = all(link.planned for link in snapshot.links)
                bar.update(task, completed=done, total=total if known else None)
                shown = Group(shown, bar.get_renderable())
            live.update(shown, refresh=True)

        show = Paced(draw)
        try:
            yield show
        finally:
            show.finish()


class Paced:
    """Draws the table, less often if that costs much, and once more at the end."""

    def __init__(self, draw: Callable[[Snapshot], None]) -> None:
        self._draw = draw
        self._look: Look | None = None
        self._next = 0.0

    def __call__(self, look: Look) -> None:
        self._look = look
        began = time.monotonic()
        if began >= self._next:
            self._draw(look())
            now = time.monotonic()
            self._next = now + _REST * (now - began)

    def finish(self) -> None:
        if self._look is not None:
            self._draw(self._look())


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
        TextColumn("records, remaining"),
        TimeRemainingColumn(compact=True),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
    )
    return bar, bar.add_task("", total=None)


class _Above(logging.Handler):
    """Prints log lines above the live table, so that they do not break it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        self._console.print(Text(self.format(record)), soft_wrap=True)


def share(snapshot: Snapshot) -> tuple[int, int]:
    """Returns the source offsets of a bounded run: done, and in total."""
    done = total = 0
    for link in snapshot.links:
        for partition in link.partitions:
            if partition.stop_at is None or partition.first < 0:
                continue
            position = -1 if partition.mirrored_to is None else partition.mirrored_to
            total += max(0, partition.stop_at - partition.first)
            done += max(0, min(position, partition.stop_at) - partition.first)
    return done, total


class Logfmt(logging.Formatter):
    """Formats times as UTC with milliseconds. Quotes values with special characters like JSON."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        line = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
        if record.exc_info and debugging():
            line += "\n" + printable_lines(self.formatException(record.exc_info))
        return line


def _value(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else printable_json(json.dumps(text, ensure_ascii=False))


def set_up_logs(level: int = logging.INFO, handler: logging.Handler | None = None) -> None:
    """Logs Causeway's events from `level` on, and those of other packages from WARNING on. Other
    handlers of Causeway get its events from INFO on."""
    level = logging.DEBUG if debugging() else level
    handler = handler or logging.StreamHandler()
    handler.setFormatter(Logfmt())
    handler.setLevel(level)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # py4j reports every socket that a stopping JVM closes; the driver reports the end itself.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("causeway").setLevel(min(level, logging.INFO))
