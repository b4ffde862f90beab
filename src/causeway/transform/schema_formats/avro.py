"""Avro to JSON and back, by a schema.

| Avro | JSON |
|---|---|
| int, long, float, double | a number; NaN and the infinities cannot be read |
| bytes, fixed | text, base64 |
| decimal | text, such as "12.50"; a number is accepted too |
| date, time-…, timestamp-…, local-timestamp-… | text in ISO 8601; a number, as in Avro, too |
| uuid, enum | text |
| union | the value alone; if two branches are text, or two are objects: {"branch": value} |

Rules see more of a union (avro_types.py): an object without its wrapper, with its branch in an
additional field, and a string without a wrapper, unless their paths name the branches.

JSON with a field that the schema does not have does not fit the schema. A missing field becomes
null if null is possible, else the schema's default."""

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

from causeway.transform.schema_formats.avro_bounds import TOO_DEEP, Bounds, TooMuchError
from causeway.transform.schema_formats.avro_types import (
    BRANCH,
    RANGES,
    TIMES,
    Compiler,
    Convert,
    Paths,
    Steps,
    Wrappers,
    as_queries_see,
    as_rules_see,
    branches_alike,
    exact_single,
    instance,
    kind_of,
    logical_of,
    name_of,
    number,
    of_bytes,
    of_decimal,
    of_time,
    of_uuid,
    refuse,
    shape_of,
    single,
    whole_number,
)
from causeway.transform.schema_formats.registry import MisfitError, NamedSchema

_WHOLE = "datum"  # a record with one field has the same encoding as the field


class Avro:
    """`lacks`: for each of `paths`, whether no record of the schema has it."""

    place = b""  # for Protobuf, the place of a message in its schema

    def __init__(
        self, text: str, references: Sequence[NamedSchema] = (), paths: Sequence[Steps] = ()
    ) -> None:
        """`paths`: the paths of the rules that the JSON is for. Raises any exception for a schema
        that cannot be read."""
        names: dict[str, Any] = {}
        for one in references:
            fastavro.parse_schema(json.loads(one.text), named_schemas=names)
        field = {"name": _WHOLE, "type": json.loads(text)}
        whole = {"type": "record", "name": "causeway_datum", "fields": [field]}
        self._schema = cast("dict[str, Any]", fastavro.parse_schema(whole, named_schemas=names))
        type_ = self._schema["fields"][0]["type"]
        self._bounds = Bounds(type_, names)
        seen = Paths(names, paths)
        wrappers = as_queries_see
        for path in paths:
            if seen.lead_on(type_, path, as_queries_see, ends=False):
                continue
            if seen.lead_on(type_, path, as_rules_see, ends=False):
                wrappers = as_rules_see
        self.lacks = [not seen.lead_on(type_, path, wrappers) for path in paths]
        to_datum = _ToDatum(names, by_rules=bool(paths))
        self._to_datum = to_datum.of(type_)
        self._named = to_datum.alike or seen.renames()
        self._to_json = _ToJson(names, seen, wrappers).of(type_) if self._named else None

    def message(self, place: bytes) -> Avro:
        return self

    def like(self, other: Any) -> Avro:
        return self

    def decode(self, data: bytes) -> str:
        """Returns the JSON of all of `data`. Raises MisfitError. Raises TooMuchError, a subclass,
        for a record that exceeds a limit of avro_bounds."""
        try:
            self._bounds.check(data)
        except RecursionError:
            raise TooMuchError(TOO_DEEP) from None
        stream = BytesIO(data)
        try:
            read = fastavro.schemaless_reader(
                stream, self._schema, None, return_named_type=self._named
            )
            found = cast("dict[str, Any]", read)[_WHOLE]
            text = _dumps(found if self._to_json is None else self._to_json(found))
        except MemoryError:
            raise  # it does not quote the record
        except Exception:  # the library raises many classes for bytes of another schema
            raise MisfitError from None
        if stream.read(1):
            raise MisfitError
        return text

    def encode(self, text: str) -> bytes:
        """Raises MisfitError."""
        stream = BytesIO()
        try:
            value = json.loads(
                text, parse_float=Decimal, parse_constant=refuse, object_pairs_hook=_members
            )
            fastavro.schemaless_writer(stream, self._schema, {_WHOLE: self._to_datum(value)})
        except MemoryError:
            raise
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


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object. Raises MisfitError for repeated names."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MisfitError
    return found


_dumps = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
).encode


