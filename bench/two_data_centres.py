"""How fast an application writes each record to two clusters: by two of confluent-kafka's
producers, side by side, and by `DualProducer`.

The same loop, settings (idempotent, lz4) and callbacks for both; the clock stops when both clusters
have acknowledged all.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from confluent_kafka import Producer

from bench.stage import Stage, create_topic
from bench.systems import CAUSEWAY
from bench.throughput import Throughput
from bench.usage import Meter
from causeway_producer import DualProducer

SIZE = 1000
_PARTITIONS = 6
_SETTINGS = {"compression.type": "lz4", "linger.ms": 5}
_PLAIN = {**_SETTINGS, "enable.idempotence": True, "acks": "all"}

Write = Callable[[bytes, bytes], None]
Say = Callable[[str], None]


def measure(stage: Stage, name: str, count: int, say: Say) -> Throughput:
    """Of JSON-like records of SIZE bytes, after a tenth of them to warm up with."""
    with stage.run("two-data-centres", _PARTITIONS) as run:
        create_topic(stage.target.internal_bootstrap, run.topic, _PARTITIONS, {})
        sides = [
            {"bootstrap.servers": cluster.bootstrap, **(_SETTINGS if name == CAUSEWAY else _PLAIN)}
            for cluster in (stage.source, stage.target)
        ]
        loop = _dual if name == CAUSEWAY else _plain
        with closing(Meter(lambda: [os.getpid()], stage.broker_pids)) as meter:
            result = loop(sides, run.topic, count, meter)
        say(f"{result.records_per_s:,.0f} records/s")
        return result


def _dual(sides: list[dict[str, Any]], topic: str, count: int, meter: Meter) -> Throughput:
    acknowledged = 0

    def told(error: Any, message: Any) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    with (
        tempfile.TemporaryDirectory(prefix="causeway-bench-") as spool,
        DualProducer(*sides, spool=spool, policy="both") as producer,
    ):

        def write(key: bytes, value: bytes) -> None:
            _patiently(producer, topic, key, value, told)
            producer.poll(0)

        result = _timed(write, producer.flush, count, meter)
    assert acknowledged == count + count // 10
    return result


def _plain(sides: list[dict[str, Any]], topic: str, count: int, meter: Meter) -> Throughput:
    acknowledged = 0

    def told(error: Any, message: Any) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producers = [Producer(side) for side in sides]

    def write(key: bytes, value: bytes) -> None:
        for producer in producers:
            _patiently(producer, topic, key, value, told)
        for producer in producers:
            producer.poll(0)

    def flush() -> None:
        for producer in producers:
            producer.flush()

    result = _timed(write, flush, count, meter)
    assert acknowledged == 2 * (count + count // 10)
    return result


def _patiently(producer: Any, topic: str, key: bytes, value: bytes, told: Any) -> None:
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=told)
        except BufferError:
            producer.poll(0.01)
        else:
            return


def _timed(write: Write, flush: Callable[[], Any], count: int, meter: Meter) -> Throughput:
    chance = random.Random(7)
    # Half of it compresses well, as JSON does; half does not.
    values = [
        (chance.randbytes(SIZE // 2) + b'{"state": "paid"}' * SIZE)[:SIZE] for _ in range(500)
    ]
    for number in range(count // 10):
        write(b"%d" % (number % 10_000), values[number % 500])
    flush()
    meter.start()
    begun = time.monotonic()
    for number in range(count):
        write(b"%d" % (number % 10_000), values[number % 500])
    flush()
    usage = meter.stop(seconds=time.monotonic() - begun)
    return Throughput(records=count, size=count * SIZE, usage=usage)
