"""What `causeway dev load` shows while it writes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import typer
from rich.console import Console

from causeway.cli.words import count, duration, size
from causeway.dev.load import Stream, Tally, write


def run(bootstrap: str, stream: Stream, cluster: str) -> None:
    """Until the stream ends, or SIGINT or SIGTERM comes: what is on its way then is written to its
    end, too. A second one does not wait for that. Raises CausewayError, KeyboardInterrupt."""
    console = Console(stderr=True)
    if not console.is_terminal:
        tally = asyncio.run(_run(bootstrap, stream, lambda _: None))
    else:
        with console.status(f"writing to {stream.topic} on {cluster}; Ctrl-C ends it") as status:

            def told(tally: Tally) -> None:
                status.update(f"{_said(tally)}; Ctrl-C ends it")

            tally = asyncio.run(_run(bootstrap, stream, told))
    typer.echo(f"{_said(tally)} written to {stream.topic} on {cluster}")


async def _run(bootstrap: str, stream: Stream, told: Callable[[Tally], None]) -> Tally:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    writing = asyncio.ensure_future(write(bootstrap, stream, stop, told))

    def end() -> None:
        if stop.is_set():
            writing.cancel()  # brokers that are gone acknowledge nothing
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        return await writing
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _said(tally: Tally) -> str:
    seconds = max(tally.seconds, 1e-3)
    said = (
        f"{count(tally.records, 'record')} ({size(tally.bytes)}) in {duration(1000 * seconds)}, "
        f"{tally.records / seconds:,.0f} records/s"
    )
    if tally.transactions:
        said += f", {count(tally.transactions, 'transaction')}"
    if tally.rolled_back:
        said += f", {tally.rolled_back:,} of them rolled back"
    return said
