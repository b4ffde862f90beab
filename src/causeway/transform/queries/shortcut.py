"""Queries that drop records, or make keys and values anew, without Spark for plain records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from causeway.transform.plain_json import OddError, plain_objects
from causeway.transform.queries.expressions import VALUE, Expression, Get, Row
from causeway.transform.rules.shortcut import DROPPED, Treat, Treated

# Of Spark's types Python's, and the first whole number that is too large.
_KINDS: Mapping[str, tuple[Any, int]] = {
    "string": (str, 0),
    "boolean": (bool, 0),
    "int": (int, 2**31),
    "bigint": (int, 2**63),
}


@dataclass(frozen=True, slots=True)
class Form:
    """What a key or value is read as: bytes that nobody looks at, a text of UTF-8, an object in
    JSON. `fields`: of its schema, with the names of their types."""

    kind: Literal["bytes", "text", "document"]
    fields: tuple[tuple[str, str], ...] = ()

    def reader(self) -> Callable[[bytes], Any]:
        """Raises OddError, or another ValueError."""
        match self.kind:
            case "bytes":
                return _as_it_is
            case "text":
                return bytes.decode
            case "document":
                read = plain_objects()
                return _fitting(read, self.fields) if self.fields else read


Made = tuple[Expression, bool]
Maker = Callable[[Row], bytes | None]


@dataclass(frozen=True, slots=True)
class QueryShortcut:
    """What is to be done, to be pickled. `conditions`: what lets a record stay, and whether
    tombstones pass it unasked. `forms`: of key and value. `made`: what becomes of them, if
    anything, and whether that is of the value: then of tombstones nothing is made."""

    conditions: tuple[tuple[Expression, bool], ...]
    forms: tuple[Form, Form]
    made: tuple[Made | None, Made | None] = (None, None)

    def open(self, secrets: Mapping[str, str]) -> Treat:
        conditions = [(one.open(secrets), alone) for one, alone in self.conditions]
        read_key, read_value = (form.reader() for form in self.forms)
        make_key, make_value = self._makers(secrets)

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
            if not stays:
                return DROPPED
            return (
                key if make_key is None else make_key(row),
                value if make_value is None else make_value(row),
                0,
            )

        return treat

    def _makers(self, secrets: Mapping[str, str]) -> tuple[Maker | None, Maker | None]:
        key, value = (None if one is None else (one[0].open(secrets), one[1]) for one in self.made)
        return key and _key_made(key), value and _value_made(value)


def _as_it_is(data: bytes) -> bytes:
    return data


def _key_made(make: tuple[Get, bool]) -> Maker:
    get, of_value = make

    def made(row: Row) -> bytes | None:
        if of_value and row[VALUE] is None:
            raise OddError  # such tombstones are refused
        return _encoded(get(row))

    return made


def _value_made(make: tuple[Get, bool]) -> Maker:
    get, of_value = make
    return lambda row: None if of_value and row[VALUE] is None else _encoded(get(row))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _fitting(
    read: Callable[[bytes], dict[str, Any]], fields: tuple[tuple[str, str], ...]
) -> Callable[[bytes], dict[str, Any]]:
    """As `read`, of objects that surely fit a schema."""
    kinds = [(name, *_KINDS[kind]) for name, kind in fields]

    def fitting(text: bytes) -> dict[str, Any]:
        document = read(text)
        for name, kind, limit in kinds:
            x: Any = document.get(name)
            if x is None:
                continue
            if type(x) is not kind or (limit and not -limit <= x < limit):
                raise OddError
        return document

    return fitting
