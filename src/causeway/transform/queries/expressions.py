"""Expressions of Spark SQL that Causeway evaluates without Spark.

Values are texts, numbers and booleans, with the three-valued logic of SQL: None is NULL. Each
expression is a value that can be pickled and that holds no secret; `open` turns it into a function.
The function raises NeedsSparkError if only Spark knows the result. It evaluates all parts, also
those that Spark would skip.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from causeway.transform.json_text import NeedsSparkError, check_whole

# Key and value (bytes, text or document, as the query needs them), `topic NUL partition NUL`, and
# offset.
Row = tuple[Any, Any, bytes, int]
KEY, VALUE, OFFSET = 0, 1, 3
Scalar = str | int | float | bool | None
Get = Callable[[Row], Any]
Secrets = Mapping[str, str]


class Expression(Protocol):
    def open(self, secrets: Secrets, /) -> Get:
        """A function of a row that gives a Scalar."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Scalar

    def open(self, secrets: Secrets) -> Get:
        value = self.value
        return lambda row: value


@dataclass(frozen=True, slots=True)
class SecretField:
    name: str

    def open(self, secrets: Secrets) -> Get:
        return Constant(secrets[self.name]).open(secrets)


@dataclass(frozen=True, slots=True)
class Whole:
    """A key, a value or the offset, unchanged."""

    at: int

    def open(self, secrets: Secrets) -> Get:
        return operator.itemgetter(self.at)


@dataclass(frozen=True, slots=True)
class TopicColumn:
    def open(self, secrets: Secrets) -> Get:
        return lambda row: row[2].split(b"\0")[0].decode()


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    def open(self, secrets: Secrets) -> Get:
        return lambda row: int(row[2].split(b"\0")[1])


@dataclass(frozen=True, slots=True)
class Member:
    """`get_json_object(…, '$.a.b')` of a document: a text, also for numbers and booleans."""

    at: int
    names: tuple[str, ...]

    def open(self, secrets: Secrets) -> Get:
        at, names = self.at, self.names

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


@dataclass(frozen=True, slots=True)
class SchemaField:
    """`value.a`, for a part that was read as the fields of its schema, in their order."""

    at: int
    number: int

    def open(self, secrets: Secrets) -> Get:
        at, number = self.at, self.number

        def get(row: Row) -> Scalar:
            fields: Any = row[at]
            return None if fields is None else fields[number]

        return get


@dataclass(frozen=True, slots=True)
class Applied:
    """A function of other expressions: a key of PLAIN, or of WITH_OPTIONS with the `options` that
    are constant in the query. NULL if one of `parts` is NULL."""

    function: str
    parts: tuple[Expression, ...]
    options: tuple[Any, ...] = ()

    def open(self, secrets: Secrets) -> Get:
        function = PLAIN.get(self.function) or WITH_OPTIONS[self.function](*self.options)
        parts = [part.open(secrets) for part in self.parts]
        if len(parts) == 1:
            (of,) = parts

            def of_one(row: Row) -> Scalar:
                x = of(row)
                return None if x is None else function(x)

            return of_one

        def of_all(row: Row) -> Scalar:
            values = [of(row) for of in parts]
            return None if None in values else function(*values)

        return of_all


@dataclass(frozen=True, slots=True)
class Same:
    """`x <=> y`: also compares NULL."""

    left: Expression
    right: Expression

    def open(self, secrets: Secrets) -> Get:
        left, right = self.left.open(secrets), self.right.open(secrets)
        return lambda row: left(row) == right(row)


@dataclass(frozen=True, slots=True)
class OneOf:
    """`x IN (…)`."""

    x: Expression
    values: tuple[Scalar, ...]

    def open(self, secrets: Secrets) -> Get:
        of, values = self.x.open(secrets), frozenset(self.values) - {None}
        otherwise: bool | None = None if None in self.values else False

        def get(row: Row) -> bool | None:
            x = of(row)
            found: bool | None = None if x is None else x in values or otherwise
            return found

        return get


@dataclass(frozen=True, slots=True)
class Junction:
    """`x AND y`, or with `decisive` True `x OR y`: one value that is `decisive` decides."""

    left: Expression
    right: Expression
    decisive: bool

    def open(self, secrets: Secrets) -> Get:
        left, right, decisive = self.left.open(secrets), self.right.open(secrets), self.decisive

        def get(row: Row) -> bool | None:
            x, y = left(row), right(row)
            if decisive in (x, y):
                return decisive
            return None if x is None or y is None else not decisive

        return get


@dataclass(frozen=True, slots=True)
class IsNull:
    x: Expression

    def open(self, secrets: Secrets) -> Get:
        of = self.x.open(secrets)
        return lambda row: of(row) is None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """True if `x` can be evaluated without Spark."""

    x: Expression

    def open(self, secrets: Secrets) -> Get:
        of = self.x.open(secrets)

        def get(row: Row) -> bool:
            of(row)
            return True

        return get


@dataclass(frozen=True, slots=True)
class Coalesce:
    parts: tuple[Expression, ...]

    def open(self, secrets: Secrets) -> Get:
        parts = [part.open(secrets) for part in self.parts]

        def get(row: Row) -> Scalar:
            values: list[Scalar] = [of(row) for of in parts]
            return next((x for x in values if x is not None), None)

        return get


@dataclass(frozen=True, slots=True)
class JsonStruct:
    """A struct that becomes a JSON text; fields that are NULL are left out."""

    fields: tuple[tuple[str, Expression], ...]

    def open(self, secrets: Secrets) -> Callable[[Row], str]:
        import msgspec

        encode = msgspec.json.Encoder().encode
        shape = msgspec.defstruct(
            "Made",
            [
                (f"f{at}", Any, msgspec.field(default=None, name=name))
                for at, (name, _) in enumerate(self.fields)
            ],
            omit_defaults=True,
        )
        # Most fields are fields of the record's schema: one itemgetter takes all of them.
        taken = {one.at for _, one in self.fields if isinstance(one, SchemaField)}
        part = min(taken, default=VALUE)
        numbers = [
            one.number if isinstance(one, SchemaField) and one.at == part else None
            for _, one in self.fields
        ]
        take = operator.itemgetter(*(number or 0 for number in (*numbers, 0)))
        others = [
            (at, one.open(secrets))
            for at, (number, (_, one)) in enumerate(zip(numbers, self.fields, strict=True))
            if number is None
        ]
        count = len(self.fields)

        def get(row: Row) -> str:
            fields: Any = row[part] if taken else (None,)
            found = [None] * count if fields is None else [*take(fields)][:count]
            for at, of in others:
                found[at] = of(row)
            text: str = encode(shape(*found)).decode()
            if "\\" in text:
                raise NeedsSparkError  # Spark may escape other characters, or in another way
            return text

        return get


def text_of(x: Any) -> str:
    """The text of a JSON boolean or whole number."""
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
    """`cast(text AS INT)` or BIGINT, of texts in Java's own notation only."""
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
    """`mask(x, upper, lower, digit, other)` of ASCII; None keeps the characters of that kind."""

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


# Python compares texts by code points, Spark by their UTF-8 bytes: the order is the same.
PLAIN: Mapping[str, Callable[..., Any]] = {
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
}
WITH_OPTIONS: Mapping[str, Callable[..., Callable[..., Any]]] = {
    "like": _like,
    "whole number": _whole_number,
    "sha2": _sha2,
    "mask": _mask,
}
