"""A topic is deleted on the target and filled again: what is done in which order, and repeated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from causeway.cluster import ClusterMetadata, TopicMetadata
from causeway.daemon import Sides
from causeway.daemon.partitions import Registry
from causeway.daemon.partitions.restarts import refill
from causeway.errors import AuthorizationError, BrokerError, CausewayError
from causeway.link_topics import Deletion, Entry, OffsetMap
from causeway.model import State, TopicPartition
from tests.builders.daemon import row

AT = TopicPartition("orders", 0)
OLD, NEW = "bb" * 16, "cc" * 16


class Target:
    """Has `topics`, by name with their ids. `late`: a deleted topic is still shown."""

    def __init__(self, **topics: str) -> None:
        self.topics = dict(topics)
        self.deleted: list[str] = []
        self.error: CausewayError | None = None
        self.late = False

    def metadata(self, names: Sequence[str] | None) -> ClusterMetadata:
        wanted = self.topics if names is None else names
        found = {name: self._of(name) for name in wanted}
        return ClusterMetadata(cluster_id=None, brokers={}, controller=1, topics=found)

    def _of(self, name: str) -> TopicMetadata:
        error = None
        if name not in self.topics:
            error = BrokerError("look up topic", name, code=3, name="UNKNOWN_TOPIC_OR_PARTITION")
        found = self.topics.get(name, "")
        return TopicMetadata(name=name, topic_id=found, partitions={}, error=error)

    def delete_topics(self, names: Collection[str]) -> dict[str, CausewayError | None]:
        self.deleted += names
        for name in names if not (self.late or self.error) else ():
            del self.topics[name]
        return dict.fromkeys(names, self.error)


class World:
    """The rest of a driver; lanes let go if `free`."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.registry = Registry("A->B")
        known = row()
        (outlet,) = known.progress.outlets
        known.progress = known.progress.replace(outlets=(outlet.replace(topic_id=OLD),))
        known.maps = {outlet.at: OffsetMap()}
        self.registry.add([known])
        self.free = True
        self.written: list[Entry] = []
        self.forgotten: set[TopicPartition] = set()

    def write(self, entries: Sequence[Entry]) -> None:
        assert self.target.topics.get("orders") != OLD, "not before the topic is gone"
        self.written += entries

    def forget(self, places: Collection[TopicPartition]) -> None:
        self.forgotten |= set(places)

    def refill(self, topic_id: str = OLD) -> bool:
        target = cast(Any, self.target)
        sides = Sides(source=target, target=target, source_admin=target, target_admin=target)
        me = cast(Any, self)
        return refill({"orders": topic_id}, sides, self.registry, me, me, lambda _: self.free)


def test_the_topic_and_all_that_is_known_of_it_go() -> None:
    world = World(Target(orders=OLD, other=NEW))
    assert world.refill()
    assert world.target.deleted == ["orders"]
    assert world.target.topics == {"other": NEW}
    assert {(each.of, each.source) for each in world.written if isinstance(each, Deletion)} == {
        ("topic", AT),
        ("offsets", AT),
    }
    assert world.registry.known() == {}
    assert world.forgotten == {AT}


def test_nothing_is_deleted_while_a_lane_writes() -> None:
    world = World(Target(orders=OLD))
    world.free = False
    assert not world.refill()
    assert world.target.deleted == []
    assert AT in world.registry.known()


def test_progress_is_forgotten_only_once_the_topic_is_gone() -> None:
    world = World(Target(orders=OLD))
    world.target.late = True
    assert not world.refill()
    assert AT in world.registry.known()
    world.target.late = False
    assert world.refill()
    assert world.registry.known() == {}


def test_a_request_that_is_repeated_leaves_the_new_topic_alone() -> None:
    """A driver died right after it had carried out the request."""
    world = World(Target(orders=NEW))
    (known,) = world.registry.rows(lambda _: True)
    (outlet,) = known.progress.outlets
    known.progress = known.progress.replace(outlets=(outlet.replace(topic_id=NEW),))
    assert world.refill()
    assert world.target.deleted == []
    assert AT in world.registry.known()
    # It had died between deleting and forgetting.
    world = World(Target())
    assert world.refill()
    assert world.registry.known() == {}


def test_a_topic_that_cannot_be_deleted_stops_with_the_reason() -> None:
    world = World(Target(orders=OLD))
    world.target.error = AuthorizationError("delete topic", "orders", remedy="grant DELETE")
    assert world.refill()
    (known,) = world.registry.rows(lambda _: True)
    assert known.progress.state is State.STOPPED
    assert "grant DELETE" in str(known.progress.reason)
    world.target.error = BrokerError("delete topic", "orders", code=7, name="X", retriable=True)
    with pytest.raises(BrokerError):
        world.refill()
