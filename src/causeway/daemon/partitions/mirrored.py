"""What the control plane sees of a partition: one of its outlets, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from causeway.daemon.partitions.rows import Row, place_of
from causeway.link_topics.progress import Progress
from causeway.model import State, TopicPartition
from causeway.relay.messages import Outlet


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """A partition and one of its outlets, for the control plane. `rewinds`: of its offset maps.
    `topic_id`: the source's. `placed`: see Row."""

    source: TopicPartition
    topic_id: str
    outlet: Outlet
    position: int
    stopped: bool
    placed: bool
    rewinds: int = 0
    transformed: bool = False

    @classmethod
    def of(cls, row: Row, progress: Progress, outlet: Outlet) -> Mirrored:
        return cls(
            source=progress.source,
            topic_id=progress.topic_id,
            outlet=outlet,
            position=progress.position,
            stopped=progress.state is State.STOPPED,
            placed=row.placed,
            rewinds=row.rewinds,
            transformed=progress.transform is not None,
        )

    @classmethod
    def known(cls, progress: Progress, outlet: Outlet) -> Mirrored:
        """By progress alone, without a driver."""
        return cls(
            source=progress.source,
            topic_id=progress.topic_id,
            outlet=outlet,
            position=progress.position,
            stopped=progress.state is State.STOPPED,
            placed=True,
            transformed=progress.transform is not None,
        )

    @property
    def target(self) -> TopicPartition:
        return place_of(self.outlet)

    @property
    def feed(self) -> Feed:
        return Feed(self.source, self.target)


class Feed(NamedTuple):
    """A source partition and a target partition that it feeds."""

    source: TopicPartition
    target: TopicPartition
