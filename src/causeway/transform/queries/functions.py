"""Functions of Spark SQL on texts and numbers, and what is made of them; as expressions.py."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from causeway.transform.plain_json import OddError
from causeway.transform.queries.expressions import (
    VALUE,
    Compared,
    Constant,
    Expression,
    Field,
    Get,
    Row,
    Secrets,
)


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


DIGESTS: Mapping[int, Callable[[bytes], Any]] = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


@dataclass(frozen=True, slots=True)
class Digest:
    """`sha2(text, bits)`."""

    x: Expression
    bits: int

    def open(self, secrets: Secrets) -> Get:
        of, digest = self.x.open(secrets), DIGESTS[self.bits]

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


@dataclass(frozen=True, slots=True)
class Real:
    """A whole number as a DOUBLE."""

    x: Expression

    def open(self, secrets: Secrets) -> Get:
        of = self.x.open(secrets)

        def get(row: Row) -> float | None:
            x = of(row)
            return None if x is None else float(x)

        return get


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
