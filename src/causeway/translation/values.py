"""Questions about offsets, and answers: offsets on the other cluster, and why one is not exact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from causeway.model import TopicPartition

LOGS_INCOMPLETE = "the logs no longer show the exact offset"
ONLY_A_LANE = "only a lane can count the output of the transform"


class OffsetNote(StrEnum):
    """Why an offset is not exact, or a remark on one that is. A stable code for machines."""

    GAP = "gap"  # exact: no mirrored record has the offset itself, the next record counts
    NOT_YET = "not mirrored yet"
    BEYOND_END = "beyond the end"
    RETENTION = "behind the retention"
    BEFORE = "before the mirror"
    SHARED = "several feed it"
    TRANSFORMED = "transformed"  # only a lane can count what the transform makes of the records
    LOGS_INCOMPLETE = "logs no longer tell"
    UNREACHABLE = "not reachable"
    LOST = "lost on the target"
    STOPPED = "stopped"
    RECREATED = "made anew"
    BY_KEY = "keys decide"
    AT_LEAST_ONCE = "at least once"
    NOT_BEGUN = "not begun"
    NOT_MIRRORED = "not mirrored"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The next record to read in a log, by exactly one of `offset` and `timestamp` (ms since 1970:
    the first record of that time or later)."""

    topic: str
    partition: int
    offset: int | None = None
    timestamp: int | None = None

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class MappedOffset(NamedTuple):
    """The offset in partition `at` from which on a consumer reads on the other cluster.

    If it is exact, the consumer gets exactly the mirrored records that it has not read. Otherwise
    `offset` is at or before the exact one, so that no record is skipped, or None if not even that
    is known; `why` and `note` (for people) give the reason. `mirrored`: the next record is known to
    be there; otherwise `offset` is the end of the mirror, and the record may come behind it.
    """

    at: TopicPartition
    offset: int | None
    why: OffsetNote | None = None
    note: str | None = None
    mirrored: bool = True

    @property
    def exact(self) -> bool:
        return self.offset is not None and self.why in (None, OffsetNote.GAP)

    @property
    def topic(self) -> str:
        return self.at.topic

    @property
    def partition(self) -> int:
        return self.at.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of one link to one question. `offset`: the offset of the question, or the offset
    that its timestamp leads to; None if that is unknown. `places`: several if a transform, or
    several source partitions, lead to several; if there is none, `why` and `note` say why."""

    question: Question
    link: str | None
    offset: int | None
    places: tuple[MappedOffset, ...] = ()
    why: OffsetNote | None = None
    note: str | None = None

    @property
    def exact(self) -> bool:
        return bool(self.places) and all(place.exact for place in self.places)


def as_json(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """For `--json` and the API: stable keys."""
    return [answer_json(each) for each in answers]


def answer_json(answer: Answer) -> dict[str, Any]:
    question = answer.question
    return {
        "link": answer.link,
        "topic": question.topic,
        "partition": question.partition,
        "timestamp": question.timestamp,
        "offset": answer.offset,
        "exact": answer.exact,
        "why": answer.why,
        "note": answer.note,
        "places": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": place.offset,
                "exact": place.exact,
                "why": place.why,
                "note": place.note,
            }
            for place in answer.places
        ],
    }
