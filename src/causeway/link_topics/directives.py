"""Directives: requests of people to a running mirror, as values.

The scope of a directive is a link, one of its topics, or one partition. Most kinds hold until they
are taken back. Restart and step-down are acts: the leading driver executes them once.

records.py has their records; directive_log.py reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from causeway.link_topics.entries import Value
from causeway.model import ENDED, NO_TOPIC_ID, State, TopicPartition

MOST_RATE = 2**63 - 1  # bytes/s, as in the settings


class DirectiveKind(StrEnum):
    PAUSE = "pause"
    THROTTLE = "throttle"
    FENCE = "fence"
    CUTOVER = "cutover"
    RESTART = "restart"
    STEP_DOWN = "step-down"
    END = "end"
    BEGIN = "begin"
    MIRROR = "mirror"
    ORIGIN = "origin"

    @property
    def holds(self) -> bool:
        """Whether it holds until it is taken back; otherwise it is an act."""
        return self not in (DirectiveKind.RESTART, DirectiveKind.STEP_DOWN)


class Scope(NamedTuple):
    """The link itself, one of its topics (by its name on the source), or a partition."""

    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        if self.topic is None:
            return "the link"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def covers(self, other: Scope | TopicPartition) -> bool:
        """Returns whether `other` is this scope or a part of it."""
        if self.topic is None:
            return True
        return self.topic == other.topic and self.partition in (None, other.partition)

    @property
    def order(self) -> tuple[str, int]:
        return self.topic or "", -1 if self.partition is None else self.partition

    @property
    def wider(self) -> Scope | None:
        """The next wider scope."""
        if self.topic is None:
            return None
        return Scope() if self.partition is None else Scope(self.topic)


THE_LINK = Scope()
Hold = tuple[State, str]  # the state of a partition that no lane may have, and the reason
DirectiveKey = tuple[DirectiveKind, Scope]


class ClaimStart(NamedTuple):
    """The source offset from which a partition is claimed, in the topic with the id `of`. `by`: the
    `at` of the directive. `translated`: see BeginDirective."""

    offset: int
    by: int
    of: str = NO_TOPIC_ID
    translated: bool = False


class FenceAcl(NamedTuple):
    """An ACL on one topic of the source, with the names of Kafka's enums."""

    permission: str
    operation: str
    principal: str
    host: str


class CutPoint(Value, kw_only=True):
    """The end of one source partition's mirror.

        source  0 ………………… S │ …       every relayed record below source offset S is on the target
        target  0 ………………… T │ …       below T, and the mirror has written nothing at T or later

    `source`: S, or -1 if the partition was never claimed. `targets`: each target partition that it
    fed, with T, the offset after the last record of the mirror; records that others wrote since do
    not count. `exact` is false if the mirror ended without a last report: then records from S on
    are, or may be, below T."""

    partition: int
    source: int
    targets: tuple[tuple[TopicPartition, int], ...]
    exact: bool


class Cut(Value, kw_only=True):
    """The end of the mirror of a topic. `target`: the topic's name on the target. The ids show
    whether one of the topics was recreated since. A reverse link starts at the cut. `preserves`:
    each record has the same offset on both sides."""

    target: str
    source_id: str = NO_TOPIC_ID
    target_id: str = NO_TOPIC_ID
    points: tuple[CutPoint, ...] = ()
    preserves: bool = False

    def point(self, partition: int) -> CutPoint | None:
        return next((each for each in self.points if each.partition == partition), None)


