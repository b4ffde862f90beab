"""`causeway wait FILE`: waits until all records are mirrored, for scripts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, load, print_json, waiting, with_chosen
from causeway.cli.guard import complain
from causeway.cli.options import (
    TIME,
    FileArgument,
    JsonOption,
    LinkOption,
    TopicOption,
    seconds,
    valued,
)
from causeway.cli.words import count, duration, printable

if TYPE_CHECKING:
    from causeway.errors import CausewayError
    from causeway.operate.wait import Waited, Waiting

_EVERY_S = 10.0  # between lines without a terminal


def command(
    file: FileArgument,
    lag_below: Annotated[
        int | None,
        typer.Option(
            "--lag-below",
            metavar="RECORDS",
            min=0,
            help="Wait until no partition lags more. Default: 0, unless --state is given.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        str | None,
        valued(
            "--state",
            "STATE",
            "Wait until all partitions are in this state, such as running or paused.",
        ),
    ] = None,
    link: LinkOption = None,
    topic: TopicOption = None,
    timeout: Annotated[
        float | None,
        valued(
            "--timeout",
            TIME,
            "Exit with 11 after this time. Default: wait while a driver runs, and 10 minutes for a"
            " driver to start.",
            parser=seconds,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Wait until all records are mirrored. Exits with 7 if a partition stopped or failed, with 9 if
    no driver runs, with 11 after --timeout.

    Reads the clusters only. The lag is measured to the current ends of the source.
    """
    from causeway.operate import wait

    settings = with_chosen(load(file, quiet=True))
    lag = 0 if lag_below is None and state is None else lag_below
    with _progress() as on_look:
        waited = wait.wait(
            settings,
            wait.Want(lag=lag, state=state),
            link=link,
            topic=topic,
            timeout_s=timeout,
            on_look=on_look,
        )
    if as_json:
        print_json(wait.as_json(waited))
    else:
        _show(waited)
    return waited.code


def _show(waited: Waited) -> None:
    last = waited.last
    all_of_it = count(last.partitions, "partition")
    if waited.code == 0:
        moment = time.strftime("%H:%M:%S", time.localtime(last.at_ms / 1000))
        held = f"; {last.held_records:,} more in open transactions" if last.held_records else ""
        lag = f"{count(last.lag_records, 'record')} behind the source's ends at {moment}{held}"
        console().print(f"reached after {duration(waited.waited_s * 1000)}: {all_of_it}, {lag}")
        return
    complain(f"wait: not reached: {waited.reason}")
    console().print(progress(last))


def progress(seen: Waiting) -> str:
    """Returns `3 of 40 partitions to go, 2,000 records behind; 500 less per second, about 4.0 s
    left`."""
    text = f"{len(seen.behind)} of {count(seen.partitions, 'partition')} to go"
    text += f", {count(seen.lag_records, 'record')} behind"
    if seen.eta_s is not None and seen.records_per_s is not None:
        text += (
            f"; {seen.records_per_s:,.0f} less per second, about {duration(seen.eta_s * 1000)} left"
        )
    if not seen.driven:
        text += "; no driver runs"
    paused = sum(one.state == "paused" for _, one in seen.behind)
    if paused:
        text += f"; {count(paused, 'partition')} paused"
    if seen.stuck:
        text += f"; {seen.stuck[0]}"
    return text


@contextmanager
def _progress() -> Iterator[Callable[[Waiting | CausewayError], None]]:
    """Yields a function that shows progress: in place on a terminal, else a line every 10 s."""
    if sys.stderr.isatty():
        with waiting() as show:
            yield lambda seen: show(_line(seen))
        return
    next_at = time.monotonic() + _EVERY_S

    def say(seen: Waiting | CausewayError) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + _EVERY_S
            print(printable(_line(seen)), file=sys.stderr)

    yield say


def _line(seen: Waiting | CausewayError) -> str:
    return str(seen) if isinstance(seen, Exception) else progress(seen)
