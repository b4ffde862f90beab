"""What a query asks of a record, as far as it is known without Spark.

Expressions of Spark SQL on texts, whole numbers and booleans, with its logic of three values: None
is NULL, and what is asked of it is None as well. Each is a value to be pickled, and holds no
secret; `open` makes a function of it. That raises OddError where only Spark knows the answer, and
asks all its parts for that, also those of which Spark would not need to know.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from causeway.transform.plain_json import OddError, check_whole

# Key and value (bytes, text or document, as the query has need of them), `topic NUL partition NUL`,
# and offset.
Row = tuple[Any, Any, bytes, int]
KEY, VALUE, OFFSET = 0, 1, 3
Found = str | int | bool | None
Get = Callable[[Row], Any]
Secrets = Mapping[str, str]


class Expression(Protocol):
    def open(self, secrets: Secrets, /) -> Get:
        """A function of a row that gives a Found."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Found

    def open(self, secrets: Secrets) -> Get:
        value = self.value
        return lambda row: value


@dataclass(frozen=True, slots=True)
class Whole:
    """A key, a value or the offset, as it stands in the row."""

    at: int

    def open(self, secrets: Secrets) -> Get:
        return operator.itemgetter(self.at)


@dataclass(frozen=True, slots=True)
class Topic:
    def open(self, secrets: Secrets) -> Get:
        return lambda row: row[2].split(b"\0")[0].decode()


@dataclass(frozen=True, slots=True)
class Partition:
    def open(self, secrets: Secrets) -> Get:
        return lambda row: int(row[2].split(b"\0")[1])


@dataclass(frozen=True, slots=True)
class Member:
    """`get_json_object(…, '$.a.b')` of a document: a text, of numbers and booleans as well."""

    at: int
    names: tuple[str, ...]

    def open(self, secrets: Secrets) -> Get:
        at, (*path, last) = self.at, self.names

        def get(row: Row) -> str | None:
            document = row[at]
            for name in path:
                if document is None:
                    return None
                if type(document) is not dict:
                    raise OddError
                document = document.get(name)
            if document is None:
                return None
            if type(document) is not dict:
                raise OddError
            x = document.get(last)
            return x if x is None or type(x) is str else text_of(x)

        return get


@dataclass(frozen=True, slots=True)
class Field:
    """`value.a`, where what the schema's fields hold has been read in their order."""

    at: int
    number: int

    def open(self, secrets: Secrets) -> Get:
        at, number = self.at, self.number

        def get(row: Row) -> Found:
            fields: Any = row[at]
            return None if fields is None else fields[number]

        return get


@dataclass(frozen=True, slots=True)
class Secret:
    name: str

    def open(self, secrets: Secrets) -> Get:
        return Constant(secrets[self.name]).open(secrets)


@dataclass(frozen=True, slots=True)
class Compared:
    sign: Literal["=", "<", "<=", ">", ">=", "<=>"]
    left: Expression
    right: Expression

    def open(self, secrets: Secrets) -> Get:
        left, right, test = self.left.open(secrets), self.right.open(secrets), _SIGNS[self.sign]
        if self.sign == "<=>":
            return lambda row: left(row) == right(row)

        def get(row: Row) -> bool | None:
            x, y = left(row), right(row)
            return None if x is None or y is None else test(x, y)

        return get


# Python compares texts by their characters, Spark by their bytes of UTF-8: which is the same.
_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": operator.eq,
}


@dataclass(frozen=True, slots=True)
class OneOf:
    """`x IN (…)`."""

    x: Expression
    values: tuple[Found, ...]

    def open(self, secrets: Secrets) -> Get:
        of, values = self.x.open(secrets), frozenset(self.values) - {None}
        otherwise = None if None in self.values else False

        def get(row: Row) -> bool | None:
            x = of(row)
            return None if x is None else x in values or otherwise

        return get


@dataclass(frozen=True, slots=True)
class Not:
    x: Expression

    def open(self, secrets: Secrets) -> Get:
        of = self.x.open(secrets)

        def get(row: Row) -> bool | None:
            x = of(row)
            return None if x is None else not x

        return get


@dataclass(frozen=True, slots=True)
class Both:
    left: Expression
    right: Expression

    def open(self, secrets: Secrets) -> Get:
        left, right = self.left.open(secrets), self.right.open(secrets)

        def get(row: Row) -> bool | None:
            x, y = left(row), right(row)
            if x is False or y is False:
                return False
            return None if x is None or y is None else True

        return get


@dataclass(frozen=True, slots=True)
class Either:
    left: Expression
    right: Expression

    def open(self, secrets: Secrets) -> Get:
        left, right = self.left.open(secrets), self.right.open(secrets)

        def get(row: Row) -> bool | None:
            x, y = left(row), right(row)
            if x is True or y is True:
                return True
            return None if x is None or y is None else False

        return get


@dataclass(frozen=True, slots=True)
class IsNull:
    x: Expression

    def open(self, secrets: Secrets) -> Get:
        of = self.x.open(secrets)
        return lambda row: of(row) is None


