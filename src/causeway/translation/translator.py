"""From a source offset to the exact target offset, for as many as are asked at once.

Nearly all come from the offset maps in memory. Where a map says only in which span an offset lies,
the logs are read, once for all offsets of that span, and the answer is remembered for as long as
somebody keeps asking for it and the target keeps what it has acknowledged. A span that takes long
to read is read on while the others get their answers, and its own come with a later round. A group
that has moved by then gets the place where it was: it is at or before the true one, and near it.

Where a transform lies between the logs, what the source's records become has to be counted: the
lane that has the partition is asked. Where several source partitions feed one target partition, an
offset at the end of what one of them has sent may lie long before the target's end. What others
have sent behind it is looked through, so that a group which has read all stands at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import EARLIEST, LATEST, OffsetAt
from causeway.daemon.lanes.lookups import LookUps
from causeway.daemon.partitions.discovery import Sides
from causeway.daemon.partitions.mirrored import Feed, Mirrored
from causeway.daemon.partitions.registry import Registry
from causeway.errors import CausewayError
from causeway.link_topics.offset_map import Span
from causeway.model import TopicPartition, same_topic
from causeway.translation import lookup
from causeway.translation.foreign_tail import Tails
from causeway.translation.lookup import Sought
from causeway.translation.lookup_cache import Known, Version, remember
from causeway.translation.places import Place, Translation, shared_by, within

_LOOKUPS = 4  # at once
_PATIENCE_S = 3.0  # with partitions that have no leader; nobody waits for more
_LOOKUPS_S = 10.0  # so long a round waits for what has to be read

Wanted = Mapping[TopicPartition, Collection[int]]
Answer = dict[int, int] | CausewayError


class _Stretch(NamedTuple):
    """What one look-up reads."""

    at: Feed
    version: Version
    span: Span
    transformed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookUp:
    stretch: _Stretch
    offsets: Collection[int]
    answer: Future[Answer]


# What look-ups that have ended in this round say, by what they were asked for.
_Told = dict[tuple[Feed, int], Answer]


class Translator:
    """Of one link. Not thread-safe. `fallbacks` counts the answers that were not exact;
    `unfinished`: of the last round, there may be better ones soon."""

    def __init__(
        self,
        sides: Sides,
        registry: Registry,
        *,
        link: str,
        read_committed: bool,
        term: Callable[[], int | None],
        lookups: LookUps,
    ) -> None:
        """`term`: see Leadership.term. Look-ups under way end with theirs."""
        self._link = link
        self._sides = sides
        self._registry = registry
        self._read_committed = read_committed
        self._term = term
        self._lookups = lookups
        self._known: dict[Feed, Known] = {}
        self._passed_over = False  # see Known.later: in this round
        self._pool = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="look up")
        self._under_way: dict[Feed, list[_LookUp]] = {}
        self._tails = Tails(sides.target, self._pool)
        self.fallbacks = 0
        self.unfinished = False

    def shared(self) -> dict[TopicPartition, set[TopicPartition]]:
        """See Translation."""
        return shared_by(self._registry.fed()) if self._registry.transforms else {}

    def translate(self, wanted: Wanted) -> Translation:
        """A place for each source offset (or EARLIEST) in `wanted`; partitions that go by key
        are missing. Raises CausewayError, also where we do not surely lead."""
        translation = self._translate(wanted)
        return self._translate(wanted) if self._passed_over else translation

    def _translate(self, wanted: Wanted) -> Translation:
        self.unfinished = self._passed_over = False
        # Before the partitions: those of a later term do no harm under this one's number.
        term = self._term()
        if term is None:
            raise CausewayError(
                "translate offsets of", "groups", "another driver may lead by now", retriable=True
            )
        # Before those who feed them: who begins to do so later begins behind these ends.
        ends = self._ends(self.shared())
        fed = self._registry.fed()
        found: dict[Feed, dict[int, Place]] = {}
        mirrored = {m.feed: m for m in fed if m.source in wanted}
        for at, note in self._unspoken(mirrored).items():
            del mirrored[at]
            found[at] = dict.fromkeys(wanted[at.source], Place(None, note))
        self._known = {at: known for at, known in self._known.items() if at in mirrored}
        begins = self._trim(mirrored)
        starts = self._target_starts(mirrored)
        stretches: dict[_Stretch, list[int]] = defaultdict(list)
        asked: dict[Feed, dict[int, int]] = {}
        for at, partition in mirrored.items():
            begin = begins[at.source]
            version = Version.of(partition, term)
            from_begin = {offset: _from(begin, offset) for offset in wanted[at.source]}
            self._known[at] = known = remember(self._known.get(at), version, from_begin.values())
            asked[at] = {offset: known.later.get(one, one) for offset, one in from_begin.items()}
            places = self._registry.place(at, asked[at].values())
            if places is None:
                continue
            found[at] = {}
            end = self._registry.end(at) if partition.transformed else None
            start = starts[at]
            error = next((e for e in (start, begin) if isinstance(e, CausewayError)), None)
            for offset, place in sorted(places.items()):
                if isinstance(place, int):
                    there = offset < partition.outlet.pair.source if end is None else place < end
                    found[at][offset] = Place(place, mirrored=there)
                elif offset in known.places:
                    found[at][offset] = Place(known.places[offset])
                elif place is None:
                    found[at][offset] = self._fall_back(
                        None, "it lies before all that this mirror remembers"
                    )
                elif error is not None:
                    found[at][offset] = self._not_now(error)
                else:
                    stretch = _Stretch(at, version, place, partition.transformed)
                    stretches[stretch].append(offset)
        self._look_up(mirrored, stretches, found)
        shared = shared_by(fed) if any(each.transformed for each in fed) else {}
        ours = {at: partition for at, partition in mirrored.items() if at.target in shared}
        self._look_behind(ours, ends, term, found)
        for at in mirrored.keys() & found.keys():
            found[at] = {offset: found[at][instead] for offset, instead in asked[at].items()}
        return Translation(within(starts, found), shared)

    def _unspoken(self, mirrored: Mapping[Feed, Mirrored]) -> dict[Feed, str | None]:
        """Where an offset may be of another log than the one that was mirrored, and why; without a
        reason where a lane will tell in a moment. Asked after the offsets themselves: what stands
        in a topic made anew since then is not among them."""
        sources = self._sides.source.metadata({at.source.topic for at in mirrored}).topics
        targets = self._sides.target.metadata({m.target.topic for m in mirrored.values()}).topics
        unspoken: dict[Feed, str | None] = {}
        for at, partition in mirrored.items():
            source, target = sources[at.source.topic], targets[at.target.topic]
            if partition.stopped:
                unspoken[at] = "it has stopped: what an offset there stands for is not certain"
            elif (error := source.error or target.error) is not None:
                self.unfinished |= error.retriable
                unspoken[at] = f"its topic cannot be looked up: {error}"
            elif not (
                same_topic(source.topic_id, partition.topic_id)
                and same_topic(target.topic_id, partition.outlet.topic_id)
            ):
                unspoken[at] = "its topic was made anew"
            elif not partition.placed:
                self.unfinished = True
                unspoken[at] = None
        return unspoken

    def _look_up(
        self,
        mirrored: Mapping[Feed, Mirrored],
        stretches: Mapping[_Stretch, list[int]],
        found: dict[Feed, dict[int, Place]],
    ) -> None:
        told = self._take_ended()
        # What is quickly read comes first.
        for stretch in sorted(stretches, key=lambda s: s.span.end.source - s.span.start.source):
            # A group that moves waits for the one under way, or there would be ever more of them.
            offsets = [
                offset
                for offset in stretches[stretch]
                if (stretch.at, offset) not in told and not self._reading(stretch, offset)
            ]
            if offsets:
                (floor,) = self._earlier(stretch, offsets[:1])
                answer = self._pool.submit(
                    self._find, mirrored[stretch.at], stretch, offsets, floor
                )
                self._under_way.setdefault(stretch.at, []).append(
                    _LookUp(stretch=stretch, offsets=offsets, answer=answer)
                )
        awaited = {
            answer
            for stretch, offsets in stretches.items()
            for offset in offsets
            for answer in self._reading(stretch, offset)
        }
        wait(awaited, _LOOKUPS_S)
        told |= self._take_ended()
        for stretch, offsets in stretches.items():
            known = self._known[stretch.at]
            for offset, earlier in zip(offsets, self._earlier(stretch, offsets), strict=True):
                if offset in known.later:
                    self._passed_over = True
                    place = Place(stretch.span.end.target, mirrored=False)
                elif offset in known.places:
                    place = Place(known.places[offset])
                else:
                    place = self._not_found(told.get((stretch.at, offset)), earlier, stretch)
                found[stretch.at][offset] = place

    def _reading(self, stretch: _Stretch, offset: int) -> list[Future[Answer]]:
        """The look-ups under way that read what tells of `offset` in `stretch`. Spans have grown
        since where the map was thinned out."""
        at = max(offset, stretch.span.start.source)  # no relayed record lies between the two
        return [
            each.answer
            for each in self._under_way.get(stretch.at, ())
            if each.stretch.version == stretch.version
            and each.stretch.span.start.source <= at < each.stretch.span.end.source
        ]

    def _take_ended(self) -> _Told:
        """Of the look-ups that are no longer under way; what they have found is known from here
        on."""
        told: _Told = {}
        for at, look_ups in list(self._under_way.items()):
            ended = [each for each in look_ups if each.answer.done()]
            self._under_way[at] = [each for each in look_ups if each not in ended]
            if not self._under_way[at]:
                del self._under_way[at]
            known = self._known.get(at)
            for each in ended:
                if known is not None and each.stretch.version == known.version:
                    answer = each.answer.result()
                    told |= {(at, offset): answer for offset in each.offsets}
                    if not isinstance(answer, CausewayError):
                        end = each.stretch.span.end
                        for offset, place in answer.items():
                            if each.stretch.transformed and place == end.target:
                                known.later[offset] = end.source
                            else:
                                known.places[offset] = place
        return told

    def _earlier(self, stretch: _Stretch, offsets: Collection[int]) -> list[int]:
        """Of each offset, the last place that is known to be at or before its own."""
        known, start = self._known[stretch.at], stretch.span.start.target
        nearest = known.nearest(offsets)
        return [start if each is None else max(start, known.places[each]) for each in nearest]

    def _not_found(self, told: Answer | None, earlier: int, stretch: _Stretch) -> Place:
        if isinstance(told, CausewayError):
            return self._not_now(told, earlier if stretch.transformed else None)
        if told is not None:
            return self._fall_back(earlier, "the logs no longer tell its exact place")
        self.unfinished = True
        note = "its exact place is being looked up; until then an earlier one"
        return Place(earlier, note)

    def _find(
        self, partition: Mirrored, stretch: _Stretch, offsets: list[int], floor: int
    ) -> Answer:
        sought = Sought(
            source=partition.source,
            target=partition.target,
            producer_id=partition.outlet.producer_id,
            read_committed=self._read_committed,
            span=stretch.span,
            offsets=offsets,
            floor=floor,
        )

        def go_on() -> bool:
            return self._term() == stretch.version.term

        try:
            if not partition.transformed:
                return lookup.find(sought, self._sides.source, self._sides.target, go_on)
            if max(offsets) <= stretch.span.start.source:
                return lookup.find_start(sought, self._sides.target, go_on)
            return self._lookups.find((self._link, *partition.source), sought)
        except CausewayError as error:
            return error  # of one partition, on which the others do not wait

    def _not_now(self, error: CausewayError, earlier: int | None = None) -> Place:
        self.unfinished |= error.retriable
        return self._fall_back(earlier, f"its place cannot be looked up: {error}")

    def _fall_back(self, target: int | None, note: str) -> Place:
        self.fallbacks += 1
        return Place(target, note)

    def _look_behind(
        self,
        mirrored: Mapping[Feed, Mirrored],
        ends: Mapping[TopicPartition, int],
        term: int,
        found: dict[Feed, dict[int, Place]],
    ) -> None:
        """Of shared target partitions: what lies at the end of what one source partition has sent
        lies where it sends next, which is not before `ends`, as far as nothing of it is there."""
        due = {
            at: partition.outlet
            for at, partition in mirrored.items()
            if any(not place.mirrored for place in found.get(at, {}).values())
        }
        behind = self._tails.look(due, ends, term, _LOOKUPS_S)
        self.unfinished |= len(behind) < len(due)
        for at in due:
            for offset, place in found[at].items():
                if place.mirrored or place.target is None:
                    continue
                if at in behind:
                    found[at][offset] = place._replace(target=max(place.target, behind[at]))
                else:
                    note = "what others have sent behind it is being looked through"
                    found[at][offset] = place._replace(note=note)

    def _ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of the target's logs; those that cannot be asked now are missing."""
        if not (asked := list(places)):
            return {}
        ends = self._sides.target.list_offsets(asked, LATEST, patience_s=_PATIENCE_S)
        return {at: end.offset for at, end in ends.items() if isinstance(end, OffsetAt)}

    def _trim(self, mirrored: Iterable[Feed]) -> Mapping[TopicPartition, OffsetAt | CausewayError]:
        """Where the source's logs start."""
        sources = list(dict.fromkeys(at.source for at in mirrored))
        starts = self._sides.source.list_offsets(sources, EARLIEST, patience_s=_PATIENCE_S)
        self._registry.trim(
            {at: start.offset for at, start in starts.items() if isinstance(start, OffsetAt)}
        )
        return starts

    def _target_starts(self, mirrored: Iterable[Feed]) -> dict[Feed, OffsetAt | CausewayError]:
        """Where the target's logs start."""
        feeds = list(mirrored)
        targets = list(dict.fromkeys(at.target for at in feeds))
        starts = self._sides.target.list_offsets(targets, EARLIEST, patience_s=_PATIENCE_S)
        return {at: starts[at.target] for at in feeds}


def _from(begin: OffsetAt | CausewayError, offset: int) -> int:
    """`offset`, or where the source's log starts for EARLIEST."""
    if offset != EARLIEST:
        return offset
    return begin.offset if isinstance(begin, OffsetAt) else 0
