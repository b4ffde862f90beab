"""Avro to JSON and back, by a schema.

| Avro | JSON |
|---|---|
| int, long, float, double | a number; NaN and the infinities cannot be read |
| bytes, fixed | text, base64 |
| decimal | text, such as "12.50"; a number is taken too |
| date, time-…, timestamp-…, local-timestamp-… | text in ISO 8601; a number, as in Avro, too |
| uuid, enum | text |
| union | the value alone; where two branches are both text, or both objects: {"branch": value} |

An object's field that the schema does not have fits no schema; one that is missing is null where
that may be, else the schema's default.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any, cast

import fastavro

from causeway.transform.avro_values import (
    RANGES,
    TIMES,
    Convert,
    exact_single,
    instance,
    number,
    of_bytes,
    of_decimal,
    of_time,
    of_uuid,
    refuse,
    single,
    whole_number,
)
from causeway.transform.registry import MisfitError, Reference

_NAMED = {"record", "error", "enum", "fixed"}
_OBJECTS = {"record", "error", "map"}
_NUMBERS = {"int", "long", "float", "double"}
_WHOLE = "datum"  # a record of one field is written as that field


class Avro:
    def __init__(self, text: str, references: Sequence[Reference] = ()) -> None:
        """Raises any exception for a schema that cannot be read."""
        names: dict[str, Any] = {}
        for one in references:
            fastavro.parse_schema(json.loads(one.text), named_schemas=names)
        field = {"name": _WHOLE, "type": json.loads(text)}
        whole = {"type": "record", "name": "causeway_datum", "fields": [field]}
        self._schema = cast("dict[str, Any]", fastavro.parse_schema(whole, named_schemas=names))
        type_ = self._schema["fields"][0]["type"]
        self._alike = _Alike(names).anywhere(type_)
        self._to_json = _ToJson(names).of(type_) if self._alike else None
        self._to_datum = _ToDatum(names).of(type_)

    def decode(self, data: bytes) -> str:
        """The JSON of all of `data`. Raises MisfitError."""
        stream = BytesIO(data)
        try:
            read = fastavro.schemaless_reader(
                stream, self._schema, None, return_named_type=self._alike
            )
            found = cast("dict[str, Any]", read)[_WHOLE]
            text = _dumps(found if self._to_json is None else self._to_json(found))
        except Exception:  # the library raises many kinds for bytes that are something else
            raise MisfitError from None
        if stream.read(1):
            raise MisfitError
        return text

    def encode(self, text: str) -> bytes:
        """Raises MisfitError."""
        stream = BytesIO()
        try:
            value = json.loads(text, parse_float=Decimal, parse_constant=refuse)
            fastavro.schemaless_writer(stream, self._schema, {_WHOLE: self._to_datum(value)})
        except Exception:
            raise MisfitError from None
        return stream.getvalue()


def _plain(value: Any) -> str:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
    raise MisfitError


_dumps = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
).encode


def _kind(schema: Any) -> str:
    """The type's name; a named type's own where it is referred to."""
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _resolved(schema: Any, names: Mapping[str, Any]) -> Any:
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _name(schema: Any) -> str:
    """As fastavro, and Avro's JSON, name a union's branch."""
    return str(schema["name"]) if _kind(schema) in _NAMED else _kind(schema)


def _shape(schema: Any) -> str:
    """What it looks like in JSON."""
    kind = _kind(schema)
    if kind in _OBJECTS:
        return "object"
    if kind in _NUMBERS and not _is_text(schema):
        return "number"
    return kind if kind in ("array", "null", "boolean") else "text"


def _is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and _logical(schema) in TIMES


def _logical(schema: Any) -> str:
    """`long-timestamp-millis`, of those that are treated."""
    return f"{_kind(schema)}-{schema.get('logicalType')}" if isinstance(schema, dict) else ""


def _branches_alike(branches: Sequence[Any]) -> bool:
    shapes = [shape for shape in map(_shape, branches) if shape in ("text", "object")]
    return len(shapes) > len(set(shapes))


class _Alike:
    """Whether a schema has a union whose branches JSON alone does not tell apart."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._seen: set[str] = set()

    def anywhere(self, schema: Any) -> bool:
        schema = _resolved(schema, self._names)
        if isinstance(schema, list):
            branches = [_resolved(one, self._names) for one in schema]
            return _branches_alike(branches) or any(map(self.anywhere, branches))
        match _kind(schema):
            case "record" | "error":
                if schema["name"] in self._seen:
                    return False
                self._seen.add(schema["name"])
                return any(self.anywhere(field["type"]) for field in schema["fields"])
            case "array":
                return self.anywhere(schema["items"])
            case "map":
                return self.anywhere(schema["values"])
        return False