@dataclass(frozen=True, slots=True)
class Asked:
    """Holds, if only it is known what `x` is."""

    x: Expression

    def open(self, secrets: Secrets) -> Get:
        of = self.x.open(secrets)

        def get(row: Row) -> bool:
            of(row)
            return True

        return get


@dataclass(frozen=True, slots=True)
class First:
    """`coalesce`."""

    all: tuple[Expression, ...]

    def open(self, secrets: Secrets) -> Get:
        all = [one.open(secrets) for one in self.all]

        def get(row: Row) -> Found:
            found: list[Found] = [of(row) for of in all]
            return next((x for x in found if x is not None), None)

        return get


@dataclass(frozen=True, slots=True)
class Holds:
    """A text that begins or ends with another, or has it within."""

    how: Literal["StartsWith", "EndsWith", "Contains"]
    x: Expression
    other: Expression

    def open(self, secrets: Secrets) -> Get:
        of, other, test = self.x.open(secrets), self.other.open(secrets), _HOLDS[self.how]

        def get(row: Row) -> bool | None:
            x, y = of(row), other(row)
            return None if x is None or y is None else test(x, y)

        return get


_HOLDS: Mapping[str, Callable[[str, str], bool]] = {
    "StartsWith": str.startswith,
    "EndsWith": str.endswith,
    "Contains": operator.contains,
}


@dataclass(frozen=True, slots=True)
class Like:
    """`x LIKE 'a%b'`. `parts`: what lies between its %; there are no other marks in it."""

    x: Expression
    parts: tuple[str, ...]

    def open(self, secrets: Secrets) -> Get:
        of, (first, *others) = self.x.open(secrets), self.parts
        if not others:
            return Compared("=", self.x, Constant(first)).open(secrets)
        *middle, last = others

        def get(row: Row) -> bool | None:
            x = of(row)
            if x is None:
                return None
            at, end = len(first), len(x) - len(last)
            if at > end or not x.startswith(first) or not x.endswith(last):
                return False
            for part in middle:
                at = x.find(part, at, end)
                if at < 0:
                    return False
                at += len(part)
            return True

        return get


@dataclass(frozen=True, slots=True)
class Number:
    """`cast(text AS INT)`, or BIGINT, of `bits`: of texts that are surely such."""

    x: Expression
    bits: int

    def open(self, secrets: Secrets) -> Get:
        of, limit = self.x.open(secrets), 2 ** (self.bits - 1)

        def get(row: Row) -> int | None:
            x = of(row)
            if x is None:
                return None
            if not _NUMBER.fullmatch(x) or not -limit <= (number := int(x)) < limit:
                raise OddError
            return number

        return get


@dataclass(frozen=True, slots=True)
class Joined:
    """`concat` of texts."""

    parts: tuple[Expression, ...]

    def open(self, secrets: Secrets) -> Get:
        parts = [part.open(secrets) for part in self.parts]

        def get(row: Row) -> str | None:
            texts = [of(row) for of in parts]
            return None if None in texts else "".join(texts)

        return get


@dataclass(frozen=True, slots=True)
class Digest:
    """`sha2(text, bits)`."""

    x: Expression
    bits: Literal[224, 256, 384, 512]

    def open(self, secrets: Secrets) -> Get:
        of, digest = self.x.open(secrets), getattr(hashlib, f"sha{self.bits}")

        def get(row: Row) -> str | None:
            x = of(row)
            return None if x is None else digest(x.encode()).hexdigest()

        return get


@dataclass(frozen=True, slots=True)
class Masked:
    """`mask(x, upper, lower, digit, other)`, of ASCII. None: what is such stays."""

    x: Expression
    upper: str | None
    lower: str | None
    digit: str | None
    other: str | None

    def open(self, secrets: Secrets) -> Get:
        of, table = self.x.open(secrets), "".join(map(self._of, map(chr, range(128))))

        def get(row: Row) -> str | None:
            x: str | None = of(row)
            if x is None:
                return None
            if not x.isascii():
                raise OddError
            return x.translate(table)

        return get

    def _of(self, char: str) -> str:
        if char.isalpha():
            new = self.upper if char.isupper() else self.lower
        else:
            new = self.digit if char.isdigit() else self.other
        return char if new is None else new


_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Struct:
    """What becomes a JSON text; NULLs are left out of it."""

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
        # Most stand in a document as they are: those are taken at once.
        taken = {one.at for _, one in self.fields if isinstance(one, Field)}
        part = min(taken, default=VALUE)
        numbers = [
            one.number if isinstance(one, Field) and one.at == part else None
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
            fields: Any = row[part] if taken else _NO_FIELDS
            found = [None] * count if fields is None else [*take(fields)][:count]
            for at, of in others:
                found[at] = of(row)
            text: str = encode(shape(*found)).decode()
            if "\\" in text:
                raise OddError  # which characters are escaped, and how
            return text

        return get


_NO_FIELDS = (None,)


def text_of(x: Any) -> str:
    """Of what stands in JSON and is neither text nor null."""
    if type(x) is bool:
        return "true" if x else "false"
    if type(x) is not int:
        raise OddError
    check_whole(x)
    return str(x)
