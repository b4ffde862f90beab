"""causeway_producer when brokers forget the producer all the time and fail while old records are
sent: no record is lost, and the first copies are in order."""

from __future__ import annotations

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
