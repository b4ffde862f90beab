"""Compares source and target: first finds the ranges that agree, then where the others differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from causeway.cluster import clusters
from causeway.config import Settings
from causeway.errors import CausewayError
from causeway.operate.verify.job import Answer, Part, runner
from causeway.operate.verify.outcome import (
    Difference,
    DifferenceKind,
    Range,
    RangeOutcome,
    Sums,
)
from causeway.operate.verify.plan import NotCompared, PartitionPlan, Why, plan
from causeway.operate.verify.report import Agreement, PartitionReport, Report
from causeway.operate.verify.state import Agreed, AgreedFile
from causeway.operate.verify.stretches import RANGE_BYTES

_LEAST_RANGE = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Progress:
    """`done` of about `size` bytes on the source. `differ`: the number of ranges that do not agree.
    One value follows the whole comparison."""

    size: int
    done: int = 0
    records: int = 0
    differ: int = 0
    seconds: float = 0.0
    looking: bool = False  # all is compared; differing ranges are looked into

    @property
    def bytes_per_s(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """The expected remaining seconds. None before the first result."""
        if not self.done:
            return None
        return max(0, self.size - self.done) / self.bytes_per_s


def verify(
    settings: Settings,
    *,
    link: str | None = None,
    topics: Collection[str] | None = None,
    state: Path | None = None,
    bytes_per_s: float | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Compares the records mirrored so far with their source: of all flows or of `link`, of all
    topics or of `topics` (names on the source). Writes to neither cluster, and needs no driver.

    `state`: a file that keeps the ranges that agreed, so that a later call continues from there.
    `bytes_per_s`: the limit for reads from both clusters together. `on_progress` is called from
    this thread. Raises ConfigError for unknown names, and CausewayError if a cluster does not
    answer at all. Partitions that cannot be compared are in the report.
    """
    began, started = int(time.time() * 1000), time.monotonic()
    memory = AgreedFile(state)
    memory.open()
    # A throttled range takes a few seconds. Each lane reads both sides at its share.
    throttled = None if bytes_per_s is None else int(max(_LEAST_RANGE, bytes_per_s))
    try:
        with clusters() as connect:
            shares = plan(
                settings,
                connect,
                link=link,
                topics=topics,
                agreed=memory.agreed,
                range_bytes=min(RANGE_BYTES, throttled or RANGE_BYTES),
            )
            work = _Comparison(shares, memory, on_progress)
            size = work.progress.size
            if work.parts:
                with runner(settings, connect, size, bytes_per_s, work.tick) as run:
                    work.begin()
                    run.run(work.parts, look_into=False, on_answer=work.take)
                    if closer := work.closer():
                        run.run(closer, look_into=True, on_answer=work.take_closer)
                    work.tick()
            return Report(
                partitions=work.report(),
                began=began,
                seconds=time.monotonic() - started,
                comparing_s=work.progress.seconds,
            )
    finally:
        memory.close()


@dataclass(slots=True)
class _Found:
    """The results of one partition plan. `outcomes`: by the index of the last range that an outcome
    covers."""

    outcomes: dict[int, RangeOutcome] = field(default_factory=dict)
    suspects: list[int] = field(default_factory=list)
    left: list[NotCompared] = field(default_factory=list)
    # Differences that are known without a closer look.
    certain: list[Difference] = field(default_factory=list)
    earlier: RangeOutcome | None = None


