"""Types of an Avro schema: values, the branches of unions, and the paths of rules.

A path may name the alias of a field. If no path names the field itself, rules see the field under
the alias. So a field that was renamed with an alias keeps its protection. Rules see an object in a
union without its wrapper: `value.$.who.email` leads to `email` in each branch that has that
field."""

from __future__ import annotations

import base64
import binascii
import math
import struct
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any, Generic, TypeVar

from causeway.transform.rules import ElementStep, FieldStep, Step
from causeway.transform.schema_formats.registry import MisfitError

Convert = Callable[[Any], Any]
RANGES = {"int": 2**31, "long": 2**63}


def refuse(_: str) -> Any:
    raise MisfitError


def instance(kind: type) -> Convert:
    return lambda value: value if isinstance(value, kind) else refuse("")


def whole_number(value: Any, limit: int) -> int:
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    if type(value) is not int or not -limit <= value < limit:
        raise MisfitError
    return value


def number(value: Any) -> float:
    if type(value) is not int and not isinstance(value, Decimal):
        raise MisfitError
    try:
        found = float(value)
    except OverflowError:
        raise MisfitError from None
    if math.isinf(found):
        raise MisfitError
    return found


def single(value: Any) -> float:
    try:
        found: float = struct.unpack("<f", struct.pack("<f", number(value)))[0]
    except OverflowError:
        raise MisfitError from None
    return found


def exact_single(value: Any) -> float:
    return found if (found := single(value)) == number(value) else refuse("")


def of_uuid(value: Any) -> Any:
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise MisfitError from None


def of_bytes(value: Any, size: int | None = None) -> bytes:
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise MisfitError from None
    if size not in (None, len(data)):
        raise MisfitError
    return data


