"""Decides which topics a flow mirrors, and why it leaves out others.

Patterns are whole-name Java regular expressions (see patterns.py for how they are matched).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from causeway.errors import ConfigError
from causeway.naming import (
    MAX_TOPIC_LENGTH,
    NoNameError,
    PolicyFailedError,
    ReplicationPolicy,
    is_legal_name,
)
from causeway.patterns import TIME_LIMIT_S, Pattern, compile_pattern
from causeway.renames import KEY as RENAME

HEARTBEATS_REPLICATION = "heartbeats.replication.enabled"
CHOSEN = "chosen with `causeway geo`"
INTERNAL_TOPICS = "causeway.internal.topics"
POLICY = "replication.policy.class"
_SEPARATOR = re.compile(r"\s*,\s*")


class Verdict(StrEnum):
    """Why a topic is mirrored or left out; a stable code for machines."""

    MIRRORED = "mirrored"
    NOT_INCLUDED = "not-included"
    EXCLUDED = "excluded"
    UNDECIDED = "undecided"
    HEARTBEATS_OFF = "heartbeats-off"
    INTERNAL = "internal"
    CYCLE = "cycle"
    DEAD_LETTERS = "dead-letters"
    NAME_TOO_LONG = "name-too-long"
    POLICY_FAILED = "policy-failed"
    NAME_UNFIT = "name-unfit"
    WAY_BACK = "way-back"
    NAME_TAKEN = "name-taken"  # by the clusters' topics, not by the name alone


# The file asks for such a topic, and it cannot be mirrored: a problem, not a choice.
UNMIRRORABLE = frozenset(
    (Verdict.UNDECIDED, Verdict.POLICY_FAILED, Verdict.NAME_TOO_LONG, Verdict.NAME_UNFIT)
)


class DecidingRule(NamedTuple):
    """The key of a file that decides about a name, and the matching pattern of its list. The
    pattern is None if none matches, or if the key has no list."""

    key: str
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision:
    """`target_name`: None if the topic is left out. `reason`: for people. `rule`: None if no key of
    the file decides. `renamed`: the rule that made the name."""

    verdict: Verdict
    target_name: str | None
    reason: str
    rule: DecidingRule | None = None
    renamed: str | None = None

    @property
    def mirrored(self) -> bool:
        return self.target_name is not None


def split_list(value: str) -> tuple[str, ...]:
    """Returns the items of a Kafka list, without the commas and the blanks around them. A blank
    value is empty. An empty list of patterns matches nothing."""
    return tuple(item for item in _SEPARATOR.split(value.strip()) if item)


def compile_patterns(value: str) -> tuple[Pattern, ...]:
    """Returns the patterns of a comma-separated list. Raises ConfigError, which quotes the faulty
    pattern.

    MirrorMaker 2 joins the list with `|`, so a flag of one pattern, such as `(?i)`, is also in
    force for the patterns after it. Causeway does the same.
    """
    patterns = []
    flags = ""
    for item in split_list(value):
        pattern, flags = compile_pattern(item, flags)
        patterns.append(pattern)
    return tuple(patterns)


def compile_mm1_include(value: str) -> tuple[Pattern, ...]:
    """Returns the pattern of MirrorMaker 1's `--whitelist`: one regular expression in which `,`
    means `|`. Blanks and quotes around it do not count. `*` alone means all topics."""
    text = value.strip().strip("\"'").replace(" ", "").replace(",", "|").strip("|")
    if not text:
        raise ConfigError("read the include pattern", repr(value), "it is empty")
    return (compile_pattern(".*" if text == "*" else text)[0],)


def excludes(patterns: Iterable[Pattern], name: str) -> bool:
    """Returns whether one of `patterns` matches `name`, or gives no answer in time."""
    return any(pattern.matches(name) is not False for pattern in patterns)


def by_name(
    name: str, include: Iterable[Pattern], exclude: Iterable[Pattern], key: str
) -> tuple[Verdict, str, DecidingRule]:
    """Returns whether `include`, the value of `key`, names `name` and `exclude` does not: MIRRORED,
    or why not, with a reason for people and the deciding rule. If a pattern of one of the lists
    gives no answer in time, the name is left out."""
    for pattern in exclude:
        answer = pattern.matches(name)
        if answer is None:
            return _undecided(f"{key}.exclude", pattern)
        if answer:
            reason = f"excluded by {key}.exclude pattern {pattern.pattern}"
            return Verdict.EXCLUDED, reason, DecidingRule(f"{key}.exclude", pattern.pattern)
    undecided = None
    for pattern in include:
        answer = pattern.matches(name)
        if answer:
            return Verdict.MIRRORED, f"matched by {key}", DecidingRule(key, pattern.pattern)
        if answer is None:
            undecided = pattern
    if undecided is not None:
        return _undecided(key, undecided)
    return Verdict.NOT_INCLUDED, f"not matched by {key}", DecidingRule(key)


def plain_names(patterns: Iterable[Pattern]) -> list[str]:
    """Returns the names that `patterns` have in full. A cluster's list leaves out what we may not
    see, so these names are asked for one by one."""
    texts = (pattern.pattern.replace("\\.", ".") for pattern in patterns)
    return [text for text in texts if is_legal_name(text)]


def _undecided(key: str, pattern: Pattern) -> tuple[Verdict, str, DecidingRule]:
    reason = (
        f"the {key} pattern {pattern.pattern} takes more than {TIME_LIMIT_S:g} s to match this name"
        " (without look-around, back-references and possessive quantifiers it would take none)"
    )
    return Verdict.UNDECIDED, reason, DecidingRule(key, pattern.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """The settings of a flow that decide which topics it mirrors, and under which names. `source`
    and `target` are aliases. `geo`: any topic may be chosen, or may have been chosen before.
    `renaming`: the flows of the file that rename topics, including this one."""

    source: str
    target: str
    policy: ReplicationPolicy
    topics: tuple[Pattern, ...] = ()
    topics_exclude: tuple[Pattern, ...] = ()
    geo: bool = False
    heartbeats_replication_enabled: bool = True
    dead_letters: frozenset[str] = frozenset()
    renaming: tuple[TopicRules, ...] = ()

    def renamed_from(self, name: str) -> str | None:
        """Returns the source topic that a rule of the flow renamed to `name`. None if the flow does
        not make that name, or if the rule does not show its origin."""
        for rename in self.policy.renames:
            origin = rename.origin(name)
            if origin is not None and self._makes(origin, name):
                return origin
        return None

    def may_have_made(self, name: str) -> bool:
        """Returns whether a rule of the flow may have made `name`. False is certain; a rule with an
        exact origin decides exactly."""
        return any(
            rename.made(name)
            and (
                rename.exact is None
                or ((origin := rename.origin(name)) is not None and self._makes(origin, name))
            )
            for rename in self.policy.renames
        )

    def _makes(self, origin: str, name: str) -> bool:
        if excludes(self.topics_exclude, origin) or not (self.geo or excludes(self.topics, origin)):
            return False
        renamed = self.policy.renamed(origin)
        return renamed is not None and renamed[0] == name

    def cycle_source(self, name: str) -> str | None:
        """Returns, if a mirror of `name` would be a loop, its name on the target, or `name` itself
        if that is not known. None if it would not be a loop."""
        ways: list[tuple[str, str, frozenset[str]]] = [
            (self.source, name, frozenset({self.source}))
        ]
        for place, at, seen in ways:  # the list grows in the loop
            hops = [] if (hop := self.policy.hop(at)) is None else [hop]
            for flow in self.renaming:
                if flow.target != place or flow.source in seen:
                    continue
                if (origin := flow.renamed_from(at)) is not None:
                    hops.append((flow.source, origin))
                elif flow.source == self.target and flow.may_have_made(at):
                    return at
            for cluster, upstream in hops:
                if cluster == self.target:
                    return upstream
                ways.append((cluster, upstream, seen | {cluster}))
        return None


def not_begun(way_back: str) -> TopicDecision:
    """Returns the decision about a topic of a reverse link that was not started for the topic."""
    return TopicDecision(
        verdict=Verdict.WAY_BACK,
        target_name=None,
        reason=f"{way_back} is a reverse link: `causeway failback` starts it, at a cut",
        rule=DecidingRule("causeway.way.back"),
    )


def decide_topic(name: str, rules: TopicRules, chosen: Collection[str] = ()) -> TopicDecision:
    """Decides whether topic `name` of the source is mirrored, and under which name.

    Decides in MirrorMaker 2's order: the filter (or a heartbeats topic), internal topics, cycles.
    A `chosen` topic counts as named by `topics`; an excluded topic stays excluded.
    """
    policy = rules.policy
    rule: DecidingRule | None
    verdict, reason, rule = by_name(
        name, () if name in chosen else rules.topics, rules.topics_exclude, "topics"
    )
    if verdict is Verdict.NOT_INCLUDED and name in chosen:
        verdict, reason, rule = Verdict.MIRRORED, CHOSEN, None
    heartbeats = verdict is not Verdict.MIRRORED and is_heartbeats(name, policy)
    if heartbeats:
        rule = DecidingRule(HEARTBEATS_REPLICATION)
        if not rules.heartbeats_replication_enabled:
            return _left_out(Verdict.HEARTBEATS_OFF, f"{rule.key} is false", rule)
        reason = "a heartbeats topic"
    elif verdict is not Verdict.MIRRORED:
        return _left_out(verdict, reason, rule)
    if name in rules.dead_letters:
        return _left_out(Verdict.DEAD_LETTERS, "holds what a transform refused")
    if policy.is_internal_topic(name):
        return _internal(name, policy)
    try:
        if (original := rules.cycle_source(name)) is not None:
            how = "renamed" if original == name else f"as {original}"
            return _left_out(
                Verdict.CYCLE,
                f"its name says it came from {rules.target} ({how}): it would go in a circle",
            )
        if policy.leaves_out(name):
            by = DecidingRule(POLICY)
            return _left_out(Verdict.INTERNAL, f"internal, says {policy.class_name}", by)
        return _named(name, rules, reason, rule)
    except PolicyFailedError as error:
        return _left_out(Verdict.POLICY_FAILED, error.cause, DecidingRule(POLICY))
    except NoNameError as error:
        return _left_out(Verdict.UNDECIDED, f"{error.cause} ({error.remedy})", DecidingRule(RENAME))


def is_heartbeats(name: str, policy: ReplicationPolicy) -> bool:
    """Returns whether it is a heartbeats topic. No pattern includes the topic, so a failing policy
    does not matter."""
    try:
        return policy.is_heartbeats_topic(name)
    except PolicyFailedError:
        return False


def _named(name: str, rules: TopicRules, reason: str, rule: DecidingRule | None) -> TopicDecision:
    """Of a topic that is to be mirrored. Raises NoNameError."""
    policy = rules.policy
    renamed = policy.renamed(name)
    target_name = policy.format_remote_topic(rules.source, name)
    text = None if renamed is None else renamed[1].rule
    by = DecidingRule(RENAME, text) if text else DecidingRule(POLICY) if policy.custom else None
    if len(target_name) > MAX_TOPIC_LENGTH:
        return _left_out(
            Verdict.NAME_TOO_LONG,
            f"its name on {rules.target} would have {len(target_name)} characters,"
            f" and Kafka allows {MAX_TOPIC_LENGTH}",
            by,
        )
    if by is not None and (why := _unfit(name, target_name, policy)):
        reason = f"its name on {rules.target} would be {target_name!r}, {why}"
        return _left_out(Verdict.NAME_UNFIT, reason, by)
    return TopicDecision(
        verdict=Verdict.MIRRORED, target_name=target_name, reason=reason, rule=rule, renamed=text
    )


def _unfit(name: str, target_name: str, policy: ReplicationPolicy) -> str:
    """Returns why a name by a rule or a custom policy cannot be used; empty if it can."""
    if not is_legal_name(target_name) or target_name in (".", ".."):
        return "which is no topic's name"
    if policy.is_internal_topic(target_name):
        return "an internal topic of Kafka, Connect or a mirror"
    if policy.is_heartbeats_topic(target_name) and not policy.is_heartbeats_topic(name):
        return "which is for heartbeats"
    return ""


def _internal(name: str, policy: ReplicationPolicy) -> TopicDecision:
    reason = "an internal topic of Kafka, Connect or a mirror"
    if replace(policy, internal_topics="kafka-4").is_internal_topic(name):
        return _left_out(Verdict.INTERNAL, reason)
    by = DecidingRule(INTERNAL_TOPICS)
    return _left_out(Verdict.INTERNAL, f"{reason} by {by.key} = {policy.internal_topics}", by)


def _left_out(verdict: Verdict, reason: str, rule: DecidingRule | None = None) -> TopicDecision:
    return TopicDecision(verdict=verdict, target_name=None, reason=reason, rule=rule)
