"""What the controller says of topics. Each broker has applied some prefix of its changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tests.simulation.cluster.settings import TOPIC_DEFAULTS

NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """`leader`: NOBODY while no replica that may lead is up. `version` counts all changes."""

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """`set_configs`: those of the topic itself; `defaults`: those of the brokers."""

    name: str
    id: UUID
    partitions: tuple[PartitionState, ...]
    set_configs: Mapping[str, str]
    defaults: Mapping[str, str]

    def config(self, name: str) -> str:
        value = self.set_configs.get(name)
        if value is None:
            value = self.defaults.get(name)
        return TOPIC_DEFAULTS[name] if value is None else value

    def number(self, name: str) -> int:
        return int(self.config(name))

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(self.config("cleanup.policy").replace(" ", "").split(","))


class TopicChange(NamedTuple):
    """`state`: None for a topic that was deleted."""

    id: UUID
    name: str
    state: TopicState | None


class AliveChange(NamedTuple):
    """The brokers that are up and not fenced, in order of their ids."""

    nodes: tuple[int, ...]


Change = TopicChange | AliveChange


@dataclass(slots=True)
class Image:
    """A broker's copy of the controller's topics."""

    topics: dict[str, TopicState] = field(default_factory=dict)
    by_id: dict[UUID, TopicState] = field(default_factory=dict)
    alive: tuple[int, ...] = ()
    applied: int = 0  # changes

    def apply(self, change: Change) -> None:
        self.applied += 1
        if isinstance(change, AliveChange):
            self.alive = change.nodes
        elif change.state is None:
            self.by_id.pop(change.id, None)
            if change.name in self.topics and self.topics[change.name].id == change.id:
                del self.topics[change.name]
        else:
            self.topics[change.name] = self.by_id[change.id] = change.state
