"""What must hold at each moment, and at the end: read from the logs of the simulated brokers.

translated     the target's log is a prefix of the source's committed records: each once, in order
preserved      each record of the target has the source's offset; others lie in no record's place

What the mirror says is checked in statements.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation import transforms
from tests.simulation.cluster import KafkaCluster, records_in
from tests.simulation.scenario import IN_ORDER, Content, TopicPlan
from tests.simulation.statements import InvariantError, Statements
from tests.simulation.workload import OTHERS

Place = tuple[str, int]


class FoundRecord(NamedTuple):
    """On the target. `value`: as on the source, by which records are known."""

    offset: int
    value: bytes


@dataclass(slots=True)
class Mirrored:
    """The mirror's records in one target partition. `offsets`: theirs on the target, ascending;
    `highest`: for each, the highest source offset up to there; `at`: target offset by source
    offset."""

    offsets: list[int] = field(default_factory=list)
    highest: list[int] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)

    def add(self, source: int, target: int) -> None:
        self.offsets.append(target)
        self.highest.append(max(source, self.highest[-1] if self.highest else -1))
        self.at[source] = target

    def highest_below(self, target: int) -> int:
        """The highest source offset of a record below this target offset; -1 without one."""
        index = bisect_left(self.offsets, target)
        return self.highest[index - 1] if index else -1


class Checks:
    """Of one link from `source` to `target`, with their `aliases`."""

    def __init__(
        self,
        source: KafkaCluster,
        target: KafkaCluster,
        topics: Sequence[TopicPlan],
        aliases: tuple[str, str],
    ) -> None:
        self.source, self.target = source, target
        self.topics, self.aliases = topics, aliases
        # By source partition: all records that readers of the source could see, by offset.
        self.committed: dict[Place, dict[int, bytes]] = {}
        # The same of topics that were replaced meanwhile, oldest first.
        self.past: dict[Place, list[dict[int, bytes]]] = {}
        self.series: dict[Place, list[int]] = {}  # their offsets, ascending
        self.mirrored: dict[Place, Mirrored] = {}  # by source partition, too
        # Source partitions whose records the target has acknowledged and then lost.
        self.lost: dict[Place, None] = {}
        self._offsets: dict[Place, dict[bytes, int]] = {}  # of committed records, by value
        self._seen: dict[Place, object] = {}
        self.statements = Statements(self)

    @property
    def places(self) -> list[tuple[TopicPlan, int]]:
        return [
            (plan, partition)
            for plan in self.topics
            if plan.name in self.source.topics
            for partition in range(len(self.source.topics[plan.name].partitions))
        ]

    def look(self) -> None:
        """Raises InvariantError."""
        for plan, partition in self.places:
            state = self._state(plan, partition)
            if state is not None and self._seen.get((plan.name, partition)) == state:
                continue  # nothing has changed since the last look
            self._seen[plan.name, partition] = state
            known = self._note_source(plan, partition)
            if known and plan.mirrored in self.target.topics:
                self._look_at(plan, partition)
        self.statements.look()

    def _state(self, plan: TopicPlan, partition: int) -> tuple[object, ...] | None:
        """Of both logs; None if one of them has no leader."""
        found: list[object] = []
        for cluster, name in ((self.source, plan.name), (self.target, plan.mirrored)):
            topic = cluster.topics.get(name)
            if topic is None or partition >= len(topic.partitions):
                continue
            try:
                leader = cluster.replica(name, partition)
            except LookupError:
                return None
            marks = [
                (node, each.high_watermark)
                for node in leader.state.replicas
                if (each := cluster.nodes[node].replica_of(topic.id, partition)) is not None
            ]
            log = leader.log
            found += [topic.id, leader.epoch, log.start, log.end, len(log.batches), *marks]
        return tuple(found)

    def replaced(self, topic: str) -> None:
        """The source's topic is about to be recreated, or to lose its tail. Brokers hear of that a
        little later: until then readers may see records that are not yet in all replicas. Raises
        LookupError if a partition has no leader."""
        places = [each for each in self.committed if each[0] == topic]
        logs = [self.source.batches(*place) for place in places]
        for place, log in zip(places, logs, strict=True):
            seen = self.committed.pop(place)
            for batch in log:
                if not batch.is_control and batch.header.records:
                    for record in records_in(batch.raw):
                        seen.setdefault(record.offset, record.value or b"")
            self.past.setdefault(place, []).append(seen)
            self._offsets.pop(place)

    def _source_records(self, plan: TopicPlan, partition: int) -> Iterator[tuple[int, bytes]]:
        """Offsets and values of what readers see and the mirror copies. Raises LookupError."""
        for record in self.source.records(plan.name, partition):
            value: bytes | None = record.value or b""
            if plan.content is Content.TRANSFORMED and value is not None:
                value = transforms.name_on_source(value)
            if value is not None:
                yield record.offset, value

    def _must_remain(self, plan: TopicPlan, partition: int) -> list[bytes]:
        """The values of records that the target must have at the end: each cluster compacts its
        topic at its own time. Raises LookupError."""
        if plan.content is not Content.COMPACTED:
            return [value for _, value in self._source_records(plan, partition)]
        records = self.source.records(plan.name, partition)
        return [each.value or b"" for each in {each.key: each for each in records}.values()]

    def _note_source(self, plan: TopicPlan, partition: int) -> bool:
        """False if it has no leader now."""
        topic = plan.name
        try:
            found = list(self._source_records(plan, partition))
        except LookupError:
            return False
        known = self.committed.setdefault((topic, partition), {})
        offsets = self._offsets.setdefault((topic, partition), {})
        for offset, value in found:
            before = known.setdefault(offset, value)
            if before != value:
                raise InvariantError(f"the source lost {topic}-{partition} at {offset}")
            offsets[value] = offset
        self.series[topic, partition] = sorted(known)
        return True

    def _target_records(self, plan: TopicPlan, partition: int) -> list[FoundRecord] | None:
        """All data records of the mirror in the leader's log, also those that no reader sees."""
        topic = self.target.topics.get(plan.mirrored)
        if topic is None or partition >= len(topic.partitions):
            return None
        try:
            batches = self.target.batches(plan.mirrored, partition)
        except LookupError:
            return None
        plain = (each for each in batches if not each.is_control and each.header.records)
        # Transactions of the target are filler of preserved partitions.
        found = [
            record
            for each in plain
            if not each.header.attributes & 0x10
            for record in records_in(each.raw)
            if not (record.value or b"").startswith(OTHERS)
        ]
        read = transforms.name_on_target if plan.content is Content.TRANSFORMED else bytes
        return [FoundRecord(each.offset, read(each.value or b"")) for each in found]

    def _look_at(self, plan: TopicPlan, partition: int) -> None:
        held = self._target_records(plan, partition)
        if held is None:
            return
        place = plan.name, partition
        where = f"{plan.mirrored}-{partition}"
        for due in self.past.get(place, ()):
            if is_beginning(held, due):
                return  # the mirror stopped, or is about to
        self._look_at_records(plan, where, held, self.committed.get(place, {}))
        offsets = self._offsets.get((plan.name, partition), {})
        mirrored = self.mirrored[plan.name, partition] = Mirrored()
        for record in held:
            mirrored.add(offsets[record.value], record.offset)

    def _look_at_records(
        self, plan: TopicPlan, where: str, held: list[FoundRecord], due: dict[int, bytes]
    ) -> None:
        if plan.content is Content.PRESERVED:
            for record in held:
                if due.get(record.offset) != record.value:
                    raise InvariantError(
                        f"{where}: offset {record.offset} holds {name_of(record.value)}, and"
                        f" {name_of(due.get(record.offset))} on the source"
                    )
            return
        series = [due[offset] for offset in sorted(due)]
        if plan.content in IN_ORDER:
            self._look_at_order(where, held, series)
            return
        for index, record in enumerate(held):
            place = index if plan.content is Content.SHARED else record.offset
            expected = series[place] if place < len(series) else None
            if expected != record.value:
                raise InvariantError(
                    f"{where}: offset {record.offset} holds {name_of(record.value)} where"
                    f" {name_of(expected)} is due"
                )

    def _look_at_order(self, where: str, held: list[FoundRecord], series: list[bytes]) -> None:
        """The source may have lost records before they were mirrored."""
        place = {value: number for number, value in enumerate(series)}
        last = -1
        for record in held:
            number = place.get(record.value, -1)
            if number <= last:
                raise InvariantError(
                    f"{where}: offset {record.offset} holds {name_of(record.value)}, which is no"
                    " record of the source, or comes a second time, or too late"
                )
            last = number

    # -- the end ----------------------------------------------------------------------------------

    def may_stop(self, plan: TopicPlan, partition: int) -> bool:
        """Whether the partition may stop until a person looks at it: its topic was replaced, or it
        keeps its offsets and the target lost records. Then markers may lie in their place."""
        place = plan.name, partition
        return place in self.past or (plan.content is Content.PRESERVED and place in self.lost)

    def missing(self, stopped: Container[Place] = ()) -> list[str]:
        """What the target still lacks, but for `stopped` partitions that may stop."""
        found = []
        for plan, partition in self.places:
            if (plan.name, partition) in stopped and self.may_stop(plan, partition):
                continue
            due = self.committed.get((plan.name, partition), {})
            held = self._target_records(plan, partition)
            if not due and not held:
                continue
            try:
                alive = self._must_remain(plan, partition)
            except LookupError:
                found.append(f"{plan.name}-{partition} has no leader")
                continue
            values = {record.value for record in held or ()}
            left = [value for value in alive if value not in values]
            if left:
                found.append(
                    f"{plan.mirrored}-{partition} lacks {len(left)} records from"
                    f" {name_of(left[0])} on"
                )
        return found


def is_beginning(held: list[FoundRecord], due: dict[int, bytes]) -> bool:
    """Whether a log begins as the earlier one of a topic that was replaced."""
    series = [due[offset] for offset in sorted(due)]
    return bool(held) and [each.value for each in held] == series[: len(held)]


def name_of(value: bytes | None) -> str:
    """Of a record: the first words of its value."""
    return "no record" if value is None else value.rstrip(b"\0").decode().strip()
