"""How a partition is judged from what the clusters say; no broker takes part."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import Cluster, OffsetAt
from causeway.control import Held, MirroredTopic, ObservedTopics, TopicPlan
from causeway.errors import AuthorizationError, ConfigError
from causeway.link_topics import (
    ActiveDirectives,
    LeaseRecord,
    LinkDirectives,
    Outlet,
    PartitionProgress,
    ProgressContents,
)
from causeway.model import Pair, State, TopicPartition
from causeway.records import HEADER
from causeway.status import (
    NO_DRIVER,
    DriverStatus,
    LinkProblem,
    LinkStatus,
    PartitionStatus,
    Preserving,
    driver_of,
    from_clusters,
    judging,
    lag,
    verdict,
)
from causeway.status.judging import ClusterFacts, deleted_partitions, partition_status
from causeway.status.lag import first_timestamp
from tests.builders.settings import link
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.statuses import ends

NOW = 1_700_000_000_000
TOPIC = MirroredTopic(
    source="orders",
    target="A.orders",
    partitions=1,
    source_id="a" * 32,
    target_id="b" * 32,
    target_partitions=1,
    max_message_bytes=1_048_588,
)
PROGRESS = PartitionProgress(
    topic="orders",
    partition=0,
    topic_id="a" * 32,
    leader_epoch=0,
    position=70,
    outlets=(),
    state=State.RUNNING,
)
OUTLET = Outlet(
    topic="A.orders",
    partition=0,
    topic_id="d" * 32,
    producer_id=1,
    producer_epoch=0,
    pair=Pair(source=0, target=0, sequence=0),
)
RUNNING = DriverStatus(owner="host-1", running=True, last_seen_ms=NOW)
GONE = DriverStatus(owner="host-1", running=False, last_seen_ms=NOW)
NOTHING = ObservedTopics(
    source_topics={},
    source_configs={},
    target_topics={},
    target_configs={},
    target_defaults={},
    target_brokers=1,
)


def judge(progress: PartitionProgress | None = PROGRESS, **changes: Any) -> PartitionStatus:
    given: dict[str, Any] = {
        "end": OffsetAt(offset=100, timestamp=-1, leader_epoch=0),
        "top": OffsetAt(offset=100, timestamp=-1, leader_epoch=0),
        "held": None,
        "target_end": None,
        "start": progress.position if progress else 0,
        "source_first": None,
        "first_unmirrored": NOW - 2_000,
    }
    driver = changes.pop("driver", RUNNING)
    facts = ClusterFacts(**(given | changes))
    return partition_status(
        TopicPartition("orders", 0), TOPIC, progress, facts, link(), driver, NOW
    )


def test_lag_in_records_and_in_time() -> None:
    one = judge()

    assert (one.source_end, one.mirrored_to, one.lag_records, one.lag_ms) == (100, 70, 30, 2_000)
    assert (one.state, one.reason) == (State.RUNNING, None)


@pytest.mark.parametrize(
    ("first", "target_end", "lacks"), [(5, 0, True), (70, 0, False), (5, 1, False)]
)
def test_a_mirror_that_began_at_the_end_differs_from_a_whole_one(
    first: int, target_end: int, lacks: bool
) -> None:
    outlet = OUTLET.replace(topic_id=TOPIC.target_id)
    one = judge(
        PROGRESS.replace(outlets=(outlet,)),
        end=OffsetAt(offset=70, timestamp=-1, leader_epoch=0),
        target_end=target_end,
        source_first=first,
    )

    assert one.lag_records == 0
    said = one.reason or ""
    assert ("the mirror is empty: the source's offsets 5 to 69" in said) is lacks


def test_caught_up_means_no_lag_however_old_the_last_record() -> None:
    one = judge(PROGRESS.replace(position=100), first_unmirrored=None)

    assert (one.lag_records, one.lag_ms) == (0, 0)


def test_records_of_the_future_have_no_negative_lag() -> None:
    assert judge(first_unmirrored=NOW + 5_000).lag_ms == 0


def test_what_could_not_be_read_is_unknown_and_says_why() -> None:
    denied = AuthorizationError("look up an offset of", "orders-0", "denied")

    one = judge(end=denied)

    assert (one.source_end, one.lag_records, one.lag_ms) == (None, None, None)
    assert one.reason == str(denied)


@pytest.mark.parametrize("driver", [None, GONE])
def test_without_a_driver_no_partition_runs(driver: DriverStatus | None) -> None:
    failed = PROGRESS.replace(state=State.FAILED, reason="no leader")

    assert judge(driver=driver).state == NO_DRIVER
    assert judge(None, driver=driver).state == NO_DRIVER
    assert (judge(failed, driver=driver).state, judge(failed, driver=driver).reason) == (
        NO_DRIVER,
        "no leader",
    )


def test_a_partition_that_needs_a_decision_is_shown_with_and_without_a_driver() -> None:
    stopped = PROGRESS.replace(state=State.STOPPED, reason="recreated")

    for driver in (RUNNING, GONE, None):
        assert (judge(stopped, driver=driver).state, judge(stopped, driver=driver).reason) == (
            State.STOPPED,
            "recreated",
        )


def test_a_recreated_or_truncated_source_is_shown_before_a_driver_sees_it() -> None:
    anew = judge(PROGRESS.replace(topic_id="c" * 32), driver=None)
    other_target = judge(PROGRESS.replace(outlets=(OUTLET,)), driver=None)
    truncated = judge(PROGRESS.replace(position=200), driver=None)

    assert {one.state for one in (anew, other_target, truncated)} == {State.STOPPED}
    assert "recreated on the source" in (anew.reason or "")
    assert "recreated on the target" in (other_target.reason or "")
    assert "truncated" in (truncated.reason or "")
    assert truncated.lag_records == 0


def test_a_position_past_the_last_stable_offset_is_no_truncation() -> None:
    taken_over = judge(
        PROGRESS.replace(position=120), top=OffsetAt(offset=130, timestamp=-1, leader_epoch=0)
    )

    assert (taken_over.state, taken_over.lag_records) == (State.RUNNING, 0)


def test_a_partition_not_begun_lags_by_all_there_is() -> None:
    one = judge(None)

    assert (one.state, one.reason, one.mirrored_to, one.lag_records) == (
        State.WAITING,
        "not begun",
        None,
        100,
    )


@pytest.mark.parametrize(
    ("age_s", "released", "running"),
    [(0, False, True), (19, False, True), (21, False, False), (0, True, False)],
)
def test_a_lease_that_is_old_or_given_back_means_no_driver(
    age_s: int, released: bool, running: bool
) -> None:
    lease = LeaseRecord(
        link="A->B",
        owner="host-1",
        producer_id=1,
        producer_epoch=0,
        lease_s=10,
        released=released,
        written_at=NOW - age_s * 1000,
    )

    driver = driver_of([lease], NOW)

    assert driver is not None
    assert driver.running is running
    assert driver_of([], NOW) is None


def test_a_driver_does_not_seem_gone_because_a_broker_lets_us_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the leases are read, others are asked; one that hangs takes longer than a lease."""
    now_s = NOW / 1000
    lease = LeaseRecord(
        link="A->B", owner="host-1", producer_id=1, producer_epoch=0, lease_s=10, written_at=NOW
    )

    class Hanging:
        cluster_id = None

        def bootstrap_check(self, _: float) -> None: ...

        def list_offsets(self, *_: object, **__: object) -> dict[TopicPartition, OffsetAt]:
            nonlocal now_s
            now_s += 60
            return {}

    class Topic:
        def __init__(self, *_: object) -> None: ...

        def exists(self) -> bool:
            return True

        def read(self, *, maps: bool) -> ProgressContents:
            return ProgressContents(leases=[lease])

    monkeypatch.setattr("time.time", lambda: now_s)
    monkeypatch.setattr("causeway.control.topics.observe", lambda *_: NOTHING)
    monkeypatch.setattr(from_clusters, "ProgressTopic", Topic)
    monkeypatch.setattr(
        from_clusters, "active_directives", lambda *_: ActiveDirectives(LinkDirectives())
    )

    found = from_clusters.status_of(link(), cast(Any, lambda _: Hanging()), None)

    assert found.driver is not None
    assert found.driver.running


