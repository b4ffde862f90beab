"""Brokers that throttle us by a quota: everything runs on, slower, and says so."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from causeway.cluster import Cluster
from causeway.link_topics import ProgressContents, ProgressTopic
from causeway.model import State, TopicPartition
from causeway.records import PlainRecord, build, header
from causeway.status import Role
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import Mirror
from tests.harness.quotas import quota
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


def _write(bootstrap: str, topic: str, first: int, count: int) -> None:
    """One batch of so many records of 1 kB."""
    records = [
        PlainRecord(n, 1_700_000_000_000, b"%d" % n, bytes(1_000), [])
        for n in range(first, first + count)
    ]
    batch = build(records, codec=0, first=first, next=first + count, leader_epoch=-1, offsets=None)
    with Cluster(client("A", bootstrap)) as cluster:
        cluster.produce_batch(TopicPartition(topic, 0), header(batch, -1, -1, -1) + batch.payload)


def test_a_source_that_throttles_its_reader_is_waited_for(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
) -> None:
    """For longer than a request may take. The partition runs, and nothing of it is in doubt."""
    reader = replace(
        client("A", source_cluster.bootstrap), client_id=prefix, request_timeout_ms=3_000
    )
    with LaneDriver(reader, client("B", target_cluster.bootstrap)) as driver:
        mirror = Mirror(driver, source, target, prefix + "t", "A." + prefix + "t")
        mirror.create()
        for first in range(0, 2_000, 500):
            _write(source_cluster.bootstrap, mirror.topic, first, 500)
        with quota(source_cluster.bootstrap, prefix, "consumer_byte_rate", 25_000):
            mirror.claim()
            driver.start_lane(0)
            mirror.await_state(State.RUNNING)
            await_until(lambda: "throttled" in (_reason(driver) or ""), 60)
            time.sleep(8)  # longer than the request time-out
            (report,) = driver.reports.values()
            assert (report.state, report.recoveries) == (State.RUNNING, 0), report.reason
            assert report.reason is not None
            assert report.reason.startswith("throttled by quota for ")
        mirror.await_mirrored(timeout=120)
        mirror.assert_same()
        (report,) = driver.reports.values()
        assert report.recoveries == 0
        await_until(lambda: _reason(driver) is None, 60)


def _reason(driver: LaneDriver) -> str | None:
    (report,) = driver.reports.values()
    return report.reason


@pytest.mark.slow
def test_a_target_that_throttles_its_writer_does_not_cost_the_lead(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of our requests with records are throttled for minutes, the leases among them."""
    topic = prefix + "t"
    source.create_topic(topic)
    writer = replace(client("B", target_cluster.bootstrap), client_id=prefix)
    settings = link(
        source_cluster.bootstrap,
        target_cluster.bootstrap,
        topic,
        more={"target": writer, "target_admin": writer},
    )
    with (
        quota(target_cluster.bootstrap, prefix, "producer_byte_rate", 2_000),
        RunningDaemon(monkeypatch, settings, lease_s=9.0) as run,
        Cluster(client("B", target_cluster.bootstrap)) as cluster,
    ):
        run.await_state(topic, State.RUNNING, 1)
        for first in (0, 600, 1_200):
            _write(source_cluster.bootstrap, topic, first, 600)

        def reason() -> str:
            return run.partitions()[topic, 0].reason or ""

        await_until(lambda: "throttled by quota for" in reason(), 120)
        progress, contents = ProgressTopic(cluster, settings.progress_topic), ProgressContents()

        def leases() -> int:
            contents.update(progress.read(contents.end))
            return len(contents.leases)

        before = leases()
        await_until(lambda: leases() >= before + 6, 60, "leases are renewed")
        shown = run.link()
        assert shown.role is Role.LEADING, shown.reason
        partition = run.partitions()[topic, 0]
        assert (partition.state, partition.recoveries) == (State.RUNNING, 0)
        assert len({lease.process for lease in contents.leases[before:]}) == 1
        assert target.offsets("A." + topic)[0] in (600, 1_200)
