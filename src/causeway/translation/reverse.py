"""Translates target offsets of one course to source offsets, and finds the end of a mirror.

Inside a span of the offset map, and behind its end, records are counted in both logs, as
relay/offset_lookup.py does in the other direction. The record found must be the same on both
sides; otherwise the offset is not exact.

The sequences of the mirror's batches on the target identify the records. The source is read from a
known offset on, as lanes read it. If no mirrored record lies between a known offset and the offset
asked for, reading the target is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from causeway.cluster import Cluster, Content, content_of, log_reader
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import Span
from causeway.model import Pair, TopicPartition
from causeway.records import HEADER, Batch, Record, advance, decode, distance, records_of
from causeway.relay import Sought
from causeway.translation.logs import Check, LinkLogs, MappedCourse
from causeway.translation.values import LOGS_INCOMPLETE, ONLY_A_LANE, MappedOffset, OffsetNote
from causeway.wire import codes

END_NOT_SHOWN = "the logs do not show how far the mirror has come"


def translate(
    mapped: MappedCourse, offsets: Collection[int], logs: LinkLogs
) -> dict[int, MappedOffset]:
    """Translates each target offset. Raises nothing: a failed read is a note on its offset."""
    return _Reverse(mapped, logs).translate(offsets)


class _Reverse:
    def __init__(self, mapped: MappedCourse, logs: LinkLogs) -> None:
        self._mapped = mapped
        self._course = mapped.course
        self._logs = logs
        self._source, self._target = logs.source, logs.target
        self._unreadable = logs.source.unreadable(mapped.course.source.topic)
        if mapped.course.transformed:
            self._unreadable = self._unreadable or ONLY_A_LANE

    def translate(self, offsets: Collection[int]) -> dict[int, MappedOffset]:
        problem = self._mapped.problem
        if problem is not None and problem.other_log:
            return dict.fromkeys(offsets, self._at(None, problem.why, problem.note))
        found: dict[int, MappedOffset] = {}
        unknown: tuple[int, str] | None = None
        if any(offset > self._mapped.end.target for offset in offsets):
            unknown = self._extend_map()
        spans: dict[Span, list[int]] = defaultdict(list)
        for offset in sorted(set(offsets)):
            place = self._mapped.map.place_back(offset)
            if place is None:
                note = "it lies before all that this mirror remembers"
                start = self._source.starts.get(self._course.source)
                found[offset] = self._at(start, OffsetNote.BEFORE, note)
            elif isinstance(place, Span):
                spans[place].append(offset)
            elif offset > self._mapped.end.target:
                found[offset] = self._behind_the_end(offset, place, unknown)
            else:
                found[offset] = self._at(place)
        for span, within in spans.items():
            found |= self._inside(span, within)
        return {offset: self._checked(found[offset]) for offset in sorted(found)}

    def _at(
        self, offset: int | None, why: OffsetNote | None = None, note: str | None = None
    ) -> MappedOffset:
        return MappedOffset(self._course.source, offset, why, note)

    def _extend_map(self) -> tuple[int, str] | None:
        """Adds the records to the map that the target got since the driver's last report. If the
        logs do not show them: the target offset of the first such record, and the reason."""
        end = self._mapped.end
        target_end = self._target.ends.get(self._course.target)
        if self._target.error is not None or target_end is None:
            return end.target, f"the target cannot be read: {self._target.error or 'no answer'}"
        sought = self._sought(Span(end, end), ())
        check, why = self._logs.check, self._unreadable
        try:
            if why is None:
                pair = reached(
                    sought, self._source.cluster, self._target.cluster, target_end, check
                )
                if pair is not None:
                    self._mapped.map.reach(pair)
                    return None
                why = END_NOT_SHOWN
            first = _first_mirrored(sought, self._target.cluster, target_end, check)
        except CausewayError as error:
            return end.target, str(error)
        return None if first is None else (first, why)

    def _behind_the_end(
        self, offset: int, place: int, unknown: tuple[int, str] | None
    ) -> MappedOffset:
        if unknown is not None and offset > unknown[0]:
            transformed = self._course.transformed
            why = OffsetNote.TRANSFORMED if transformed else OffsetNote.UNREACHABLE
            note = f"records on the target since the driver's last report: {unknown[1]}"
            return self._at(place, why, note)
        end = self._target.ends.get(self._course.target)
        if end is not None and offset > end:
            return self._at(place, OffsetNote.BEYOND_END, f"the target ends at {end}")
        return self._at(place)

    def _inside(self, span: Span, offsets: list[int]) -> dict[int, MappedOffset]:
        """For ascending offsets inside `span`."""
        start = span.start.source
        transformed = self._course.transformed
        why = OffsetNote.TRANSFORMED if transformed else OffsetNote.UNREACHABLE
        note = ONLY_A_LANE if transformed else self._unreadable
        there: dict[int, int] = {}
        check = self._logs.check
        try:
            following = _following(self._sought(span, offsets), self._target.cluster, check)
            if self._unreadable is None:
                sought = self._sought(span, ())
                there = _source_offsets(sought, self._source.cluster, following, check)
                why, note = OffsetNote.LOGS_INCOMPLETE, LOGS_INCOMPLETE
            else:  # offsets that need no counting
                there = {o: span.end.source for o, record in following.items() if record is None}
                there |= {
                    o: start for o, record in following.items() if record and not record.before
                }
        except CausewayError as error:
            why, note = OffsetNote.UNREACHABLE, str(error)
        # Each target offset before it is a mirrored record, with a source offset of its own.
        alone = not span.foreign and not self._mapped.map.multiplied
        return {
            offset: self._at(there[offset])
            if offset in there
            else self._at(start + (offset - span.start.target) * alone, why, note)
            for offset in offsets
        }

    def _sought(self, span: Span, offsets: Collection[int]) -> Sought:
        return self._course.sought(span, offsets, read_committed=self._logs.read_committed)

    def _checked(self, found: MappedOffset) -> MappedOffset:
        """Applies what holds for all offsets of the course."""
        start = self._source.starts.get(self._course.source)
        if found.offset is not None and start is not None and found.offset < start:
            note = f"the source's log starts at {start}: it no longer has the earlier records"
            return found._replace(offset=start, why=OffsetNote.RETENTION, note=note)
        problem = self._mapped.problem
        if found.exact and problem is not None:
            return found._replace(why=problem.why, note=problem.note)
        return found


class _Mirrored(NamedTuple):
    """A mirrored record on the target. `before`: the number of mirrored records before it since the
    span's start; `content`: None if compaction has removed the record."""

    before: int
    content: Content | None


