"""An explanation, and its rule: the key of the file that decided on a name, the place of the key,
and how to change it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from causeway.config import PROVENANCE, SKIP_HEADER, LinkSettings, TransformSettings
from causeway.errors import ConfigError
from causeway.filters import (
    POLICY,
    DecidingRule,
    TopicDecision,
    Verdict,
    compile_patterns,
    excludes,
)
from causeway.patterns import Pattern
from causeway.renames import KEY as RENAME


class SubjectKind(StrEnum):
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"


class Code(StrEnum):
    """The answers besides `filters.Verdict`, `control.LeftOutReason` and the states."""

    MISSING = "missing"  # the source has no such topic or group
    DELETED = "deleted"  # the source had the topic
    NOT_ALLOWED = "not-allowed"
    PROBLEM = "problem"  # the target cannot take the topic
    PLANNED = "planned"  # the topic will be mirrored
    UNKNOWN = "unknown"  # a cluster did not answer
    OFF = "off"  # the file has groups switched off
    NO_OFFSETS = "no-offsets"
    CHECKPOINTS_ONLY = "checkpoints-only"  # by the file, nothing is committed on the target
    NOT_YET = "not-yet"
    SYNCED = "synced"
    AHEAD = "ahead"  # the group is further on the target: a move would skip records


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule:
    """The key that decided. `pattern`: the pattern in the key's list; None if there is none.
    `place`: the key in the file, with its line; None if the file does not set the key: then the
    default counts."""

    key: str
    pattern: str | None
    place: str | None

    def __str__(self) -> str:
        where = self.place or f"the default of {self.key}"
        return where if self.pattern is None else f"{where}, pattern {self.pattern}"


@dataclass(frozen=True, slots=True)
class Fact:
    about: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of one name on one link. `code`: the answer for programs: a state, a
    filters.Verdict, a control.LeftOutReason or a Code. `done`: whether the topic is mirrored, or
    the group synced as the file says; None if unknown. `rule`: None if no key of the file decided.
    `target`: the name on the target. `since_ms`: the latest possible beginning of this state.
    `unknown`: failed requests with their reasons."""

    link: str
    kind: SubjectKind
    name: str
    code: str
    done: bool | None
    answer: str
    rule: FileRule | None = None
    target: str | None = None
    since_ms: int | None = None
    facts: tuple[Fact, ...] = ()
    to_do: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def as_json_of(one: Explanation) -> dict[str, Any]:
    """Returns JSON for `--json` and the API: stable keys; null means unknown."""
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found


def in_file(link: LinkSettings, rule: DecidingRule | None) -> FileRule | None:
    """Returns `rule` with its place in the file."""
    if rule is None:
        return None
    return FileRule(key=rule.key, pattern=rule.pattern, place=link.places.get(rule.key))


def of_key(link: LinkSettings, key: str) -> FileRule:
    """Returns the rule of a key without a list."""
    return FileRule(key=key, pattern=None, place=link.places.get(key))


def change(link: LinkSettings, name: str, verdict: Verdict, rule: FileRule | None) -> Iterator[str]:
    """Yields how to change the file so that the name is not left out."""
    match verdict:
        case Verdict.NOT_INCLUDED if rule is not None:
            yield f"to have it mirrored, add it to {_named(rule)}"
            yield from _parts(name, link.topics if rule.key == "topics" else link.control.groups)
        case Verdict.EXCLUDED if rule is not None:
            if rule.place is None:
                yield f"to have it mirrored, set {rule.key} without that pattern"
            else:
                yield f"to have it mirrored, take that pattern out of {rule.place}"
        case Verdict.POLICY_FAILED if rule is not None:
            yield f"correct the class of {_named(rule)}"
        case Verdict.UNDECIDED if rule is not None:
            yield f"write that pattern of {_named(rule)} without look-around or back-references"
        case Verdict.HEARTBEATS_OFF if rule is not None:
            yield f"set {rule.key} = true, or add it to topics"
        case Verdict.INTERNAL if rule is not None and rule.key == POLICY:
            yield f"change the class of {_named(rule)}, if the topic is your own"
        case Verdict.INTERNAL if rule is not None:
            yield f"set {rule.key} = kafka-4, if the topic is your own"
        case Verdict.INTERNAL | Verdict.DEAD_LETTERS:
            yield "nothing: such topics are never mirrored"
        case Verdict.WAY_BACK:
            yield "nothing: `causeway failback FILE` starts it at the offsets of the cut"
        case Verdict.CYCLE:
            yield f"nothing: {link.target.alias} has the records already"
        case Verdict.NAME_TOO_LONG | Verdict.NAME_UNFIT if rule is not None:
            yield f"choose another name in {_named(rule)}"
        case Verdict.NAME_TOO_LONG:
            yield "choose a shorter alias or separator, or the identity policy"


