"""Filters records, and replaces keys and values, by a query without Spark; for plain records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from causeway.transform.json_text import SHORT, NeedsSparkError, plain_objects
from causeway.transform.queries.expressions import VALUE, Expression, Get, Row
from causeway.transform.rules import DROPPED, Treat, Treated


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How a key or value is read: as bytes that no expression reads, as UTF-8 text, or as a JSON
    object. `fields`: of its schema, with the names of their types."""

    kind: Literal["bytes", "text", "document"]
    fields: tuple[tuple[str, str], ...] = ()

    def reader(self) -> Callable[[bytes], Any]:
        """A decoder, which raises NeedsSparkError or another ValueError."""
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
    """The work of a shortcut; can be pickled. `conditions`: the filters, and whether tombstones
    pass them unevaluated. `forms`: of key and value. `made`: the expressions that replace key and
    value, and whether they read the value: then nothing is made for tombstones."""

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
                    stays = False  # a later condition may still need Spark
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
            raise NeedsSparkError  # Spark's query refuses such tombstones
        return _encoded(get(row))

    return made


def _value_made(make: tuple[Get, bool]) -> Maker:
    get, of_value = make
    return lambda row: None if of_value and row[VALUE] is None else _encoded(get(row))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _fitting(fields: Sequence[tuple[str, str]]) -> Callable[[bytes], tuple[Any, ...]]:
    """Decodes objects that certainly fit a schema to the values of its fields, in order."""
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
        except msgspec.DecodeError:  # not a ValueError before msgspec 0.22
            raise NeedsSparkError from None
        # If no field is missing, this number of quotes excludes other and repeated fields.
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
