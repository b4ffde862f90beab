"""Results of promote, failover and failback, as values and as JSON with stable keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from causeway.cluster import AclBinding
from causeway.errors import CausewayError
from causeway.link_topics import Cut, EndDirective, Scope, directive_as_json
from causeway.model import State, TopicPartition, age_ms
from causeway.operate.failover.keeping import ReturningOffsets
from causeway.operate.failover.last_groups import GroupPlace
from causeway.operate.failover.missing import TopicLoss
from causeway.operate.failover.unmirrored import Unmirrored
from causeway.status import GroupStatus, picked


class LaggingPartition(NamedTuple):
    """A partition with records left to copy. `paused`: by whom; it lags until the pause is taken
    back."""

    at: TopicPartition
    why: str
    paused: str | None = None

    def __str__(self) -> str:
        return f"{self.at}: {self.why}" + (f", {self.paused}" if self.paused else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResult:
    """The result for one link. `changed`: False if nothing was done: this call only looked, or the
    mirror had ended before, and `before` says how, by whom and when. `left`: why the link was left
    out; None if it was not. `lifted`: read-only rules that were (or would be) removed."""

    link: str
    target: str
    scope: Scope
    changed: bool
    before: EndDirective | None = None
    left: str | None = None
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    lifted: tuple[AclBinding, ...] = ()

    @property
    def subject(self) -> str:
        return f"{self.scope} of {self.link}" if self.scope.topic else self.link


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted(LinkResult):
    """`lagging`: only in a dry run. `ahead`: groups that are further on the target than on the
    source, and how many records each would skip at least."""

    source: str
    dry_run: bool
    groups: tuple[GroupStatus, ...] = ()
    ahead: Mapping[str, int] = field(default_factory=dict)
    lagging: tuple[LaggingPartition, ...] = ()

    @property
    def pending(self) -> bool:
        """Whether the same call without `dry_run` would change something."""
        return self.dry_run and self.before is None and self.left is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedOver(LinkResult):
    """If it had ended before, `groups` are the groups that were still to be committed. `late`: the
    rest has to be done once its target answers. `error`: it was begun or tried, and is not done.
    `seen_ms`: when a driver last led the link. `source`: why the source did not answer; None if it
    did."""

    at_ms: int
    late: bool = False
    error: CausewayError | None = None
    seen_ms: int | None = None
    source: str | None = None
    topics: tuple[TopicLoss, ...] = ()
    groups: tuple[GroupPlace, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)  # groups that were not committed

    @property
    def rpo_ms(self) -> int | None:
        """The greatest age that the first missing record can have, see status.lag; 0 if nothing is
        missing, None if that is unknown for a topic."""
        return None if self.rpo_unknown else self.rpo_known_ms

    @property
    def rpo_known_ms(self) -> int | None:
        """The same without the topics of `rpo_unknown`; None if there are no others."""
        ages = [self._age(each) for each in self.topics]
        return max((age for age in ages if age is not None), default=0 if not ages else None)

    @property
    def rpo_unknown(self) -> tuple[str, ...]:
        """The topics for which the age of the first missing record is unknown."""
        return tuple(each.topic for each in self.topics if self._age(each) is None)

    def _age(self, topic: TopicLoss) -> int | None:
        if topic.first_ms is None:
            return 0
        age = age_ms(topic.first_ms, self.at_ms)
        # If the record's clock is ahead of ours, the age would be 0, as if nothing were missing.
        return None if age is None else max(1, age)


class FailbackStep(StrEnum):
    """How far it has come."""

    GOES_ON = "mirrors again"  # nothing is left to do
    UNDECIDED = "undecided"  # a person must decide about records that were never mirrored
    NO_WAY_BACK = "no way back"  # the file has no reverse link
    BACK = "mirrors back"  # the reverse link; the rest follows when producers have stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The decision about records that were never mirrored: they are saved, or stay where they are
    (`drop`). False if there is no decision."""

    path: Path | None = None
    topic: str | None = None
    drop: bool = False

    def __bool__(self) -> bool:
        return self.drop or self.path is not None or self.topic is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedBack:
    """The result for one link. `reverse`: the reverse link, None if none is needed. `unmirrored`:
    the records that only the old source has, as long as that can be known. `saved`: where they were
    saved. `gone`: how many offsets the old target has deleted since the cut; they never come back.
    `late`: records that others have written to the old source since then, without a known decision.
    `unfenced`: topics of the old source whose fence, of a cutover, was (or would be) lifted.
    `created`: topics that were (or would be) created there. `lag`: of the reverse link, None until
    it has begun. `keeps`: see ReturningOffsets, of the reverse link. `again`: how many offsets it
    copies again if the blocked topics are filled again. `refilled`: topics that were (or would be)
    deleted on the old source for that. `translated`: topics that do not keep their offsets from now
    on. `promoted`: the end of the reverse link. `begun`: the reverse link has the directive to
    begin at the cut. `pending`: the same call without `dry_run` would change something."""

    link: str
    reverse: str | None
    scope: Scope
    step: FailbackStep
    changed: bool
    dry_run: bool
    unmirrored: tuple[Unmirrored, ...] = ()
    late: tuple[Unmirrored, ...] = ()
    lost: tuple[TopicPartition, ...] = ()
    gone: Mapping[TopicPartition, int] = field(default_factory=dict)
    saved: str | None = None
    unfenced: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    lag: int | None = None
    lines: tuple[str, ...] = ()
    keeps: ReturningOffsets = field(default_factory=ReturningOffsets)
    again: int = 0
    refilled: tuple[str, ...] = ()
    translated: tuple[str, ...] = ()
    promoted: Promoted | None = None
    begun: bool = False
    pending: bool = False


