"""`causeway dev`: local Kafka clusters for trials."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.commands import command
from causeway.cli.common import console, grid, print_json, styled
from causeway.cli.options import TIME, JsonOption, at_least
from causeway.cli.words import count, duration, size
from causeway.dev import (
    DEFAULT_VERSION,
    TESTED,
    BrokerStatus,
    ClusterStatus,
    Environment,
    broker_classpath,
    kafka_version,
)
from causeway.errors import ConfigError
from causeway.java import find_java

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.dev.load import LoadTally, Stream

app = typer.Typer(
    name="dev",
    no_args_is_help=True,
    help="Local Kafka clusters for trials.",
)


@command(app, "dev up")
def up(
    clusters: Annotated[int, typer.Option(help="Number of clusters: A, B, C…", min=1, max=26)] = 2,
    brokers: Annotated[
        int | None, typer.Option(help="Brokers of each new cluster, 1 or 3.  [default: 1]")
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Kafka version of each new cluster: "
            f"{', '.join(TESTED)} are tested; others such as 3.6.2 are accepted.  "
            f"[default: {DEFAULT_VERSION}]",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Path for a property file that mirrors A to B.  [default: next to the data]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start local clusters and their missing brokers, and print the addresses.

    They run until `causeway dev down`. The first use downloads Apache Kafka.
    """
    from rich.console import Console

    version = None if kafka is None else kafka_version(kafka)
    find_java()
    broker_classpath(version)  # before the spinner, because it shows a progress bar
    environment = Environment()
    with Console(stderr=True).status("Starting Kafka"):
        running = environment.up(clusters, brokers, file, version)
    _show(running)
    out = console()
    out.print()
    out.print("For examples that read addresses from the environment:")
    out.print(f"  {_export(running)}", soft_wrap=True)
    example = file or environment.example_file
    if example.exists():
        out.print()
        out.print("A file that mirrors A to B, for Causeway and MirrorMaker:")
        out.print(f"  {example}", soft_wrap=True)
        out.print("To try it:")
        out.print("  causeway dev produce orders", soft_wrap=True)
        out.print(f"  causeway run {example}", soft_wrap=True)
        out.print("  causeway dev load orders", soft_wrap=True)


@command(app, "dev produce")
def produce(
    topic: Annotated[str, typer.Argument(help="Created if it does not exist.", show_default=False)],
    records: Annotated[int, typer.Option(help="Number of records.", min=1, max=1_000_000)] = 1000,
    cluster: Annotated[str, typer.Option(help="The local cluster.")] = "A",
) -> None:
    """Write sample records to a topic of a local cluster."""
    from causeway.dev import load as writing

    writing.produce(_bootstrap(cluster), topic, records)
    typer.echo(f"{count(records, 'record')} written to {topic} on {cluster}")


@command(app, "dev load")
def load(
    topic: Annotated[str, typer.Argument(help="Created if it does not exist.")] = "events",
    rate: Annotated[
        float, typer.Option(metavar="N", help="Records per second; 0: unlimited.", min=0)
    ] = 100.0,
    size: Annotated[
        int, typer.Option(metavar="BYTES", help="Size of each value.", min=120, max=1_000_000)
    ] = 200,
    codec: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    transactions: Annotated[
        int | None,
        typer.Option(metavar="N", help="Write transactions of N records each.", min=1),
    ] = None,
    abort: Annotated[
        int | None,
        typer.Option(metavar="N", help="Abort every N-th transaction.", min=1),
    ] = None,
    partitions: Annotated[
        int, typer.Option(help="Partitions of a new topic.", min=1, max=1000)
    ] = 2,
    records: Annotated[
        int | None, typer.Option("--count", metavar="N", help="End after N records.", min=1)
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(metavar=TIME, parser=at_least(0.1), help="End after this time."),
    ] = None,
    cluster: Annotated[str, typer.Option(help="The local cluster.")] = "A",
) -> None:
    """Write a stream of sample events to a local cluster until Ctrl-C."""
    from causeway.dev.load import CODECS, Stream

    if codec not in CODECS:
        cause = f"must be one of {', '.join(CODECS)}"
        raise ConfigError("read option", f"--codec {codec}", cause)
    if abort is not None and transactions is None:
        raise ConfigError(
            "read option",
            f"--abort {abort}",
            "--transactions is missing",
            remedy="--transactions N",
        )
    stream = Stream(
        topic=topic,
        rate=rate or None,
        size=size,
        codec=codec,
        transaction=transactions,
        abort_every=abort,
        partitions=partitions,
        count=records,
        duration_s=duration,
    )
    run_load(_bootstrap(cluster), stream, cluster)


