"""Queries that drop records by what stands in them, without Spark where a record is plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from causeway.transform.plain_json import plain_objects
from causeway.transform.queries.expressions import Expression
from causeway.transform.rules.shortcut import DROPPED, Treat, Treated

# What a key or value is read as: bytes that nobody looks at, a text of UTF-8, an object in JSON.
Form = Literal["bytes", "text", "document"]


@dataclass(frozen=True, slots=True)
class QueryShortcut:
    """What is to be done, to be pickled. `conditions`: what lets a record stay, and whether
    tombstones pass it unasked. `forms`: of key and value."""

    conditions: tuple[tuple[Expression, bool], ...]
    forms: tuple[Form, Form]

    def open(self, secrets: Mapping[str, str]) -> Treat:
        conditions = [(one.open(secrets), alone) for one, alone in self.conditions]
        read_key, read_value = map(_reader, self.forms)

        def treat(key: bytes | None, value: bytes | None, spot: bytes, offset: int) -> Treated:
            row = (
                None if key is None else read_key(key),
                None if value is None else read_value(value),
                spot,
                offset,
            )
            stays = True
            for holds, alone in conditions:
                if value is None and alone:
                    continue
                if holds(row) is not True:
                    stays = False  # unless a condition that follows cannot be known
            return (key, value, 0) if stays else DROPPED

        return treat


def _reader(form: Form) -> Callable[[bytes], Any]:
    match form:
        case "bytes":
            return _as_it_is
        case "text":
            return bytes.decode
        case "document":
            return plain_objects()


def _as_it_is(data: bytes) -> bytes:
    return data
