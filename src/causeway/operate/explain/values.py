"""An explanation, for people and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec


class SubjectKind(StrEnum):
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"


class Code(StrEnum):
    """Answers besides those of `filters.Verdict`, `control.LeftOutReason` and the states."""

    MISSING = "missing"  # the source has no such topic or group
    DELETED = "deleted"  # the source had the topic
    NOT_ALLOWED = "not-allowed"
    PROBLEM = "problem"  # the target cannot take the topic
    PLANNED = "planned"  # the topic will be mirrored
    UNKNOWN = "unknown"  # a cluster did not answer
    OFF = "off"  # the file asks for nothing about groups
    NO_OFFSETS = "no-offsets"
    CHECKPOINTS_ONLY = "checkpoints-only"  # by the file, nothing is committed on the target
    NOT_YET = "not-yet"
    SYNCED = "synced"
    AHEAD = "ahead"  # the group is further on the target: a move would skip records


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule:
    """The key that decided. `pattern`: which of its list, None where it is none of them, or no
    list; `place`: the key as the file has it, with its line; None: the file does not set it, and
    the default counts."""

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
    """Of one name on one link. `code`: the answer for machines: a state, a filters.Verdict, a
    groups.Why or one of the codes in topics.py and groups.py. `done`: whether it is mirrored (a
    group: followed and synced as the file wants); None where that cannot be told. `rule`: None
    where no key of the file decided. `target`: its name there. `since_ms`: since when at the
    latest it is so. `unknown`: what could not be asked, and why."""

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
    """For `--json` and the API: stable keys, null where a value is unknown."""
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found
