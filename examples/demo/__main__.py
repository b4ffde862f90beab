"""The demo, told from beginning to end.

python -m examples.demo [--keep]           all of it
python -m examples.demo stop               end what --keep has left running
python -m examples.demo tail ADDRESS TOPIC          print records as they come
python -m examples.demo send ADDRESS TOPIC TEXT     write a record
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from rich.console import Console
from rich.syntax import Syntax

from causeway.dev import broker_classpath
from causeway.errors import CausewayError
from examples.demo import progress, proof
from examples.demo.ground import CAUSEWAY, SOURCE, TARGET, Ground, KeptGround, PassingGround
from examples.demo.publish import TOPICS, Publisher, create_topics, flight_stream, reference_data
from examples.demo.terminal import send, tail

_LIVE_S = 20.0  # how long the second half of the year takes to publish


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        if options.command == "tail":
            tail(options.address, options.topic)
        elif options.command == "send":
            send(options.address, options.topic, options.text)
        elif options.command == "stop":
            return _stop()
        else:
            return run(keep=options.keep)
    except KeyboardInterrupt:
        return 130
    except CausewayError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def run(*, keep: bool) -> int:
    """0 if every partition of the target equals the source's."""
    console = _console()
    began = time.monotonic()
    if KeptGround().there:
        console.print("Stopping the demo that was left running.")
        KeptGround().down()
    broker_classpath()  # fetched once, with a progress bar of its own
    ground = KeptGround() if keep else PassingGround()
    kept = False
    try:
        kept = _tell(console, ground, keep=keep)
    except KeyboardInterrupt:
        console.print("Interrupted; stopping.")
        raise
    except CausewayError:
        console.print(ground.log_end(), markup=False, highlight=False, soft_wrap=True)
        raise
    finally:
        if not kept:
            ground.down()
    if kept:
        _what_next(console, ground)
    console.print(f"Done in {time.monotonic() - began:.0f} s.")
    return 0


def _tell(console: Console, ground: Ground, *, keep: bool) -> bool:
    """Whether it is to be left running. Raises CausewayError if the copy is not exact."""
    with console.status("Starting two Kafka clusters, reading a year of flights"):
        with ThreadPoolExecutor(1) as background:
            stream = background.submit(flight_stream)
            ground.up()
        flights = stream.result()
    _step(console, f"Two Kafka clusters: {SOURCE} at {ground.source}, {TARGET} at {ground.target}")

    publisher = Publisher(ground.source, TOPICS)
    half = len(flights) // 2
    with console.status("Publishing"):
        create_topics(ground.source, TOPICS)
        publisher.publish(reference_data())
        publisher.publish(flights[:half])
    published = sum(count.records for count in publisher.counts.values())
    _step(
        console,
        f"{published:,} events of 2013 published on {SOURCE}: planes, weather, and the flights "
        "of the first half of the year",
    )
    _step(console, f"causeway run {ground.file}")
    console.print(Syntax(ground.file.read_text().strip(), "properties", background_color="default"))

    watch = progress.Watch(ground.target, SOURCE, TOPICS)
    begun = time.monotonic()
    with console.status("Starting the mirror"):
        ground.start_mirror()
        progress.await_first(watch, publisher, ground.check_mirror)
    _step(console, f"The first event was mirrored {time.monotonic() - begun:.1f} s after the start")
    if ground.page is not None:
        _step(console, f"Watch it in a browser: {ground.page}")
    publisher.start(flights[half:], per_s=(len(flights) - half) / _LIVE_S)
    try:
        rows = progress.follow(console, watch, publisher, ground.check_mirror)
        publisher.wait()
    finally:
        publisher.stop()
    mirrored = sum(row.mirrored for row in rows)
    _step(
        console, f"All {mirrored:,} events mirrored, with the rest of the year published meanwhile"
    )
    if not keep:
        with console.status("Stopping the mirror"):
            ground.stop_mirror()
        _step(console, "Stopped with SIGTERM: drained, progress written, exit code 0")

    with console.status("Reading both clusters"):
        comparisons = proof.compare(ground.source, ground.target, SOURCE, TOPICS)
    console.print(proof.table(comparisons, SOURCE, TARGET))
    different = [each for each in comparisons if not each.equal]
    if different:
        places = ", ".join(f"{each.topic}-{each.partition}" for each in different)
        raise CausewayError("compare", places, "the target differs from the source")
    _step(
        console,
        f"{sum(each.target.records for each in comparisons):,} records: same keys, values, headers "
        "and timestamps, in the same partitions and order, none lost, none twice",
    )
    return keep


def _what_next(console: Console, ground: Ground) -> None:
    command = os.path.relpath(CAUSEWAY)
    demo = f"{os.path.relpath(sys.executable)} -m examples.demo"
    assert ground.mirror is not None
    lines = {
        **({"Watch it in a browser": ground.page} if ground.page else {}),
        "Where each partition stands": f"{command} status {ground.file}",
        "What is mirrored, and why the rest is not": f"{command} plan {ground.file}",
        "Follow the copy": f"{demo} tail {ground.target} {SOURCE}.flights.jfk",
        "Write to the source meanwhile": f"{demo} send {ground.source} flights.jfk Hello",
        "Kill the mirror": f"kill -9 {ground.mirror.pid}",
        "Start it again: it goes on where it was": f"{command} run {ground.file}",
        "What the first one said": f"cat {ground.log}",
        "Stop it all": f"{demo} stop",
    }
    console.print("\nThe clusters and the mirror run on. Try:")
    for title, line in lines.items():
        console.print(f"\n  [dim]# {title}[/dim]")
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
    console.print()


def _stop() -> int:
    ground = KeptGround()
    if not ground.there:
        print("No demo was left running.")
        return 0
    ground.down()
    print("Stopped, and removed.")
    return 0


def _step(console: Console, text: str) -> None:
    console.print(f"[bold green]•[/bold green] {text}", highlight=False)


def _console() -> Console:
    """Piped output has no width of its own."""
    return Console() if sys.stdout.isatty() else Console(width=110)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave clusters and mirror running")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("stop", help="end what --keep has left running")
    for name, text in (("tail", "print records as they come"), ("send", "write a record")):
        command = commands.add_parser(name, help=text)
        command.add_argument("address")
        command.add_argument("topic")
        if name == "send":
            command.add_argument("text")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