def test_a_busy_topic_without_transactions_is_not_said_to_hold_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Busy:
        """A record is added between any two questions."""

        cluster_id = None
        end = 15_117

        def bootstrap_check(self, _: float) -> None: ...

        def list_offsets(
            self, places: list[TopicPartition], *_: object, **__: object
        ) -> dict[TopicPartition, OffsetAt]:
            self.end += 1
            return {at: OffsetAt(offset=self.end, timestamp=-1, leader_epoch=0) for at in places}

    class Topic:
        def __init__(self, *_: object) -> None: ...

        def exists(self) -> bool:
            return False

    busy = Busy()
    plan = TopicPlan(mirrored=(TOPIC,), changes=(), left_out=(), problems=())
    monkeypatch.setattr("causeway.control.topics.observe", lambda *_: NOTHING)
    monkeypatch.setattr("causeway.control.topics.plan", lambda *_: plan)
    monkeypatch.setattr(
        "causeway.control.topic_changes.as_target_takes", lambda planned, *_: planned
    )
    monkeypatch.setattr(from_clusters, "ProgressTopic", Topic)
    monkeypatch.setattr(
        from_clusters, "active_directives", lambda *_: ActiveDirectives(LinkDirectives())
    )
    monkeypatch.setattr(lag, "timestamps_at", lambda *_: {})

    (one,) = from_clusters.status_of(link(), cast(Any, lambda _: busy), None).partitions

    assert one.held_records == 0