def _following(sought: Sought, target: Cluster, check: Check) -> dict[int, _Mirrored | None]:
    """The first mirrored record from each target offset on, None if none follows before the span's
    end. Here `sought.offsets` are target offsets in the span. Raises CausewayError."""
    span = sought.span
    waiting = deque(sought.offsets)
    found: dict[int, _Mirrored | None] = {}
    batches = log_reader.raw_batches(target, sought.target, waiting[0], span.end.target, check)
    for raw in batches:
        fields = HEADER.unpack_from(raw)
        if fields[9] != sought.producer_id:
            continue
        base, last, sequence = int(fields[0]), int(fields[0]) + fields[6], fields[11]
        contents: dict[int, Content] = {}
        while waiting and waiting[0] <= last:
            contents = contents or {each.offset: content_of(each) for each in decode(raw)}
            offset = waiting.popleft()
            at = max(offset, base)
            index = distance(span.start.sequence, advance(sequence, at - base))
            inside = index < span.records
            found[offset] = _Mirrored(index, contents.get(at)) if inside else None
        if not waiting:
            break
    return found | dict.fromkeys(waiting)


def _source_offsets(
    sought: Sought, source: Cluster, records: Mapping[int, _Mirrored | None], check: Check
) -> dict[int, int]:
    """The source offset of each record, by target offset; the span's end for None. Records that
    the logs do not show for certain are missing. Raises CausewayError."""
    end = sought.span.end.source
    found = {offset: end for offset, one in records.items() if one is None}
    left = {offset: one for offset, one in records.items() if one is not None}
    found |= _equal(sought, source, left, 0, check)
    if found.keys() >= records.keys():
        return found
    # Most records that compaction has removed since lie before: count from the span's end.
    gone = sought.span.records - _count(sought, source, check)
    left = {offset: one for offset, one in left.items() if offset not in found}
    return found | (_equal(sought, source, left, gone, check) if gone > 0 else {})


