"""Limits of an Avro record, checked in its bytes before it is decoded.

A few bytes can announce an array of a million items, if its items take no bytes. One byte can be a
record of a thousand nulls. Each byte can nest a record of a recursive schema one level deeper,
until the decoder's stack overflows and the process ends. A schema shows how much memory each byte
can take, so the length alone shows that most records are harmless. All other records are measured
first, value by value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from causeway.transform.schema_formats.avro_types import Compiler, kind_of, resolved
from causeway.transform.schema_formats.registry import MisfitError

DEEPEST = 100  # nested records, arrays and maps; the limit of Protobuf's readers
MOST_VALUES = 1_000_000  # in a record, plus one for each four of its bytes
MOST_EMPTY = 1_000  # items of arrays that take no bytes, in a record
MOST_TEXT = 64 * 1024 * 1024  # characters of names and texts in its JSON, plus two for each byte
MOST_DIGITS_BYTES = 417  # of a decimal: a thousand digits, the limit of Spark's parser of JSON
# How a record exceeds a bound.
TOO_DEEP = f"Avro that is nested deeper than {DEEPEST}"
TOO_MUCH = "Avro with too many values for its size"
TOO_LONG = "a decimal with too many digits"
SAFE = 8 * 1024 * 1024  # bytes of memory: a record that cannot take more is not walked through
_VALUE = 100  # bytes that a value takes in Python and as JSON, about
_LONG_VARINT = 10
_MOST_TYPES = 100_000  # of a schema; a type counts at each use
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_Walk = Callable[["_State", int, int], int]  # from a position, at a depth; returns the value's end


class TooMuchError(MisfitError):
    """A record exceeds a limit. The message names the limit and does not quote the record."""


class _Shape(NamedTuple):
    """The size of a type. `least`: the fewest bytes in Avro. `cost`: the most bytes in memory,
    without items of arrays and maps. `depth`: levels of nesting, without recursion."""

    least: float
    cost: float
    depth: int = 0


class Bounds:
    """The limits for a schema that fastavro has parsed, with its `names`. Raises ValueError if a
    record of the schema could never end."""

    def __init__(self, schema: Any, names: Mapping[str, Any]) -> None:
        self._names = names
        self._open: list[str] = []
        self._recursive = False
        self._types = 0
        self._rate = (
            6.0  # the most bytes in memory for a byte of Avro; a byte of text takes six in JSON
        )
        self._longest = math.inf  # bytes of a record whose decimals cannot take too long
        whole = self._shape(schema)
        if math.isinf(whole.least):
            raise ValueError("its records have no end")
        self._cost, self._depth = whole.cost, whole.depth
        self._walk = _Walks(names, lambda item: self._shape(item).least == 0).of(schema)

    def check(self, data: bytes) -> None:
        """Raises TooMuchError, or MisfitError if `data` is not Avro of the schema."""
        size = len(data)
        depth = self._depth * (1 + size) if self._recursive else self._depth
        if self._cost + self._rate * size > SAFE or depth > DEEPEST or size > self._longest:
            self._walk(_State(data), 0, 0)

    def _shape(self, schema: Any) -> _Shape:
        self._types += 1
        if self._types > _MOST_TYPES:
            raise ValueError("it is too large")
        if isinstance(schema, list):
            branches = [self._shape(branch) for branch in schema]
            names = max((len(str(_name(branch))) for branch in schema), default=0)
            return _Shape(
                1 + min((one.least for one in branches), default=math.inf),
                _VALUE + names + max((one.cost for one in branches), default=0),
                max((one.depth for one in branches), default=0),
            )
        schema = resolved(schema, self._names)
        match kind_of(schema):
            case "record" | "error":
                return self._shape_of_record(schema)
            case "array" | "map" as kind:
                item = self._shape(schema["items" if kind == "array" else "values"])
                least = item.least + (kind == "map")
                self._rate = max(self._rate, item.cost / least if least else math.inf)
                return _Shape(1, _VALUE, item.depth + 1)
            case "enum":
                return _Shape(1, _VALUE + max(map(len, schema["symbols"]), default=0))
            case "fixed":
                if schema["size"] > MOST_DIGITS_BYTES and _is_decimal(schema):
                    self._longest = 0
                return _Shape(schema["size"], _VALUE + 6 * schema["size"] + _scale(schema))
            case "bytes" if _is_decimal(schema):
                self._longest = min(self._longest, MOST_DIGITS_BYTES)
                return _Shape(1, _VALUE + _scale(schema))
            case kind:
                return _Shape(_SIZES.get(kind, 1), _VALUE)

    def _shape_of_record(self, schema: Any) -> _Shape:
        name = schema["name"]
        if name in self._open:
            self._recursive = True
            return _Shape(math.inf, 0)
        self._open.append(name)
        fields = [(field["name"], self._shape(field["type"])) for field in schema["fields"]]
        self._open.pop()
        found = _Shape(
            sum(one.least for _, one in fields),
            2 * _VALUE + sum(one.cost + len(called) for called, one in fields),
            1 + max((one.depth for _, one in fields), default=0),
        )
        if self._recursive:
            self._rate = max(self._rate, found.cost)  # each level takes a byte
        return found


class _State:
    """The state of a walk through `data`."""

    __slots__ = ("_most_text", "_most_values", "data", "empty", "size", "text", "values")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.values = self.text = self.empty = 0
        self._most_values = MOST_VALUES + self.size // 4
        self._most_text = MOST_TEXT + 2 * self.size

    def number(self, at: int) -> tuple[int, int]:
        """Returns a zigzag varint, and the position of its end."""
        data, end = self.data, min(self.size, at + _LONG_VARINT)
        found = shift = 0
        while at < end:
            byte = data[at]
            found |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1), at
        raise MisfitError

    def add(self, values: int, text: int, depth: int) -> None:
        self.values += values
        self.text += text
        if depth > DEEPEST:
            raise TooMuchError(TOO_DEEP)
        if self.values > self._most_values or self.text > self._most_text:
            raise TooMuchError(TOO_MUCH)

    def past(self, at: int, size: int, most: float = math.inf) -> int:
        """Returns the end of a value of `size` bytes, which may take `most` bytes."""
        if size > most:
            raise TooMuchError(TOO_LONG)
        if size < 0 or at + size > self.size:
            raise MisfitError
        return at + size


class _Walks(Compiler[_Walk]):
    """`is_empty`: whether a type takes no bytes."""

    def __init__(self, names: Mapping[str, Any], is_empty: Callable[[Any], bool]) -> None:
        super().__init__(names)
        self._is_empty = is_empty

    def union(self, branches: list[Any]) -> _Walk:
        walks = [self.of(branch) for branch in branches]

        def walk(state: _State, at: int, depth: int) -> int:
            branch, at = state.number(at)
            if not 0 <= branch < len(walks):
                raise MisfitError
            return walks[branch](state, at, depth)

        return walk

    def record(self, schema: Any) -> _Walk:
        fields = [self.of(field["type"]) for field in schema["fields"]]
        text = sum(len(field["name"]) + 4 for field in schema["fields"])

        def walk(state: _State, at: int, depth: int) -> int:
            state.add(len(fields), text, depth + 1)
            for field in fields:
                at = field(state, at, depth + 1)
            return at

        return walk

    def array(self, schema: Any) -> _Walk:
        return _blocks(self.of(schema["items"]), empty=self._is_empty(schema["items"]))

    def map(self, schema: Any) -> _Walk:
        value = self.of(schema["values"])

        def entry(state: _State, at: int, depth: int) -> int:
            size, at = state.number(at)
            return value(state, state.past(at, size), depth)

        return _blocks(entry, empty=False)

    def leaf(self, schema: Any) -> _Walk:
        kind = kind_of(schema)
        most = MOST_DIGITS_BYTES if _is_decimal(schema) else math.inf
        match kind:
            case "bytes" | "string":

                def walk(state: _State, at: int, depth: int) -> int:
                    size, at = state.number(at)
                    return state.past(at, size, most)

                return walk
            case "int" | "long" | "enum":
                return lambda state, at, depth: state.number(at)[1]
        size = schema["size"] if kind == "fixed" else _SIZES[kind]
        return lambda state, at, depth: state.past(at, size, most)


def _blocks(item: _Walk, *, empty: bool) -> _Walk:
    def walk(state: _State, at: int, depth: int) -> int:
        state.add(0, 0, depth + 1)
        while True:
            count, at = state.number(at)
            if count < 0:
                _, at = state.number(at)
                count = -count
            if not count:
                return at
            if empty:
                state.empty += count
                if state.empty > MOST_EMPTY:
                    raise TooMuchError(TOO_MUCH)
            elif count > state.size - at:
                raise MisfitError
            state.add(count, 0, depth + 1)
            for _ in range(count):
                at = item(state, at, depth + 1)

    return walk


def _name(schema: Any) -> Any:
    return schema.get("name", "") if isinstance(schema, dict) else schema


def _is_decimal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


def _scale(schema: Any) -> int:
    return int(schema.get("scale", 0)) if _is_decimal(schema) else 0
