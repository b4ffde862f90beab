"""A topic, its mirror, and the lanes between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from causeway.model import State
from tests.harness.kafka_tools import KafkaTools, Record
from tests.harness.lanes import LaneDriver
from tests.harness.waiting import await_until

FOREVER = {"retention.ms": "-1"}


@dataclass
class Mirror:
    driver: LaneDriver
    source: KafkaTools
    target: KafkaTools
    topic: str
    name: str

    def create(
        self,
        partitions: int = 1,
        target_partitions: int | None = None,
        *,
        config: Mapping[str, str] = FOREVER,
        target_config: Mapping[str, str] | None = None,
    ) -> None:
        self.source.create_topic(self.topic, partitions, config=config)
        self.target.create_topic(
            self.name, target_partitions or partitions, config=target_config or FOREVER
        )

    def claim(self, **more: object) -> None:
        self.driver.claim(self.topic, self.name, **more)  # type: ignore[arg-type]

    def run(self, number: int = 0, *, read_committed: bool = True, **claim: object) -> None:
        """Mirror what is there, and end in good order."""
        if not self.driver.assignments:
            self.claim(read_committed=read_committed, **claim)
        self.driver.start_lane(number)
        self.await_mirrored(read_committed=read_committed)
        self.driver.drain(number)

    def await_mirrored(
        self,
        *,
        read_committed: bool = True,
        partitions: Sequence[int] | None = None,
        timeout: float = 60,
    ) -> None:
        """Until the source, as it ends now, is mirrored, says a lane."""
        ends = self.source.offsets(self.topic, read_committed=read_committed)
        wanted = ends if partitions is None else partitions
        self.driver.await_position({(self.topic, p): ends[p] for p in wanted}, timeout)

    def await_state(self, state: State, partition: int = 0, timeout: float = 60) -> str:
        """Until a lane reports `state`; its reason."""

        def reason() -> str:
            report = self.driver.reports.get(("A->B", self.topic, partition))
            return f": {report.reason}" if report and report.state is state else ""

        return await_until(reason, timeout, f"{state} of partition {partition}")

    def assert_same(
        self,
        *,
        read_committed: bool = True,
        partitions: Sequence[int] | None = None,
        why: str = "",
    ) -> dict[int, list[Record]]:
        """Equal but for offsets, for both kinds of readers of the mirror. Returns the latter."""
        wanted = self.source.read(self.topic, partitions, read_committed=read_committed)
        found: dict[int, list[Record]] = {}
        for level in (True, False):
            found = self.target.read(self.name, partitions, read_committed=level)
            for partition, records in wanted.items():
                same = [r.content for r in found[partition]] == [r.content for r in records]
                assert same, (
                    f"{self.name}-{partition}, readers with read_committed={level}: "
                    f"{difference(records, found[partition])} {why}"
                )
        return found

    def assert_same_offsets(self, *, read_committed: bool = True, why: str = "") -> int:
        """Both kinds of readers of the mirror see the source's records at the source's offsets, and
        both logs end at the same offset. Returns how many records there are."""
        wanted = self.source.read(self.topic, read_committed=read_committed)
        for level in (True, False):
            found = self.target.read(self.name, read_committed=level)
            for partition, records in wanted.items():
                assert by_offset(found[partition]) == by_offset(records), (
                    f"{self.name}-{partition}, readers with read_committed={level}: "
                    f"{difference(records, found[partition])} {why}"
                )
        assert self.target.offsets(self.name) == self.source.offsets(self.topic), why
        return sum(map(len, wanted.values()))


def by_offset(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """All that a mirror that keeps offsets must keep; the broker may have set the source's time."""
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


def difference(wanted: Sequence[Record], found: Sequence[Record]) -> str:
    """What a person wants to know of two unequal logs, in a line."""
    place = next(
        (
            i
            for i, (one, other) in enumerate(zip(wanted, found, strict=False))
            if one.content != other.content
        ),
        min(len(wanted), len(found)),
    )
    contents = {r.content for r in wanted}, {r.content for r in found}
    return (
        f"{len(wanted)} records wanted, {len(found)} found, the first difference at {place}: "
        f"{wanted[place : place + 1]} {found[place : place + 1]}; "
        f"{len(contents[0] - contents[1])} missing, {len(contents[1] - contents[0])} unknown, "
        f"{len(found) - len(contents[1])} repeated"
    )