def by_group(places: Collection[GroupPlace]) -> dict[str, list[GroupPlace]]:
    """Returns the places by group, in the order of the groups' names."""
    found: defaultdict[str, list[GroupPlace]] = defaultdict(list)
    for each in places:
        found[each.group].append(each)
    return dict(found)


# -- JSON -----------------------------------------------------------------------------------------


def _result_json(each: LinkResult, state: State, *, has_ended: bool, **more: Any) -> dict[str, Any]:
    """`state`: how the mirror ends by this call, if it `has_ended`."""
    how = state if each.before is None else each.before.how
    return picked(
        each,
        "link target left changed",
        topic=each.scope.topic,
        state=str(how) if has_ended else None,
        before=None if each.before is None else directive_as_json(each.before),
        cuts=[
            {
                "topic": name,
                "partition": point.partition,
                "source_offset": point.source,
                "target_topic": at.topic,
                "target_partition": at.partition,
                "target_offset": offset,
                "exact": point.exact,
                "same_offsets": cut.preserves,
            }
            for name, cut in sorted(each.cuts.items())
            for point in cut.points
            for at, offset in point.targets
        ],
        lifted=[str(one) for one in each.lifted],
        **more,
    )


def promoted_json(each: Promoted) -> dict[str, Any]:
    return _result_json(
        each,
        State.PROMOTED,
        has_ended=not (each.lagging or each.dry_run or each.left),
        **picked(each, "source dry_run"),
        lagging=[str(one) for one in each.lagging],
        groups=[picked(one, "group followed reason") for one in each.groups],
        ahead=dict(each.ahead),
    )


def failed_over_json(each: FailedOver) -> dict[str, Any]:
    looked = each.before is None and each.left is None
    return _result_json(
        each,
        State.FAILED_OVER,
        has_ended=each.changed or each.before is not None,
        **picked(each, "driver_seen_ms=seen_ms source_reason=source"),
        failed=each.error is not None,
        rpo_ms=each.rpo_ms if looked else None,
        rpo_known_ms=each.rpo_known_ms if looked else None,
        rpo_unknown=list(each.rpo_unknown),
        topics=[
            picked(
                one,
                "topic target_topic=target partitions not_begun=unbegun missing_records=missing "
                "exact",
                newest_ms=None if one.newest_ms < 0 else one.newest_ms,
                first_missing_ms=None if (one.first_ms or 0) < 0 else one.first_ms,
            )
            for one in each.topics
        ],
        groups=[
            picked(
                one,
                "group offset committed=there behind_end=behind",
                target_topic=one.partition.topic,
                partition=one.partition.partition,
                reason=each.failures.get(one.group, one.reason),
            )
            for one in each.groups
        ],
    )


def failed_back_json(each: FailedBack) -> dict[str, Any]:
    return picked(
        each,
        "link reverse changed dry_run begun pending saved unfenced created lines lag_records=lag"
        " refilled translated",
        topic=each.scope.topic,
        step=str(each.step),
        unmirrored=[_unmirrored_json(one) for one in each.unmirrored],
        late=[_unmirrored_json(one) for one in each.late],
        lost=[str(at) for at in each.lost],
        gone=[{**at._asdict(), "offsets": offsets} for at, offsets in each.gone.items()],
        same_offsets=sorted(each.keeps.topics - {*each.translated}),
        beyond=[{**at._asdict(), "offsets": count} for at, count in each.keeps.beyond.items()],
        blocked=sorted(each.keeps.blocked),
        copied_again=each.again,
        promoted=None if each.promoted is None else promoted_json(each.promoted),
    )


def _unmirrored_json(one: Unmirrored) -> dict[str, Any]:
    return picked(one, "first end records deleted_offsets=deleted surely", **one.at._asdict())
