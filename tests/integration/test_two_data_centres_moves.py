"""causeway_producer when answers are lost and leaders move: librdkafka sends again by itself, and
the logs have each record once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from causeway.cluster import ClusterClient
from causeway.config import ClientSettings
from causeway_producer import ID_HEADER, DualProducer
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools
from tests.harness.proxy import Proxies
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

PARTITIONS = 3


@pytest.mark.slow
def test_answers_are_lost_and_leaders_move(
    source_cluster: LocalCluster, source: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    topic = prefix + "orders"
    proxies = Proxies()
    cluster = LocalCluster("west", brokers=2, advertised=proxies)
    errors: list[Any] = []
    offsets: list[tuple[int, int]] = []
    number = 0

    def told(error: Any, message: Any) -> None:
        errors.append(error)
        if message.offset() is not None:
            offsets.append((message.partition(), message.offset()))

    try:
        start_all([cluster])
        target = KafkaTools(cluster.internal_bootstrap)
        for side in (source, target):
            side.create_topic(topic, PARTITIONS, replication_factor=1)
        settings = {"compression.type": "lz4", "log_level": 0}
        with DualProducer(
            {"bootstrap.servers": source_cluster.bootstrap, **settings},
            {"bootstrap.servers": cluster.bootstrap, **settings},
            spool=tmp_path / "spool",
        ) as producer:

            def write_until(condition: Callable[[], object]) -> None:
                def written() -> object:
                    nonlocal number
                    for _ in range(20):
                        try:
                            producer.produce(
                                topic, b"%d" % number, b"%d" % (number % 100), on_delivery=told
                            )
                        except BufferError:
                            break
                        number += 1
                    producer.poll(0.005)
                    return condition()

                await_until(written, 90, poll_s=0)

            def more(count: int) -> Callable[[], object]:
                wanted = len(errors) + count
                return lambda: len(errors) >= wanted

            write_until(more(500))
            for _ in range(5):
                for node in (1, 2):
                    proxies[node].stall("down")
                before = sum(target.offsets(topic).values())
                # These records are in the log, and their answers are lost.
                write_until(lambda: sum(target.offsets(topic).values()) >= before + 40)  # noqa: B023
                for node in (1, 2):
                    proxies[node].cut()
                    proxies[node].release()
                write_until(more(200))
            with ClusterClient(ClientSettings(alias="B", bootstrap=(_address(cluster),))) as admin:
                for turn in range(6):
                    _move(admin, topic, 1 + turn % 2)
                    write_until(more(200))
            assert producer.flush(90) == 0
            assert producer.close(60)
        logs = source.read(topic)
        assert {p: [r.content for r in records] for p, records in logs.items()} == {
            p: [r.content for r in records] for p, records in target.read(topic).items()
        }
        ids = Counter(dict(r.headers)[ID_HEADER] for records in logs.values() for r in records)
        assert set(ids.values()) == {1}
        assert len(ids) == number
    finally:
        cluster.destroy()
        proxies.close()
    assert set(errors) == {None}
    assert len(errors) == number
    assert len(set(offsets)) == len(offsets)


def _address(cluster: LocalCluster) -> tuple[str, int]:
    host, port = cluster.internal_bootstrap.split(",")[0].rsplit(":", 1)
    return host, int(port)


def _move(admin: ClusterClient, topic: str, node: int) -> None:
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000,
        topics=[
            kind(
                name=topic,
                partitions=[
                    kind.ReassignablePartition(partition_index=partition, replicas=[node])
                    for partition in range(PARTITIONS)
                ],
            )
        ],
    )
    answer = admin.call(request, admin.metadata([]).controller)
    assert not answer.error_code
    await_until(
        lambda: (
            {p.leader for p in admin.metadata([topic]).topics[topic].partitions.values()} == {node}
        ),
        60,
    )
