"""Each record has the offset on the target that it has on the source, over real brokers.

Both sides are read by an independent client. A lane runs without Spark (tests/harness/lanes.py); it
is given the assignments that a driver would make.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from causeway.model import State, TopicPartition
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.mirror import FOREVER, Mirror, by_offset
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.same_offsets import COMPACTED, begin_at, compact
from tests.harness.waiting import await_until
from tests.harness.writers import write_transactions, writing

pytestmark = pytest.mark.integration

WAYS = pytest.mark.parametrize("gaps", ["markers", "transactions"])
BILLION = 1_000_000_000


@pytest.fixture
def mirror(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
) -> Iterator[Mirror]:
    with LaneDriver(
        client("A", source_cluster.bootstrap), client("B", target_cluster.bootstrap)
    ) as driver:
        yield Mirror(driver, source, target, prefix + "t", "A." + prefix + "t")


def test_a_dense_topic(mirror: Mirror) -> None:
    mirror.create(2)
    mirror.source.produce(
        mirror.topic, [Outgoing(value=b"%d" % i, partition=i % 2) for i in range(5000)]
    )
    mirror.run(keeps={})
    assert mirror.assert_same_offsets() == 5000


def ends_at(mirror: Mirror, end: dict[int, int]) -> bool:
    return mirror.target.offsets(mirror.name) == end


@WAYS
@pytest.mark.parametrize("read_committed", [True, False])
def test_commits_and_aborts(mirror: Mirror, gaps: str, read_committed: bool) -> None:
    mirror.create(2)
    write_transactions(mirror.source, mirror.topic, 30, seed=7)
    mirror.source.await_transactions(mirror.topic)
    mirror.run(keeps={"gaps": gaps}, read_committed=read_committed)
    assert mirror.assert_same_offsets(read_committed=read_committed) > 100


@WAYS
def test_two_lanes_at_once(mirror: Mirror, gaps: str) -> None:
    """As for a moment under two drivers. Each would fill the same gaps: one of them finds that it
    is not alone, and waits."""
    mirror.create(4)
    mirror.claim(keeps={"gaps": gaps, "transactional_id": f"causeway.{gaps}"})
    mirror.driver.start_lane(0)
    mirror.driver.start_lane(1)
    with writing(mirror.source, mirror.topic, 4, seed=1, pause_s=0.05):
        await_until(
            lambda: min(mirror.target.offsets(mirror.name).values()) > 500,
            60,
            "500 offsets of each partition",
        )
    mirror.driver.kill(0)
    mirror.await_mirrored(timeout=120)
    assert mirror.assert_same_offsets()


def test_a_marker_at_the_end_is_filled_at_once(mirror: Mirror) -> None:
    mirror.create()
    mirror.claim(keeps={})
    mirror.driver.start_lane(0)
    with mirror.source.transactional(mirror.topic) as transactions:
        for number in range(3):
            transactions.begin()
            transactions.send(mirror.topic, b"%d" % number)
            transactions.commit()
            mirror.source.await_transactions(mirror.topic)
            end = {0: 2 * number + 2}
            await_until(partial(ends_at, mirror, end), what="the target ends with the marker")
    assert mirror.assert_same_offsets() == 3
    report = mirror.driver.reports["A->B", mirror.topic, 0]
    assert report.filled is not None
    await_until(
        lambda: mirror.driver.reports["A->B", mirror.topic, 0].filled.markers == 3,  # type: ignore[union-attr]
        what="a report of the markers",
    )


@pytest.mark.parametrize(
    "start", [437, 1_000_437, pytest.param(1_000_000_437, marks=pytest.mark.slow)]
)
def test_a_log_that_begins_above_zero(mirror: Mirror, start: int) -> None:
    mirror.create()
    begin_at(mirror.driver.source.settings, mirror.topic, start)
    mirror.source.produce(mirror.topic, [b"%d" % i for i in range(1000)])
    mirror.claim(keeps={})
    mirror.driver.start_lane(0)
    mirror.await_mirrored(timeout=900)
    assert mirror.assert_same_offsets() == 1000
    assert mirror.target.offsets(mirror.name) == {0: start + 1000}


def test_a_compacted_topic_by_markers(mirror: Mirror) -> None:
    mirror.create(config=COMPACTED, target_config={**FOREVER, "cleanup.policy": "compact"})
    compact(mirror.source, mirror.topic)
    mirror.run(keeps={})
    mirror.assert_same_offsets()


def test_a_large_gap_of_a_compacted_topic_by_filler(mirror: Mirror) -> None:
    """read_committed consumers see no filler; others see it, until the target compacts it."""
    mirror.create(config=COMPACTED, target_config={**FOREVER, "cleanup.policy": "compact"})
    compact(mirror.source, mirror.topic)
    mirror.run(keeps={"filler_from": 100})
    wanted = mirror.source.read(mirror.topic)
    found = mirror.target.read(mirror.name, read_committed=True)
    assert by_offset(found[0]) == by_offset(wanted[0])
    assert mirror.target.offsets(mirror.name) == mirror.source.offsets(mirror.topic)
    filled = mirror.driver.reports["A->B", mirror.topic, 0].filled
    assert filled is not None
    assert filled.filler > 100


def test_a_large_gap_stops_if_filler_is_not_allowed(mirror: Mirror) -> None:
    mirror.create(config=COMPACTED, target_config={**FOREVER, "cleanup.policy": "compact"})
    compact(mirror.source, mirror.topic)
    mirror.claim(keeps={"filler_from": 100, "stops": True})
    mirror.driver.start_lane(0)
    reason = mirror.await_state(State.STOPPED)
    assert "causeway.offsets.filler = allow" in reason, reason


@pytest.mark.parametrize("kind", ["none", "gzip", "snappy", "lz4", "zstd", "append-times"])
def test_every_codec(mirror: Mirror, kind: str) -> None:
    times = {"message.timestamp.type": "LogAppendTime"} if kind == "append-times" else {}
    mirror.create(config=FOREVER | times)
    codec = "none" if times else kind
    for size in (1, 3000):
        with mirror.source.transactional(f"{mirror.topic}{size}", codec=codec) as transactions:
            for number in range(5):
                transactions.begin()
                values = (b"%d %d" % (number, i) + b"x" * size for i in range(40))
                transactions.send(mirror.topic, *values)
                transactions.commit()
    mirror.source.await_transactions(mirror.topic)
    mirror.run(keeps={})
    assert mirror.assert_same_offsets() == 400


def test_a_foreign_record_stops_the_partition_before_anything_else_is_sent(mirror: Mirror) -> None:
    mirror.create()
    mirror.claim(keeps={})
    mirror.driver.start_lane(0)
    mirror.source.produce(mirror.topic, [b"one", b"two"])
    mirror.await_mirrored()
    mirror.target.produce(mirror.name, [b"foreign"])
    mirror.source.produce(mirror.topic, [b"three"])
    reason = mirror.await_state(State.STOPPED)
    assert "the record at source offset 2 has got offset 3" in reason, reason
    assert "--refill" in reason


@pytest.mark.parametrize("foreign", ["plain", "transaction"])
def test_a_foreign_record_is_found_at_the_next_start(mirror: Mirror, foreign: str) -> None:
    mirror.create()
    mirror.source.produce(mirror.topic, [b"one", b"two"])
    mirror.run(keeps={})
    if foreign == "plain":
        mirror.target.produce(mirror.name, [b"foreign"])
    else:
        with mirror.target.transactional(mirror.name) as transactions:
            transactions.begin()
            transactions.send(mirror.name, b"foreign")
            transactions.commit()
    mirror.source.produce(mirror.topic, [b"three", b"four", b"five"])
    mirror.driver.start_lane(1)
    reason = mirror.await_state(State.STOPPED)
    assert "--refill" in reason, reason


def test_a_last_record_that_is_not_the_sources_stops_the_partition(mirror: Mirror) -> None:
    mirror.create()
    mirror.source.produce(mirror.topic, [b"one", b"two"])
    mirror.driver.target.produce_batch(
        TopicPartition(mirror.name, 0),
        raw_batch([Rec(offset=0, value=b"ONE"), Rec(offset=1, value=b"TWO")]),
    )
    mirror.claim(keeps={})
    mirror.driver.start_lane(0)
    mirror.await_mirrored()
    mirror.driver.kill(0)
    mirror.driver.start_lane(1)
    reason = mirror.await_state(State.STOPPED)
    assert "its record at offset 1 is not the source's" in reason, reason


def test_a_deleted_topic_does_not_hold_up_the_markers_of_others(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
) -> None:
    """A broker never answers a request that names a partition it does not know behind all that it
    knows. A lane sleeps while a mirror is deleted, so that its many markers are in the request of
    the other one's marker, and nearly always behind it."""
    clients = [
        replace(client(alias, cluster.bootstrap), request_timeout_ms=30_000)
        for alias, cluster in (("A", source_cluster), ("B", target_cluster))
    ]
    with LaneDriver(clients[0], clients[1], lease_s=120) as driver:
        stays, gone = (
            Mirror(driver, source, target, f"{prefix}{name}", f"A.{prefix}{name}")
            for name in ("stays", "gone")
        )
        stays.create()
        gone.create(24)
        for mirror in (stays, gone):
            mirror.claim(keeps={})
        driver.start_lane(0)
        with source.transactional(prefix) as transactions:

            def write(act: Callable[[], None]) -> None:
                transactions.begin()
                transactions.send(stays.topic, b"record")
                for partition in range(24):
                    transactions.send(gone.topic, Outgoing(value=b"record", partition=partition))
                transactions.flush()
                act()
                for mirror in (stays, gone):
                    source.await_transactions(mirror.topic)

            def sleeps() -> None:
                driver.signal(0, signal.SIGSTOP)
                target.delete_topic(gone.name)
                transactions.abort()

            write(transactions.commit)
            for mirror in (stays, gone):
                mirror.await_mirrored()
            write(sleeps)
            driver.signal(0, signal.SIGCONT)
            begun = time.monotonic()
            stays.await_mirrored(timeout=90)
            took = time.monotonic() - begun
            print(f"took {took:.1f} s")
            assert took < 30
            write(transactions.commit)
            stays.await_mirrored()
        assert stays.assert_same_offsets() == 2
