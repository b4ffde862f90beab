"""The controller of a cluster: always up, never wrong. Brokers apply its changes after a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.settings import BrokerSettings, check_topic_config
from tests.simulation.cluster.topic_states import (
    NOBODY,
    AliveChange,
    Change,
    PartitionState,
    TopicChange,
    TopicState,
)
from tests.simulation.world import World

_LONGEST_NAME: Final = 249
_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Controller:
    """`changes`: all that it ever said, in order. `published` runs after each."""

    def __init__(
        self,
        world: World,
        settings: BrokerSettings,
        nodes: Sequence[int],
        published: Callable[[], object],
    ) -> None:
        self.changes: list[Change] = [AliveChange(tuple(nodes))]
        self.topics: dict[str, TopicState] = {}
        self.ids: dict[UUID, str] = {}
        self.alive = list(nodes)
        self._world, self._settings = world, settings
        self._nodes = tuple(nodes)
        self._published = published
        self._balances = False

    def _publish(self, change: Change) -> None:
        self.changes.append(change)
        self._published()

    # -- topics -----------------------------------------------------------------------------------

    def new_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> TopicState:
        """What `create` would make. -1 for a number: the brokers' default. Raises Refused."""
        check_name(name)
        if name in self.topics:
            raise Refused(errors.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        clashing = name.replace(".", "_")
        for other in self.topics:
            if other.replace(".", "_") == clashing:
                raise Refused(
                    errors.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic: {other}",
                )
        for key, value in configs.items():
            check_topic_config(key, value)
        if assignments:
            replicas = [tuple(assignments[index]) for index in range(len(assignments))]
        else:
            partitions = self._settings.num_partitions if partitions == -1 else partitions
            if partitions <= 0:
                raise Refused(
                    errors.INVALID_PARTITIONS,
                    "Number of partitions was set to an invalid non-positive value.",
                )
            replicas = self._assigned(partitions, replication_factor)
        return TopicState(
            name=name,
            id=UUID(int=self._world.random.getrandbits(128)),
            partitions=tuple(self._partition(each) for each in replicas),
            set_configs=dict(configs),
            defaults=self._settings.topic_defaults,
        )

    def _assigned(self, partitions: int, factor: int) -> list[tuple[int, ...]]:
        if factor == -1:
            factor = self._settings.default_replication_factor
        alive = self.alive
        if factor <= 0 or factor > len(alive):
            raise Refused(
                errors.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): The target replication "
                f"factor of {factor} cannot be reached because only {len(alive)} broker(s) are "
                "registered.",
            )
        first = self._world.random.randrange(len(alive))
        return [
            tuple(alive[(first + index + step) % len(alive)] for step in range(factor))
            for index in range(partitions)
        ]

    def _partition(self, replicas: tuple[int, ...]) -> PartitionState:
        isr = tuple(each for each in replicas if each in self.alive)
        leader = isr[0] if isr else NOBODY
        return PartitionState(leader=leader, epoch=0, replicas=replicas, isr=isr or replicas[:1])

    def add(self, topic: TopicState) -> None:
        self.topics[topic.name] = topic
        self.ids[topic.id] = topic.name
        self._world.trace(f"topic {topic.name} is created with {len(topic.partitions)} partitions")
        self._publish(TopicChange(topic.id, topic.name, topic))

    def get(self, name: str) -> TopicState:
        topic = self.topics.get(name)
        if topic is None:
            raise Refused(
                errors.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        return topic

    def delete(self, name: str) -> None:
        topic = self.get(name)
        del self.topics[name], self.ids[topic.id]
        self._world.trace(f"topic {name} is deleted")
        self._publish(TopicChange(topic.id, name, None))

    def add_partitions(self, name: str, count: int, *, dry_run: bool = False) -> None:
        topic = self.get(name)
        known = len(topic.partitions)
        if count <= known:
            raise Refused(
                errors.INVALID_PARTITIONS,
                f"The topic {name} currently has {known} partition(s); {count} would not be an "
                "increase.",
            )
        added = self._assigned(count - known, len(topic.partitions[0].replicas))
        if not dry_run:
            parts = (*topic.partitions, *map(self._partition, added))
            self._change(replace(topic, partitions=parts))

    def alter_configs(
        self, name: str, changes: Mapping[str, str | None], *, dry_run: bool = False
    ) -> None:
        topic = self.get(name)
        configs = dict(topic.set_configs)
        for key, value in changes.items():
            if value is None:
                configs.pop(key, None)
            else:
                check_topic_config(key, value)
                configs[key] = value
        if not dry_run:
            self._change(replace(topic, set_configs=configs))

    def _change(self, topic: TopicState) -> None:
        self.topics[topic.name] = topic
        self._publish(TopicChange(topic.id, topic.name, topic))

    # -- leaders ----------------------------------------------------------------------------------

    def _change_partitions(
        self, change: Callable[[TopicState, int, PartitionState], PartitionState]
    ) -> None:
        """`change` gives the same object if nothing changes."""
        for topic in list(self.topics.values()):
            parts = tuple(
                change(topic, index, state) for index, state in enumerate(topic.partitions)
            )
            if any(new is not old for new, old in zip(parts, topic.partitions, strict=True)):
                self._change(replace(topic, partitions=parts))

    def fence(self, node: int) -> None:
        """The broker is gone, or has sent no heartbeat for too long."""
        if node not in self.alive:
            return
        self.alive.remove(node)
        self._world.trace(f"the controller fences broker {node}")
        self._publish(AliveChange(tuple(self.alive)))

        def without(topic: TopicState, _: int, state: PartitionState) -> PartitionState:
            if node not in state.isr and node != state.leader:
                return state
            isr = tuple(each for each in state.isr if each != node) or state.isr
            return self._with_leader(topic, replace(state, isr=isr, version=state.version + 1))

        self._change_partitions(without)

    def unfence(self, node: int) -> None:
        if node in self.alive:
            return
        self.alive = [each for each in self._nodes if each == node or each in self.alive]
        self._world.trace(f"broker {node} is back")
        self._publish(AliveChange(tuple(self.alive)))
        self._change_partitions(
            lambda topic, _, state: (
                self._with_leader(topic, state) if state.leader == NOBODY else state
            )
        )
        if not self._balances:
            self._balances = True
            interval_s = self._settings.leader_imbalance_check_interval_seconds
            self._world.later(self._world.random.uniform(0, interval_s), self._balance)

    def _balance(self) -> None:
        """Gives partitions back to the first of their replicas (auto.leader.rebalance.enable)."""
        self._balances = False

        def preferred(_: TopicState, __: int, state: PartitionState) -> PartitionState:
            first = state.replicas[0]
            if first == state.leader or first not in state.isr or first not in self.alive:
                return state
            return self._led_by(state, first)

        self._change_partitions(preferred)

    def _with_leader(self, topic: TopicState, state: PartitionState) -> PartitionState:
        """A leader in sync and alive, if there is one; else any that is alive, if the topic has
        unclean.leader.election.enable."""
        if state.leader in self.alive and state.leader in state.isr:
            return state
        able = [each for each in state.replicas if each in state.isr and each in self.alive]
        if not able and topic.config("unclean.leader.election.enable") == "true":
            able = [each for each in state.replicas if each in self.alive]
            state = replace(state, isr=tuple(able[:1]) or state.isr)
        leader = able[0] if able else NOBODY
        return state if leader == state.leader else self._led_by(state, leader)

    def _led_by(self, state: PartitionState, leader: int) -> PartitionState:
        return replace(state, leader=leader, epoch=state.epoch + 1, version=state.version + 1)

    def elect(self, name: str, index: int, node: int, *, unclean: bool = False) -> None:
        """Raises ValueError if `node` is not in sync, unless `unclean`; then what only the others
        have is lost."""
        topic = self.get(name)
        state = topic.partitions[index]
        if node not in state.replicas or node not in self.alive:
            raise ValueError(f"broker {node} is no replica of {name}-{index}, or not up")
        if node not in state.isr and not unclean:
            raise ValueError(f"broker {node} is not in sync with {name}-{index}")
        new = self._led_by(state, node)
        if node not in state.isr:
            new = replace(new, isr=(node,))
        self._set_partition(topic, index, new)

    def alter_isr(
        self, topic_id: UUID, index: int, seen: PartitionState, isr: tuple[int, ...]
    ) -> bool:
        """A leader asks, and `seen` is what it knows. False: it knows something old."""
        topic = self.topics.get(self.ids.get(topic_id, ""))
        if topic is None:
            return False
        state = topic.partitions[index]
        if (state.epoch, state.version) != (seen.epoch, seen.version):
            return False
        kept = tuple(each for each in state.replicas if each in isr and each in self.alive)
        if kept == state.isr or state.leader not in kept:
            return False
        self._world.trace(f"in sync with {topic.name}-{index}: {kept}")
        self._set_partition(topic, index, replace(state, isr=kept, version=state.version + 1))
        return True

    def _set_partition(self, topic: TopicState, index: int, state: PartitionState) -> None:
        parts = (*topic.partitions[:index], state, *topic.partitions[index + 1 :])
        self._change(replace(topic, partitions=parts))

    # -- coordinators -----------------------------------------------------------------------------

    def coordinator(self, key: str) -> int:
        """The broker for a group or a transactional id; NOBODY if none is up."""
        place = 0
        for char in key:
            place = (31 * place + ord(char)) & 0x7FFFFFFF
        count = len(self._nodes)
        order = [self._nodes[(place + step) % count] for step in range(count)]
        return next((each for each in order if each in self.alive), NOBODY)


def check_name(name: str) -> None:
    """Raises Refused (INVALID_TOPIC_EXCEPTION)."""
    if not name or name in (".", "..") or len(name) > _LONGEST_NAME or not set(name) <= _LEGAL:
        raise Refused(errors.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: '{name}'")
