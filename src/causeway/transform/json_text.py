"""The definition of JSON for rules and SQL, in three forms: strict (Spark SQL), plain (Python) and
without huge numbers.

Strict: a text is JSON if it is UTF-8, contains exactly one value of RFC 8259 and otherwise only
white space, and no object in it repeats a name, however the name is escaped. Readers disagree about
all other texts: one takes the first of two names and another the last, so a filter might see
another value than the consumer. The session keeps `spark.sql.variant.allowDuplicateKeys` off, see
session.py. Spark's `parse_json` is strict but ignores text after the first value, like Spark's
other functions. So the text is read within an object and within an array:

    {"v":TEXT}    [TEXT]    the latter with one element

If TEXT had more than one value, only a comma could follow the first value, and then the array would
have a second element.

Plain: objects for which it is certain what Spark reads. They have no backslash, no repeated name
and nothing near a limit of Spark's parser, and a strict decoder accepts them. For all others, only
Spark knows the result.

Huge numbers: `1e99999999` has ten characters. Java's BigDecimal reads it at once, but writes a
hundred million digits when it gets a scale. Spark gives a scale to each DECIMAL, from a number in
JSON or from a text in its place. For a long text of digits, Java's time grows with the square of
the length."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

NAME = "v"  # the field of the value in the result of `reading`
NOT_JSON = "{} is not JSON, or an object in it has a name twice"


def reading(text: str) -> str:
    """Returns SQL for a variant: an object with the value of `text` as its only field, or NULL."""
    return f"try_parse_json(concat('{{\"{NAME}\":', {text}, '}}'))"


def is_json(text: str, read: str) -> str:
    """Returns SQL for whether `text`, which is UTF-8 or NULL, is JSON; never NULL. `read`: the SQL
    of `reading`, or a column with its value."""
    alone = f"json_array_length(concat('[', {text}, ']')) = 1"
    return f"({read} IS NOT NULL AND coalesce({alone}, false))"


# Bytes. Spark refuses names of 50,000 characters, numbers of 1,000 digits and 1,000 nested
# brackets. A text of at most SHORT bytes has none of these …
SHORT, _LONGEST = 1_000, 48 * 1024
_DEEPEST = 200  # … a longer text goes to Spark if it has more brackets …
_DIGITS, _STEP = 50, 250  # … or more than 300 digits in a row
_LEAST, _MOST = -(2**63), 2**63 - 1  # of a number that Spark reads as a whole number


class NeedsSparkError(ValueError):
    """Only Spark knows the result for this record."""


def plain_objects() -> Callable[[bytes], dict[str, Any]]:
    """Returns a decoder of plain objects. It raises NeedsSparkError or another ValueError for all
    others."""
    decode = msgspec.json.Decoder().decode

    def read(text: bytes) -> dict[str, Any]:
        if b"\\" in text:
            raise NeedsSparkError
        try:
            document = decode(text)
        except msgspec.DecodeError:  # not a ValueError before msgspec 0.22
            raise NeedsSparkError from None
        if type(document) is not dict:
            raise NeedsSparkError
        _check(text, document)
        return document

    return read


def check_whole(x: int) -> None:
    if not _LEAST <= x <= _MOST:
        raise NeedsSparkError


def _check(text: bytes, document: dict[str, Any]) -> None:
    """Raises NeedsSparkError for a repeated name, or for a text that might exceed a limit of Spark.
    Without backslashes each string has two quotes, so the number of quotes shows a field that
    another field of the same name has replaced."""
    quotes = text.count(b'"')
    flat = [*map(type, document.values())].count(str)
    if quotes != 2 * (len(document) + flat) and quotes != 2 * _strings(document):
        raise NeedsSparkError
    if len(text) > SHORT and (
        len(text) > _LONGEST
        or text.count(b"{") + text.count(b"[") > _DEEPEST
        or any(text[at : at + _DIGITS].isdigit() for at in range(_STEP - 1, len(text), _STEP))
    ):
        raise NeedsSparkError


def _strings(value: Any) -> int:
    if type(value) is dict:
        return len(value) + sum(map(_strings, value.values()))
    if type(value) is list:
        return sum(map(_strings, value))
    return type(value) is str


LARGE = "a number in the {} has too many digits, or an exponent of more than three"
MOST_DIGITS = 1_000  # the limit of Spark's parser of JSON for digits that are written out
_EXPONENT = re.compile(r"[eE][+-]?\d{4}")
_MAYBE = re.compile(rb"[eE][+-]?[0-9]{4}")  # in hardly any record
# Returns the reason why a key or value cannot be read, or None.
Check = Callable[[bytes], str | None]


def check_of(part: str, *types: Any) -> Check | None:
    """Returns the check for JSON that is read as DataTypes; None if these have no DECIMAL."""
    found_in = (decimals_in(type_, _JSON, lambda _: _is_large) for type_ in types)
    each = [is_large for is_large in found_in if is_large is not None]
    if not each:
        return None

    def check(data: bytes) -> str | None:
        # Digits may be other Unicode digits, and an `e` may be escaped.
        plain = len(data) <= MOST_DIGITS and data.isascii() and b"\\" not in data
        if plain and _MAYBE.search(data) is None:
            return None
        try:
            found = json.loads(
                data.decode(), parse_int=str, parse_float=str, object_pairs_hook=_Object
            )
        except (ValueError, RecursionError):
            return NOT_JSON.format(part)
        return LARGE.format(part) if any(is_large(found) for is_large in each) else None

    return check


def checks_of(types: Mapping[str, Sequence[Any]]) -> dict[str, Check]:
    """Returns checks by part, for the parts with a DECIMAL."""
    found = {part: check_of(part, *each) for part, each in types.items()}
    return {part: check for part, check in found.items() if check is not None}


class _Object(list[tuple[str, Any]]):
    """An object with all its names, even repeated ones."""


Test = Callable[[Any], bool]
Fields = Sequence[tuple[int, str, Test]]  # of a struct: index, name, and the test of its value


class Shapes(NamedTuple):
    """Functions that look into values: the elements of an array, the entries of a map, and a test
    whether a test of a struct's fields is true."""

    elements: Callable[[Any], Iterable[Any]]
    entries: Callable[[Any], Iterable[tuple[Any, Any]]]
    in_struct: Callable[[Fields], Test]


