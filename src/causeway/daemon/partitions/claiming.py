"""Takes up new partitions: carries out the decisions about them, in bulk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from causeway.config import LinkSettings
from causeway.control import (
    Copied,
    MirroredTopic,
    Transforms,
    claim_checks,
    mm2_offsets,
)
from causeway.daemon.clients import Sides
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import beginnings, claims, discovery, routing
from causeway.daemon.partitions.beginnings import Beginning
from causeway.daemon.partitions.claims import Behind, places_behind
from causeway.daemon.partitions.deciding import decide
from causeway.daemon.partitions.decisions import (
    Adopt,
    Begin,
    BeginBehind,
    Candidate,
    Decision,
    GoByKey,
    GoOn,
    IfSame,
    PassOver,
    Stop,
    Wish,
)
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.others import OthersHere, compared, find_place
from causeway.daemon.partitions.rows import Row
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import (
    TRANSLATED,
    ClaimStart,
    Entry,
    MapRecords,
    PartitionProgress,
    ProgressContents,
    offset_maps_of,
)
from causeway.model import State, TopicPartition
from causeway.wire import codes

_log = logging.getLogger("causeway.link")
Wanted = Sequence[tuple[MirroredTopic, int]]  # topic and partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Partitions that were taken up. `ends`: the current end of each row's source. `claims` must be
    in the progress topic before a lane gets any of `rows`."""

    rows: Sequence[Row]
    ends: Mapping[TopicPartition, int]
    claims: Sequence[Entry]


