"""What must hold at each moment, and at the end: read from the logs of the simulated brokers.

translated     the target's log is a prefix of the source's committed records: each once, in order
preserved      each record of the target has the source's offset; others lie in no record's place
groups         a group of the target has skipped no record that it has not read on the source
"""

from __future__ import annotations

from causeway.records import Record, decode
from tests.simulation.cluster import KafkaCluster
from tests.simulation.kernel import Kernel
from tests.simulation.scenario import Content, Scenario, TopicPlan

Place = tuple[str, int]


class InvariantError(AssertionError):
    """A promise is broken."""


class Checks:
    """Of one link from `source` to `target`."""

    def __init__(
        self, kernel: Kernel, source: KafkaCluster, target: KafkaCluster, scenario: Scenario
    ) -> None:
        self.kernel, self.source, self.target = kernel, source, target
        self.scenario = scenario
        # By source partition: all records that readers of the source could see, by offset.
        self.committed: dict[Place, dict[int, bytes]] = {}

    @property
    def places(self) -> list[tuple[TopicPlan, int]]:
        return [
            (plan, partition)
            for plan in self.scenario.topics
            for partition in range(plan.partitions)
        ]

    def look(self) -> None:
        """Raises InvariantError."""
        for plan, partition in self.places:
            self._note_source(plan.name, partition)
        for plan, partition in self.places:
            if plan.mirrored in self.target.topics:
                self._look_at(plan, partition)

    def _note_source(self, topic: str, partition: int) -> None:
        try:
            found = self.source.records(topic, partition)
        except LookupError:
            return  # it has no leader now
        known = self.committed.setdefault((topic, partition), {})
        for record in found:
            value = record.value or b""
            before = known.setdefault(record.offset, value)
            if before != value:
                raise InvariantError(f"the source lost {topic}-{partition} at {record.offset}")

    def _target_records(self, topic: str, partition: int) -> list[Record] | None:
        """All data records of the leader's log, also those that no reader sees yet."""
        if partition >= len(self.target.topics[topic].partitions):
            return None
        try:
            batches = self.target.batches(topic, partition)
        except LookupError:
            return None
        plain = (each for each in batches if not each.is_control and each.header.records)
        # Transactions of the target are filler of preserved partitions.
        return [
            record
            for each in plain
            if not each.header.attributes & 0x10
            for record in decode(each.raw)
        ]

    def _look_at(self, plan: TopicPlan, partition: int) -> None:
        held = self._target_records(plan.mirrored, partition)
        if held is None:
            return
        due = self.committed.get((plan.name, partition), {})
        where = f"{plan.mirrored}-{partition}"
        if plan.content is Content.PRESERVED:
            for record in held:
                if due.get(record.offset) != record.value:
                    raise InvariantError(
                        f"{where}: offset {record.offset} holds {_name(record.value)}, and"
                        f" {_name(due.get(record.offset))} on the source"
                    )
            return
        series = [due[offset] for offset in sorted(due)]
        if plan.content is Content.COMPACTED:
            self._look_at_order(where, held, series)
            return
        for record in held:
            expected = series[record.offset] if record.offset < len(series) else None
            if expected != record.value:
                raise InvariantError(
                    f"{where}: offset {record.offset} holds {_name(record.value)} where"
                    f" {_name(expected)} is due"
                )

    def _look_at_order(self, where: str, held: list[Record], series: list[bytes]) -> None:
        """Compaction may have removed records of the source before they were mirrored."""
        place = {value: number for number, value in enumerate(series)}
        last = -1
        for record in held:
            number = place.get(record.value or b"", -1)
            if number <= last:
                raise InvariantError(
                    f"{where}: offset {record.offset} holds {_name(record.value)}, which is no"
                    " record of the source, or comes a second time, or too late"
                )
            last = number

    # -- the end ----------------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """What the target still lacks."""
        found = []
        for plan, partition in self.places:
            due = self.committed.get((plan.name, partition), {})
            held: list[Record] | None = None
            if plan.mirrored in self.target.topics:
                held = self._target_records(plan.mirrored, partition)
            if not due and not held:
                continue
            try:
                alive = self.source.records(plan.name, partition)
            except LookupError:
                found.append(f"{plan.name}-{partition} has no leader")
                continue
            values = {record.value for record in held or ()}
            left = [each for each in alive if each.value not in values]
            if left:
                found.append(
                    f"{plan.mirrored}-{partition} lacks {len(left)} records from"
                    f" {_name(left[0].value)} on"
                )
        return found

    def groups(self, names: list[str]) -> list[str]:
        """What groups of the target have skipped. Ends of both logs are the same by now."""
        wrong = []
        for name in names:
            there = self.target.committed(name)
            for (topic, partition), offset in sorted(self.source.committed(name).items()):
                plan = next(each for each in self.scenario.topics if each.name == topic)
                place = plan.mirrored, partition
                if place not in there:
                    continue
                unread = {
                    value for at, value in self.committed[topic, partition].items() if at >= offset
                }
                held = self._target_records(plan.mirrored, partition) or []
                skipped = [
                    each for each in held if each.offset < there[place] and each.value in unread
                ]
                if skipped:
                    wrong.append(
                        f"{name} skips {len(skipped)} records of {plan.mirrored}-{partition}:"
                        f" {_name(skipped[0].value)}"
                    )
        return wrong


def _name(value: bytes | None) -> str:
    """Of a record: the first words of its value."""
    return "no record" if value is None else value.rstrip(b"\0").decode().strip()
