"""What a query asks of a record, as far as it is known without Spark.

Expressions of Spark SQL on texts, numbers and booleans, with its logic of three values: None
is NULL, and what is asked of it is None as well. Each is a value to be pickled, and holds no
secret; `open` makes a function of it. That raises OddError where only Spark knows the answer, and
asks all its parts for that, also those of which Spark would not need to know.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from causeway.transform.plain_json import OddError, check_whole

# Key and value (bytes, text or document, as the query has need of them), `topic NUL partition NUL`,
# and offset.
Row = tuple[Any, Any, bytes, int]
KEY, VALUE, OFFSET = 0, 1, 3
Found = str | int | float | bool | None
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


def text_of(x: Any) -> str:
    """Of what stands in JSON and is neither text nor null."""
    if type(x) is bool:
        return "true" if x else "false"
    if type(x) is not int:
        raise OddError
    check_whole(x)
    return str(x)