@dataclass(slots=True)
class Claimer:
    """Takes up the partitions of one link. Remembers the numbers of partitions at the first look: a
    partition that is created later belongs to the mirror from its first record on. `start_of`
    returns the directive that says where a partition begins."""

    sides: Sides
    link: LinkSettings
    wish: Wish
    leadership: Leadership
    transforms: Transforms
    start_of: Callable[[TopicPartition], ClaimStart | None] = lambda _: None
    _decided: set[TopicPartition] = field(default_factory=set)  # the wish no longer applies to them
    _adopted: set[TopicPartition] = field(default_factory=set)  # by directives
    _translated: set[TopicPartition] = field(default_factory=set)  # by directives
    _first: Mapping[str, int] | None = None
    # Each function says whether the settings before a reload chose a topic. The wish applies only
    # if all of them did.
    _wished: tuple[Callable[[str], bool], ...] = ()
    # From the settings before a reload: the numbers at the first look, and the chosen topics.
    _followed: tuple[Mapping[str, int], Callable[[str], bool]] | None = None
    _copied: Mapping[TopicPartition, Copied] | None = None  # MirrorMaker 2's positions

    def wish_of(self, at: TopicPartition) -> Wish:
        """Returns the wish of a directive. Otherwise the command line's, if the partition existed
        at the first look, is not decided yet, and was not chosen by a reload."""
        if at in self._adopted:
            return Wish(adopt=True)
        if at in self._translated:
            return Wish(translate=True)
        chosen = all(chose(at.topic) for chose in self._wished)
        applies = chosen and self._was_there(at) and at not in self._decided
        return self.wish if applies else Wish()

    def follow(self, before: Claimer, chosen: Callable[[str], bool]) -> None:
        """Continues the run of `before` with changed settings. `chosen`: whether the earlier
        settings chose a topic."""
        self._decided = before._decided
        if self.wish.acts:
            self._wished = (*before._wished, chosen)
        self._adopted, self._translated = before._adopted, before._translated
        if before._first is not None:
            self._followed = before._first, chosen
        else:
            self._followed = before._followed

    def _at_first(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the numbers of partitions that count as those of the first look. A topic that a
        reload has chosen begins as at a start."""
        if self._followed is None:
            return counts
        earlier, chosen = self._followed
        return {
            name: earlier.get(name, 0) if chosen(name) else count for name, count in counts.items()
        }

    def adopt(self, places: Collection[TopicPartition]) -> None:
        """The next look treats only `places` as if the process had been started with --adopt."""
        self._adopted.update(places)

    def translate(self, places: Collection[TopicPartition]) -> None:
        """At the next look, `places` go on with translated offsets, whatever the file says."""
        self._translated.update(places)

    def begin(self) -> None:
        """Begins a term of leading: earlier directives are read again."""
        self._adopted.clear()
        self._translated.clear()

    def _was_there(self, at: TopicPartition) -> bool:
        return self._first is None or at.partition < self._first.get(at.topic, 0)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forgets partitions whose topics are gone on both sides. A topic that gets such a name
        later is new. Raises CausewayError."""
        if self.link.control.mm2_offsets:
            mm2_offsets.positions_of(self.link, self.sides.target).remove(places)
        names = {at.topic for at in places}
        self._first = {n: count for n, count in (self._first or {}).items() if n not in names}
        copied = self._copied or {}
        self._copied = {at: entry for at, entry in copied.items() if at not in places}

    def take_up(
        self,
        wanted: Wanted,
        found: Found,
        known: ProgressContents,
        led: Collection[TopicPartition],
        reverse_ended: Collection[str] = (),
    ) -> Taken:
        """Returns a row for each of `wanted` whose decision is possible now; `found` gets a trouble
        for each of the others. `known`: the progress that no row has taken up yet. `led`: the
        target partitions that transforms lead to. `reverse_ended`: topics whose reverse mirror has
        ended. Writes nothing. Raises CausewayError."""
        if self._first is None:
            self._first = self._at_first(found.counts)
        if self._copied is None and self.link.control.mm2_offsets:
            # They matter only if MirrorMaker 2 mirrored before us.
            self._copied = mm2_offsets.positions_of(self.link, self.sides.target).read()
        alone_in_s = self.leadership.alone_in_s  # asked before the source's ends
        candidates = self._candidates(wanted, found, known, led, reverse_ended)
        decisions = [(one, decide(one)) for one in candidates]
        if any(isinstance(decision, BeginBehind) for _, decision in decisions):
            decisions = self._look_behind(decisions, alone_in_s, found)
        rows: list[Row] = []
        passed: list[Row] = []
        begins: list[Beginning] = []
        turns: list[tuple[Candidate, GoByKey]] = []
        for one, decided in decisions:
            decision = decided
            if isinstance(decided, Adopt | IfSame):
                try:
                    decision = (
                        self._adopt(one, decided)
                        if isinstance(decided, Adopt)
                        else compared(one, decided, self.sides)
                    )
                except CausewayError as error:
                    found.trouble(str(one.at), error)
                    continue
            match decision:
                case GoOn(progress=before):
                    rows.append(self._go_on(one, before, known.maps.get(one.at, {})))
                case PassOver() as over:
                    passed.append(self._pass_over(one, over, known.maps.get(one.at, {})))
                case GoByKey() if alone_in_s:
                    found.trouble(str(one.at), claims.not_alone(one.at, "go by key", alone_in_s))
                case GoByKey() as turn:
                    turns.append((one, turn))
                case Stop(reason=reason, loss=loss):
                    before = one.progress or claims.unclaimed(one.topic, one.partition)
                    rows.append(Row.stopped(one.topic, before, reason, loss))
                case Begin() as begin:
                    known_before = one.copied is not None or one.progress_lost
                    new = one.progress is None and decided is begin and not known_before
                    copied = one.copied is not None or isinstance(decided, Adopt)
                    if one.start is not None:
                        # Otherwise it would begin there again after the next restart.
                        begin = replace(begin, by=one.start.by)
                    if one.topic.preserves and not one.keeps:
                        begin = replace(begin, offsets_from=TRANSLATED)
                    begins.append(Beginning(one, begin, never_fed=new, taken_over=copied))
        begun = self._claim(beginnings.prepared(begins, self.sides, found))
        by_key = self._turn(turns)
        rows += [*begun, *by_key, *passed]
        for row in rows:
            row.progress = routing.among_others(row.progress, led)
            row.transform = self.transforms.of(row.progress.topic)
        ends = {one.at: one.offsets.end for one in candidates}
        return Taken(
            rows=rows,
            ends={row.progress.source: ends[row.progress.source] for row in rows},
            claims=[
                *(row.progress for row in (*begun, *by_key, *passed)),
                *(record for row in (*begun, *passed) for record in row.map_records()),
            ],
        )

    def _candidates(
        self,
        wanted: Wanted,
        found: Found,
        known: ProgressContents,
        led: Collection[TopicPartition],
        reverse_ended: Collection[str],
    ) -> list[Candidate]:
        """Returns those of `wanted` whose offsets are known."""
        copied = self._copied or {}
        offsets = discovery.find_places(
            self.sides, self.link, wanted, self.wish_of, found, self._was_there, copied
        )
        others = OthersHere(self.sides.target, self.link)
        progress_lost = self.leadership.progress_lost
        candidates = []
        for topic, partition in wanted:
            at = TopicPartition(topic.source, partition)
            if at not in offsets:
                continue
            beats = self.link.policy.is_heartbeats_topic(topic.source)
            one = Candidate(
                topic=topic,
                partition=partition,
                progress=known.partitions.get(at),
                offsets=offsets[at],
                link=self.link,
                wish=self.wish_of(at),
                copied=copied.get(at),
                progress_lost=progress_lost,
                transform=self.transforms.identity_of(topic.source),
                shared=(topic.target, partition) in led,
                start=self.start_of(at),
                reverse_ended=topic.source in reverse_ended and not beats,
            )
            brought = one.is_new and others.brought(topic, partition, one.offsets.target_ends)
            candidates.append(replace(one, others=brought))
        return candidates

    def _look_behind(
        self, decisions: Sequence[tuple[Candidate, Decision]], alone_in_s: float, found: Found
    ) -> list[tuple[Candidate, Decision]]:
        """Returns `decisions`, with a final decision for each partition whose transform changed.
        Leaves out partitions that cannot be decided now."""
        changed = [
            (one.topic, decision.progress)
            for one, decision in decisions
            if isinstance(decision, BeginBehind)
        ]
        late_by = self.leadership.alone_at + self.sides.target.timeout_s
        behind = (
            {} if alone_in_s else places_behind(changed, self.sides, self.link, late_by=late_by)
        )
        after: list[tuple[Candidate, Decision]] = []
        for one, decision in decisions:
            if not isinstance(decision, BeginBehind):
                after.append((one, decision))
                continue
            if alone_in_s:
                error = claims.not_alone(one.at, "change the transform", alone_in_s)
                found.trouble(str(one.at), error)
                continue
            match behind[one.at]:
                case BrokerError(code=codes.UNKNOWN_TOPIC_OR_PARTITION) if isinstance(
                    decision.otherwise, Begin
                ):
                    # The earlier transform's target is gone, and a person says how to go on.
                    after.append((one, decision.otherwise))
                case CausewayError() as error:
                    found.trouble(str(one.at), error)
                case None:
                    after.append((one, decision.otherwise))
                case Behind() as place:
                    ends = {
                        t: place.ends.get(TopicPartition(one.topic.target, t), end)
                        for t, end in one.offsets.target_ends.items()
                    }
                    new = replace(one, offsets=replace(one.offsets, target_ends=ends))
                    keeps = one.keeps
                    begin = Begin(
                        start=place.start,
                        targets=routing.targets_of(one.topic, one.partition),
                        first_copy_end=decision.progress.first_copy_end,
                        offsets_from=decision.progress.offsets_from if keeps else -1,
                    )
                    after.append((new, begin))
        return after

    def _go_on(self, one: Candidate, before: PartitionProgress, maps: MapRecords) -> Row:
        # The last state does not count: DONE was the end of another run.
        progress = before.replace(state=State.WAITING, reason=None)
        several = self.transforms.may_multiply(one.topic.source)
        return Row(
            topic=one.topic,
            progress=progress,
            first=before.position,
            maps=offset_maps_of(progress, maps, multiplied=several),
            # No lane gets a paused partition to recover it; its lane released it at this offset.
            placed=before.state is State.PAUSED,
            dirty=one.progress is not None and before != one.progress,  # a topic id is new
        )

    def settle(self, taken: Taken) -> None:
        """Call this once the claims of `taken` are written. The wish no longer applies to these
        partitions."""
        if self.wish.acts:
            self._decided.update(row.progress.source for row in taken.rows)
        taken_up = {row.progress.source for row in taken.rows}
        self._adopted -= taken_up
        self._translated -= taken_up

    def _pass_over(self, one: Candidate, over: PassOver, known: MapRecords) -> Row:
        before = over.progress
        adopted_end = one.offsets.end if over.adopted else None
        after = claim_checks.passed(before, over.to, adopted_end=adopted_end)
        about = claim_checks.about(before, over.to, adopted=over.adopted)
        _log.warning("passed over what is lost", extra={"link": self.link.name, **about})
        several = self.transforms.may_multiply(one.topic.source)
        maps = offset_maps_of(after, known, multiplied=several)
        return Row(topic=one.topic, progress=after, first=before.position, maps=maps)

    def _adopt(self, one: Candidate, adopt: Adopt) -> Begin | Stop:
        target = TopicPartition(one.topic.target, adopt.target)
        sides = self.sides
        start = find_place(sides.source, one.at, sides.target, target, floor=adopt.floor)
        start = adopt.start if start is None else start
        if start is None:
            remedy = "start with --from TIMESTAMP" if one.wish.adopt else claim_checks.ACT
            if one.topic.preserves:
                remedy = f"`{claim_checks.TO_REFILL} {one.topic.source}`"
            return Stop(
                reason=f"{adopt.reason}, and the target's last records are not found in one place "
                f"of the source ({remedy})"
            )
        _log.info("adopt", extra={"link": self.link.name, "partition": str(one.at), "at": start})
        return Begin(start=start, targets=(adopt.target,))

    def _claim(self, begins: Sequence[Beginning]) -> list[Row]:
        count = sum(len(each.begin.targets) for each in begins)
        producers = claims.producers(self.link, self.sides.target, count)
        rows = []
        for one, begin, never_fed, taken_over in begins:
            own = {target: next(producers) for target in begin.targets}
            progress = claims.claim(one, begin, own, taken_over=taken_over)
            maps = offset_maps_of(
                progress,
                {},
                since=(0 if never_fed else progress.position) if progress.transform else None,
                multiplied=self.transforms.may_multiply(progress.topic),
            )
            first = progress.position
            # A lane of an earlier link may still send to a log that has records.
            begun = not (progress.preserves and one.offsets.target_ends[one.partition])
            rows.append(
                Row(topic=one.topic, progress=progress, first=first, maps=maps, begun=begun)
            )
        if rows:
            _log.info("begin", extra={"link": self.link.name, "partitions": len(rows)})
        return rows

    def _turn(self, turns: Sequence[tuple[Candidate, GoByKey]]) -> list[Row]:
        count = sum(one.topic.target_partitions for one, _ in turns)
        producers = claims.producers(self.link, self.sides.target, count)
        rows = []
        for one, turn in turns:
            topic, before, ends = one.topic, turn.progress, one.offsets.target_ends
            new = {target: next(producers) for target in range(topic.target_partitions)}
            progress = routing.by_key_from(topic, before, turn.start, ends, new, self.link)
            rows.append(Row(topic=topic, progress=progress, first=before.position))
            about = {"partition": str(one.at), "from_offset": turn.start}
            _log.warning("keys decide", extra={"link": self.link.name, **about})
        return rows
