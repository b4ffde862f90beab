"""Translates the source offsets of many groups at once, for a task that runs in rounds.

Nearly all answers come from the offset maps in memory. If a map shows only the span of an offset,
the logs are read (lookups.py). Until a look-up has ended, an offset gets the last known target
offset that is at or before the exact one.

If a partition goes through a transform, the records have to be counted behind the transform. The
lane of the partition does this. If several source partitions feed one target partition, the end of
one course may be long before the target's end. Then the records of the others behind it are read
(lookups.py), so that a group that has read everything continues at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from msgspec import structs

from causeway.cluster import EARLIEST, LATEST, Cluster, OffsetAt
from causeway.errors import CausewayError
from causeway.link_topics import Outlet
from causeway.model import TopicPartition, same_topic
from causeway.records import advance
from causeway.translation import lookups
from causeway.translation.counting import Lane
from causeway.translation.course import (
    ByCourse,
    Course,
    CourseKey,
    CourseOffsets,
    Courses,
    shared_by,
)
from causeway.translation.logs import PATIENCE_S, known_offsets
from causeway.translation.lookups import (
    ForeignTails,
    KnownOffsets,
    SpanLookUps,
    SpanResult,
    SpanToRead,
)
from causeway.translation.reverse import BeforeFailback
from causeway.translation.values import BEGINS, LOGS_INCOMPLETE, MappedOffset, OffsetNote

_THREADS = 4  # look-ups at the same time

Wanted = Mapping[TopicPartition, Collection[int]]
_Starts = Mapping[TopicPartition, OffsetAt | CausewayError]


class OffsetTranslator:
    """The translator of one link. Not thread-safe. `fallbacks`: the number of inexact answers.
    `unfinished`: better answers may follow soon, after the last round."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        courses: Courses,
        *,
        read_committed: bool,
        term: Callable[[], int | None],
        lane: Lane,
        before: BeforeFailback | None = None,
        others_write: bool = False,
    ) -> None:
        """`term`: see Leadership.term. `lane` reads a span of a transformed partition. `before`
        translates offsets before a mirror's beginning. `others_write`: programs write to the target
        partitions all the time, so the end of a course is behind their records."""
        self._source, self._target = source, target
        self._courses = courses
        self._term = term
        self._before = before
        self._others_write = others_write
        self._passed_over = False  # this round has new KnownOffsets.later
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="look up")
        self._lookups = SpanLookUps(source, target, pool, term, lane, read_committed=read_committed)
        self._tails = ForeignTails(target, pool)
        self.fallbacks = 0
        self.unfinished = False

    def brought_to(self, course: Course) -> int:
        """See BeforeFailback."""
        return 0 if self._before is None else self._before.brought_to(course)

    def shared(self) -> dict[TopicPartition, Collection[TopicPartition]]:
        """See shared_by."""
        return shared_by(self._courses.courses()) if self._courses.transforms else {}

    def translate(self, wanted: Wanted) -> CourseOffsets:
        """Translates each source offset (or EARLIEST) in `wanted`. Partitions whose keys decide the
        target partition are missing. Raises CausewayError, also if the driver may not lead."""
        found = self._translate(wanted)
        return self._translate(wanted) if self._passed_over else found

    def _translate(self, wanted: Wanted) -> CourseOffsets:
        self.unfinished = self._passed_over = False
        # The term first: courses of a later term do no harm with this term's number.
        term = self._term()
        if term is None:
            raise CausewayError(
                "translate offsets of", "groups", "another driver may lead by now", retriable=True
            )
        # The ends are read before the courses: a new course begins behind these ends.
        ends = known_offsets(self._target, self._looked_behind(wanted), LATEST)
        everything = self._courses.courses()
        courses = {each.key: each for each in everything if each.source in wanted}
        found: ByCourse = {}
        for key, (why, note) in self._untranslatable(courses).items():
            del courses[key]
            none = MappedOffset(key.target, None, why, note)
            found[key] = dict.fromkeys(wanted[key.source], none)
        self._lookups.keep(courses)
        source_starts, target_starts = self._starts(courses)
        spans: dict[SpanToRead, list[int]] = defaultdict(list)
        asked: dict[CourseKey, dict[int, int]] = {}  # if other offsets are translated instead
        for key, course in courses.items():
            start = source_starts[key.source]
            first = start.offset if isinstance(start, OffsetAt) else 0
            offsets: Collection[int] = wanted[key.source]
            known = self._lookups.known_of(
                course, term, (first if one == EARLIEST else one for one in offsets)
            )
            if known.later or EARLIEST in offsets:
                real = {one: first if one == EARLIEST else one for one in offsets}
                asked[key] = {offset: known.later.get(one, one) for offset, one in real.items()}
                offsets = asked[key].values()
            starts = target_starts[key.target], start
            error = next((each for each in starts if isinstance(each, CausewayError)), None)
            by_map = self._by_map(course, offsets, known, error, spans)
            if by_map is not None:
                found[key] = by_map
        self._look_up(spans, found)
        shared = shared_by(everything) if any(each.transformed for each in everything) else {}
        behind = shared if not self._others_write else ends
        ours = {key: course for key, course in courses.items() if key.target in behind}
        self._look_behind(ours, ends, term, found)
        for key in asked.keys() & found.keys():
            found[key] = {offset: found[key][instead] for offset, instead in asked[key].items()}
        return CourseOffsets(_raised_to(target_starts, found), shared)

    def _untranslatable(
        self, courses: Mapping[CourseKey, Course]
    ) -> dict[CourseKey, tuple[OffsetNote, str | None]]:
        """Returns the courses whose offsets may belong to another log than the mirrored one, and
        why; without a note if a lane answers in a moment. The groups' offsets were read before, so
        they are not offsets of a topic that is recreated from now on."""
        sources = self._source.metadata({key.source.topic for key in courses}).topics
        targets = self._target.metadata({key.target.topic for key in courses}).topics
        found: dict[CourseKey, tuple[OffsetNote, str | None]] = {}
        for key, course in courses.items():
            source, target = sources[key.source.topic], targets[key.target.topic]
            if course.stopped:
                note = "it has stopped: its offsets may belong to another log"
                found[key] = OffsetNote.STOPPED, note
            elif (error := source.error or target.error) is not None:
                self.unfinished |= error.retriable
                found[key] = OffsetNote.UNREACHABLE, f"its topic cannot be looked up: {error}"
            elif not (
                same_topic(source.topic_id, course.topic_id)
                and same_topic(target.topic_id, course.outlet.topic_id)
            ):
                found[key] = OffsetNote.RECREATED, "its topic was deleted and recreated"
            elif course.begins:
                found[key] = OffsetNote.NOT_YET, BEGINS
            elif not course.placed:
                self.unfinished = True
                found[key] = OffsetNote.NOT_YET, None
        return found

    def _by_map(
        self,
        course: Course,
        offsets: Collection[int],
        known: KnownOffsets,
        error: CausewayError | None,
        spans: dict[SpanToRead, list[int]],
    ) -> dict[int, MappedOffset] | None:
        """Returns the offsets that the map or an earlier look-up translates; None if there is no
        map. Adds the others to `spans`. `error`: why the logs cannot be read now."""
        key = course.key
        places = self._courses.place(key, offsets)
        if places is None:
            return None
        end = self._courses.end(key) if course.transformed else None
        before = [offset for offset, place in places.items() if place is None]
        earlier = self._before.places(course, before) if self._before and before else {}
        found = {}
        for offset, place in sorted(places.items()):
            if isinstance(place, int):
                there = offset < course.outlet.pair.source if end is None else place < end
                found[offset] = MappedOffset(key.target, place, mirrored=there)
            elif offset in known.targets:
                found[offset] = MappedOffset(key.target, known.targets[offset])
            elif offset in earlier:
                found[offset] = MappedOffset(key.target, earlier[offset])
            elif place is None:
                note = "it is before the first offset that this mirror knows"
                found[offset] = self._inexact(key, None, OffsetNote.BEFORE, note)
            elif error is not None:
                found[offset] = self._unreadable(key, error)
            else:
                spans[SpanToRead(course, known.version, place)].append(offset)
        return found

    def _look_up(self, spans: Mapping[SpanToRead, list[int]], found: ByCourse) -> None:
        ended = self._lookups.look_up(spans)
        for what, offsets in spans.items():
            key, known = what.key, self._lookups.known[what.key]
            earlier = self._lookups.earlier(what, offsets)
            for offset, before in zip(offsets, earlier, strict=True):
                if offset in known.later:
                    self._passed_over = True
                    place = MappedOffset(key.target, what.span.end.target, mirrored=False)
                elif offset in known.targets:
                    place = MappedOffset(key.target, known.targets[offset])
                else:
                    place = self._not_found(what, ended.get((key, offset)), before)
                found[key][offset] = place

    def _not_found(self, what: SpanToRead, result: SpanResult | None, earlier: int) -> MappedOffset:
        if isinstance(result, CausewayError):
            return self._unreadable(what.key, result, earlier if what.course.transformed else None)
        if result is not None:
            why = OffsetNote.LOGS_INCOMPLETE
            return self._inexact(what.key, earlier, why, LOGS_INCOMPLETE)
        self.unfinished = True
        note = "its exact offset is being looked up; until then an earlier one is used"
        return MappedOffset(what.key.target, earlier, OffsetNote.NOT_YET, note)

    def _unreadable(
        self, key: CourseKey, error: CausewayError, earlier: int | None = None
    ) -> MappedOffset:
        self.unfinished |= error.retriable
        note = f"its offset cannot be looked up: {error}"
        return self._inexact(key, earlier, OffsetNote.UNREACHABLE, note)

    def _inexact(
        self, key: CourseKey, offset: int | None, why: OffsetNote, note: str
    ) -> MappedOffset:
        self.fallbacks += 1
        return MappedOffset(key.target, offset, why, note)

    def _look_behind(
        self,
        courses: Mapping[CourseKey, Course],
        ends: Mapping[TopicPartition, int],
        term: int,
        found: ByCourse,
    ) -> None:
        """Handles target partitions that others write to. If a course's records are all read, and
        its next record is not there yet, the next record will be at `ends` or later."""
        due = {
            key: course.outlet
            for key, course in courses.items()
            if any(not place.mirrored for place in found.get(key, {}).values())
        }
        behind = self._at_the_end(due, ends) if self._others_write else {}
        left = {key: outlet for key, outlet in due.items() if key not in behind}
        behind |= self._tails.look(left, ends, term, lookups.ROUND_S)
        self.unfinished |= len(behind) < len(due)
        for key in due:
            for offset, place in found[key].items():
                if place.mirrored or place.offset is None:
                    continue
                if key in behind:
                    raised = max(place.offset, behind[key])
                    found[key][offset] = structs.replace(place, offset=raised)
                else:
                    note = "the records of other partitions behind it are being read"
                    found[key][offset] = structs.replace(place, why=OffsetNote.NOT_YET, note=note)

    def _at_the_end(
        self, due: Mapping[CourseKey, Outlet], ends: Mapping[TopicPartition, int]
    ) -> dict[CourseKey, int]:
        """Returns the ends of the target partitions to which a course has sent all records that we
        know, by the sequence that the brokers remember of its producer. Their logs need not be
        read."""
        last = self._target.last_sequences(sorted({key.target for key in due}))
        found: dict[CourseKey, int] = {}
        for key, outlet in due.items():
            sequences = last[key.target]
            if isinstance(sequences, CausewayError) or outlet.producer_id not in sequences:
                continue
            if advance(sequences[outlet.producer_id], 1) == outlet.pair.sequence:
                found[key] = ends[key.target]
        return found

    def _looked_behind(self, wanted: Wanted) -> list[TopicPartition]:
        """Returns the target partitions whose ends are needed."""
        if not self._others_write:
            return list(self.shared())
        return sorted({each.target for each in self._courses.courses() if each.source in wanted})

    def _starts(self, courses: Collection[CourseKey]) -> tuple[_Starts, _Starts]:
        """Returns the log starts of source and target. Trims the maps to the source's."""
        sources = list(dict.fromkeys(key.source for key in courses))
        starts = self._source.list_offsets(sources, EARLIEST, patience_s=PATIENCE_S)
        self._courses.trim(
            {at: start.offset for at, start in starts.items() if isinstance(start, OffsetAt)}
        )
        targets = list(dict.fromkeys(key.target for key in courses))
        return starts, self._target.list_offsets(targets, EARLIEST, patience_s=PATIENCE_S)


def _raised_to(starts: _Starts, found: ByCourse) -> ByCourse:
    """Raises offsets to the target's log start. A consumer with a lower offset is out of range, and
    might start at the end."""
    for key, offsets in found.items():
        start = starts.get(key.target)
        if isinstance(start, OffsetAt):
            for offset, place in offsets.items():
                if place.offset is not None and place.offset < start.offset:
                    offsets[offset] = structs.replace(place, offset=start.offset)
    return found