def _equal(
    sought: Sought, source: Cluster, records: Mapping[int, _Mirrored], gone: int, check: Check
) -> dict[int, int]:
    """The records that are the same in the source, if `gone` records before them were removed."""
    known = {offset: one for offset, one in records.items() if one.content is not None}
    there = _records(source, sought, {one.before - gone for one in known.values()}, check)
    return {
        offset: there[one.before - gone][0]
        for offset, one in known.items()
        if one.before - gone in there and there[one.before - gone][1] == one.content
    }


def reached(
    sought: Sought, source: Cluster | None, target: Cluster, target_end: int, check: Check
) -> Pair | None:
    """How far the mirror has come, from the pair `sought.span.start` on, by the target's log up to
    `target_end`: that pair, or a later one. None if the logs do not show it. Raises
    CausewayError."""
    pair = sought.span.start
    last: memoryview | None = None
    for raw in log_reader.raw_batches(target, sought.target, pair.target, target_end, check):
        if HEADER.unpack_from(raw)[9] == sought.producer_id:
            last = raw
    if last is None:
        return pair
    if source is None:
        return None
    fields = HEADER.unpack_from(last)
    sequence = advance(fields[11], fields[6] + 1)
    after = int(fields[0]) + fields[6] + 1
    records = distance(pair.sequence, sequence)
    content = next((content_of(r) for r in decode(last) if r.offset == after - 1), None)
    found = _records(source, sought, {records - 1}, check)
    place, there = found.get(records - 1, (-1, None))
    if there is None or there != content:
        return None
    return Pair(source=place + 1, target=after, sequence=sequence)


def _first_mirrored(sought: Sought, target: Cluster, target_end: int, check: Check) -> int | None:
    """The target offset of the first mirrored record from the pair `sought.span.start` on, up to
    `target_end`."""
    start = sought.span.start.target
    for raw in log_reader.raw_batches(target, sought.target, start, target_end, check):
        fields = HEADER.unpack_from(raw)
        if fields[9] == sought.producer_id:
            return max(int(fields[0]), start)
    return None


def first_relayed(
    source: Cluster,
    at: TopicPartition,
    start: int,
    end: int,
    check: Check,
    *,
    read_committed: bool,
) -> int | None:
    """The first source offset in `start` to `end` - 1 of a record that lanes relay, or None.
    Raises CausewayError, also if the log cannot be read up to `end`."""
    if start >= end:
        return None
    for batch in log_reader.relayed(
        source, at, start, read_committed=read_committed, end=end, check=check
    ):
        if batch.next <= start:
            continue
        offsets = batch.offsets
        first = max(batch.first, start)
        if offsets is not None:
            index = bisect_left(offsets, start)
            if index == len(offsets):
                continue
            first = offsets[index]
        return first if first < end else None
    return None


def _records(
    source: Cluster, sought: Sought, wanted: Collection[int], check: Check
) -> dict[int, tuple[int, Content]]:
    """Source offset and content of the relayed records, by index from the span's start on."""
    waiting = deque(sorted(index for index in wanted if index >= 0))
    found: dict[int, tuple[int, Content]] = {}
    count = 0
    for batch in _relayed(source, sought, check) if waiting else ():
        records: list[Record] = []
        while waiting and waiting[0] < count + batch.records:
            records = records or records_of(batch)
            index = waiting.popleft()
            place = batch.source_offset(index - count)
            found[index] = place, content_of(records[index - count])
        count += batch.records
        if not waiting:
            break
    return found


def _count(sought: Sought, source: Cluster, check: Check) -> int:
    """The number of relayed records that the source still has in the span."""
    end, count = sought.span.end.source, 0
    for batch in _relayed(source, sought, check):
        if batch.next > end:
            inside = (batch.source_offset(index) < end for index in range(batch.records))
            return count + sum(inside)
        count += batch.records
    return count


def _relayed(source: Cluster, sought: Sought, check: Check) -> Iterator[Batch]:
    """The relayed batches from the span's start on; none if the log no longer holds them."""
    try:
        yield from log_reader.relayed(
            source,
            sought.source,
            sought.span.start.source,
            read_committed=sought.read_committed,
            end=sought.span.end.source,
            check=check,
        )
    except BrokerError as error:
        if error.code != codes.OFFSET_OUT_OF_RANGE:
            raise