def _named(rule: FileRule) -> str:
    return rule.place or f"{rule.key}, which is not set in the file"


def _parts(name: str, patterns: Sequence[Pattern]) -> Iterator[str]:
    """Yields the patterns that match only a part of the name, or the name in another case."""
    for pattern in patterns:
        if _matches(f".*(?:{pattern.pattern}).*", name):
            yield f"{pattern.pattern} matches only a part of the name; it must match the whole name"
        elif _matches(f"(?i){pattern.pattern}", name):
            yield f"{pattern.pattern} would match if upper and lower case were equal"


def _matches(text: str, name: str) -> bool:
    try:
        return any(pattern.matches(name) is True for pattern in compile_patterns(text))
    except ConfigError:
        return False


def naming(link: LinkSettings, decision: TopicDecision) -> Fact:
    """Returns the rule that gives the name on the target."""
    policy = link.policy
    if decision.renamed is not None:
        place = link.places.get(RENAME, RENAME)
        return Fact("name", f"{decision.target_name} ({place}: {decision.renamed})")
    if policy.kind == "custom":
        text = f"{decision.target_name} ({link.places.get(POLICY, POLICY)}: {policy.class_name})"
        return Fact("name", text)
    if policy.kind != "default":
        return Fact("name", f"{decision.target_name}, as on {link.source.alias} ({policy.kind})")
    how = f"alias {link.source.alias}, separator '{policy.separator}'"
    keys = ("source.cluster.alias", "replication.policy.class", "replication.policy.separator")
    places = [link.places[key] for key in keys if key in link.places]
    where = f"; {', '.join(places)}" if places else ""
    return Fact("name", f"{decision.target_name} ({how}{where})")


def transform(link: LinkSettings, topic: str) -> Fact | None:
    """Returns the transform of the topic's records."""
    found = link.transform_of(topic)
    if found is None:
        return None
    by = next((each.pattern for each in found.topics if excludes([each], topic)), "")
    later = [each.name for each in _after(link, found) if excludes(each.topics, topic)]
    text = f"{found.name} ({found.kind}, {found.place}), by its topics pattern {by}"
    if later:
        text += f"; {', '.join(later)} also matches, but comes later"
    return Fact("transform", text)


def treatment(link: LinkSettings, topic: str) -> Iterator[Fact]:
    """Yields the treatments of each record of the topic."""
    for step in link.treatments_of(topic):
        key = {"skip-header": SKIP_HEADER, "provenance": PROVENANCE}.get(step.kind, step.kind)
        yield Fact("each record", f"{step.text} ({link.places.get(key, key)})")


def offsets(link: LinkSettings, topic: str) -> Fact | None:
    """Returns the rule by which the topic keeps its offsets."""
    if not link.preserves(topic):
        return None
    key = "causeway.offsets"
    text = f"the same as on {link.source.alias}"
    if link.offsets == "preserve":
        return Fact("offsets", f"{text} ({link.places.get(key, key)} = preserve)")
    key = f"{key}.preserve.topics"
    by = next((each.pattern for each in link.preserve_topics if excludes([each], topic)), "")
    return Fact("offsets", f"{text} ({link.places.get(key, key)}: {by})")


def _after(link: LinkSettings, one: TransformSettings) -> Sequence[TransformSettings]:
    names = [each.name for each in link.transforms]
    return link.transforms[names.index(one.name) + 1 :]


def same_target(link: LinkSettings, target: str, links: Sequence[LinkSettings]) -> Iterator[Fact]:
    """Yields other flows of the file that write to the same topic."""
    for other in links:
        if other.name == link.name or other.target.bootstrap != link.target.bootstrap:
            continue
        upstream = other.upstream(target)
        if upstream is not None:
            text = f"{other.name} also writes to {target}, if {other.source.alias} has {upstream}"
            yield Fact("same name", text)