class _Comparison:
    def __init__(
        self,
        shares: Sequence[PartitionPlan],
        memory: AgreedFile,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._shares, self._memory, self._on_progress = shares, memory, on_progress
        self._found = [_Found() for _ in shares]
        self._started = time.monotonic()
        self.parts = [
            Part(owner=owner, place=place, link=share.link, range=each)
            for owner, share in enumerate(shares)
            for place, each in enumerate((share.earlier, *share.ranges), -1)
            if each is not None
        ]
        self.progress = Progress(size=sum(part.range.size for part in self.parts))

    def begin(self) -> None:
        """Starts the clock of the comparison."""
        self._started = time.monotonic()
        self.tick()

    def tick(self) -> None:
        self.progress.seconds = time.monotonic() - self._started
        self._on_progress(self.progress)

    def take(self, part: Part, found: Answer) -> None:
        self.progress.done += part.range.size
        into = self._found[part.owner]
        if part.range.feed.earlier:
            into.earlier = found if isinstance(found, RangeOutcome) else None
            return
        if not self._usable(part, found):
            return
        assert isinstance(found, RangeOutcome)
        self.progress.records += found.records
        if found.differs:
            self.progress.differ += 1
            into.suspects.append(part.place)
            if self._shares[part.owner].compacted:
                # Compaction never produces such a batch.
                into.certain += (
                    one for one in found.differences if one.kind is DifferenceKind.CORRUPT
                )
            return
        into.outcomes[part.place] = found
        start, end = part.range.start, part.range.end
        # Each call reports records of other producers, so such a range is not kept.
        whole = found.ended is None and not found.others and not part.range.cut
        whole &= not found.one_sided
        if start is not None and start != end and whole:
            self._memory.add(part.range.feed, start, end, found)

    def _usable(self, part: Part, found: Answer) -> bool:
        """Returns whether the range was compared. If not, the report gets the reason."""
        into = self._found[part.owner]
        ended = str(found) if isinstance(found, CausewayError) else found.ended
        if ended is not None:
            text = (
                f"source offsets {part.range.source_from} to {part.range.end.source - 1}: {ended}"
            )
            into.left.append(NotCompared(Why.UNREADABLE, text))
        return isinstance(found, RangeOutcome)

    def closer(self) -> list[Part]:
        """Returns the ranges to look into. Neighbours that differ are joined, together with the
        range before them, which may contain the first copy of a doubled record."""
        self.progress.looking = True
        parts = []
        for owner, (share, found) in enumerate(zip(self._shares, self._found, strict=True)):
            found.suspects.sort()
            if share.compacted:
                continue
            for first, last in _runs(share.ranges, found.suspects):
                one, other = share.ranges[first], share.ranges[last]
                found.outcomes.pop(first, None)
                whole = replace(one, end=other.end, target_to=other.target_to)
                parts.append(Part(owner=owner, place=last, link=share.link, range=whole))
        return parts

    def take_closer(self, part: Part, found: Answer) -> None:
        into = self._found[part.owner]
        if self._usable(part, found):
            assert isinstance(found, RangeOutcome)
            into.outcomes[part.place] = found
        if isinstance(found, CausewayError) or (found.ended is not None and not found.differs):
            # It differs, but the records that show the place are gone by now.
            detail = "both sides differ after this offset; the place could not be determined"
            one = part.range
            into.certain.append(
                Difference(
                    kind=DifferenceKind.DIFFERENT,
                    source=one.source_from,
                    target=one.target_from,
                    detail=detail,
                )
            )

    def report(self) -> tuple[PartitionReport, ...]:
        return tuple(
            _report(share, found, self._memory.agreed(share.feed) if share.feed else None)
            for share, found in zip(self._shares, self._found, strict=True)
        )


def _runs(ranges: Sequence[Range], suspects: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for place in suspects:
        joined = place > 0 and ranges[place - 1].end == ranges[place].start
        if runs and joined and runs[-1][1] == place - 1:
            runs[-1] = runs[-1][0], place
        else:
            runs.append((place - 1 if joined else place, place))
    return runs


def _report(share: PartitionPlan, found: _Found, agreed: Agreed | None) -> PartitionReport:
    before = agreed or Agreed()
    compared = [found.outcomes[place] for place in sorted(found.outcomes)]
    # A range without an answer was not compared.
    ranges = [one.range for one in compared]
    if share.compacted:
        ranges += (share.ranges[place] for place in found.suspects)
    froms = [one.source_from for one in ranges] + [start.source for start, _ in before.stretches]
    stretches = [(one.start, one.end) for one in ranges] + [*before.stretches]
    pairs = [pair for each in stretches for pair in each if pair is not None]
    left, outcomes, earlier = [*share.left, *found.left], [*compared], found.earlier
    # Records from before the mirror are a result only if they agree.
    if earlier and not earlier.differs and earlier.ended is None and earlier.records:
        left = [each for each in left if each.why is not Why.BEFORE]
        outcomes.append(earlier)
        froms.append(earlier.begun)
        if earlier.skipped:
            text = (
                f"before the mirror began, source and target have {earlier.records} records in"
                f" common, and one of them {earlier.skipped} more before these"
            )
            left.append(NotCompared(Why.BEFORE, text))
    for one in compared:
        if one.skipped:
            text = f"the source has {one.skipped} records from before the mirror's beginning"
            left.append(NotCompared(Why.BEFORE, text))
    if one_sided := sum(one.one_sided for one in compared):
        text = (
            f"{one_sided} records are on one side alone, and one of the topics is compacted:"
            " whether compaction removed them on the other side is not known"
        )
        left.append(NotCompared(Why.COMPACTED, text))
    differences = [each for one in outcomes for each in one.differences] + found.certain
    different = sum(one.different for one in outcomes) + len(found.certain)
    others = sum(one.others for one in outcomes)
    if others and share.feed is not None:
        at = next(one.others_at for one in outcomes if one.others)
        text = f"{others} records of other producers are in between, from target offset {at} on"
        if share.feed.alone:
            differences.append(
                Difference(
                    kind=DifferenceKind.UNKNOWN, source=None, target=at, records=others, detail=text
                )
            )
            different += others
        else:
            left.append(NotCompared(Why.OTHERS, text))
    sums = Sums()
    for each in (before, *outcomes):
        sums.add(each)
    if sums.timeless:
        text = "the target sets its own timestamps, so timestamps were not compared"
        left.append(NotCompared(Why.TIMES, text))
    if share.compacted and found.suspects:
        spans = [share.ranges[place] for place in found.suspects]
        text = (
            f"source offsets {spans[0].source_from} to {spans[-1].end.source - 1} differ, and one"
            " of the topics is compacted: whether compaction removed the records is not known"
        )
        left.append(NotCompared(Why.COMPACTED, text))
    if different or any(one.differs for one in outcomes):
        verdict = Agreement.DIFFERS
    elif not left:
        verdict = Agreement.AGREES
    else:
        verdict = Agreement.IN_PART if stretches else Agreement.NOT_COMPARED
    return PartitionReport(
        link=share.link.name,
        topic=share.source.topic,
        partition=share.source.partition,
        target_topic=share.target_topic,
        target_partition=share.target.partition if share.target else None,
        verdict=verdict,
        by_offset=share.feed is not None and share.feed.by_offset,
        source_offsets=_offsets(froms, [pair.source for pair in pairs]),
        target_offsets=_offsets(
            [pair.target for pair in pairs] + [one.target_from for one in ranges],
            [pair.target for pair in pairs],
        ),
        records=sums.records,
        as_they_are=sums.as_they_are,
        before=before.records,
        size=sums.size,
        checksum=f"{sums.checksum:016x}",
        different=different,
        differences=tuple(differences),
        left=tuple(left),
    )


def _offsets(starts: Collection[int], ends: Collection[int]) -> tuple[int, int] | None:
    return (min(starts), max(ends, default=-1)) if starts else None
