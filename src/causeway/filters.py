"""Which topics a flow mirrors, and why the others are left out.

Patterns are whole-name Java regular expressions (see java_regex.py for what is translated).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from causeway.errors import ConfigError
from causeway.java_regex import translate
from causeway.naming import MAX_TOPIC_LENGTH, ReplicationPolicy

Pattern = re.Pattern[str]
_SEPARATOR = re.compile(r"\s*,\s*")


class Verdict(StrEnum):
    """Why a topic is mirrored or left out; a stable code for machines."""

    MIRRORED = "mirrored"
    NOT_INCLUDED = "not-included"
    EXCLUDED = "excluded"
    HEARTBEATS_OFF = "heartbeats-off"
    INTERNAL = "internal"
    CYCLE = "cycle"
    NAME_TOO_LONG = "name-too-long"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision:
    """`target_name` is None exactly where the topic is left out; `reason` is for people."""

    verdict: Verdict
    target_name: str | None
    reason: str

    @property
    def mirrored(self) -> bool:
        return self.target_name is not None


def split_list(value: str) -> tuple[str, ...]:
    """A Kafka list value: split at commas, blanks around them dropped. A blank value is empty, and
    an empty list of patterns matches nothing."""
    return tuple(item for item in _SEPARATOR.split(value.strip()) if item)


def compile_patterns(value: str) -> tuple[Pattern, ...]:
    """The patterns of a comma-separated list. Raises ConfigError that quotes the faulty one.

    MirrorMaker 2 joins the list with `|`, so a flag such as `(?i)` set by one pattern holds for
    those after it; this is kept.
    """
    patterns = []
    flags = ""
    for item in split_list(value):
        pattern, flags = _compile(item, flags)
        patterns.append(pattern)
    return tuple(patterns)


def compile_mm1_include(value: str) -> tuple[Pattern, ...]:
    """MirrorMaker 1's `--whitelist`: one regular expression in which `,` stands for `|`, blanks and
    quotes around it are dropped, and `*` alone means all topics."""
    text = value.strip().strip("\"'").replace(" ", "").replace(",", "|").strip("|")
    if not text:
        raise ConfigError("read the include pattern", repr(value), "it is empty")
    return (_compile(".*" if text == "*" else text, "")[0],)


def first_match(patterns: Iterable[Pattern], name: str) -> Pattern | None:
    """The first pattern that matches the whole of `name`."""
    return next((pattern for pattern in patterns if pattern.fullmatch(name)), None)


def decide_topic(
    name: str,
    *,
    source_alias: str,
    target_alias: str,
    policy: ReplicationPolicy,
    topics: tuple[Pattern, ...],
    topics_exclude: tuple[Pattern, ...],
    heartbeats_replication_enabled: bool = True,
) -> TopicDecision:
    """Whether `name` of the source is mirrored, and under which name.

    Decides in MirrorMaker 2's order: the filter (or a heartbeats topic), internal topics, cycles.
    """
    heartbeats = policy.is_heartbeats_topic(name)
    excluded_by = first_match(topics_exclude, name)
    selected = excluded_by is None and first_match(topics, name) is not None
    if not selected and not (heartbeats and heartbeats_replication_enabled):
        if heartbeats:
            return _left_out(Verdict.HEARTBEATS_OFF, "heartbeats.replication.enabled is false")
        if excluded_by is not None:
            return _left_out(
                Verdict.EXCLUDED, f"excluded by topics.exclude pattern {excluded_by.pattern}"
            )
        return _left_out(Verdict.NOT_INCLUDED, "not matched by topics")
    if policy.is_internal_topic(name):
        return _left_out(Verdict.INTERNAL, "an internal topic of Kafka, Connect or a mirror")
    original = policy.cycle_source(name, target_alias)
    if original is not None:
        return _left_out(
            Verdict.CYCLE,
            f"its name says it came from {target_alias} (as {original}): it would go in a circle",
        )
    target_name = policy.format_remote_topic(source_alias, name)
    if len(target_name) > MAX_TOPIC_LENGTH:
        return _left_out(
            Verdict.NAME_TOO_LONG,
            f"its name on {target_alias} would have {len(target_name)} characters,"
            f" and Kafka allows {MAX_TOPIC_LENGTH}",
        )
    reason = "a heartbeats topic" if heartbeats and not selected else "matched by topics"
    return TopicDecision(verdict=Verdict.MIRRORED, target_name=target_name, reason=reason)


def _left_out(verdict: Verdict, reason: str) -> TopicDecision:
    return TopicDecision(verdict=verdict, target_name=None, reason=reason)


def _compile(item: str, flags: str) -> tuple[Pattern, str]:
    text, flags = translate(item, flags)
    try:
        return re.compile(text, re.ASCII), flags
    except re.error as error:
        raise ConfigError("read the pattern", item, error.msg) from None
