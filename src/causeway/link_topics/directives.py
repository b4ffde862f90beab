"""Directives: what a person asks of a running mirror, as values. Pure.

A directive is about a scope: a link, one of its topics, or one partition. Pause, throttle, fence,
cutover, end, mirror and origin stand until they are taken back; restart and step-down are acts,
done once by whoever leads.

As records: directive_json.py. How they get there: directive_log.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from causeway.errors import RefusedError
from causeway.link_topics.cuts import Cut
from causeway.model import ENDED, NO_TOPIC_ID, State, TopicPartition

MOST_RATE = 2**63 - 1  # bytes/s, as of the file's


class Kind(StrEnum):
    PAUSE = "pause"
    THROTTLE = "throttle"
    FENCE = "fence"
    CUTOVER = "cutover"
    RESTART = "restart"
    STEP_DOWN = "step-down"
    END = "end"
    BEGIN = "begin"
    MIRROR = "mirror"  # a topic that somebody has chosen, see chosen.py
    ORIGIN = "origin"  # whose cluster the source's name stands for

    @property
    def stands(self) -> bool:
        """Until it is taken back; else it is an act."""
        return self not in (Kind.RESTART, Kind.STEP_DOWN)


class Scope(NamedTuple):
    """The link itself, one of its topics (by its name on the source), or a partition."""

    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        if self.topic is None:
            return "the link"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def covers(self, other: Scope | TopicPartition) -> bool:
        """Whether `other` is part of this, or the same."""
        if self.topic is None:
            return True
        return self.topic == other.topic and self.partition in (None, other.partition)

    @property
    def wider(self) -> Scope | None:
        """What it is part of."""
        if self.topic is None:
            return None
        return Scope() if self.partition is None else Scope(self.topic)


THE_LINK = Scope()
Hold = tuple[State, str]  # how something is held, and why


class Start(NamedTuple):
    """A source offset that a partition is claimed from, in the topic with the id `of`, and by which
    directive (its `at`)."""

    offset: int
    by: int
    of: str = NO_TOPIC_ID


class FenceAcl(NamedTuple):
    """A rule on one topic of the source, by the names of Kafka's enums."""

    permission: str
    operation: str
    principal: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """`who`: as `user@host`; `why`: what they said; `at`: ms since 1970. `paused` false: it is not,
    though what the scope is part of is. `adopt` of a restart: it acknowledges lost records, and
    stopped partitions go on as after `run --adopt`. `bytes_per_s` of a throttle; None: no limit.
    `until` (ms): when a fence, a cutover or a promotion that is under way is over; `acls`: what the
    fence has set, see control/fences.py; `run`: the process of the cutover or the promotion. Of an
    end: `how`
    (PROMOTING, PROMOTED or FAILED_OVER), whether all that follows from it is `done`, the `groups`
    that could not be committed then, and of a topic the `cut`, once it is known. Of a begin,
    offsets by partition: `starts` of the source, of its topic with `source_id`; of the target
    `looked`, up to where it was looked through for what only it has, and `kept`, up to where what
    others wrote later was seen to. `cluster` of an origin: the id of the source."""

    kind: Kind
    scope: Scope = THE_LINK
    who: str
    why: str | None = None
    at: int
    paused: bool = True
    adopt: bool = False
    bytes_per_s: int | None = None
    until: int = -1
    acls: tuple[FenceAcl, ...] = ()
    run: str = ""
    how: State = State.PROMOTED
    done: bool = False
    groups: tuple[str, ...] = ()
    cut: Cut | None = None
    starts: Mapping[int, int] = field(default_factory=dict, hash=False)
    source_id: str = NO_TOPIC_ID
    looked: Mapping[int, int] = field(default_factory=dict, hash=False)
    kept: Mapping[int, int] = field(default_factory=dict, hash=False)
    cluster: str = ""

    @property
    def key(self) -> Key:
        return self.kind, self.scope

    @property
    def by(self) -> str:
        """`by anna@ops1 since 2026-01-31T12:00:00Z: why`; of what happened once, such as a
        failover, `by anna@ops1 at …`."""
        stamp = datetime.fromtimestamp(self.at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        once = not self.kind.stands or self.kind is Kind.BEGIN
        when = "at" if once or (self.kind is Kind.END and self.how in ENDED) else "since"
        return f"by {self.who} {when} {stamp}" + (f": {self.why}" if self.why else "")


Key = tuple[Kind, Scope]


@dataclass(frozen=True, slots=True)
class Standing:
    """The directives of a link that stand, and the newest act of each kind and scope."""

    by_key: Mapping[Key, Directive] = field(default_factory=dict)

    def with_all(self, changes: Iterable[Change]) -> Standing:
        found = dict(self.by_key)
        for key, directive in changes:
            if directive is None:
                found.pop(key, None)
            else:
                found[key] = directive
        return Standing(found)

    def __iter__(self) -> Iterator[Directive]:
        """Those that stand, by kind and scope."""
        found = (each for each in self.by_key.values() if each.kind.stands)
        return iter(sorted(found, key=lambda each: (each.kind, _order(each.scope))))

    def pause_of(self, what: Scope | TopicPartition) -> Directive | None:
        """Why `what` is paused; None where it is not. The narrowest directive counts."""
        scope: Scope | None = Scope(*what)
        while scope is not None:
            if (found := self.by_key.get((Kind.PAUSE, scope))) is not None:
                return found if found.paused else None
            scope = scope.wider
        return None

    def end_of(self, what: Scope | TopicPartition) -> Directive | None:
        """By what the mirror of `what` has ended, or is about to (PROMOTING); None where it goes
        on. No part of what has ended goes on; of two, the narrower one tells."""
        scope: Scope | None = Scope(*what)
        while scope is not None:
            if (found := self.by_key.get((Kind.END, scope))) is not None:
                return found
            scope = scope.wider
        return None

    def has_ended(self, what: Scope | TopicPartition) -> bool:
        """For good, not only about to."""
        found = self.end_of(what)
        return found is not None and found.how in ENDED

    def hold_of(self, what: Scope | TopicPartition) -> Hold | None:
        """Why nothing of `what` may go to a lane; None where it may."""
        if (end := self.end_of(what)) is not None:
            return end.how, f"{end.how} {end.by}"
        pause = self.pause_of(what)
        return None if pause is None else (State.PAUSED, f"paused {pause.by}")

    def start_of(self, at: TopicPartition) -> Start | None:
        """Where `at` has to be claimed anew; None where it need not."""
        found = self.by_key.get((Kind.BEGIN, Scope(at.topic)))
        if found is None or (offset := found.starts.get(at.partition)) is None:
            return None
        return Start(offset, found.at, found.source_id)

    @property
    def holds(self) -> bool:
        """Whether anything is paused, or has ended."""
        return any(
            (each.kind is Kind.PAUSE and each.paused) or each.kind is Kind.END
            for each in self.by_key.values()
        )

    def limits(self, by_default: int | None) -> dict[str | None, int]:
        """Bytes/s of each throttled topic, and of the link by None. `by_default`: the file's."""
        found = {
            each.scope.topic: each.bytes_per_s
            for each in self.by_key.values()
            if each.kind is Kind.THROTTLE
        }
        found.setdefault(None, by_default)
        return {topic: rate for topic, rate in found.items() if rate is not None}


# What is written of a key: None takes it back.
Change = tuple[Key, Directive | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be written, nothing where all is as it is wished for; `before`: what counted for
    the scope until now; `beside`: what goes on standing for parts of it."""

    changes: tuple[Change, ...] = ()
    before: Directive | None = None
    beside: tuple[Directive, ...] = ()


def plan(standing: Standing, wish: Directive) -> Plan:
    """To have `wish`. Whoever pauses a thing pauses all of it; whoever resumes one (`paused` false)
    leaves alone what somebody paused of its parts. Raises RefusedError where its mirror has ended:
    then there is nothing to pause, to resume or to restart."""
    asked_of_mirrors = wish.kind in (Kind.PAUSE, Kind.RESTART)
    if asked_of_mirrors and (end := standing.end_of(wish.scope)) is not None:
        raise _has_ended(wish, end)
    if wish.kind is Kind.PAUSE:
        return _plan_pause(standing, wish)
    before = standing.by_key.get(wish.key)
    if before is not None and before.kind is Kind.THROTTLE:
        same = before.bytes_per_s == wish.bytes_per_s
        return Plan(changes=() if same else ((wish.key, wish),), before=before)
    return Plan(changes=((wish.key, wish),), before=before)


def plan_back(standing: Standing, kind: Kind, scope: Scope) -> Plan:
    """To take a throttle back: what the file says counts again."""
    before = standing.by_key.get((kind, scope))
    return Plan(changes=() if before is None else (((kind, scope), None),), before=before)


def _has_ended(wish: Directive, end: Directive) -> RefusedError:
    back = end.how in ENDED
    return RefusedError(
        "resume" if not wish.paused else str(wish.kind),
        str(wish.scope),
        f"its mirror was {end.how} {end.by}" if back else f"{end.how} {end.by}",
        remedy="`causeway failback` takes it up again" if back else "`causeway promote` goes on",
    )


def _plan_pause(standing: Standing, wish: Directive) -> Plan:
    scope, now = wish.scope, standing.pause_of(wish.scope)
    parts = [
        each
        for each in standing.by_key.values()
        if each.kind is Kind.PAUSE and each.scope != scope and scope.covers(each.scope)
    ]
    moot: tuple[Change, ...] = tuple((each.key, None) for each in parts if not each.paused)
    if wish.paused:
        # One that stands for more may be taken back first; then this one goes on.
        same = now is not None and now.scope == scope
        return Plan(changes=moot if same else (*moot, (wish.key, wish)), before=now)
    beside = tuple(each for each in parts if each.paused)
    if now is None:
        return Plan(beside=beside)
    above = None if scope.wider is None else standing.pause_of(scope.wider)
    return Plan(
        changes=(*moot, (wish.key, None if above is None else wish)), before=now, beside=beside
    )


def _order(scope: Scope) -> tuple[str, int]:
    return scope.topic or "", -1 if scope.partition is None else scope.partition