def test_a_batch_s_time_is_its_first_record_s_or_when_it_was_appended() -> None:
    def header(attributes: int) -> bytes:
        return HEADER.pack(0, 49, 0, 2, 0, attributes, 0, 111, 222, -1, -1, -1, 1)

    assert first_timestamp(header(0)) == 111
    assert first_timestamp(header(0x08)) == 222
    assert first_timestamp(b"") is None


def test_a_target_that_ends_too_early_has_lost_records() -> None:
    pair = Pair(source=70, target=50, sequence=50)
    outlet = OUTLET.replace(pair=pair, topic_id=TOPIC.target_id)
    progress = PROGRESS.replace(outlets=(outlet,))

    assert judge(progress, target_end=50).reason is None
    assert "ends at 49, below 50" in str(judge(progress, target_end=49).reason)


def of(driver: DriverStatus | None, *partitions: PartitionStatus, **more: Any) -> LinkStatus:
    given: dict[str, Any] = {"problems": (), **more}
    return LinkStatus(**ends(link()), driver=driver, partitions=partitions, **given)


def test_the_exit_code_says_whether_all_is_well() -> None:
    fine = of(RUNNING, judge(), judge(None))
    stopped = of(RUNNING, judge(), judge(PROGRESS.replace(state=State.STOPPED, reason="x")))
    failed = of(RUNNING, judge(PROGRESS.replace(state=State.FAILED, reason="x")))
    problem = LinkProblem(topic="odd", reason=str(AuthorizationError("describe", "odd")))
    paused = of(RUNNING, judge(PROGRESS.replace(state=State.PAUSED, reason="x")))
    assert verdict([fine]) == verdict([paused]) == 0
    assert verdict([fine, stopped]) == verdict([failed, fine]) == 7
    promoting = of(RUNNING, judge(), judge(PROGRESS.replace(state=State.PROMOTING, reason="x")))
    assert verdict([promoting]) == 7, "its command may have died, and nothing is mirrored"
    assert verdict([of(RUNNING, problems=(problem,))]) == 7
    assert verdict([fine, of(GONE, judge(driver=GONE))]) == verdict([of(None)]) == 9
    assert verdict([stopped, of(None)]) == 9, "the worse of both"