@command(app, "dev down")
def down() -> None:
    """Stop the local clusters and remove their data."""
    names = Environment().down()
    typer.echo(f"Stopped and removed: {', '.join(names)}" if names else "No local clusters.")


@command(app, "dev status")
def status(as_json: JsonOption = False) -> None:
    """Show the local clusters and the state of their brokers."""
    found = Environment().status()
    if as_json:
        print_json([asdict(cluster) for cluster in found])
    elif found:
        _show(found)
    else:
        typer.echo("No local clusters. Start some with: causeway dev up")


def run_load(bootstrap: str, stream: Stream, cluster: str) -> None:
    """Writes until the stream ends, or until SIGINT or SIGTERM. Then finishes the records in
    flight; a second signal does not wait. Raises CausewayError, KeyboardInterrupt."""
    from rich.console import Console

    err = Console(stderr=True)
    if not err.is_terminal:
        tally = asyncio.run(_write_until_signal(bootstrap, stream, lambda _: None))
    else:
        with err.status(f"writing to {stream.topic} on {cluster}; Ctrl-C ends it") as status:

            def on_tally(tally: LoadTally) -> None:
                status.update(f"{_in_words(tally)}; Ctrl-C ends it")

            tally = asyncio.run(_write_until_signal(bootstrap, stream, on_tally))
    typer.echo(f"{_in_words(tally)} written to {stream.topic} on {cluster}")


async def _write_until_signal(
    bootstrap: str, stream: Stream, on_tally: Callable[[LoadTally], None]
) -> LoadTally:
    from causeway.dev.load import write

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    writing = asyncio.ensure_future(write(bootstrap, stream, stop, on_tally))

    def end() -> None:
        if stop.is_set():
            writing.cancel()  # stopped brokers acknowledge nothing
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        return await writing
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _in_words(tally: LoadTally) -> str:
    seconds = max(tally.seconds, 1e-3)
    text = (
        f"{count(tally.records, 'record')} ({size(tally.bytes)}) in {duration(1000 * seconds)}, "
        f"{tally.records / seconds:,.0f} records/s"
    )
    if tally.transactions:
        text += f", {count(tally.transactions, 'transaction')}"
    if tally.rolled_back:
        text += f", {tally.rolled_back:,} of them aborted"
    return text


def _bootstrap(cluster: str) -> str:
    found = {each.name: each for each in Environment().status()}
    if cluster not in found:
        raise ConfigError(
            "produce to", f"cluster {cluster}", "it does not exist", remedy="causeway dev up"
        )
    return found[cluster].bootstrap


def _show(clusters: list[ClusterStatus]) -> None:
    table = grid("cluster", "Kafka", "bootstrap", "broker", "state", "log")
    for cluster in clusters:
        name, kafka = cluster.name, cluster.kafka
        bootstrap = styled(cluster.bootstrap.replace(",", "\n"))
        for broker in cluster.brokers:
            table.add_row(name, kafka, bootstrap, str(broker.node), _state(broker), broker.log)
            name, kafka, bootstrap = "", "", styled()
    console().print(table)


def _export(clusters: list[ClusterStatus]) -> str:
    """Returns `export A=127.0.0.1:20001 B=127.0.0.1:20002`."""
    return "export " + " ".join(f"{each.name}={each.bootstrap}" for each in clusters)


def _state(broker: BrokerStatus) -> Text:
    if broker.pid is None:
        return styled("stopped", "red")
    return styled(f"{'serving' if broker.serving else 'not ready'} (pid {broker.pid})")
