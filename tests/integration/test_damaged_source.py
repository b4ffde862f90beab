"""A batch that the source's disk damaged, on real brokers: its partition stops, and goes on behind
it when a person says so. Lanes are real processes."""

from __future__ import annotations

import time

import pytest

from causeway.cluster import Cluster
from causeway.model import State, TopicPartition
from causeway.operate.directives import act
from tests.harness.broken_logs import flip_bit
from tests.harness.daemon import RunningDaemon, link_apart
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.lanes import client
from tests.harness.links import await_records, settings_of
from tests.harness.raw_batches import Rec, raw_batch

pytestmark = pytest.mark.integration
SIZE = 3_000  # bytes of a record: batches of such records are passed on unread


@pytest.mark.slow
def test_a_damaged_batch_stops_its_partition_until_a_person_passes_over_it(
    source_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a restart of the driver. What was mended is mirrored; what is given up is counted."""
    topic = prefix + "damaged"
    source.create_topic(topic)
    now = int(time.time() * 1000)
    with Cluster(client("A", source.bootstrap)) as cluster:
        for first in range(0, 50, 10):
            records = [
                Rec(offset=at, value=b"%d " % (first + at) + b"x" * SIZE, timestamp=now)
                for at in range(10)
            ]
            cluster.produce_batch(TopicPartition(topic, 0), raw_batch(records))
    for offset in (10, 30):
        flip_bit(source_cluster, topic, 0, offset)
    mirror = link_apart(source.bootstrap, target.bootstrap, prefix)
    settings = settings_of(mirror)
    name = f"{mirror.source.alias}.{topic}"

    def mirrored() -> list[int]:
        return [int((r.value or b"").split()[0]) for r in target.read(name)[0]]

    with RunningDaemon(monkeypatch, mirror) as run:
        status = run.await_state(topic, State.STOPPED)
        assert "offsets 10 to 19 cannot be mirrored" in (status.reason or ""), status.reason
        assert "causeway restart --adopt" in (status.reason or "")
        assert mirrored() == [*range(10)]

        flip_bit(source_cluster, topic, 0, 10)  # as if another replica led
        (tried,) = act.restart(settings, topic=topic)
        assert tried.acted
        await_records(target, name, 30)
        status = run.await_state(topic, State.STOPPED)
        assert "offsets 30 to 39 cannot be mirrored" in (status.reason or ""), status.reason

        (found,) = act.restart(settings, topic=topic, adopt=True)
        assert found.acted
        await_records(target, name, 40)
        assert mirrored() == [*range(30), *range(40, 50)]
        run.await_state(topic, State.RUNNING)
    assert run.result == 0
