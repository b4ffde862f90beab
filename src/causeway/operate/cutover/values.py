"""The values of a cutover: a person's wishes, the clusters' state, the checklist, and the result.
The JSON has stable keys, and no secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from causeway.config import LinkSettings
from causeway.errors import ConfigError
from causeway.link_topics import EndDirective, FenceDirective
from causeway.model import TopicPartition
from causeway.status import picked

_LONGEST_FENCE_S: Final = 24 * 3600.0


class FirstMover(StrEnum):
    """Who moves first."""

    CONSUMERS = "consumers"
    PRODUCERS = "producers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """`lag`: the most records that the mirror may be behind before anything changes. `fence`:
    whether to deny writing on the source, for `fence_for_s` at the most. `settle_s`: the time
    without a new record after which the source counts as still. `left_groups`: groups that do not
    move. `reset_groups`: groups that are taken back to their places if they are ahead. `verify`:
    compare all records before the end. `back`: let the reverse link begin at the cut."""

    first: FirstMover = FirstMover.CONSUMERS
    lag: int = 0
    fence: bool = False
    fence_for_s: float = 300.0
    settle_s: float = 2.0
    left_groups: frozenset[str] = frozenset()
    reset_groups: frozenset[str] = frozenset()
    verify: bool = True
    back: bool = False

    def check(self) -> None:
        """Raises ConfigError for values out of range, or that contradict each other."""
        if self.lag < 0:
            raise ConfigError("cut over", f"--lag {self.lag}", "must be 0 or more")
        if not 1 <= self.fence_for_s <= _LONGEST_FENCE_S:
            raise ConfigError("cut over", "--fence-for", "must be from 1 second to 24 hours")
        if both := sorted(self.left_groups & self.reset_groups):
            cause = "both --leave-group and --reset-group name it"
            raise ConfigError(
                "cut over", f"group {both[0]}", cause, remedy="name it in one of them"
            )


class CheckMark(StrEnum):
    """The result of a check."""

    GOOD = "good"
    NOTE = "note"  # a person should know
    BAD = "bad"  # nothing starts before it is corrected


class Check(NamedTuple):
    """The result of one check. All checks come before the first change."""

    name: str
    mark: CheckMark
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingPartition:
    """One source partition; its offsets are None if unknown. `readable`: its last stable offset, or
    the high watermark if records of open transactions are mirrored, too. `log_end`: the end of the
    leader's log a moment before: with records that followers have yet to copy, and that no reader
    sees. `had`: `readable` a moment before. `position`: everything before it is mirrored."""

    at: TopicPartition
    state: str
    reason: str | None = None
    readable: int | None = None
    end: int | None = None  # the high watermark
    log_end: int | None = None
    had: int | None = None
    position: int | None = None

    @property
    def lag(self) -> int | None:
        """The lag behind `had`, which can be 0 while producers go on; None if unknown."""
        if self.had is None or self.position is None:
            return None
        return max(0, self.had - self.position)

    @property
    def left(self) -> int | None:
        """The number of offsets that are not mirrored by now, with those of open transactions; None
        if unknown."""
        if self.end is None or self.position is None:
            return None
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The fence of one topic. `there`: a broker that leads one of its partitions applies it.
    `everywhere`: each of these brokers does. `gone`: none of them does, and all were asked."""

    record: FenceDirective
    there: bool
    everywhere: bool
    gone: bool = False
    over: bool = False