def of_decimal(precision: int, scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            raise MisfitError
        try:
            return Decimal(value).quantize(unit, context=context)
        except DecimalException:
            raise MisfitError from None

    return convert


TIMES: Mapping[str, tuple[Any, int]] = {  # the class, and microseconds per unit
    "int-date": (date, 1),
    "int-time-millis": (time, 1000),
    "long-time-micros": (time, 1),
    "long-timestamp-millis": (datetime, 1000),
    "long-timestamp-micros": (datetime, 1),
    "long-local-timestamp-millis": (datetime, 1000),
    "long-local-timestamp-micros": (datetime, 1),
}


def of_time(logical: str, limit: int) -> Convert:
    kind, unit = TIMES[logical]
    local = "local" in logical

    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            return whole_number(value, limit)
        try:
            found = kind.fromisoformat(value)
        except ValueError:
            raise MisfitError from None
        if kind is not date and found.microsecond % unit:
            raise MisfitError
        if kind is time and found.tzinfo is not None:
            raise MisfitError
        if kind is datetime and (found.tzinfo is not None) is local:
            if local:
                raise MisfitError
            found = found.replace(tzinfo=UTC)
        return found

    return convert


_NAMED = {"record", "error", "enum", "fixed"}
_OBJECTS = {"record", "error", "map"}
_NUMBERS = {"int", "long", "float", "double"}


def kind_of(schema: Any) -> str:
    """Returns the type's name; for a reference, the name of the named type."""
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def resolved(schema: Any, names: Mapping[str, Any]) -> Any:
    return names.get(schema, schema) if isinstance(schema, str) else schema


def name_of(schema: Any) -> str:
    """Returns the name of a union's branch in fastavro and in Avro's JSON."""
    return str(schema["name"]) if kind_of(schema) in _NAMED else kind_of(schema)


def shape_of(schema: Any) -> str:
    """Returns the kind of JSON for the type."""
    kind = kind_of(schema)
    if kind in _OBJECTS:
        return "object"
    if kind in _NUMBERS and not _is_text(schema):
        return "number"
    return kind if kind in ("array", "null", "boolean") else "text"


def _is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and logical_of(schema) in TIMES


def logical_of(schema: Any) -> str:
    """Returns the name of a logical type that Causeway converts, such as `long-timestamp-millis`;
    '' if there is none."""
    return f"{kind_of(schema)}-{schema.get('logicalType')}" if isinstance(schema, dict) else ""


def branches_alike(branches: Sequence[Any]) -> bool:
    shapes = [shape for shape in map(shape_of, branches) if shape in ("text", "object")]
    return len(shapes) > len(set(shapes))


def as_queries_see(branches: Sequence[Any]) -> Sequence[str | None]:
    """Returns the names of the wrappers that queries see."""
    alike = branches_alike(branches)
    return [
        name_of(one) if alike and shape_of(one) in ("text", "object") else None for one in branches
    ]


def as_rules_see(branches: Sequence[Any]) -> Sequence[str | None]:
    """Returns the names of the wrappers that rules see."""
    return [
        None if shape_of(one) == "object" or kind_of(one) == "string" else name
        for one, name in zip(branches, as_queries_see(branches), strict=True)
    ]


Made = TypeVar("Made", bound=Callable[..., Any])


class Compiler(ABC, Generic[Made]):
    """Makes the functions for the parts of a schema, one for each named type, because a schema may
    contain itself."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._made: dict[str, Any] = {}

    def of(self, schema: Any) -> Made:
        schema = resolved(schema, self._names)
        if isinstance(schema, list):
            return self.union([resolved(one, self._names) for one in schema])
        match kind_of(schema):
            case "record" | "error":
                name = schema["name"]
                if name not in self._made:
                    self._made[name] = lambda *given: self._made[name](*given)  # noqa: PLW0108
                    self._made[name] = self.record(schema)
                made: Made = self._made[name]
                return made
            case "array":
                return self.array(schema)
            case "map":
                return self.map(schema)
        return self.leaf(schema)

    @abstractmethod
    def union(self, branches: list[Any]) -> Made: ...

    @abstractmethod
    def record(self, schema: Any) -> Made: ...

    @abstractmethod
    def array(self, schema: Any) -> Made: ...

    @abstractmethod
    def map(self, schema: Any) -> Made: ...

    @abstractmethod
    def leaf(self, schema: Any) -> Made: ...


BRANCH = "causeway.branch"  # an additional field of an object in a union: the name of its branch

Steps = tuple[Step, ...]
# Returns, for each branch of a union, the name of its wrapper, or None.
Wrappers = Callable[[Sequence[Any]], Sequence[str | None]]


class Paths:
    """The paths of rules in one schema, with the named types `names`."""

    def __init__(self, names: Mapping[str, Any], paths: Sequence[Steps]) -> None:
        self._names = names
        steps = (step for path in paths for step in path)
        self._wanted = {step.name for step in steps if isinstance(step, FieldStep)}

    def shown(self, record: Any) -> dict[str, str]:
        """Returns the names of a record's fields for rules, by their own names."""
        found = {field["name"]: field["name"] for field in record["fields"]}
        taken = set(found)
        for field in record["fields"]:
            for alias in field.get("aliases", ()):
                if alias in self._wanted - taken and field["name"] not in self._wanted:
                    found[field["name"]] = alias
                    taken.add(alias)
                    break
        return found

    def renames(self) -> bool:
        """Returns whether rules see a field under an alias."""
        records = (one for one in self._names.values() if kind_of(one) in ("record", "error"))
        return any(name != shown for one in records for name, shown in self.shown(one).items())

    def lead_on(self, schema: Any, path: Steps, wrappers: Wrappers, *, ends: bool = True) -> bool:
        """Returns whether a record of `schema` can have the path, with the wrappers of unions given
        by `wrappers`. `ends`: the path may end at a wrapper."""
        schema = resolved(schema, self._names)
        if isinstance(schema, list):
            branches = [resolved(one, self._names) for one in schema]
            return any(
                self._through(branch, name, path, wrappers, ends)
                for branch, name in zip(branches, wrappers(branches), strict=True)
                if branch != "null"
            )
        if not path:
            return True
        step, after = path[0], path[1:]
        match kind_of(schema):
            case "record" | "error" if isinstance(step, FieldStep):
                shown = self.shown(schema)
                return any(
                    self.lead_on(field["type"], after, wrappers, ends=ends)
                    for field in schema["fields"]
                    if step.name in (None, shown[field["name"]])
                )
            case "map" if isinstance(step, FieldStep):
                return self.lead_on(schema["values"], after, wrappers, ends=ends)
            case "array" if isinstance(step, ElementStep):
                return self.lead_on(schema["items"], after, wrappers, ends=ends)
        return False

    def _through(
        self, branch: Any, wrapper: str | None, path: Steps, wrappers: Wrappers, ends: bool
    ) -> bool:
        if wrapper is not None:
            if not path:
                return ends
            if path[0] not in (FieldStep(wrapper), FieldStep(None)):
                return False
            path = path[1:]
        return self.lead_on(branch, path, wrappers, ends=ends)
