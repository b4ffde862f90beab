"""Queries without Spark, for plain records. plan/shortcut.py makes them from Spark's plans.

Values are texts, numbers and booleans, with the three-valued logic of SQL: None is NULL. All parts
of an expression are evaluated, even those that Spark would skip.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from causeway.transform.json_text import SHORT, NeedsSparkError, check_whole, plain_objects
from causeway.transform.rules import DROPPED, Treat, Treated

# Key and value (bytes, text or document, as the query needs them), `topic NUL partition NUL`, and
# offset.
Row = tuple[Any, Any, bytes, int]
KEY, VALUE, OFFSET = 0, 1, 3
Scalar = str | int | float | bool | None
Get = Callable[[Row], Any]
Secrets = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Expression:
    """A function of `parts`, or a column. It can be pickled and holds no secret. `function`: a key
    of COLUMNS, FUNCTIONS or OF_NULL, or `struct`. `options`: the constants of the query."""

    function: str
    parts: tuple[Expression, ...] = ()
    options: tuple[Any, ...] = ()

    def open(self, secrets: Secrets) -> Get:
        """Returns a function of a row. It returns a Scalar, and raises NeedsSparkError if only
        Spark knows the result."""
        if self.function in COLUMNS:
            return COLUMNS[self.function](secrets, *self.options)
        if self.function == "struct":
            return _json_struct(self.options, self.parts, secrets)
        function = FUNCTIONS.get(self.function) or OF_NULL[self.function]
        if self.options:
            function = function(*self.options)
        parts = [part.open(secrets) for part in self.parts]
        given = self.function in OF_NULL
        if len(parts) == 1:
            return _of_one(function, parts[0], given)
        if len(parts) == 2:
            return _of_two(function, parts[0], parts[1], given)

        def of_all(row: Row) -> Scalar:
            values = [of(row) for of in parts]
            return None if None in values and not given else function(*values)

        return of_all


# `given`: the function is also called for NULL; otherwise NULL gives NULL.


def _of_one(function: Callable[..., Scalar], of: Get, given: bool) -> Get:
    def of_one(row: Row) -> Scalar:
        x = of(row)
        return None if x is None and not given else function(x)

    return of_one


def _of_two(function: Callable[..., Scalar], one: Get, other: Get, given: bool) -> Get:
    def of_two(row: Row) -> Scalar:
        x, y = one(row), other(row)
        return None if (x is None or y is None) and not given else function(x, y)

    return of_two


def constant(value: Scalar) -> Expression:
    return Expression("constant", (), (value,))


def whole(at: int) -> Expression:
    """Returns a key, a value or the offset, unchanged."""
    return Expression("whole", (), (at,))


def _constant(secrets: Secrets, value: Scalar) -> Get:
    return lambda row: value


def _member(secrets: Secrets, at: int, *names: str) -> Get:
    def get(row: Row) -> str | None:
        x = row[at]
        for name in names:
            if x is None:
                return None
            if type(x) is not dict:
                raise NeedsSparkError
            x = x.get(name)
        return x if x is None or type(x) is str else text_of(x)

    return get


def _field(secrets: Secrets, at: int, number: int) -> Get:
    def get(row: Row) -> Scalar:
        fields: Any = row[at]
        return None if fields is None else fields[number]

    return get


COLUMNS: Mapping[str, Callable[..., Get]] = {
    "constant": _constant,
    "secret": lambda secrets, name: _constant(secrets, secrets[name]),
    "whole": lambda secrets, at: operator.itemgetter(at),
    "topic": lambda secrets: lambda row: row[2].split(b"\0")[0].decode(),
    "partition": lambda secrets: lambda row: int(row[2].split(b"\0")[1]),
    # `get_json_object(…, '$.a.b')` of a document: a text, also for numbers and booleans.
    "member": _member,
    # `value.a`, for a part that was read as the fields of its schema, in their order.
    "field": _field,
}


def _json_struct(names: Sequence[str], parts: Sequence[Expression], secrets: Secrets) -> Get:
    """Returns a function that makes the JSON text of a struct, without fields that are NULL."""
    encode = msgspec.json.Encoder().encode
    shape = msgspec.defstruct(
        "Made",
        [(f"f{at}", Any, msgspec.field(default=None, name=name)) for at, name in enumerate(names)],
        omit_defaults=True,
    )
    # Most fields are fields of the record's schema: one itemgetter reads all of them.
    taken = [one.options if one.function == "field" else None for one in parts]
    part = min((one[0] for one in taken if one), default=None)
    numbers = [one[1] if one and one[0] == part else None for one in taken]
    take = operator.itemgetter(*(number or 0 for number in (*numbers, 0)))
    others = [(at, parts[at].open(secrets)) for at, one in enumerate(numbers) if one is None]
    count = len(parts)

    def get(row: Row) -> str:
        fields: Any = (None,) if part is None else row[part]
        found = [None] * count if fields is None else [*take(fields)][:count]
        for at, of in others:
            found[at] = of(row)
        text: str = encode(shape(*found)).decode()
        if "\\" in text:
            raise NeedsSparkError  # Spark may escape other characters, or in another way
        return text

    return get


def text_of(x: Any) -> str:
    """Returns the text of a JSON boolean or whole number."""
    if type(x) is bool:
        return "true" if x else "false"
    if type(x) is not int:
        raise NeedsSparkError
    check_whole(x)
    return str(x)


def _like(*parts: str) -> Callable[[str], bool]:
    """`x LIKE 'a%b'`. `parts`: the texts between the %; the pattern has no other wildcards."""
    first, *others = parts
    if not others:
        return first.__eq__
    *middle, last = others

    def like(x: str) -> bool:
        at, end = len(first), len(x) - len(last)
        if at > end or not x.startswith(first) or not x.endswith(last):
            return False
        for part in middle:
            at = x.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return like


_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")


def _whole_number(bits: int) -> Callable[[str], int]:
    """`cast(text AS INT)` or BIGINT, only for texts in Java's own notation."""
    limit = 2 ** (bits - 1)

    def whole_number(x: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(x) or not -limit <= (number := int(x)) < limit:
            raise NeedsSparkError
        return number

    return whole_number


DIGESTS: Mapping[int, Callable[[bytes], Any]] = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


def _sha2(bits: int) -> Callable[[str], str]:
    digest = DIGESTS[bits]
    return lambda x: str(digest(x.encode()).hexdigest())


def _mask(
    upper: str | None, lower: str | None, digit: str | None, other: str | None
) -> Callable[[str], str]:
    """`mask(x, upper, lower, digit, other)` of ASCII; None keeps characters of that kind."""

    def masked(char: str) -> str:
        if char.isalpha():
            new = upper if char.isupper() else lower
        else:
            new = digit if char.isdigit() else other
        return char if new is None else new

    table = "".join(map(masked, map(chr, range(128))))

    def mask(x: str) -> str:
        if not x.isascii():
            raise NeedsSparkError
        return x.translate(table)

    return mask


def _one_of(*values: Scalar) -> Callable[[Scalar], bool | None]:
    """`x IN (…)`."""
    known = frozenset(values) - {None}
    otherwise = None if None in values else False
    return lambda x: None if x is None else x in known or otherwise


def _junction(decisive: bool) -> Callable[[Scalar, Scalar], bool | None]:
    """AND, OR: a value that is `decisive` alone decides the result."""

    def junction(x: Scalar, y: Scalar) -> bool | None:
        if decisive in (x, y):
            return decisive
        return None if x is None or y is None else not decisive

    return junction


# These functions give NULL if a part is NULL. Functions with options get the options first. Python
# compares texts by code points, Spark by their UTF-8 bytes: the order is the same.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "not": operator.not_,
    "starts with": str.startswith,
    "ends with": str.endswith,
    "contains": operator.contains,
    "concat": lambda *texts: "".join(texts),
    "double": float,
    "like": _like,
    "whole number": _whole_number,
    "sha2": _sha2,
    "mask": _mask,
}
# These functions are also called for NULL.
OF_NULL: Mapping[str, Callable[..., Any]] = {
    "<=>": operator.eq,
    "in": _one_of,
    "and": _junction(decisive=False),
    "or": _junction(decisive=True),
    "is null": lambda x: x is None,
    "evaluated": lambda x: True,  # the part can be evaluated without Spark
    "coalesce": lambda *values: next((x for x in values if x is not None), None),
}


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How a key or value is read: as bytes that no expression reads, as UTF-8 text, or as a JSON
    object. `fields`: those of its schema, with the names of their types."""

    kind: Literal["bytes", "text", "document"]
    fields: tuple[tuple[str, str], ...] = ()

    def reader(self) -> Callable[[bytes], Any]:
        """Returns a decoder, which raises NeedsSparkError or another ValueError."""
        match self.kind:
            case "bytes":
                return bytes
            case "text":
                return bytes.decode
            case "document":
                return _fitting(self.fields) if self.fields else plain_objects()


Made = tuple[Expression, bool]


@dataclass(frozen=True, slots=True)
class QueryShortcut:
    """The work of a shortcut; can be pickled. `conditions`: the filters, and whether tombstones
    pass them unevaluated. `forms`: how key and value are read. `made`: the expressions that replace
    key and value, each with whether it reads the value; if it does, tombstones get nothing."""

    conditions: tuple[tuple[Expression, bool], ...]
    forms: tuple[ReadAs, ReadAs]
    made: tuple[Made | None, Made | None] = (None, None)

    def open(self, secrets: Secrets) -> Treat:
        conditions = [(one.open(secrets), alone) for one, alone in self.conditions]
        read_key, read_value = (form.reader() for form in self.forms)
        make_key, make_value = (_maker(at, self.made[at], secrets) for at in (KEY, VALUE))

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


def _maker(at: int, made: Made | None, secrets: Secrets) -> Callable[[Row], bytes | None] | None:
    if made is None:
        return None
    get, of_value = made[0].open(secrets), made[1]

    def make(row: Row) -> bytes | None:
        if of_value and row[VALUE] is None:
            if at == KEY:
                raise NeedsSparkError  # Spark's query refuses such tombstones
            return None
        text: str | None = get(row)
        return None if text is None else text.encode()

    return make


_TYPES: Mapping[str, Any] = {
    "string": str,
    "boolean": bool,
    "double": float,
    "int": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    "bigint": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
}


def _fitting(fields: Sequence[tuple[str, str]]) -> Callable[[bytes], tuple[Any, ...]]:
    """Returns a decoder of objects that certainly fit a schema, to the fields' values in order."""
    shape = msgspec.defstruct(
        "Fields",
        [
            (f"f{at}", _TYPES[kind] | None, msgspec.field(default=None, name=name))
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
