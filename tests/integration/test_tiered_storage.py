"""Logs of which most lies in a remote tier: mirrored from their start, and read by recovery."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.cluster import Cluster, OffsetAt, clusters
from causeway.config import LinkSettings
from causeway.link_topics import TaskRecord
from causeway.model import State, TopicPartition
from causeway.status import LinkStatus, contents_of, status_of
from tests.harness.daemon import RunningDaemon, link_apart
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.jars import tiered_storage_classpath
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import Mirror
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

EARLIEST_LOCAL = -4
TIERED = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
    "segment.bytes": "1048576",
}
PARTITIONS = 2


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def cluster(tier: Path) -> Iterator[LocalCluster]:
    """Source and target at once."""
    storage = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    properties = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": storage,
        "remote.log.storage.manager.class.path": tiered_storage_classpath(),
        "remote.log.metadata.manager.listener.name": "INTERNAL",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rsm.config.dir": str(tier),
        "remote.log.manager.task.interval.ms": "200",
        "log.initial.task.delay.ms": "100",
        "log.retention.check.interval.ms": "200",
    }
    with LocalCluster("A", properties=properties) as started:
        yield started


@pytest.fixture
def mirror(cluster: LocalCluster, prefix: str) -> Iterator[Mirror]:
    """Not begun; most of its source is in the remote tier alone, an aborted transaction with it."""
    kafka = KafkaTools(cluster.bootstrap)
    both = client("A", cluster.bootstrap), client("B", cluster.bootstrap)
    with LaneDriver(*both) as driver:
        made = Mirror(driver, kafka, kafka, f"{prefix}t", f"A.{prefix}t")
        made.create(PARTITIONS, config=TIERED, target_config=TIERED)
        write(kafka, made.topic, 300)
        with kafka.transactional(f"{prefix}writer") as writer:
            writer.begin()
            writer.send(
                made.topic, *(Outgoing(value=b"no", partition=p) for p in range(PARTITIONS))
            )
            writer.abort()
        write(kafka, made.topic, 300)
        await_tiered(driver.source, made.topic)
        yield made


def write(kafka: KafkaTools, topic: str, count: int) -> None:
    """10 kB a record, some segments in all; one batch must not be one of them."""
    value = bytes(10_000)
    kafka.produce(
        topic,
        (Outgoing(value=b"%d " % n + value, partition=n % PARTITIONS) for n in range(count)),
        settings={"batch.size": 100_000},
    )


def await_tiered(cluster: Cluster, topic: str) -> None:
    """Until the broker keeps only the end of each partition."""

    def local_starts() -> bool:
        places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        found = cluster.list_offsets(places, EARLIEST_LOCAL).values()
        return all(isinstance(at, OffsetAt) and at.offset > 100 for at in found)

    await_until(local_starts, what=f"{topic} is in the remote tier")


def test_a_log_is_mirrored_from_its_real_start_and_recovered_from_the_claim(mirror: Mirror) -> None:
    mirror.claim()
    mirror.driver.start_lane(0)
    mirror.await_mirrored()
    mirror.assert_same()

    mirror.driver.kill(0)
    mirror.driver.reports.clear()  # a lane that starts now has the claim alone to go by
    await_tiered(mirror.driver.target, mirror.name)
    write(mirror.source, mirror.topic, 20)
    mirror.driver.start_lane(1)
    mirror.await_mirrored()
    mirror.assert_same()


def test_a_segment_that_the_tier_has_lost_holds_up_its_partition_alone(
    mirror: Mirror, tier: Path
) -> None:
    lost = list(tier.glob(f"*/{mirror.topic}-0-*/*.log"))
    assert lost
    for segment in lost:
        segment.unlink()

    mirror.claim()
    mirror.driver.start_lane(0)

    mirror.await_mirrored(partitions=[1])
    reason = mirror.await_state(State.FAILED, 0)
    assert f"{mirror.topic}-0 at offset 0: UNKNOWN_SERVER_ERROR" in reason
    assert "look at the broker's log" in reason
    mirror.assert_same(partitions=[1])


def test_a_target_without_tiered_storage_takes_the_topic_and_its_other_configs(
    cluster: LocalCluster,
    target_cluster: LocalCluster,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the creation, and when the source's topic moves to tiered storage later."""
    kafka = KafkaTools(cluster.bootstrap)
    tiered, later = prefix + "tiered", prefix + "later"
    kafka.create_topic(tiered, config={**TIERED, "max.message.bytes": "2000000"})
    kafka.create_topic(later)
    kafka.produce(tiered, [b"1", b"2"])
    settings = link_apart(
        cluster.bootstrap, target_cluster.bootstrap, prefix, sync_topic_configs_interval_s=1.0
    )
    alias = settings.source.alias

    with RunningDaemon(monkeypatch, settings) as run:
        run.await_state(tiered, State.RUNNING)
        run.await_state(later, State.RUNNING)
        await_until(lambda: len(target.read(f"{alias}.{tiered}")[0]) == 2, what="both records")
        assert run.link().problems == ()
        own = target.topic_config(f"{alias}.{tiered}")
        assert (own["retention.ms"], own["segment.bytes"]) == ("-1", "1048576")
        assert (own["remote.storage.enable"], own["local.retention.bytes"]) == ("false", "-2")

        with Cluster(client(alias, cluster.bootstrap)) as admin:
            changes = {"remote.storage.enable": "true", "retention.ms": "7200000"}
            assert admin.alter_configs({later: changes}) == {later: None}
        await_until(
            lambda: target.topic_config(f"{alias}.{later}")["retention.ms"] == "7200000",
            what="the other config",
        )
        mirror = f"{alias}.{later}"
        record = await_until(
            lambda: next((t for t in tasks(target_cluster, settings) if mirror in t.items), None),
            what="the task says what is left out",
        )
        assert record is not None
        assert record.reason is None
        assert "remote.storage.enable=true" in record.items[mirror]
    seen = status_of_link(settings)
    assert [note for name, note in seen.notes if name == f"{alias}.{later}"] == [
        "remote.storage.enable=true of the source is left out: B keeps the whole log on its brokers"
    ]


def tasks(cluster: LocalCluster, settings: LinkSettings) -> list[TaskRecord]:
    with Cluster(client("B", cluster.bootstrap)) as admin:
        found = contents_of(settings, admin).tasks
    return [task for name, task in found.items() if name == "topic configs"]


def status_of_link(settings: LinkSettings) -> LinkStatus:
    with clusters() as connect:
        return status_of(settings, connect, None)