class _Compiler:
    """Functions for the parts of a schema, made once each, as a schema may name itself."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._made: dict[str, Convert] = {}

    def of(self, schema: Any) -> Convert:
        schema = _resolved(schema, self._names)
        if isinstance(schema, list):
            return self.union([_resolved(one, self._names) for one in schema])
        match _kind(schema):
            case "record" | "error":
                return self._record(schema)
            case "array":
                return self.array(self.of(schema["items"]))
            case "map":
                return self.map(self.of(schema["values"]))
        return self.leaf(schema)

    def _record(self, schema: Any) -> Convert:
        name = schema["name"]
        if name in self._made:
            return self._made[name]

        def itself(value: Any) -> Any:
            return self._made[name](value)

        self._made[name] = itself
        self._made[name] = self.record(schema)
        return self._made[name]

    def union(self, branches: list[Any]) -> Convert:
        raise NotImplementedError

    def record(self, schema: Any) -> Convert:
        raise NotImplementedError

    def leaf(self, schema: Any) -> Convert:
        raise NotImplementedError

    def array(self, item: Convert) -> Convert:
        def convert(value: Any) -> Any:
            if not isinstance(value, list):
                raise MisfitError
            return [item(one) for one in value]

        return convert

    def map(self, entry: Convert) -> Convert:
        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                raise MisfitError
            return {name: entry(one) for name, one in value.items()}

        return convert


class _ToJson(_Compiler):
    """Of what fastavro reads with `return_named_type`: a pair where a union has a named type."""

    def union(self, branches: list[Any]) -> Convert:
        converts = {_name(branch): self.of(branch) for branch in branches}
        alike = _branches_alike(branches)
        texts = {name: _shape(branch) for name, branch in zip(converts, branches, strict=True)}

        def convert(value: Any) -> Any:
            name, datum = value if isinstance(value, tuple) else (_branch(value, converts), value)
            found = converts[name](datum)
            wrapped = alike and texts[name] in ("text", "object")
            return {name: found} if wrapped else found

        return convert

    def record(self, schema: Any) -> Convert:
        fields = [(field["name"], self.of(field["type"])) for field in schema["fields"]]
        return lambda value: {name: convert(value[name]) for name, convert in fields}

    def leaf(self, schema: Any) -> Convert:
        return lambda value: value


def _branch(value: Any, branches: Mapping[str, Any]) -> str:
    """Which one fastavro has read: a union has each type that has no name once."""
    match value:
        case None:
            wanted = ["null"]
        case bool():
            wanted = ["boolean"]
        case str() | uuid.UUID():
            wanted = ["string"]
        case bytes() | Decimal():
            wanted = ["bytes"]
        case datetime():
            wanted = ["long"]
        case date() | time() | int():
            wanted = ["int", "long"]
        case float():
            wanted = ["double", "float"]
        case list():
            wanted = ["array"]
        case _:
            wanted = ["map"]
    return next(name for name in wanted if name in branches)


class _ToDatum(_Compiler):
    def union(self, branches: list[Any]) -> Convert:
        alike = _branches_alike(branches)
        names = set(map(_name, branches))
        plain: list[tuple[str, Convert]] = []
        wrapped: dict[str, Convert] = {}
        for branch in branches:
            name, convert = _name(branch), self.of(branch)
            if alike and _shape(branch) in ("text", "object"):
                wrapped[name] = convert
            else:
                exact = name == "float" and "double" in names
                plain.append((name, exact_single if exact else convert))

        def choose(value: Any) -> Any:
            if isinstance(value, dict) and len(value) == 1:
                ((name, inner),) = value.items()
                if name in wrapped:
                    return name, wrapped[name](inner)
            for name, convert in plain:
                try:
                    return name, convert(value)
                except MisfitError:
                    continue
            raise MisfitError

        return choose

    def record(self, schema: Any) -> Convert:
        fields = schema["fields"]
        converts = {field["name"]: self.of(field["type"]) for field in fields}
        missing: dict[str, Any] = {}
        required: set[str] = set()
        for field in fields:
            if _nullable(field["type"]):
                missing[field["name"]] = ("null", None) if field["type"] != "null" else None
            elif "default" not in field:
                required.add(field["name"])

        def convert(value: Any) -> Any:
            if not isinstance(value, dict) or not required <= value.keys():
                raise MisfitError
            found = {}
            for name, one in value.items():
                if name not in converts:
                    raise MisfitError
                found[name] = converts[name](one)
            return missing | found

        return convert

    def leaf(self, schema: Any) -> Convert:
        kind, logical = _kind(schema), _logical(schema)
        if logical in TIMES:
            return of_time(logical, RANGES[kind])
        match kind:
            case "null":
                return instance(type(None))
            case "boolean":
                return instance(bool)
            case "int" | "long":
                limit = RANGES[kind]
                return lambda value: whole_number(value, limit)
            case "float":
                return single
            case "double":
                return number
            case "string":
                return of_uuid if logical == "string-uuid" else instance(str)
            case "enum":
                symbols = frozenset(schema["symbols"])
                return lambda value: value if instance(str)(value) in symbols else refuse("")
            case "bytes" | "fixed" if logical.endswith("-decimal"):
                return of_decimal(schema["precision"], schema.get("scale", 0))
            case "bytes":
                return of_bytes
            case "fixed":
                size = schema["size"]
                return lambda value: of_bytes(value, size)
        raise ValueError(kind)


def _nullable(schema: Any) -> bool:
    return "null" in schema if isinstance(schema, list) else schema == "null"