class OffsetRange(NamedTuple):
    """Offsets of one partition, from `start` to before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A producer. `producer_id`: None if it is not idempotent: then it has no name. `records`: the
    number of its records, 0 if they were not counted."""

    topics: tuple[str, ...]
    producer_id: int | None
    transactional_id: str | None
    last_ms: int  # of its newest record
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingGroup:
    """A group that has committed on the topics. `busy_there`: it has members on the target.
    `behind`: source offsets that it has not read, None if unknown. `undone`: in how many partitions
    of the target it has no place yet, or an earlier one (if it has no members there). `reason`: why
    one of its places is not known. `ahead`: the number of records between its place and its commit
    on the target; it would skip these records if it has not read them there."""

    name: str
    busy_here: bool
    busy_there: bool
    behind: int | None
    undone: int
    reason: str | None = None
    ahead: int = 0

    @property
    def placed(self) -> bool:
        """Whether it goes on at the right places of the target, or is at work there."""
        known = self.undone == 0 and self.reason is None
        return known and (self.busy_there or not self.ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`ends`: source offsets up to which all was compared. `records`: the number of equal records.
    `bad`: the differences, empty if there are none. `unsure`: parts that could not be compared."""

    ends: Mapping[TopicPartition, int]
    records: int = 0
    bad: str = ""
    unsure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state of the clusters at `at_ms`, by the clock of this machine. The leading driver's
    clock is `ahead_ms` ahead, and measures the time of fences. `still_s`: for this time no record
    was appended to the topics. `ended`: the directive that has ended the mirror, by topic. Topics
    in `unfinished` have ended, but some work that follows is not done yet. `back`: the topics that
    `reverse`, the reverse link, mirrors from the cut on. `per_s`: how many records the lag shrinks
    by in a second. `appended`: offsets since the fence held everywhere."""

    at_ms: int
    topics: Mapping[str, str]  # the name on the target, by the name on the source
    checks: tuple[Check, ...]
    places: tuple[MovingPartition, ...]
    driver: str | None  # the leading driver
    fences: Mapping[str, Fence] = field(default_factory=dict)
    ended: Mapping[str, EndDirective] = field(default_factory=dict)
    unfinished: frozenset[str] = frozenset()
    reverse: str | None = None
    back: frozenset[str] = frozenset()
    groups: tuple[MovingGroup, ...] = ()
    producers: tuple[Producer, ...] = ()  # that have written since the last look
    still_s: float = 0.0
    appended: int = 0
    per_s: float | None = None
    verified: Verified | None = None
    ahead_ms: int = 0
    late: tuple[Producer, ...] = ()  # that wrote to the source behind the cut

    @property
    def behind_the_cut(self) -> dict[TopicPartition, OffsetRange]:
        """Source offsets behind the cut, unless the reverse link wrote them."""
        found = {}
        for place in self.places:
            end = self.ended.get(place.at.topic)
            point = None if end is None or end.cut is None else end.cut.point(place.at.partition)
            if place.at.topic in self.back or place.end is None or point is None:
                continue
            if 0 <= point.source < place.end:
                found[place.at] = OffsetRange(point.source, place.end)
        return found

    def is_fenced(self, topic: str) -> bool:
        """Returns whether at least one broker denies writing to the topic by its fence."""
        fence = self.fences.get(topic)
        return fence is not None and fence.there

    def left_ms(self, fence: FenceDirective) -> int:
        """Returns the time until the driver lifts the fence, by the driver's clock; negative if
        over."""
        return fence.until - self.at_ms - self.ahead_ms


class StepState(StrEnum):
    """The state of a step."""

    DONE = "done"
    NOW = "now"  # Causeway does something, or waits
    BLOCKED = "blocked"  # a person has to act
    NEXT = "next"  # comes later


class Act(StrEnum):
    """The next act."""

    WAIT = "wait"
    PERSON = "person"  # wait for a person
    LIFT = "lift"
    FENCE = "fence"
    GROUPS = "groups"
    VERIFY = "verify"
    PROMOTE = "promote"
    BACK = "back"
    STOP = "stop"  # nothing goes on before a person has acted
    FINISHED = "finished"


class CutoverStep(NamedTuple):
    """`act`: the act that the step needs; None if it is done, or comes later. `lines`: the text
    below the step. `left_s`: the expected time, if known."""

    text: str
    act: Act | None = None
    lines: tuple[str, ...] = ()
    left_s: float | None = None
    name: str = ""
    state: StepState = StepState.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Checklist:
    steps: tuple[CutoverStep, ...]
    act: Act

    @property
    def current(self) -> CutoverStep | None:
        return next((s for s in self.steps if s.state in (StepState.NOW, StepState.BLOCKED)), None)


class CutoverEnd(StrEnum):
    """How a call ended."""

    DONE = "done"
    SHOWN = "shown"  # the call was not to change anything
    BLOCKED = "blocked"  # a person has to act
    LIFTED = "lifted"  # the fence's time was over
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverResult:
    """`pause_ms`: how long no producer could write: from the fence, or from the last record, to the
    promotion; None if unknown. `through`: the producers that wrote in spite of the fence."""

    link: LinkSettings
    wishes: Wishes
    end: CutoverEnd
    checklist: Checklist
    look: Look
    pause_ms: int | None = None
    through: tuple[Producer, ...] = ()


def result_json(result: CutoverResult) -> dict[str, Any]:
    """Returns JSON. Offsets are of the source; null means unknown. `fenced_until_ms` is by the
    clock of the leading driver, which is `driver_clock_ahead_ms` ahead of this machine's."""
    look = result.look
    return picked(
        result,
        "end pause_ms",
        link=result.link.name,
        first=result.wishes.first,
        driver_clock_ahead_ms=look.ahead_ms,
        steps=[
            picked(
                step,
                "step=name state text lines",
                left_s=None if step.left_s is None else round(step.left_s, 1),
            )
            for step in result.checklist.steps
        ],
        checks=[picked(each, "check=name mark text") for each in look.checks],
        topics=[
            {
                "topic": topic,
                "target_topic": target,
                "fenced_until_ms": None
                if (fence := look.fences.get(topic)) is None
                else fence.record.until,
                "ended": topic in look.ended,
                "same_offsets": (end := look.ended.get(topic)) is not None
                and end.cut is not None
                and end.cut.preserves,
                "partitions": [
                    picked(
                        place,
                        "source_end=end mirrored_to=position state reason",
                        partition=place.at.partition,
                    )
                    for place in look.places
                    if place.at.topic == topic
                ],
            }
            for topic, target in sorted(look.topics.items())
        ],
        groups=[
            picked(
                group,
                "group=name members_on_source=busy_here members_on_target=busy_there behind placed"
                " ahead reason",
            )
            for group in look.groups
        ],
        producers=_producers(look.producers),
        through_the_fence=_producers(result.through),
        behind_the_cut=_producers(look.late),
    )


def _producers(found: Iterable[Producer]) -> list[dict[str, Any]]:
    return [
        picked(
            each,
            "topics producer_id transactional_id last_ms",
            records=each.records or None,
        )
        for each in found
    ]
