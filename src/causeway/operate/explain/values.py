"""Values of an explanation, and its JSON."""

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
    """The key that decided. `pattern`: the pattern in the key's list, None if there is none.
    `place`: the key in the file with its line; None: the file does not set the key, so the default
    counts."""

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
    the group synced as the file says; None: not known. `rule` None: no key of the file decided.
    `target`: the name on the target. `since_ms`: the latest possible beginning of this state.
    `unknown`: requests that failed, and why."""

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
    """JSON for `--json` and the API: stable keys; null means unknown."""
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found
