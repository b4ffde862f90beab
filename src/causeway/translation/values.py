"""Questions about offsets, also from files (CSV or JSON lines), and answers: offsets on the other
cluster, and why an offset is not exact."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from causeway.errors import ConfigError
from causeway.model import TopicPartition

LOGS_INCOMPLETE = "the logs no longer show the exact offset"
BEGINS = "the beginning of its log on the target is being filled"
ONLY_A_LANE = "only a lane can count the output of the transform"


class OffsetNote(StrEnum):
    """Why an offset is not exact, or a remark on an exact one. A stable code for machines."""

    GAP = "gap"  # exact: no mirrored record has the offset itself, the next record counts
    NOT_YET = "not mirrored yet"
    BEYOND_END = "beyond the end"
    RETENTION = "behind the retention"
    BEFORE = "before the mirror"
    SHARED = "several feed it"
    TRANSFORMED = "transformed"  # only a lane can count the records behind the transform
    LOGS_INCOMPLETE = "logs incomplete"
    UNREACHABLE = "not reachable"
    LOST = "lost on the target"
    STOPPED = "stopped"
    RECREATED = "recreated"
    BY_KEY = "keys decide"
    AT_LEAST_ONCE = "at least once"
    NOT_BEGUN = "not begun"
    NOT_MIRRORED = "not mirrored"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about the next record to read in a log. It has either an `offset`, or a
    `timestamp` (ms since 1970) for the first record at that time or later."""

    topic: str
    partition: int
    offset: int | None = None
    timestamp: int | None = None

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class MappedOffset(Struct, frozen=True, gc=False):
    """The offset in partition `at` from which on a consumer reads on the other cluster.

    If it is exact, the consumer gets exactly the mirrored records that it has not read. Otherwise
    `offset` is at or before the exact one, so no record is skipped, or None if none is known. Then
    `why` and `note` (for people) give the reason. `mirrored`: the next record is known to be there;
    otherwise `offset` is the end of the mirror, and the record may come behind it.
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
    def certain(self) -> bool:
        """Whether the next record is there, at exactly this offset."""
        is_exact = self.why is None or self.why is OffsetNote.GAP
        return is_exact and self.mirrored and self.offset is not None

    @property
    def topic(self) -> str:
        return self.at.topic

    @property
    def partition(self) -> int:
        return self.at.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of one link to one question. `offset`: the offset in the question, or the offset
    of its timestamp; None if that is unknown. `places`: there may be several after a transform, or
    with several source partitions. If there are none, `why` and `note` say why."""

    question: Question
    link: str | None
    offset: int | None
    places: tuple[MappedOffset, ...] = ()
    why: OffsetNote | None = None
    note: str | None = None

    @property
    def exact(self) -> bool:
        return bool(self.places) and all(place.exact for place in self.places)


def answer_json(answer: Answer) -> dict[str, Any]:
    """Returns an answer for `--json` and the API. The keys are stable."""
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


_COLUMNS: Final = ("topic", "partition", "offset")
_REMEDY: Final = (
    "CSV has topic,partition,offset, or a first line that names its columns; a JSON line is "
    '{"topic": "orders", "partition": 0, "offset": 1500}; "timestamp" (ms) in place of "offset"'
)


def read_questions(text: str, name: str) -> list[Question]:
    """Reads questions from the text of file `name`. Raises ConfigError with `name` and line."""
    lines = text.removeprefix("\ufeff").splitlines()
    first = next((line for line in lines if line.strip()), "")
    rows = _json_rows(lines, name) if first.lstrip().startswith("{") else _csv_rows(lines, name)
    questions = [_question(row, f"{name}, line {line}") for line, row in rows]
    if not questions:
        raise ConfigError("read", name, "it holds no offsets", remedy=_REMEDY)
    return questions


def _json_rows(lines: list[str], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError as error:
            raise ConfigError("read", f"{name}, line {line}", str(error), remedy=_REMEDY) from error
        if not isinstance(row, dict):
            raise ConfigError("read", f"{name}, line {line}", "no JSON object", remedy=_REMEDY)
        yield line, row


def _csv_rows(lines: list[str], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    columns: list[str] | None = None
    reader = csv.reader(lines)
    while True:
        line = reader.line_num + 1  # a cell in quotes may have several lines
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ConfigError("read", f"{name}, line {line}", str(error), remedy=_REMEDY) from error
        row = [cell.strip() for cell in cells]
        if not any(row):
            continue
        if columns is None:
            names = [cell.lower() for cell in row]
            if {"topic", "partition"} <= set(names):
                columns = names
                continue
            columns = list(_COLUMNS)
        if len(row) != len(columns):
            cause = f"{len(row)} columns instead of {len(columns)}"
            raise ConfigError("read", f"{name}, line {line}", cause, remedy=_REMEDY)
        yield line, dict(zip(columns, row, strict=True))


def _question(row: Mapping[str, Any], where: str) -> Question:
    topic = row.get("topic")
    if not isinstance(topic, str) or not topic:
        raise ConfigError("read", where, "no topic", remedy=_REMEDY)
    partition = _number(row, "partition", where)
    offset, timestamp = _number(row, "offset", where), _number(row, "timestamp", where)
    if partition is None or (offset is None) == (timestamp is None):
        cause = "it needs a partition, and either an offset or a timestamp"
        raise ConfigError("read", where, cause, remedy=_REMEDY)
    return Question(topic=topic, partition=partition, offset=offset, timestamp=timestamp)


def _number(row: Mapping[str, Any], name: str, where: str) -> int | None:
    value = row.get(name)
    if value is None or value == "":
        return None
    text = str(value)
    # At most 19 digits: Kafka's numbers have 64 bits. Neither a float nor True is a number here.
    if isinstance(value, str | int) and text.isascii() and text.isdecimal() and len(text) <= 19:
        return int(text)
    raise ConfigError("read", where, f"{name} {text[:40]!r} is no whole number of 0 or more")
