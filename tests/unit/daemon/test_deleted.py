"""Topics that the source no longer has: what becomes of their partitions, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from causeway.cluster import ClusterMetadata, TopicMetadata
from causeway.control.claim_checks import is_over
from causeway.daemon import Sides
from causeway.daemon.partitions import Found, Registry
from causeway.daemon.partitions.deleted import Deleted, judge
from causeway.errors import AuthorizationError, BrokerError, CausewayError
from causeway.link_topics import Deletion, Entry, OffsetMap, PartitionProgress, ProgressContents
from causeway.model import Pair, State, TopicPartition
from tests.builders.daemon import row

AT = TopicPartition("orders", 0)
DAY_MS = 24 * 3600 * 1000
STOPPED = row().progress.replace(state=State.STOPPED, reason="deleted")


def test_what_is_gone_is_noted_once_and_over_after_its_time() -> None:
    assert judge({AT: STOPPED}, {"orders"}, DAY_MS, 60).noted == {AT: DAY_MS}
    gone = STOPPED.replace(gone_at=DAY_MS)
    for now_ms, over in ((DAY_MS, False), (DAY_MS + 59_999, False), (DAY_MS + 60_000, True)):
        changes = judge({AT: gone}, {"orders"}, now_ms, 60)
        assert (changes.noted, set(changes.over)) == ({}, {AT} if over else set())
    assert not judge({AT: gone}, {"orders"}, 99 * DAY_MS, None).over, "for ever"


def test_a_topic_that_is_back_is_mirrored_from_its_start() -> None:
    gone = STOPPED.replace(gone_at=0)
    changes = judge({AT: gone}, {"payments"}, DAY_MS, 60)
    assert (changes.noted, changes.over) == ({AT: -1}, {})
    assert not is_over(gone.replace(gone_at=-1), DAY_MS, 60)


class Cluster:
    """Knows `topics` by their names; `refused` ones are not shown."""

    def __init__(self, *topics: str) -> None:
        self.topics = set(topics)
        self.refused: set[str] = set()

    def metadata(self, names: Sequence[str]) -> ClusterMetadata:
        return ClusterMetadata(
            cluster_id=None,
            brokers={},
            controller=1,
            topics={name: self._of(name) for name in names},
        )

    def _of(self, name: str) -> TopicMetadata:
        error: CausewayError | None = None
        if name in self.refused:
            error = AuthorizationError("describe", name)
        elif name not in self.topics:
            error = BrokerError("look up topic", name, code=3, name="UNKNOWN_TOPIC_OR_PARTITION")
        return TopicMetadata(name=name, topic_id="", partitions={}, error=error)


class World:
    """A link whose topic `orders` was deleted; each `look` is a day later than the last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, registry: Registry) -> None:
        self.registry = registry
        self.written: list[Entry] = []
        self.forgotten: list[TopicPartition] = []
        self.now_s = 0.0
        self.source, self.target = Cluster(), Cluster("A.orders")
        monkeypatch.setattr("time.time", lambda: self.now_s)
        source, target = cast(Any, self.source), cast(Any, self.target)
        self.deleted = Deleted(
            Sides(source=source, target=target, source_admin=source, target_admin=target),
            registry,
            cast(Any, self),
            cast(Any, self),
            revoke=lambda places: True,
            retention_s=2 * 24 * 3600,
        )

    def write(self, entries: Sequence[Entry]) -> None:
        self.written += entries

    def forget(self, places: Sequence[TopicPartition]) -> None:
        self.forgotten += places

    def look(self, counts: dict[str, int] | None = None) -> None:
        self.now_s += 24 * 3600
        found = Found(counts=counts or {})
        self.deleted.look((), found)
        assert not found.problems


def test_the_claim_outlives_the_row_as_long_as_the_target_has_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a topic that comes back, perhaps the same, would be copied on top of what is there."""
    it = row(State.STOPPED)
    it.maps = {TopicPartition("A.orders", 0): OffsetMap([Pair(0, 0, 0)])}
    registry = Registry("A->B")
    registry.add([it])
    world = World(monkeypatch, registry)

    world.look()
    assert it.progress.gone_at == DAY_MS
    assert it.dirty
    world.look()
    assert registry.status(), "its time is not over"
    for _ in range(3):
        world.look()
        assert not registry.status()
        assert registry.known()[AT].gone_at == DAY_MS
    assert world.written == [it.progress, Deletion(source=AT, of="offsets")]

    world.target.topics.clear()
    world.look()
    assert AT in registry.known(), "a broker may have started a moment ago"
    world.look()
    assert world.written[2:] == [Deletion(source=AT, of="topic")]
    assert world.forgotten == [AT]
    assert registry.known() == {}
    world.look()
    assert len(world.written) == 3


def test_what_an_earlier_driver_left_goes_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = Registry("A->B")
    registry.begin(ProgressContents(partitions={AT: row(State.RUNNING).progress}))
    world = World(monkeypatch, registry)

    world.look()
    (noted,) = world.written
    assert isinstance(noted, PartitionProgress)
    assert (noted.state, noted.gone_at) == (State.RUNNING, DAY_MS), "it may be the same again"
    world.target.topics.clear()
    for _ in range(3):
        world.look()
    assert world.written[1:] == [Deletion(source=AT, of="topic")]


def test_what_is_only_hidden_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry("A->B")
    registry.begin(ProgressContents(partitions={AT: row(State.RUNNING).progress}))
    world = World(monkeypatch, registry)
    world.source.refused = {"orders"}
    world.look()
    assert not world.written
    world.source.refused = set()
    world.look()
    world.look({"orders": 1})
    assert [cast(PartitionProgress, entry).gone_at for entry in world.written] == [2 * DAY_MS, -1]
