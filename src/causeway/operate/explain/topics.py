"""Explains, from the facts of a topic, why it is mirrored, or why not. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from causeway.config import LinkSettings
from causeway.filters import TopicDecision
from causeway.link_topics import (
    Directive,
    EndDirective,
    LinkDirectives,
    PauseDirective,
    Scope,
    ThrottleDirective,
)
from causeway.model import State, TopicPartition
from causeway.operate.explain import rules
from causeway.operate.explain.rules import Code, Explanation, Fact, SubjectKind
from causeway.status import NO_DRIVER, PartitionStatus, worst

_GOES_ON: Final = (State.RUNNING, State.RECOVERING, State.DONE)
_MOST_LINES: Final = 10  # of partitions with a state and reason of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """`there`: whether the source has the topic; None if unknown. `hidden`: why the source does not
    show it. `directives`: the directives of the link. `problems`: why the target cannot have the
    topic, or only with differences. `unknown`: failed requests with their reasons."""

    there: bool | None = None
    hidden: str | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    directives: LinkDirectives = field(default_factory=LinkDirectives)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    driver: str | None = None
    unknown: tuple[str, ...] = ()


def explain_topic(
    link: LinkSettings,
    topic: str,
    facts: TopicFacts,
    *,
    partition: int | None = None,
    links: Sequence[LinkSettings] = (),
) -> Explanation:
    """Explains why `link` mirrors `topic`, or one of its partitions, or why not. `links`: all links
    of the file, to find others that write to the same target topic."""
    decision = link.decide_topic(topic)
    known = [one for one in facts.partitions if partition in (None, one.partition)]
    code, done, answer = _answer(link, decision, facts, known)
    rule = rules.in_file(link, decision.rule)
    found = []
    if decision.mirrored and (rule is None or rule.pattern is None):
        found.append(Fact("decided", decision.reason))
    if decision.target_name is not None:
        found.append(rules.naming(link, decision))
        found += rules.same_target(link, decision.target_name, links)
        found += rules.treatment(link, topic)
        found += filter(None, [rules.transform(link, topic), rules.offsets(link, topic)])
    asked = list(_asked(facts.directives, Scope(topic, partition)))
    found += [_fact(each) for each in asked]
    found += _states(known)
    found += [Fact("problem", each) for each in facts.problems]
    found += [Fact("note", each) for each in facts.notes]
    if facts.driver is not None:
        found.append(Fact("driver", facts.driver))
    return Explanation(
        link=link.name,
        kind=SubjectKind.TOPIC if partition is None else SubjectKind.PARTITION,
        name=topic if partition is None else str(TopicPartition(topic, partition)),
        code=code,
        done=done,
        answer=answer,
        rule=rule,
        target=decision.target_name,
        since_ms=_since(code, known, asked),
        facts=tuple(found),
        to_do=tuple(_to_do(link, topic, decision, code, asked)),
        unknown=facts.unknown,
    )


def _answer(
    link: LinkSettings, decision: TopicDecision, facts: TopicFacts, known: Sequence[PartitionStatus]
) -> tuple[str, bool | None, str]:
    source, target = link.source.alias, decision.target_name
    if target is None:
        before = f"; before that, it was mirrored to {_reached(known)}" if known else ""
        return decision.verdict, False, f"left out: {decision.reason}{before}"
    if any(one.gone_ms is not None for one in known) or (known and facts.there is False):
        return (
            Code.DELETED,
            False,
            f"{source} no longer has it; the mirrored records stay in {target}",
        )
    if facts.there is False:
        return (
            Code.MISSING,
            False,
            f"{source} has no such topic; once created, it goes to {target}",
        )
    if facts.hidden is not None:
        return Code.NOT_ALLOWED, False, f"{source} does not show it to Causeway: {facts.hidden}"
    if known:
        states = [one.state for one in known]
        code = worst(each for each in states if each not in _GOES_ON) or states[0]
        counts = ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))
        return code, all(each in _GOES_ON for each in states), f"goes to {target}: {counts}"
    if facts.problems:
        return Code.PROBLEM, False, f"cannot go to {target}: {facts.problems[0]}"
    if facts.there is None:
        return Code.UNKNOWN, None, f"by the file it goes to {target}; its state is not known"
    every = link.places.get("refresh.topics.interval.seconds", "refresh.topics.interval.seconds")
    return (
        Code.PLANNED,
        False,
        f"will go to {target}: a driver looks for topics every {link.refresh_topics_interval_s:g} s"
        f" ({every})",
    )


def _reached(known: Sequence[PartitionStatus]) -> str:
    offsets = [f"{each.partition}@{each.mirrored_to}" for each in known[:_MOST_LINES]]
    return f"partition@offset {', '.join(offsets)}{'…' if len(known) > _MOST_LINES else ''}"


def _asked(directives: LinkDirectives, scope: Scope) -> Iterator[Directive]:
    """Yields the directives that apply to `scope` or to its parts. Of the pauses that cover it,
    only the effective one."""
    pause = directives.pause_of(scope)
    if pause is not None:
        yield pause
    for each in directives:
        if each is pause or not (each.scope.covers(scope) or scope.covers(each.scope)):
            continue
        if not isinstance(each, PauseDirective) or (each.paused and scope.covers(each.scope)):
            yield each


def _fact(directive: Directive) -> Fact:
    about = f"{directive.scope} {directive.by}"
    match directive:
        case PauseDirective():
            return Fact("paused", about)
        case ThrottleDirective():
            rate = directive.bytes_per_s
            limit = "no limit" if rate is None else f"{rate:,} bytes/s"
            return Fact("throttled", f"{directive.scope} to {limit} {directive.by}")
        case EndDirective():
            return Fact(directive.how, about)
        case _:
            return Fact(directive.kind, about)


def _states(known: Iterable[PartitionStatus]) -> Iterator[Fact]:
    """Yields one line for all partitions with the same state and reason."""
    alike: dict[tuple[str, str | None], list[PartitionStatus]] = defaultdict(list)
    for one in known:
        alike[one.state, one.reason].append(one)
    for place, ((state, reason), some) in enumerate(alike.items()):
        if place == _MOST_LINES:
            yield Fact("state", f"and {len(alike) - place} more kinds of state and reason")
            return
        numbers = ", ".join(str(one.partition) for one in some[:_MOST_LINES])
        more = f" and {len(some) - _MOST_LINES} more" if len(some) > _MOST_LINES else ""
        which = f"partition{'s' if len(some) > 1 else ''} {numbers}{more}"
        noted = max(-1 if one.noted_ms is None else one.noted_ms for one in some)
        said = f" (noted {stamp(noted)})" if noted >= 0 and state not in _GOES_ON else ""
        yield Fact("state", f"{which} {state}{said}{f': {reason}' if reason else ''}")


def _since(code: str, known: Sequence[PartitionStatus], asked: Sequence[Directive]) -> int | None:
    if code == Code.DELETED:
        return min((one.gone_ms for one in known if one.gone_ms is not None), default=None)
    if code == State.PAUSED:
        return next((each.at for each in asked if isinstance(each, PauseDirective)), None)
    if code in (State.STOPPED, State.FAILED):
        return min(
            (-1 if one.noted_ms is None else one.noted_ms for one in known if one.state == code),
            default=None,
        )
    return None


def _to_do(
    link: LinkSettings,
    topic: str,
    decision: TopicDecision,
    code: str,
    asked: Sequence[Directive],
) -> Iterator[str]:
    yield from rules.change(link, topic, decision.verdict, rules.in_file(link, decision.rule))
    match code:
        case State.PAUSED:
            yield from _resume(link, asked)
        case State.STOPPED:
            yield "look the reason up in docs/how-to/operations.md, When a partition is stopped"
            yield f"then: causeway restart FILE --link '{link.name}' --topic {topic}"
        case State.FAILED:
            yield "correct the cause; Causeway retries by itself"
        case _ if code == NO_DRIVER:
            yield "causeway run FILE"
            yield from _resume(link, asked)
        case _ if code == Code.NOT_ALLOWED:
            yield (
                f"grant DESCRIBE, DESCRIBE_CONFIGS and READ on topic {topic} of"
                f" {link.source.alias} to Causeway's principal"
            )
        case _ if code == Code.DELETED:
            yield "nothing; or delete the mirror too, if no application needs it"
        case _ if code == Code.PROBLEM:
            yield "correct the cause; Causeway retries when it next looks for topics"


def _resume(link: LinkSettings, asked: Sequence[Directive]) -> Iterator[str]:
    pause = next((each for each in asked if isinstance(each, PauseDirective)), None)
    if pause is not None:
        yield f"causeway resume FILE --link '{link.name}'{_options(pause.scope)}"


def _options(scope: Scope) -> str:
    topic = "" if scope.topic is None else f" --topic {scope.topic}"
    return topic + ("" if scope.partition is None else f" --partition {scope.partition}")


def stamp(at_ms: int) -> str:
    """Returns a text like `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
