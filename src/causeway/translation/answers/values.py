"""What is asked, and what is answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from causeway.model import TopicPartition


class Why(StrEnum):
    """Why there is no exact place, or what is to be known of one that is."""

    GAP = "gap"  # exact: no mirrored record has the offset itself, the next one is meant
    NOT_YET = "not mirrored yet"
    BEYOND_END = "beyond the end"
    RETENTION = "behind the retention"
    BEFORE = "before the mirror"
    SHARED = "several feed it"
    TRANSFORMED = "transformed"  # what lies between two known places takes the transform to count
    UNTOLD = "logs no longer tell"
    UNREACHABLE = "not reachable"
    LOST = "lost on the target"
    STOPPED = "stopped"
    MADE_ANEW = "made anew"
    BY_KEY = "keys decide"
    AT_LEAST_ONCE = "at least once"
    NOT_BEGUN = "not begun"
    NOT_MIRRORED = "not mirrored"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A place in a log: the next record to read. One of `offset` and `timestamp` (ms since 1970:
    the first record of that time or later) is set."""

    topic: str
    partition: int
    offset: int | None = None
    timestamp: int | None = None

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to read on, on the other side. `exact`: exactly the mirrored records come that have not
    been read. Else `offset` lies at or before that place, so that nothing is skipped, or is None
    where not even that is known; `why` and `note` (for people) say what is the matter."""

    topic: str
    partition: int
    offset: int | None
    exact: bool
    why: Why | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """To one question, by one link. `offset`: what was asked for, or what a timestamp stands for;
    None where that is unknown. `places`: several where a transform, or several source partitions,
    lead to several; where there is none, `why` and `note` say it."""

    question: Question
    link: str | None
    offset: int | None
    places: tuple[Place, ...] = ()
    why: Why | None = None
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
