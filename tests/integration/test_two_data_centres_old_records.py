"""causeway_producer when brokers forget the producer all the time and fail while old records are
sent: no record is lost, and the first copies are in order. Nor is one lost if a broker refuses a
record, appends the next one, and the application is killed before it has looked at the log."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from causeway_producer import DualProducer
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

PARTITIONS = 3
TWO_DAYS_MS = 2 * 24 * 3600 * 1000


@pytest.mark.slow
def test_brokers_that_forget_the_producer_and_fail_lose_and_reorder_nothing(
    source_cluster: LocalCluster, source: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    """A follower's death makes the leader refuse batches (`min.insync.replicas`), and a leader's
    death loses answers. The records are two days old: brokers forget the producer each 50 ms."""
    topic = prefix + "orders"
    cluster = LocalCluster(
        "west",
        brokers=2,
        properties={
            "producer.id.expiration.check.interval.ms": "50",
            "min.insync.replicas": "2",
            "replica.lag.time.max.ms": "1000",
            "broker.session.timeout.ms": "3000",
        },
    )
    errors: list[Any] = []
    number = 0
    try:
        start_all([cluster])
        target = KafkaTools(cluster.internal_bootstrap)
        source.create_topic(topic, PARTITIONS)
        target.create_topic(topic, PARTITIONS, replication_factor=2)
        with DualProducer(
            {"bootstrap.servers": source_cluster.bootstrap, "log_level": 0},
            {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "batch.num.messages": 20},
            spool=tmp_path / "spool",
            policy="any",
            settle_s=2,
        ) as producer:

            def write() -> None:
                nonlocal number
                for _ in range(50):
                    try:
                        producer.produce(
                            topic,
                            b"%d" % number,
                            partition=number % PARTITIONS,
                            timestamp=int(time.time() * 1000) - TWO_DAYS_MS,
                            on_delivery=lambda error, _: errors.append(error),
                        )
                    except BufferError:
                        break
                    number += 1
                producer.poll(0.01)

            def write_for(seconds: float) -> None:
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    write()

            def arrived() -> int:
                return int(producer.stats()["sides"]["west"]["acknowledged"])

            def write_until_arrived(count: int) -> None:
                wanted = arrived() + count

                def so() -> bool:
                    write()
                    return arrived() >= wanted

                await_until(so, 120, poll_s=0)

            write_until_arrived(500)
            for node in (2, 1, 2, 1):
                cluster.kill(node)
                write_for(5)
                cluster.restart(node)
                write_until_arrived(500)
            assert producer.flush(60) == 0
            assert producer.close(120)
        assert set(errors) == {None}
        for partition, records in target.read(topic).items():
            values = [int(record.value or b"") for record in records]
            first_copies = list(dict.fromkeys(values))
            print(f"partition {partition}: {len(values) - len(first_copies)} second copies")
            assert first_copies == list(range(partition, number, PARTITIONS))
    finally:
        cluster.destroy()


_KILLED = """
import os, signal, sys, time
from causeway_producer import DualProducer

east, west, topic, spool = sys.argv[1:]
producer = DualProducer(
    {"bootstrap.servers": east, "log_level": 0},
    {"bootstrap.servers": west, "log_level": 0, "batch.num.messages": 1},
    spool=spool,
    policy="any",
    settle_s=60,
)
old_ms = int(time.time() * 1000) - 48 * 3600 * 1000
for number in range(300):
    value = b"x" * 9000 if number > 200 and number % 10 == 9 else b"%d" % number
    producer.produce(topic, value, partition=0, timestamp=old_ms)
while not producer.stats()["sides"]["west"]["reason"]:
    producer.poll(0.01)
assert producer.stats()["sides"]["west"]["forgets_after_ms"] == 12 * 3600 * 1000
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_after_a_refusal_hides_no_record(
    source_cluster: LocalCluster, source: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    cluster = LocalCluster(
        "west",
        properties={
            "producer.id.expiration.ms": str(12 * 3600 * 1000),
            "producer.id.expiration.check.interval.ms": "1",
        },
    )
    holes = 0
    try:
        start_all([cluster])
        target = KafkaTools(cluster.internal_bootstrap)
        for turn in range(5):
            topic = f"{prefix}orders-{turn}"
            source.create_topic(topic)
            target.create_topic(topic, config={"max.message.bytes": "5000"})
            addresses = source_cluster.bootstrap, cluster.bootstrap
            spool = tmp_path / str(turn)
            words = [sys.executable, "-c", _KILLED, *addresses, topic, str(spool)]
            assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
            holes += target.read(topic)[0][-1].value == b"210"  # behind the first refused one
            target.set_topic_config(topic, {"max.message.bytes": "1000000"})
            with DualProducer(
                {"bootstrap.servers": addresses[0]},
                {"bootstrap.servers": addresses[1]},
                spool=spool,
                settle_s=1,
            ) as producer:
                assert producer.close(60)
            (here,), (there,) = source.read(topic).values(), target.read(topic).values()
            wanted = [record.content for record in here]
            assert len(wanted) == 300
            assert [c for c in wanted if c not in [r.content for r in there]] == []
            assert [record.content for record in there][-90:] == wanted[-90:]
        print(f"{holes} of 5 logs had a hole when the application was killed")
    finally:
        cluster.destroy()
