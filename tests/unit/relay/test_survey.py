"""When the end of a target's log is believed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest

from causeway.errors import BrokerError, UnreachableError
from causeway.model import TopicPartition
from causeway.relay.recovery import survey
from causeway.wire.cluster import Cluster
from causeway.wire.offsets import LATEST, OffsetAt
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


def test_an_end_that_stands_still_as_the_disk_hangs_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Replicated(log_of(9))
    late = UnreachableError("ask", "B", "no answer within 10 s", retriable=True)
    monkeypatch.setattr(cluster, "last_sequences", lambda places: dict.fromkeys(places, late))

    assert settled_end(monkeypatch, cluster) is late


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
