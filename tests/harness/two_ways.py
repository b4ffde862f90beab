"""A model of one topic that programs write on two clusters, mirrored both ways with headers.

It knows which record of one log is a copy of which record of the other log. Each side writes plain
records, transactions and gaps; each link copies a prefix of the other side's own records, between
the records that programs write there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from causeway.cluster import OffsetAt
from causeway.config import TreatmentSettings
from causeway.control import with_treatments
from causeway.link_topics import OffsetMapRecord, Outlet, PartitionProgress, ProgressContents
from causeway.model import Pair, State, TopicPartition
from causeway.records import advance
from causeway.relay.treatment import ORIGIN
from tests.harness.raw_batches import ABORT, COMMIT, Rec, marker
from tests.harness.world import FakeCluster, Log

TOPIC = "t"
AT = TopicPartition(TOPIC, 0)
IDS = {"A": "a" * 32, "B": "b" * 32}
PRODUCERS = {"A": 1001, "B": 1002}  # of the link that brings the records of this cluster


def other(alias: str) -> str:
    return "B" if alias == "A" else "A"


class SharedCluster(FakeCluster):
    """A fake cluster that others write to."""

    def __init__(self, alias: str, log: Log) -> None:
        super().__init__(TOPIC, IDS[alias], {0: log}, compacted=False)

    def list_offsets(
        self,
        places: Collection[TopicPartition],
        timestamp: int,
        read_committed: bool = False,
        **_: Any,
    ) -> dict[TopicPartition, OffsetAt]:
        return super().list_offsets(places, timestamp, read_committed)


@dataclass
class Side:
    """One cluster. `own`: the records of its programs that are relayed; `copies`: the offsets here
    of copies of the other side's own records, in order. `begun`: the claim of the link from here
    began at this offset, and no earlier record is relayed."""

    alias: str
    first_sequence: int = 0
    log: Log = field(default_factory=Log)
    own: list[Rec] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    begun: int = 0
    last_sequence: int | None = None  # of the copies
    remembers: bool = False  # its broker has not forgotten the producer of the copies

    def cluster(self) -> SharedCluster:
        found = SharedCluster(self.alias, self.log)
        if self.remembers and self.last_sequence is not None:
            found.remembered = {0: {PRODUCERS[other(self.alias)]: self.last_sequence}}
        return found

    def write(self, gaps: list[bool], fate: str) -> None:
        log = self.log
        first = log.end
        records = [
            Rec(
                offset=first + index,
                timestamp=1_600_000_000_000 + first + index,
                value=f"{self.alias}{first + index}".encode(),
            )
            for index, gap in enumerate(gaps)
            if not gap
        ]
        log.append(
            records, len(gaps), producer_id=5, epoch=0, sequence=0, transactional=fate != "plain"
        )
        if fate != "plain":
            kind = ABORT if fate == "aborted" else COMMIT
            log.batches.append((log.end, log.end, marker(log.end, 5, kind)))
            if kind == ABORT:
                log.aborted.append((5, first, log.end))
            log.end += 1
        if fate != "aborted":
            self.own += records

    def bring(self, source: Side, count: int) -> None:
        """The link from `source` copies up to `count` more records."""
        done = len(self.copies)
        mark = ORIGIN, f"{source.alias}/{TOPIC}".encode()
        records = [
            replace(each, offset=self.log.end + index, headers=[mark])
            for index, each in enumerate(source.own[done : done + count])
        ]
        if records:
            self.log.append(
                records,
                producer_id=PRODUCERS[source.alias],
                epoch=0,
                sequence=advance(source.first_sequence, done),
            )
            self.copies += [each.offset for each in records]
            self.last_sequence = advance(source.first_sequence, len(self.copies) - 1)


@dataclass
class TwoWays:
    a: Side
    b: Side

    def side(self, alias: str) -> Side:
        return self.a if alias == "A" else self.b

    def pair(self, source: str, index: int, *, late: bool = False) -> Pair:
        """A true pair of the link from `source` at its record `index`: as early as possible, or as
        late as possible."""
        here, there = self.side(source), self.side(other(source))
        own, copies = here.own, there.copies
        sequence = advance(here.first_sequence, index)
        if not late:
            before = own[index - 1].offset + 1 if index else here.begun
            return Pair(before, copies[index - 1] + 1 if index else 0, sequence)
        at = own[index].offset if index < len(own) else here.log.end
        return Pair(at, copies[index] if index < len(copies) else there.log.end, sequence)

    def read(self, on: str, position: int) -> set[tuple[str, int]]:
        """The records, by side and index, that a group has read before `position` on one side."""
        here, there = self.side(on), other(on)
        own = {(on, index) for index, each in enumerate(here.own) if each.offset < position}
        return own | {(there, index) for index, at in enumerate(here.copies) if at < position}

    def places(self, on: str) -> dict[tuple[str, int], int]:
        """The offset of each record on one side."""
        here = self.side(on)
        own = {(on, index): each.offset for index, each in enumerate(here.own)}
        return own | {(other(on), index): at for index, at in enumerate(here.copies)}

    def first_unread(self, read: set[tuple[str, int]], on: str) -> int:
        """The best place of a group on one side: its first record that is not in `read`."""
        places = self.places(on)
        return min(
            (at for one, at in places.items() if one not in read), default=self.side(on).log.end
        )

    def first_copy_unread(self, position: int, source: str) -> int:
        """Where a group at `position` on `source` continues by the link from there alone: its first
        unread record of that side, or the end of the other log."""
        copies = self.side(other(source)).copies
        own = self.side(source).own
        unread = (at for each, at in zip(own, copies, strict=False) if each.offset >= position)
        return next(unread, self.side(other(source)).log.end)

    def contents(self, source: str, points: Mapping[int, bool]) -> ProgressContents:
        """The progress of the link from `source`. `points`: the records (by index) that its map
        knows, and whether as `late` pairs; the last one is its pair."""
        target = other(source)
        pairs = [self.pair(source, index, late=points[index]) for index in sorted(points)]
        outlet = Outlet(
            topic=TOPIC,
            partition=0,
            topic_id=IDS[target],
            producer_id=PRODUCERS[source],
            producer_epoch=0,
            pair=pairs[-1],
            exclusive=False,
        )
        progress = PartitionProgress(
            topic=TOPIC,
            partition=0,
            topic_id=IDS[source],
            leader_epoch=0,
            position=pairs[-1].source,
            outlets=(outlet,),
            transform=with_treatments(None, [provenance(source)]),
            state=State.RUNNING,
        )
        record = OffsetMapRecord(
            topic=TOPIC,
            partition=0,
            producer_id=outlet.producer_id,
            points=tuple(pairs),
            since=0 if points.get(0) is False else None,
        )
        return ProgressContents(partitions={AT: progress}, maps={AT: {None: record}})


def provenance(source: str) -> TreatmentSettings:
    """Of the link from `source`."""
    decides = {"source": source, "target": other(source)}
    return TreatmentSettings(kind="provenance", decides=decides, text="")


@st.composite
def two_ways(draw: st.DrawFn, *, steps: int = 24, early: bool = False) -> TwoWays:
    """`early`: B has records from before the claim of its link."""
    sequences = st.sampled_from([0, 2**31 - 5, 2**31 - 1])
    world = TwoWays(Side("A", draw(sequences)), Side("B", draw(sequences)))
    for side in (world.a, world.b):
        side.remembers = draw(st.booleans())
    if early:
        world.b.write([False] * draw(st.integers(1, 3)), "plain")
        world.b.begun = world.b.log.end
        world.b.own.clear()
    for _ in range(draw(st.integers(1, steps))):
        here = world.side(draw(st.sampled_from("AB")))
        if draw(st.booleans()):
            gaps = draw(st.lists(st.integers(0, 3).map(lambda n: n == 0), min_size=1, max_size=4))
            here.write(gaps, draw(st.sampled_from(["plain", "plain", "committed", "aborted"])))
        else:
            here.bring(world.side(other(here.alias)), draw(st.integers(1, 5)))
    return world
