"""Consumer groups of a cluster: their offsets, and the members that a test puts there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.simulation.cluster.transactions import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """`metadata`: the group's own text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True)
class ConsumerGroup:
    """`members`: member ids. `protocol_type`: consumer, or empty if no member ever joined.
    `pending`: what open transactions will commit, by producer id."""

    name: str
    offsets: dict[Place, GroupOffset] = field(default_factory=dict)
    pending: dict[int, dict[Place, GroupOffset]] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    generation: int = 0
    protocol_type: str = ""
    rebalances: bool = False

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        return "PreparingRebalance" if self.rebalances else "Stable"


class ConsumerGroups:
    """One state for the cluster, as in its log of offsets; only its coordinator answers for a
    group."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}

    def of(self, name: str) -> ConsumerGroup:
        """Created if there is none."""
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = ConsumerGroup(name)
        return found

    def join(self, name: str, *members: str, topics: tuple[str, ...] = ()) -> ConsumerGroup:
        """Members of the classic protocol that read these topics, in place of earlier ones."""
        group = self.of(name)
        group.members, group.topics = list(members), list(topics)
        group.generation += 1
        group.protocol_type = "consumer"
        return group

    def leave(self, name: str) -> None:
        """All members."""
        self.of(name).members.clear()

    def commit(self, name: str, offsets: Mapping[Place, GroupOffset]) -> None:
        self.of(name).offsets.update(offsets)

    def commit_later(
        self, name: str, producer_id: int, offsets: Mapping[Place, GroupOffset]
    ) -> None:
        """With the end of the producer's transaction."""
        self.of(name).pending.setdefault(producer_id, {}).update(offsets)

    def end_transaction(self, name: str, producer_id: int, *, commits: bool) -> None:
        group = self.of(name)
        pending = group.pending.pop(producer_id, {})
        if commits:
            group.offsets.update(pending)

    def is_unstable(self, group: ConsumerGroup, place: Place) -> bool:
        return any(place in offsets for offsets in group.pending.values())

    def forget_topic(self, topic: str) -> None:
        """It was deleted, and with it what groups had committed for it."""
        for group in self.groups.values():
            for place in [each for each in group.offsets if each[0] == topic]:
                del group.offsets[place]