class _ToJson(Compiler[Convert]):
    """Converts values that fastavro reads with `return_named_type`: a named type in a union is a
    pair."""

    def __init__(self, names: Mapping[str, Any], paths: Paths, wrappers: Wrappers) -> None:
        super().__init__(names)
        self._paths, self._wrappers = paths, wrappers

    def union(self, branches: list[Any]) -> Convert:
        converts = {name_of(branch): self.of(branch) for branch in branches}
        wrappers = dict(zip(converts, self._wrappers(branches), strict=True))
        marked = {
            name
            for name, hidden in zip(converts, as_queries_see(branches), strict=True)
            if hidden is not None and wrappers[name] is None
        }

        def convert(value: Any) -> Any:
            name, datum = value if isinstance(value, tuple) else (_branch(value, converts), value)
            found = converts[name](datum)
            if (wrapper := wrappers[name]) is not None:
                return {wrapper: found}
            if name not in marked or not isinstance(found, dict):
                return found
            if BRANCH in found:
                raise MisfitError
            return {BRANCH: name, **found}

        return convert

    def record(self, schema: Any) -> Convert:
        shown = self._paths.shown(schema)
        fields = [
            (field["name"], shown[field["name"]], self.of(field["type"]))
            for field in schema["fields"]
        ]
        return lambda value: {shown: convert(value[name]) for name, shown, convert in fields}

    def array(self, schema: Any) -> Convert:
        item = self.of(schema["items"])
        return lambda value: [item(one) for one in value]

    def map(self, schema: Any) -> Convert:
        entry = self.of(schema["values"])
        return lambda value: {name: entry(one) for name, one in value.items()}

    def leaf(self, schema: Any) -> Convert:
        return lambda value: value


_BRANCHES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (type(None), ("null",)),
    (bool, ("boolean",)),
    ((str, uuid.UUID), ("string",)),
    ((bytes, Decimal), ("bytes",)),
    (datetime, ("long",)),
    ((date, time, int), ("int", "long")),
    (float, ("double", "float")),
    (list, ("array",)),
    (object, ("map",)),
)


def _branch(value: Any, branches: Mapping[str, Any]) -> str:
    """Returns the branch that fastavro has read: a union has each unnamed type only once."""
    wanted = next(names for kind, names in _BRANCHES if isinstance(value, kind))
    return next(name for name in wanted if name in branches)


class _ToDatum(Compiler[Convert]):
    """`by_rules`: also accepts the JSON that rules see. `alike`: the schema has a union whose
    branches JSON alone does not distinguish."""

    def __init__(self, names: Mapping[str, Any], *, by_rules: bool) -> None:
        super().__init__(names)
        self._by_rules = by_rules
        self.alike = False

    def union(self, branches: list[Any]) -> Convert:
        alike = branches_alike(branches)
        self.alike |= alike
        names = set(map(name_of, branches))
        plain: list[tuple[str, Convert]] = []
        wrapped: dict[str, Convert] = {}
        for branch in branches:
            name, convert = name_of(branch), self.of(branch)
            if alike and shape_of(branch) in ("text", "object"):
                wrapped[name] = convert
            else:
                exact = name == "float" and "double" in names
                plain.append((name, exact_single if exact else convert))

        by_rules = self._by_rules

        def choose(value: Any) -> Any:
            if by_rules and isinstance(value, dict) and value.get(BRANCH) in wrapped:
                name = value[BRANCH]
                return name, wrapped[name]({k: v for k, v in value.items() if k != BRANCH})
            if by_rules and isinstance(value, str) and "string" in wrapped:
                return "string", wrapped["string"](value)
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
        aliases: dict[str, str] = {}
        for field in fields:
            for alias in field.get("aliases", ()):
                if self._by_rules:
                    aliases.setdefault(alias, field["name"])
        missing: dict[str, Any] = {}
        required: set[str] = set()
        for field in fields:
            if _nullable(field["type"]):
                missing[field["name"]] = ("null", None) if field["type"] != "null" else None
            elif "default" not in field:
                required.add(field["name"])

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                raise MisfitError
            found = {}
            for shown, one in value.items():
                name = shown if shown in converts else aliases.get(shown)
                if name is None or name in found:
                    raise MisfitError
                found[name] = converts[name](one)
            if not required <= found.keys():
                raise MisfitError
            return missing | found

        return convert

    def array(self, schema: Any) -> Convert:
        item, is_list = self.of(schema["items"]), instance(list)
        return lambda value: [item(one) for one in is_list(value)]

    def map(self, schema: Any) -> Convert:
        entry, is_map = self.of(schema["values"]), instance(dict)
        return lambda value: {name: entry(one) for name, one in is_map(value).items()}

    def leaf(self, schema: Any) -> Convert:
        kind, logical = kind_of(schema), logical_of(schema)
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