def decimals_in(type_: Any, shapes: Shapes, of_decimal: Callable[[Any], Test]) -> Test | None:
    """Returns a test whether a value, read as the DataType `type_`, has a DECIMAL for which
    `of_decimal` of its type is true. None if `type_` has no DECIMAL."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    def inner(one: Any) -> Test | None:
        return decimals_in(one, shapes, of_decimal)

    match type_:
        case DecimalType():
            return of_decimal(type_)
        case ArrayType():
            of_element = inner(type_.elementType)
            return of_element and (lambda x: any(map(of_element, shapes.elements(x))))
        case MapType():
            of_key, of_value = inner(type_.keyType), inner(type_.valueType)
            both = [(at, of) for at, of in enumerate((of_key, of_value)) if of is not None]
            if both:
                return lambda x: any(of(one[at]) for one in shapes.entries(x) for at, of in both)
        case StructType():
            fields = [
                (at, one.name, of)
                for at, one in enumerate(type_.fields)
                if (of := inner(one.dataType)) is not None
            ]
            return shapes.in_struct(fields) if fields else None
    return None


def _elements(x: Any) -> list[Any]:
    return x if isinstance(x, list) and not isinstance(x, _Object) else [x]


def _pairs(x: Any) -> Iterator[tuple[str, Any]]:
    return (pair for one in _elements(x) if isinstance(one, _Object) for pair in one)


def _is_large(x: Any) -> bool:
    return any(
        isinstance(one, str) and (len(one) > MOST_DIGITS or _EXPONENT.search(one) is not None)
        for one in _elements(x)
    )


def _in_object(fields: Fields) -> Test:
    tests = {name.lower(): test for _, name, test in fields}  # an object may have many names

    def is_large(x: Any) -> bool:
        return any(
            test(value)
            for name, value in _pairs(x)
            if (test := tests.get(name.lower())) is not None
        )

    return is_large


# Spark takes an object for an array of one element, and the reverse.
_JSON = Shapes(_elements, _pairs, _in_object)
