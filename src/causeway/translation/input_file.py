"""Reads questions about offsets from a file: CSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from causeway.errors import ConfigError
from causeway.translation.values import Question

_COLUMNS: Final = ("topic", "partition", "offset")
_REMEDY: Final = (
    "CSV has topic,partition,offset, or a first line that names its columns; a JSON line is "
    '{"topic": "orders", "partition": 0, "offset": 1500}; "timestamp" (ms) in place of "offset"'
)


def read_questions(text: str, name: str) -> list[Question]:
    """Raises ConfigError, with `name` and the line."""
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
        line = reader.line_num + 1  # a cell in quotes may have several
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
            cause = f"{len(row)} columns where {len(columns)} are expected"
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
    # At most 19 digits, as in Kafka's 64 bits. No float, no True.
    if isinstance(value, str | int) and text.isascii() and text.isdecimal() and len(text) <= 19:
        return int(text)
    raise ConfigError("read", where, f"{name} {text[:40]!r} is no whole number of 0 or more")
