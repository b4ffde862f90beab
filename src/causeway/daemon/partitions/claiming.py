"""From new partitions to rows with durable progress: what `claims` decides, carried out in bulk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from causeway.config import LinkSettings
from causeway.control import (
    Copied,
    MirroredTopic,
    MirrorMakerOffsets,
    Transforms,
    claim_checks,
    mm2_offsets,
)
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import after_failback, claims, discovery, routing
from causeway.daemon.partitions.decisions import (
    Adopt,
    Begin,
    BeginBehind,
    Decision,
    GoByKey,
    GoOn,
    Offsets,
    PassOver,
    Stop,
    Wish,
    is_new,
)
from causeway.daemon.partitions.discovery import Found, Sides
from causeway.daemon.partitions.others import OthersHere, find_place
from causeway.daemon.partitions.rows import Row
from causeway.daemon.partitions.transform_upgrade import Behind, not_alone, places_behind
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import ClaimStart, Entry, MapRecords, PartitionProgress, offset_maps_of
from causeway.model import State, TopicPartition
from causeway.wire import codes

_log = logging.getLogger("causeway.link")
Wanted = Sequence[tuple[MirroredTopic, int]]  # topic and partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """`ends`: where the source of each row ends by now. `claims` have to be in the progress topic
    before a lane gets any of `rows`."""

    rows: Sequence[Row]
    ends: Mapping[TopicPartition, int]
    claims: Sequence[Entry]


class Claimer:
    """Takes up the partitions of one link. The first look's numbers of partitions are kept: what
    comes into being later belongs to the mirror from its first record on."""

    def __init__(
        self,
        sides: Sides,
        link: LinkSettings,
        wish: Wish,
        leadership: Leadership,
        transforms: Transforms,
        start_of: Callable[[TopicPartition], ClaimStart | None] = lambda _: None,
    ) -> None:
        """`start_of`: where a person wants a partition to begin."""
        self._sides = sides
        self._start_of = start_of
        self._link = link
        self._transforms = transforms
        self._wish = wish
        self._decided: set[TopicPartition] = set()  # what became of the wish, once for each
        self._adopted: set[TopicPartition] = set()  # by directives
        self._leadership = leadership
        self._first: Mapping[str, int] | None = None
        self._copied: Mapping[TopicPartition, Copied] | None = None  # by MirrorMaker 2's book

    def wish_of(self, at: TopicPartition) -> Wish:
        """What a person asked for at the start, for a partition that was there at the first look
        and is not decided yet. Or a directive's wish."""
        if at in self._adopted:
            return Wish(adopt=True)
        stands = self._was_there(at) and at not in self._decided
        return self._wish if stands else Wish()

    def adopt(self, places: Collection[TopicPartition]) -> None:
        """The next look acts as if the process had been started with --adopt for these alone."""
        self._adopted.update(places)

    def begin(self) -> None:
        """A time of leading begins: earlier directives are read again."""
        self._adopted.clear()

    def _was_there(self, at: TopicPartition) -> bool:
        return self._first is None or at.partition < self._first.get(at.topic, 0)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Of their topics nothing is left on either side: what comes under these names is new.
        Raises CausewayError."""
        if self._link.control.mm2_offsets:
            self._book().remove(places)
        names = {at.topic for at in places}
        self._first = {n: count for n, count in (self._first or {}).items() if n not in names}
        copied = self._copied or {}
        self._copied = {at: entry for at, entry in copied.items() if at not in places}

    def take_up(
        self,
        wanted: Wanted,
        left: Mapping[TopicPartition, PartitionProgress],
        maps: Mapping[TopicPartition, MapRecords],
        led: Collection[TopicPartition],
        found: Found,
        ended: Collection[str] = (),
    ) -> Taken:
        """A row for each of `wanted` that can be told where it stands. For the others `found` has a
        trouble. `left`, `maps`: the progress and offset maps that there are; `led`: where
        transforms have led to by now; `ended`: topics whose mirror the other way has. Writes
        nothing.

        Raises CausewayError.
        """
        if self._first is None:
            self._first = found.counts
        self._read_mirror_maker()
        copied = self._copied or {}
        alone_in_s = self._leadership.alone_in_s  # before the source's ends are asked for
        places = discovery.find_places(
            self._sides, self._link, wanted, self.wish_of, found, self._was_there, copied
        )
        starts = {at: self._start_of(at) for at in places}
        others = OthersHere(self._sides.target, self._link)
        decisions: list[tuple[MirroredTopic, int, Decision]] = [
            (
                topic,
                partition,
                self._decide(
                    topic, partition, left.get(at), places[at], starts[at], led, ended, others
                ),
            )
            for topic, partition in wanted
            if (at := TopicPartition(topic.source, partition)) in places
        ]
        if any(isinstance(decision, BeginBehind) for _, _, decision in decisions):
            decisions = self._look_behind(decisions, places, alone_in_s, found)
        rows: list[Row] = []
        passed: list[Row] = []
        begins: list[tuple[MirroredTopic, int, Begin]] = []
        never_fed: set[TopicPartition] = set()
        taken_over: set[TopicPartition] = set()
        turns: list[tuple[MirroredTopic, GoByKey]] = []
        for topic, partition, decided in decisions:
            at = TopicPartition(topic.source, partition)
            progress, decision = left.get(at), decided
            if isinstance(decided, Adopt):
                try:
                    decision = self._adopt(topic, partition, decided)
                except CausewayError as error:
                    found.trouble(str(at), error)
                    continue
            match decision:
                case GoOn(progress=before):
                    # However it ended last time: DONE was another run's end.
                    anew = before.replace(state=State.WAITING, reason=None)
                    several = self._transforms.may_multiply(at.topic)
                    known = offset_maps_of(anew, maps.get(at, {}), multiplied=several)
                    rows.append(
                        Row(
                            topic=topic,
                            progress=anew,
                            first=before.position,
                            maps=known,
                            # No lane gets it to find its place; it was let go of at that one.
                            placed=before.state is State.PAUSED,
                            dirty=progress is not None and before != progress,  # an id was learnt
                        )
                    )
                case PassOver() as over:
                    passed.append(self._pass_over(topic, over, places[at], maps.get(at, {})))
                case GoByKey() if alone_in_s:
                    found.trouble(str(at), not_alone(at, "go by key", alone_in_s))
                case GoByKey() as turn:
                    turns.append((topic, turn))
                case Stop(reason=reason, loss=loss):
                    after = claims.stopped(topic, partition, progress, reason, loss)
                    rows.append(Row(topic=topic, progress=after, first=after.position, dirty=True))
                case Begin() as begin:
                    begins.append((topic, partition, after_failback.settled(begin, starts[at])))
                    if at in copied or isinstance(decided, Adopt):
                        taken_over.add(at)
                    known_before = at in copied or self._leadership.progress_lost
                    if progress is None and decided is begin and not known_before:
                        never_fed.add(at)
        begun = self._claim(begins, places, never_fed, left, taken_over)
        by_key = self._turn(turns, places)
        rows += [*begun, *by_key, *passed]
        for row in rows:
            row.progress = routing.among_others(row.progress, led)
            row.transform = self._transforms.of(row.progress.topic)
        return Taken(
            rows=rows,
            ends={row.progress.source: places[row.progress.source].end for row in rows},
            claims=[
                *(row.progress for row in (*begun, *by_key, *passed)),
                *(record for row in (*begun, *passed) for record in row.map_records()),
            ],
        )

    def _decide(
        self,
        topic: MirroredTopic,
        partition: int,
        progress: PartitionProgress | None,
        place: Offsets,
        start: ClaimStart | None,
        led: Collection[TopicPartition],
        ended: Collection[str],
        others: OthersHere,
    ) -> Decision:
        at = TopicPartition(topic.source, partition)
        wish = self.wish_of(at)
        first = after_failback.decide(
            topic,
            partition,
            progress,
            place,
            wish,
            start,
            ended=at.topic in ended and not self._link.policy.is_heartbeats_topic(at.topic),
            progress_lost=self._leadership.progress_lost,
        )
        return first or claims.decide(
            topic,
            partition,
            progress,
            place,
            self._link,
            wish,
            (self._copied or {}).get(at),
            progress_lost=self._leadership.progress_lost,
            transform=self._transforms.identity_of(topic.source),
            shared=(topic.target, partition) in led,
            others=is_new(progress) and others.brought(topic, partition, place.target_ends),
        )

    def _look_behind(
        self,
        decisions: Sequence[tuple[MirroredTopic, int, Decision]],
        places: dict[TopicPartition, Offsets],
        alone_in_s: float,
        found: Found,
    ) -> list[tuple[MirroredTopic, int, Decision]]:
        """`decisions` with what becomes of those whose transform changed; what is seen of the
        target's ends goes to `places`. Those that can't be told now are left out."""
        changed = [
            (topic, decision.progress)
            for topic, _, decision in decisions
            if isinstance(decision, BeginBehind)
        ]
        late_by = self._leadership.alone_at + self._sides.target.timeout_s
        behind = (
            {} if alone_in_s else places_behind(changed, self._sides, self._link, late_by=late_by)
        )
        after: list[tuple[MirroredTopic, int, Decision]] = []
        for topic, partition, decision in decisions:
            at = TopicPartition(topic.source, partition)
            if not isinstance(decision, BeginBehind):
                after.append((topic, partition, decision))
                continue
            if alone_in_s:
                found.trouble(str(at), not_alone(at, "change the transform", alone_in_s))
                continue
            match behind[at]:
                case BrokerError(code=codes.UNKNOWN_TOPIC_OR_PARTITION) if isinstance(
                    decision.otherwise, Begin
                ):
                    # Where the earlier one led to is gone, and a person says how to go on.
                    after.append((topic, partition, decision.otherwise))
                case CausewayError() as error:
                    found.trouble(str(at), error)
                case None:
                    after.append((topic, partition, decision.otherwise))
                case Behind() as place:
                    targets = routing.targets_of(topic, partition)
                    ends = places[at].target_ends
                    ends = {
                        t: place.ends.get(TopicPartition(topic.target, t), ends[t]) for t in ends
                    }
                    places[at] = replace(places[at], target_ends=ends)
                    begin = Begin(
                        start=place.start,
                        targets=targets,
                        first_copy_end=decision.progress.first_copy_end,
                    )
                    after.append((topic, partition, begin))
        return after

    def settle(self, taken: Taken) -> None:
        """Its claims are written: what a person wished for these is done."""
        if self._wish.acts:
            self._decided.update(row.progress.source for row in taken.rows)
        self._adopted.difference_update(row.progress.source for row in taken.rows)

    def _pass_over(
        self, topic: MirroredTopic, over: PassOver, place: Offsets, known: MapRecords
    ) -> Row:
        before = over.progress
        after = claim_checks.passed(
            before, over.to, adopted_end=place.end if over.adopted else None
        )
        about = claim_checks.about(before, over.to, adopted=over.adopted)
        _log.warning("passed over what is lost", extra={"link": self._link.name, **about})
        several = self._transforms.may_multiply(topic.source)
        maps = offset_maps_of(after, known, multiplied=several)
        return Row(topic=topic, progress=after, first=before.position, maps=maps)

    def _read_mirror_maker(self) -> None:
        """Its positions count where it came before us, so they are read once."""
        if self._copied is None and self._link.control.mm2_offsets:
            self._copied = self._book().read()

    def _book(self) -> MirrorMakerOffsets:
        return mm2_offsets.positions_of(self._link, self._sides.target)

    def _adopt(self, topic: MirroredTopic, partition: int, adopt: Adopt) -> Begin | Stop:
        source = TopicPartition(topic.source, partition)
        target = TopicPartition(topic.target, adopt.target)
        start = find_place(
            self._sides.source, source, self._sides.target, target, floor=adopt.floor
        )
        start = adopt.start if start is None else start
        if start is None:
            remedy = (
                "start with --from TIMESTAMP" if self.wish_of(source).adopt else claim_checks.ACT
            )
            return Stop(
                reason=f"{adopt.reason}, and the target's last records are not found in one place "
                f"of the source ({remedy})"
            )
        _log.info("adopt", extra={"link": self._link.name, "partition": str(source), "at": start})
        return Begin(start=start, targets=(adopt.target,))

    def _claim(
        self,
        begins: Sequence[tuple[MirroredTopic, int, Begin]],
        places: Mapping[TopicPartition, Offsets],
        never_fed: Collection[TopicPartition],
        left: Mapping[TopicPartition, PartitionProgress],
        taken_over: Collection[TopicPartition],
    ) -> list[Row]:
        """`never_fed`: partitions of which nothing was mirrored before; `left`: the progress so
        far; `taken_over`: partitions whose target has records that another tool has copied."""
        if not begins:
            return []
        producers = self._producers(sum(len(begin.targets) for _, _, begin in begins))
        rows = []
        for topic, partition, begin in begins:
            progress = claims.claim(
                topic,
                partition,
                begin,
                places[TopicPartition(topic.source, partition)],
                {target: next(producers) for target in begin.targets},
                self._link,
                transform=self._transforms.identity_of(topic.source),
                before=left.get(TopicPartition(topic.source, partition)),
                taken_over=TopicPartition(topic.source, partition) in taken_over,
            )
            first = progress.position
            since = 0 if progress.source in never_fed else first
            begun = offset_maps_of(
                progress,
                {},
                since=since if progress.transform else None,
                multiplied=self._transforms.may_multiply(topic.source),
            )
            rows.append(Row(topic=topic, progress=progress, first=first, maps=begun, begun=True))
        _log.info("begin", extra={"link": self._link.name, "partitions": len(rows)})
        return rows

    def _turn(
        self,
        turns: Sequence[tuple[MirroredTopic, GoByKey]],
        places: Mapping[TopicPartition, Offsets],
    ) -> list[Row]:
        if not turns:
            return []
        producers = self._producers(sum(topic.target_partitions for topic, _ in turns))
        rows = []
        for topic, turn in turns:
            before = turn.progress
            ends = places[before.source].target_ends
            anew = {target: next(producers) for target in range(topic.target_partitions)}
            progress = routing.by_key_from(topic, before, turn.start, ends, anew, self._link)
            rows.append(Row(topic=topic, progress=progress, first=before.position))
        for row in rows:
            about = {"partition": str(row.progress.source), "from_offset": row.progress.keys_from}
            _log.warning("keys decide", extra={"link": self._link.name, **about})
        return rows

    def _producers(self, count: int) -> Iterator[tuple[int, int]]:
        """Ids and epochs, none where the target is not to know repeats."""
        if self._link.delivery == "exactly-once":
            return iter(self._sides.target.init_producer_ids(count))
        return iter([(-1, -1)] * count)
