"""Values that every layer uses. All frozen; offsets, counts and sequences are plain ints."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

BROKERS_PAGE = "docs/reference/brokers.md"  # the APIs that brokers need, for messages
NO_TOPIC_ID = "0" * 32  # of a broker that knows no topic ids
# Some producers write seconds, µs or ns in place of ms. Read as ms, seconds are before 1973, and µs
# and ns are in the far future. Such times give no age.
_FIRST_TIME = 10**11
_AHEAD_MS = 24 * 3600 * 1000


def age_ms(timestamp_ms: int, now_ms: int) -> int | None:
    """Returns the age of a record: 0 if its clock is up to a day ahead, None if its time is not in
    ms."""
    if timestamp_ms < _FIRST_TIME or timestamp_ms > now_ms + _AHEAD_MS:
        return None
    return now_ms - timestamp_ms if now_ms > timestamp_ms else 0


def same_topic(one: str | None, other: str | None) -> bool:
    """Returns whether both ids may be of one topic: always, unless both are known and differ."""
    return one == other or not one or not other or NO_TOPIC_ID in (one, other)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class State(StrEnum):
    """The state of a mirrored partition. All except the first three and DONE have a reason."""

    WAITING = "waiting"  # assigned to no lane yet
    RECOVERING = "recovering"  # reading the target's log to find the position
    RUNNING = "running"
    FAILED = "failed"  # retried by itself, with backoff
    STOPPED = "stopped"  # a person decides: going on could lose or double records
    PAUSED = "paused"  # by a person, see link_topics/directives.py
    PROMOTING = "promoting"  # held while its mirror is brought to a clean end
    PROMOTED = "promoted"  # its mirror has ended, with nothing left to copy
    FAILED_OVER = "failed over"  # its mirror has ended, even if records were left
    DONE = "done"  # a bounded run has copied this partition's share


ENDED = frozenset({State.PROMOTED, State.FAILED_OVER})
HELD = ENDED | {State.PAUSED, State.PROMOTING}  # by a person; no lane has the partition


class Pair(NamedTuple):
    """One true statement from which recovery can start.

    In the relayed series, the record with sequence `sequence` is the first from source offset
    `source` or later. It is (or will be) at target offset `target` or later.
    """

    source: int
    target: int
    sequence: int


class Dated(NamedTuple):
    """The record at source offset `offset`, or the next one behind it, has this timestamp (ms)."""

    offset: int
    timestamp: int


class Loss(NamedTuple):
    """The source offsets from `start` to `to` - 1. A stopped partition cannot mirror some or all of
    them.

    `cause` "deleted": the source deleted them before they were mirrored. "damaged": the source
    cannot read its log there, or the target refuses the records.
    """

    start: int
    to: int
    cause: Literal["deleted", "damaged"]


class Spread(NamedTuple):
    """A summary of figures of some time: their number, sum, minimum and maximum."""

    seen: int
    total: int
    least: int
    most: int

    @classmethod
    def of(cls, figure: int) -> Spread:
        return cls(1, figure, figure, figure)