class Directive(Value, kw_only=True):
    """`who`: `user@host`. `why`: the reason that the person gave. `at`: ms since 1970.

    The order of the fields is their order in a record."""

    kind: ClassVar[DirectiveKind]

    scope: Scope = THE_LINK
    who: str
    why: str | None = None
    at: int

    @property
    def key(self) -> DirectiveKey:
        return self.kind, self.scope

    @property
    def happened_once(self) -> bool:
        """Whether it is a past event, for example a failover, and not a condition that holds."""
        return not self.kind.holds

    @property
    def by(self) -> str:
        """`by anna@ops1 since 2026-01-31T12:00:00Z: why`; for a past event `by anna@ops1 at …`."""
        stamp = datetime.fromtimestamp(self.at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        when = "at" if self.happened_once else "since"
        return f"by {self.who} {when} {stamp}" + (f": {self.why}" if self.why else "")


class PauseDirective(Directive, kw_only=True):
    """If `paused` is false, the scope is not paused, although a wider scope is."""

    kind = DirectiveKind.PAUSE
    paused: bool = True


class ThrottleDirective(Directive, kw_only=True):
    """If `bytes_per_s` is None, there is no limit, although the settings have one."""

    kind = DirectiveKind.THROTTLE
    bytes_per_s: Annotated[int, Meta(gt=0)] | None


class RestartDirective(Directive, kw_only=True):
    """`adopt`: lost records are acknowledged, and stopped partitions continue as after `run
    --adopt`.
    `translate`: stopped partitions that kept their offsets go on with translated offsets. `refill`:
    the id of a topic on the target, which is deleted and mirrored again."""

    kind = DirectiveKind.RESTART
    adopt: bool = False
    translate: bool = False
    refill: str | None = None


class StepDownDirective(Directive, kw_only=True):
    kind = DirectiveKind.STEP_DOWN


class FenceDirective(Directive, kw_only=True):
    """Prevents other clients from writing to a topic of the source until `until` (ms). `acls`: the
    ACLs that the fence has set, see control/fences.py."""

    kind = DirectiveKind.FENCE
    until: int
    acls: tuple[FenceAcl, ...] = ()


class CutoverDirective(Directive, kw_only=True):
    """The process `run` does the cutover of the link. It holds until `until` (ms), unless the
    process renews it."""

    kind = DirectiveKind.CUTOVER
    until: int
    run: str = ""


class EndDirective(Directive, kw_only=True):
    """The end of a mirror. `how`: PROMOTING, PROMOTED or FAILED_OVER. `done`: nothing is left to
    do.
    `groups`: the groups that could not be committed then. `until` (ms), `run`: the same as for a
    cutover, while a promotion is under way; otherwise -1 and empty. `cut`: the cut of a topic, when
    it is known."""

    kind = DirectiveKind.END
    how: State = State.PROMOTED
    done: bool = False
    groups: tuple[str, ...] = ()
    until: int = -1
    run: str = ""
    cut: Cut | None = None

    @property
    def happened_once(self) -> bool:
        return self.how in ENDED


class BeginDirective(Directive, kw_only=True):
    """Claims the partitions of a topic once, from the source offsets `starts` in the topic with
    `source_id`. Both of these are target offsets by partition. `looked`: up to there the target was
    searched for records that only the target has. `kept`: up to there, a person has decided about
    later records of others. `translated`: offsets are translated, also if the settings say
    otherwise."""

    kind = DirectiveKind.BEGIN
    source_id: str = NO_TOPIC_ID
    starts: Mapping[int, int] = msgspec.field(default_factory=dict)
    looked: Mapping[int, int] = msgspec.field(default_factory=dict)
    kept: Mapping[int, int] = msgspec.field(default_factory=dict)
    translated: bool = False

    @property
    def happened_once(self) -> bool:
        return True


class MirrorDirective(Directive, kw_only=True):
    """A person has chosen the topic, also if `topics` in the settings does not have it."""

    kind = DirectiveKind.MIRROR


class OriginDirective(Directive, kw_only=True):
    """The source's name belongs to the cluster with this id."""

    kind = DirectiveKind.ORIGIN
    cluster: str


CLASSES: Mapping[DirectiveKind, type[Directive]] = {
    each.kind: each for each in Directive.__subclasses__()
}
AnyDirective = TypeVar("AnyDirective", bound=Directive)
# A write to a key: None takes the directive back.
DirectiveChange = tuple[DirectiveKey, Directive | None]


@dataclass(frozen=True, slots=True)
class LinkDirectives:
    """The directives of a link that hold, and the newest act of each kind and scope."""

    by_key: Mapping[DirectiveKey, Directive] = field(default_factory=dict)

    @classmethod
    def of(cls, directives: Iterable[Directive]) -> LinkDirectives:
        return cls({each.key: each for each in directives})

    def with_all(self, changes: Iterable[DirectiveChange]) -> LinkDirectives:
        found = dict(self.by_key)
        for key, directive in changes:
            if directive is None:
                found.pop(key, None)
            else:
                found[key] = directive
        return LinkDirectives(found)

    def __iter__(self) -> Iterator[Directive]:
        """Yields the directives that hold, by kind and scope."""
        found = (each for each in self.by_key.values() if each.kind.holds)
        return iter(sorted(found, key=lambda each: (each.kind, *each.scope.order)))

    def get(self, which: type[AnyDirective], scope: Scope = THE_LINK) -> AnyDirective | None:
        """Returns the directive of this class about exactly `scope`."""
        found = self.by_key.get((which.kind, scope))
        return found if isinstance(found, which) else None

    def all(self, which: type[AnyDirective]) -> Iterator[AnyDirective]:
        """Yields the directives of this class."""
        return (each for each in self.by_key.values() if isinstance(each, which))

    def narrowest(
        self, which: type[AnyDirective], what: Scope | TopicPartition
    ) -> AnyDirective | None:
        """Returns the directive of this class about `what`, or about the next wider scope that has
        one."""
        scope: Scope | None = Scope(*what)
        while scope is not None:
            if (found := self.get(which, scope)) is not None:
                return found
            scope = scope.wider
        return None

    def pause_of(self, what: Scope | TopicPartition) -> PauseDirective | None:
        """Returns the directive that pauses `what`; None if it is not paused."""
        found = self.narrowest(PauseDirective, what)
        return found if found is not None and found.paused else None

    def end_of(self, what: Scope | TopicPartition) -> EndDirective | None:
        """Returns the directive that has ended the mirror of `what`, or is about to end it
        (PROMOTING). None if the mirror goes on. No part of an ended mirror goes on."""
        return self.narrowest(EndDirective, what)

    def has_ended(self, what: Scope | TopicPartition) -> bool:
        """Returns whether the mirror of `what` has ended. It has not while it is only about to
        end."""
        found = self.end_of(what)
        return found is not None and found.how in ENDED

    def hold_of(self, what: Scope | TopicPartition) -> Hold | None:
        """Returns why no lane may have a part of `what`; None if lanes may."""
        if (end := self.end_of(what)) is not None:
            return end.how, f"{end.how} {end.by}"
        pause = self.pause_of(what)
        return None if pause is None else (State.PAUSED, f"paused {pause.by}")

    def start_of(self, at: TopicPartition) -> ClaimStart | None:
        """Returns the offset from which `at` must be claimed again; None if it must not be claimed
        again."""
        found = self.get(BeginDirective, Scope(at.topic))
        if found is None or (offset := found.starts.get(at.partition)) is None:
            return None
        return ClaimStart(offset, found.at, found.source_id, found.translated)

    @property
    def holds(self) -> bool:
        """Whether a scope is paused, or has ended."""
        return any(
            isinstance(each, EndDirective) or (isinstance(each, PauseDirective) and each.paused)
            for each in self.by_key.values()
        )

    def limits(self, by_default: int | None) -> dict[str | None, int]:
        """Returns the limit (bytes/s) of each throttled topic, and of the link (None).
        `by_default`: the limit in the settings."""
        found = {each.scope.topic: each.bytes_per_s for each in self.all(ThrottleDirective)}
        found.setdefault(None, by_default)
        return {topic: rate for topic, rate in found.items() if rate is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectivePlan:
    """`changes`: the changes to write, none if the wish already holds. `before`: the directive that
    counted for the scope until now. `parts`: directives about parts of the scope that still
    hold."""

    changes: tuple[DirectiveChange, ...] = ()
    before: Directive | None = None
    parts: tuple[Directive, ...] = ()


_SHOWN: Mapping[DirectiveKind, tuple[str, ...]] = {
    DirectiveKind.PAUSE: ("paused",),
    DirectiveKind.THROTTLE: ("bytes_per_s",),
    DirectiveKind.END: ("how", "done"),
}


def directive_as_json(directive: Directive) -> dict[str, Any]:
    """Returns a directive for `--json` and pages."""
    found: dict[str, Any] = {
        "do": directive.kind.value,
        "topic": directive.scope.topic,
        "partition": directive.scope.partition,
        "who": directive.who,
        "why": directive.why,
        "at_ms": directive.at,
    }
    shown = _SHOWN.get(directive.kind, ())
    found |= {name: getattr(directive, name) for name in shown}
    until = getattr(directive, "until", -1)
    return found | {"until_ms": until} if until >= 0 else found