def test_a_driver_whose_lanes_never_come_is_not_well() -> None:
    """A topic that it has yet to find waits as well: that is so for a while after each new one."""
    new, claimed = judge(None), judge(PROGRESS.replace(state=State.WAITING))
    assert verdict([of(RUNNING, new)]) == verdict([of(RUNNING, judge(), claimed)]) == 7
    empty = OffsetAt(offset=0, timestamp=-1, leader_epoch=0)
    assert verdict([of(RUNNING, judge(None, end=empty, top=empty))]) == 0, "nothing to mirror"


def test_a_topic_known_to_be_deleted_raises_no_alarm() -> None:
    """One that is only not to be seen may have lost us a permission."""
    for gone_at, code in ((NOW - 1, 0), (-1, 7)):
        contents = ProgressContents(partitions={PROGRESS.source: PROGRESS.replace(gone_at=gone_at)})
        assert (
            verdict([of(RUNNING, *deleted_partitions(link(), contents, NOTHING, NOW, None))])
            == code
        )


def test_a_file_without_a_flow_is_refused_as_run_refuses_it() -> None:
    with pytest.raises(ConfigError, match="no flow is enabled"):
        verdict([])


def test_what_an_open_transaction_holds_back_is_shown_beside_the_lag() -> None:
    one = judge(
        PROGRESS.replace(position=100),
        top=OffsetAt(offset=5_100, timestamp=-1, leader_epoch=0),
        held="an open transaction",
    )
    assert (one.source_end, one.high_watermark, one.lag_records, one.held_records) == (
        100,
        5_100,
        0,
        5_000,
    )
    assert (one.state, one.reason) == (State.RUNNING, "an open transaction")
    assert judge(PROGRESS.replace(state=State.STOPPED, reason="why"), held="x").reason == "why; x"


def test_ends_are_held_once_the_record_there_is_dated_a_minute_ago() -> None:
    ends = {
        TopicPartition("t", n): OffsetAt(offset=10, timestamp=-1, leader_epoch=0) for n in (0, 1)
    }
    tops = {tp: replace(end, offset=30) for tp, end in ends.items()}
    tops[TopicPartition("t", 2)] = ends[TopicPartition("t", 2)] = next(iter(ends.values()))

    class Source:
        def fetch(self, tp: TopicPartition, offset: int, _: int) -> Any:
            assert offset == 10
            stamp = NOW - (61_000 if tp.partition else 59_000)
            return SimpleNamespace(records=raw_batch([Rec(offset=10, timestamp=stamp)]))

    found = from_clusters._held(cast(Cluster, Source()), ends, tops, NOW)

    assert found == {TopicPartition("t", 1): Held(10, 30, 61_000, dated=True)}


def test_a_beginning_that_is_filled_is_shown_and_is_no_lag() -> None:
    filling = PROGRESS.replace(position=100, offsets_from=400, outlets=(OUTLET,))
    found = judge(filling, target_end=300, filled_per_s=50.0, start=400)
    assert found.preserving == Preserving(offsets_from=400, filled_to=300, per_s=50.0)
    assert "its beginning is filled: 75% of 400 offsets, about 2 s left" in (found.reason or "")
    assert (found.mirrored_to, judging.reached(filling)) == (400, 400)
    done = judge(PROGRESS.replace(offsets_from=0))
    assert done.preserving == Preserving(offsets_from=0)
    assert judge().preserving is None


def test_how_fast_a_beginning_is_filled_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    at = TopicPartition("orders", 0)
    monkeypatch.setattr(from_clusters, "_MEASURED_S", 0.2)
    monkeypatch.setattr(from_clusters, "_target_ends", lambda *_: {at: 150})
    target = cast(Cluster, None)
    filling = ProgressContents(partitions={at: PROGRESS.replace(position=100, offsets_from=400)})
    found = from_clusters._filled_per_s(target, filling, {at: 100})
    assert 10 < found[at] <= 250
    mirroring = ProgressContents(partitions={at: PROGRESS})
    assert from_clusters._filled_per_s(target, mirroring, {at: 100}) == {}
