"""Queries that drop records, or make keys and values anew, without Spark for plain records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from causeway.transform.json_text import SHORT, NeedsSparkError, plain_objects
from causeway.transform.queries.expressions import VALUE, Expression, Get, Row
from causeway.transform.rules import DROPPED, Treat, Treated


@dataclass(frozen=True, slots=True)
class ReadAs:
    """What a key or value is read as: bytes that nobody looks at, a text of UTF-8, an object in
    JSON. `fields`: of its schema, with the names of their types."""

    kind: Literal["bytes", "text", "document"]
    fields: tuple[tuple[str, str], ...] = ()

    def reader(self) -> Callable[[bytes], Any]:
        """Raises NeedsSparkError, or another ValueError."""
        match self.kind:
            case "bytes":
                return _as_it_is
            case "text":
                return bytes.decode
            case "document":
                return _fitting(self.fields) if self.fields else plain_objects()


Made = tuple[Expression, bool]
Maker = Callable[[Row], bytes | None]


@dataclass(frozen=True, slots=True)
class QueryShortcut:
    """What is to be done, to be pickled. `conditions`: what lets a record stay, and whether
    tombstones pass it unasked. `forms`: of key and value. `made`: what becomes of them, if
    anything, and whether that is of the value: then of tombstones nothing is made."""

    conditions: tuple[tuple[Expression, bool], ...]
    forms: tuple[ReadAs, ReadAs]
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
                *DROPPED,
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
            raise NeedsSparkError  # such tombstones are refused
        return _encoded(get(row))

    return made


def _value_made(make: tuple[Get, bool]) -> Maker:
    get, of_value = make
    return lambda row: None if of_value and row[VALUE] is None else _encoded(get(row))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _fitting(fields: Sequence[tuple[str, str]]) -> Callable[[bytes], tuple[Any, ...]]:
    """Reads objects that surely fit a schema, as what its fields hold, in order."""
    import msgspec

    shape = msgspec.defstruct(
        "Fields",
        [
            (f"f{at}", _fitting_type(kind), msgspec.field(default=None, name=name))
            for at, (name, kind) in enumerate(fields)
        ],
    )
    decode, in_order = msgspec.json.Decoder(shape).decode, msgspec.structs.astuple
    check = plain_objects()
    quotes = 2 * len(fields) + 2 * [kind for _, kind in fields].count("string")

    def fitting(text: bytes) -> tuple[Any, ...]:
        try:
            found = in_order(decode(text))
        except msgspec.DecodeError:  # to msgspec before 0.22 that is no ValueError
            raise NeedsSparkError from None
        # Where no field is missing, so many quotes leave room for no other and none twice.
        all_there = text.count(b'"') == quotes and None not in found
        if not all_there or len(text) > SHORT or b"\\" in text:
            check(text)
        return found

    return fitting


def _fitting_type(kind: str) -> Any:
    from msgspec import Meta

    match kind:
        case "string":
            return str | None
        case "boolean":
            return bool | None
        case "double":
            return float | None
    limit = 2 ** (31 if kind == "int" else 63)
    return Annotated[int, Meta(ge=-limit, le=limit - 1)] | None
