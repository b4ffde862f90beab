"""What it costs to keep the source's offsets: gaps between transactions, and the beginning.

holder: begin ─► transactions are written and committed, behind it ─► holder: abort
                 the clock starts, and stops with the last record ◄──┘
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Producer

from bench.stage import Stage, create_topic, delete_topic
from bench.systems import system
from bench.throughput import Throughput
from bench.usage import Meter, Usage
from causeway.cluster import Cluster, filling, transactions
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from tests.harness.lanes import client

PREFIX = "offsets-"
EACH = 100
SIZE = 1000
PARTITIONS = 4
_WARM_UP = 400  # transactions
_TIMEOUT_S = 600.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    offsets: int
    usage: Usage

    @property
    def offsets_per_s(self) -> float:
        return self.offsets / self.usage.seconds


class _Writer:
    """Writes transactions of EACH records, one partition each."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self._topic = topic
        self._value = os.urandom(SIZE)
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "transactional.id": f"bench-{topic}-{name}",
                "transaction.timeout.ms": 800_000,
            }
        )
        self.producer.init_transactions(_TIMEOUT_S)

    def write(self, count: int) -> dict[int, bytes]:
        """By partition, the value that ends it."""
        last: dict[int, bytes] = {}
        for number in range(count):
            partition = number % PARTITIONS
            last[partition] = b"%032x" % secrets.randbits(128)
            self.producer.begin_transaction()
            for _ in range(EACH - 1):
                self.producer.produce(self._topic, self._value, partition=partition)
            self.producer.produce(self._topic, last[partition], partition=partition)
            self.producer.commit_transaction(_TIMEOUT_S)
        return last


def measure(stage: Stage, name: str, count: int, say: Say) -> Throughput:
    """`count` transactions that became readable all at once, by a system that is warm."""
    with stage.run("transactions", PARTITIONS) as run:
        bootstrap, target = stage.source.internal_bootstrap, stage.watch(run)
        writer = _Writer(bootstrap, run.topic, "writer")
        holder = _Writer(bootstrap, run.topic, "holder").producer
        writer.write(_WARM_UP)
        mirror = system(name, stage, run)
        with mirror, Meter(mirror.roots, stage.broker_pids) as meter:
            say("starting and warming up")
            warm = dict.fromkeys(range(PARTITIONS), _WARM_UP * EACH // PARTITIONS)
            target.await_ends(warm, alive=mirror.check, timeout_s=_TIMEOUT_S)
            holder.begin_transaction()
            for partition in range(PARTITIONS):
                holder.produce(run.topic, b"aborted", partition=partition)
            holder.flush(_TIMEOUT_S)
            say(f"writing {count:,} transactions, held back")
            last = writer.write(count)
            os.sync()
            time.sleep(2.0)
            before = target.ends()
            wanted = {p: end + count * EACH // PARTITIONS for p, end in before.items()}
            say("mirroring")
            meter.start()
            begun = time.monotonic()
            holder.abort_transaction(_TIMEOUT_S)
            # Markers take offsets, so the ends alone do not tell that all records are there.
            seen = target.await_ends(wanted, alive=mirror.check, timeout_s=_TIMEOUT_S)
            while any(last[p] != value for p, value in target.last_values(seen.ends).items()):
                seen = target.await_ends(wanted, alive=mirror.check, timeout_s=_TIMEOUT_S)
                mirror.check()
            usage = meter.stop(seconds=time.monotonic() - begun)
    result = Throughput(records=count * EACH, size=count * EACH * SIZE, usage=usage)
    say(f"{result.records_per_s:,.0f} records/s, {usage.seconds:.2f} s, {usage.cpu_s:.1f} s of CPU")
    return result


def measure_beginning(stage: Stage, offsets: int, say: Say) -> Filled:
    """One partition, by what a lane calls."""
    topic, bootstrap = f"beginning-{secrets.token_hex(4)}", stage.target.internal_bootstrap
    create_topic(bootstrap, topic, 1, {"file.delete.delay.ms": "1000"})
    cluster = Cluster(client("target", bootstrap))
    try:
        with Meter(lambda: [os.getpid()], stage.broker_pids) as meter:
            meter.start()
            begun = time.monotonic()
            transaction = transactions.begin(cluster, topic, 60_000)
            end = filling.fill(
                cluster,
                transaction,
                TopicPartition(topic, 0),
                0,
                offsets,
                keyed=False,
                delete=True,
                on_step=lambda _: True,
            )
            usage = meter.stop(seconds=time.monotonic() - begun)
    finally:
        cluster.close()
        delete_topic(bootstrap, topic)
    if end != offsets:
        raise CausewayError("measure", topic, f"it ends at {end}")
    result = Filled(offsets=offsets, usage=usage)
    say(f"{result.offsets_per_s:,.0f} offsets/s")
    return result
