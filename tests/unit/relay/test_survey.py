"""When the end of a target's log is believed."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, cast

import pytest

from causeway.cluster import LATEST, Cluster, OffsetAt
from causeway.errors import BrokerError, CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.relay.recovery import TooEarlyError, survey
from causeway.wire import unsupported, user_timeout_of
from tests.harness.raw_batches import Rec
from tests.harness.world import FOREIGN, OURS, TARGET, TARGET_ID, FakeCluster, Log

PLACE = TopicPartition(TARGET, 0)


class Replicated(FakeCluster):
    """Followers have copied the log up to `copied`; `arrive` does what happens between two looks,
    one after the other."""

    def __init__(self, log: Log, copied: int | None = None, arrive: Collection[Any] = ()) -> None:
        super().__init__(TARGET, TARGET_ID, {0: log}, compacted=False)
        self.copied, self.looks, self._arriving = copied, 0, iter(arrive)

    def log_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        ends = super().log_ends(places)
        self.looks += 1
        return ends

    def list_offsets(
        self, places: Collection[TopicPartition], timestamp: int, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        found = super().list_offsets(places, timestamp, read_committed)
        if timestamp != LATEST or self.copied is None:
            return found
        shown = OffsetAt(offset=self.copied, timestamp=-1, leader_epoch=0)
        return dict.fromkeys(found, shown)

    def sleep(self, _: float) -> None:
        for act in self._arriving:
            act()
            return


def settled_end(monkeypatch: pytest.MonkeyPatch, cluster: Replicated) -> object:
    monkeypatch.setattr("time.sleep", cluster.sleep)
    monkeypatch.setattr(survey, "REPLICATED_S", 0.2)
    ends = survey._settled_ends(cast(Cluster, cluster), [PLACE], [PLACE], {OURS})
    return ends[PLACE]


def log_of(count: int) -> Log:
    log = Log()
    log.append([Rec(offset=i) for i in range(count)], producer_id=OURS, epoch=0, sequence=0)
    return log


def test_what_followers_lack_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Replicated(log_of(9), copied=4)

    def copy() -> None:
        cluster.copied = 9

    cluster._arriving = iter([lambda: None, copy])

    assert settled_end(monkeypatch, cluster) == 9


def test_what_followers_go_on_to_lack_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    error = settled_end(monkeypatch, Replicated(log_of(9), copied=4))

    assert isinstance(error, BrokerError)
    assert error.retriable
    assert "offsets 4 to 8" in str(error)


def test_an_end_that_stays_while_the_disk_hangs_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Replicated(log_of(9))
    late = UnreachableError("ask", "B", "no answer within 10 s", retriable=True)
    monkeypatch.setattr(cluster, "last_sequences", lambda places: dict.fromkeys(places, late))

    assert settled_end(monkeypatch, cluster) is late


def without_describe_producers(
    places: Collection[TopicPartition],
) -> dict[TopicPartition, BrokerError]:
    return {place: unsupported("B", 61, 0, 0, {}) for place in places}


def test_a_leader_that_does_not_name_producers_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until no earlier request can arrive: its sender's kernel had queued it, and the broker has
    read it."""
    cluster = Replicated(log_of(9))
    monkeypatch.setattr(cluster, "last_sequences", without_describe_producers)
    monkeypatch.setattr("time.sleep", cluster.sleep)

    def ends(late_by: float) -> dict[TopicPartition, int | CausewayError]:
        by_place = {PLACE: late_by}
        return survey._settled_ends(cast(Cluster, cluster), [PLACE], [PLACE], {OURS}, by_place)

    late_by = time.monotonic() - 1
    early = ends(late_by)[PLACE]
    assert isinstance(early, TooEarlyError)
    assert early.retriable
    assert early.not_before == late_by + user_timeout_of(cluster.timeout_s)
    assert "DescribeProducers" in str(early)

    assert ends(time.monotonic() - user_timeout_of(cluster.timeout_s)) == {PLACE: 9}
    assert ends(0.0) == {PLACE: 9}, "nothing was sent"


def test_the_log_tells_where_a_leader_does_not_name_producers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Replicated(log_of(9))
    monkeypatch.setattr(cluster, "last_sequences", without_describe_producers)

    assert survey._remembered(cast(Cluster, cluster), [PLACE]) == {PLACE: {}}


@pytest.mark.parametrize(("producer", "looks"), [(OURS, 3), (FOREIGN, 2)])
def test_only_what_we_append_moves_the_end(
    producer: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(9)
    late = [Rec(offset=9)]
    cluster = Replicated(
        log, arrive=[lambda: log.append(late, producer_id=producer, epoch=0, sequence=9)]
    )

    assert settled_end(monkeypatch, cluster) == 10
    assert cluster.looks == looks


@pytest.mark.parametrize(("first", "end", "looks"), [(FOREIGN, 14, 3), (OURS, 19, 4)])
def test_others_who_go_on_writing_hold_up_nothing(
    first: int, end: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers are never quite at the log's end; all that was there a look ago they have."""
    log = log_of(9)
    cluster = Replicated(log)
    producers = iter([first])

    def others() -> None:
        cluster.copied = log.end
        late = [Rec(offset=log.end + i) for i in range(5)]
        log.append(late, producer_id=next(producers, FOREIGN), epoch=0, sequence=9)

    monkeypatch.setattr(cluster, "sleep", lambda _: others())

    assert settled_end(monkeypatch, cluster) == end
    assert cluster.looks == looks


def test_a_log_that_cannot_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = TopicPartition(TARGET, 1)
    log = log_of(9)
    late = [Rec(offset=9)]
    cluster = Replicated(
        log_of(9), arrive=[lambda: log.append(late, producer_id=FOREIGN, epoch=0, sequence=9)]
    )
    cluster.logs[1] = log
    error = BrokerError("read", str(broken), code=56, name="KAFKA_STORAGE_ERROR", retriable=True)

    def fetch(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cluster, "fetch", fetch)
    monkeypatch.setattr("time.sleep", cluster.sleep)

    places = [PLACE, broken]
    ends = survey._settled_ends(cast(Cluster, cluster), places, places, {OURS})

    assert ends == {PLACE: 9, broken: error}
