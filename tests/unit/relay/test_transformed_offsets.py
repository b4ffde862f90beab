"""Offsets where a transform drops, multiplies and routes records: what lanes report, the map that
the driver makes of it, and the look-ups, against a model that knows where each record went."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.cluster import Cluster
from causeway.link_topics import OffsetMap, Outlet, Span
from causeway.link_topics.offset_map import decode, encode
from causeway.model import Pair, TopicPartition
from causeway.records import Batch, advance, build, records_of
from causeway.records import decode as records_in
from causeway.relay import Sought
from causeway.relay import offset_lookup as lookup
from causeway.relay.lane.outlet import OutletState
from tests.harness.examples import examples
from tests.harness.raw_batches import ABORT, Rec, marker
from tests.harness.world import FOREIGN, SOURCE, SOURCE_ID, TARGET, TARGET_ID, FakeCluster, Log

OURS = 1000
MANY = settings(max_examples=examples(150), deadline=None)


@dataclass
class Mirror:
    """A source partition, what each of its records becomes (outlets, by offset), and what became of
    one outlet: the source offset and the place of each of its records, and what is known of it."""

    source: Log = field(default_factory=Log)
    becomes: dict[int, list[int]] = field(default_factory=dict)
    target: Log = field(default_factory=Log)
    places: list[tuple[int, int]] = field(default_factory=list)
    known: OffsetMap = field(default_factory=OffsetMap)
    most: int = 1000  # points in it
    begins: int = 0  # the target's end before the first

    def series(self, batches: Iterator[Batch], outlet: int = 0) -> Iterator[Batch]:
        """What `batches` become for `outlet`, in batches cut as it happens."""
        for batch in batches:
            records, offsets = [], []
            for index, record in enumerate(records_of(batch)):
                offset = batch.source_offset(index)
                for at in self.becomes[offset]:
                    if at == outlet:
                        records.append(record)  # all alike: only counting tells them apart
                        offsets.append(offset)
            if records:
                yield build(
                    records,
                    codec=0,
                    first=offsets[0],
                    next=batch.next,
                    leader_epoch=0,
                    offsets=offsets,
                )

    def truth(self, offset: int) -> int:
        """Where the first record from source offset `offset` on lies, or else the end of ours."""
        at = bisect_left(self.places, (offset, -1))
        if at < len(self.places):
            return self.places[at][1]
        return self.places[-1][1] + 1 if self.places else self.begins

    def translate(self, offset: int) -> int | None:
        """As the driver does it."""
        place = self.known.place(offset)
        if not isinstance(place, Span):
            return place
        sought = Sought(
            source=SOURCE,
            target=TopicPartition(TARGET, 0),
            producer_id=OURS,
            read_committed=True,
            span=place,
            offsets=[offset],
        )
        source = FakeCluster("t", SOURCE_ID, {0: self.source}, compacted=False)
        target = FakeCluster(TARGET, TARGET_ID, {0: self.target}, compacted=False)
        if offset <= place.start.source:
            return lookup.find_start(sought, cast(Cluster, target)).get(offset)
        answer = lookup.find(
            sought, cast(Cluster, source), cast(Cluster, target), lambda: True, self.series
        )
        found = answer.get(offset)
        # Nothing follows in the span.
        return self.translate(place.end.source) if found == place.end.target else found


@st.composite
def mirrors(draw: st.DrawFn, *, most: int, foreign: bool) -> Mirror:
    """`most`: records that one becomes, for this outlet."""
    it = Mirror()
    for _ in range(draw(st.integers(1, 6))):
        size, first = draw(st.integers(1, 6)), it.source.end
        aborted = draw(st.integers(0, 4)) == 0
        # Two that follow each other may be the same but for their offsets.
        records = [
            Rec(offset=first + n, timestamp=7, value=b"%d" % draw(st.integers(0, 1)))
            for n in range(size)
            if draw(st.integers(0, 5))
        ]
        it.source.append(records, size, producer_id=5, epoch=0, sequence=0, transactional=aborted)
        if aborted:
            it.source.batches.append(
                (it.source.end, it.source.end, marker(it.source.end, 5, ABORT))
            )
            it.source.aborted.append((5, first, it.source.end))
            it.source.end += 1
            continue
        for record in records:
            ours = [0] * draw(st.integers(0, most))
            others = [1] * draw(st.integers(0, 1))
            it.becomes[record.offset] = draw(st.permutations(ours + others))
    _relay(draw, it, multiplied=most > 1, foreign=foreign)
    return it


def _relay(draw: st.DrawFn, it: Mirror, *, multiplied: bool, foreign: bool) -> None:
    """A lane sends the outlet's records, cut between source records; the driver hears of it now
    and then, or is another one that has an older map."""
    records = {
        record.offset: record
        for record in _all(it.source)
        if record.offset in it.becomes and 0 in it.becomes[record.offset]
    }
    if foreign:
        _others(draw, it.target)
    it.begins = it.target.end
    left = sorted(records)
    pair = Pair(draw(st.integers(0, left[0] if left else 0)), it.begins, 0)
    start = draw(st.sampled_from([0, 2**31 - 3]))
    pair = pair._replace(sequence=start)
    outlet = OutletState.of(_outlet(pair))
    it.most = draw(st.sampled_from([3, 6, 1000]))
    it.known = OffsetMap([pair], most=it.most, multiplied=multiplied, since=0)
    while left:
        count = draw(st.integers(1, len(left)))
        now, left = left[:count], left[count:]
        following = draw(st.integers(now[-1] + 1, left[0] if left else it.source.end))
        offsets = [offset for offset in now for each in it.becomes[offset] if each == 0]
        if foreign and draw(st.booleans()):
            _others(draw, it.target)
        base = it.target.end
        there = [
            Rec(offset=base + n, timestamp=7, value=records[offset].value)
            for n, offset in enumerate(offsets)
        ]
        sequence = outlet.sequence
        it.target.append(there, producer_id=OURS, epoch=0, sequence=sequence)
        it.places += [(offset, base + n) for n, offset in enumerate(offsets)]
        batch = Batch(
            payload=b"",
            codec=0,
            base_timestamp=7,
            max_timestamp=7,
            records=len(offsets),
            first=offsets[0],
            next=following,
            leader_epoch=0,
            offsets=offsets,
        )
        outlet.acknowledged(outlet.sent(batch), base)
        assert outlet.sequence == advance(sequence, len(offsets))
        _report(draw, it, outlet, multiplied)
    it.known.reach(outlet.pair)
    if foreign:
        _others(draw, it.target)


def _report(draw: st.DrawFn, it: Mirror, outlet: OutletState, multiplied: bool) -> None:
    what = draw(st.sampled_from(["nothing", "all", "lost", "another driver"]))
    if what == "nothing":
        return
    trace = outlet.trace()
    if what == "another driver":
        points = decode(encode(it.known.points))
        it.known = OffsetMap(points, most=it.most, multiplied=multiplied, since=0)
    for point in trace.breaks if what == "all" else ():
        it.known.add(point)
    it.known.reach(outlet.pair)


def _others(draw: st.DrawFn, log: Log) -> None:
    count = draw(st.integers(1, 3))
    others = [Rec(offset=log.end + n, timestamp=7, value=b"0") for n in range(count)]
    log.append(others, producer_id=FOREIGN, epoch=0, sequence=log.end)


def _all(log: Log) -> Iterator[Rec]:
    for _, _, raw in log.batches:
        for record in records_in(raw):
            yield Rec(offset=record.offset, timestamp=7, value=record.value)


def _outlet(pair: Pair) -> Outlet:
    return Outlet(
        topic=TARGET,
        partition=0,
        topic_id=TARGET_ID,
        producer_id=OURS,
        producer_epoch=0,
        pair=pair,
        exclusive=False,
    )


def check(it: Mirror) -> None:
    for offset in range(it.source.end + 2):
        assert it.translate(offset) == it.truth(offset), offset


@MANY
@given(mirrors(most=1, foreign=False))
def test_where_records_are_dropped(it: Mirror) -> None:
    check(it)


@MANY
@given(mirrors(most=3, foreign=False))
def test_where_one_becomes_several_or_none(it: Mirror) -> None:
    """Also where as many were dropped as were added: counts agree by chance."""
    check(it)


@MANY
@given(mirrors(most=3, foreign=True))
def test_where_others_feed_the_same_target(it: Mirror) -> None:
    check(it)


def test_one_dropped_and_one_doubled_are_not_two_that_stay() -> None:
    points = [Pair(0, 0, 0), Pair(2, 2, 2)]
    assert OffsetMap(points).place(1) == 1
    span = OffsetMap(points, multiplied=True).place(1)
    assert span == Span(*points), "it has to be looked up"


def test_what_comes_before_the_first_record_of_an_outlet() -> None:
    """It began to be fed at source offset 70, where others had written 30 records. Whether an
    earlier transform fed it from below 50 is not known."""
    points = [Pair(70, 30, 0), Pair(90, 50, 20)]
    known = OffsetMap(points, since=50)
    assert (known.place(69), known.place(50), known.place(49)) == (30, 30, None)
    assert OffsetMap(points).place(69) is None
    known.trim(80)
    assert known.place(60) == 30, "the first point stays"
    known = OffsetMap([*points, Pair(200, 300, 20)], since=50)
    known.trim(100)
    assert known.place(60) is None, "nobody remembers what was there"
