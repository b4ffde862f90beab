"""The one definition of JSON for rules and SQL, as Spark SQL.

A text is JSON if it is UTF-8, holds exactly one value of RFC 8259 and nothing else but white space,
and no object in it has a name twice, however the name is escaped. Readers disagree about all other
texts: one takes the first of two names and another the last, so a filter might see another value
than the consumer. The session keeps `spark.sql.variant.allowDuplicateKeys` off, see session.py.

Spark's `parse_json` is strict, but does not look behind the end of the first value. Spark's other
functions do not look there either. So the text is read within an object and within an array:

    {"v":TEXT}    [TEXT]    the latter with one element

If TEXT went on behind its first value, both could only go on with a comma, and the array would have
a second element.

JSON objects of a plain form: of those it is sure what Spark reads in them.

They have no backslash and no name twice in an object, nothing in them is near a bound of Spark's
parser, and a strict decoder takes them. All others are odd: only Spark knows what it makes of them.

Numbers with so many digits that reading them would take hours.

`1e99999999` has ten characters. Java's BigDecimal reads it at once, but writes out a hundred
million digits when it gets a scale. Spark gives a scale to each DECIMAL, from a number in JSON or
from a text in its place. A cast looks at the exponent first. But for the digits of a long text Java
takes time in proportion to the square of its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NAME = "v"  # the field of the value in the result of `reading`
NOT_JSON = "{} is not JSON, or an object in it has a name twice"


def reading(text: str) -> str:
    """SQL for a variant of an object with the value of `text` as its only field, or NULL."""
    return f"try_parse_json(concat('{{\"{NAME}\":', {text}, '}}'))"


def is_json(text: str, read: str) -> str:
    """SQL for whether `text`, which is UTF-8 or NULL, is JSON; never NULL. `read`: the SQL of
    `reading`, or its column."""
    alone = f"json_array_length(concat('[', {text}, ']')) = 1"
    return f"({read} IS NOT NULL AND coalesce({alone}, false))"


# Bytes. Spark minds names of 50,000 characters, numbers of 1,000, and 1,000 brackets in brackets:
# what is this short has none of these …
SHORT, _LONGEST = 1_000, 48 * 1024
_DEEPEST = 200  # … longer ones are odd with more brackets than this …
_DIGITS, _STEP = 50, 250  # … or more than 300 digits in a row
_LEAST, _MOST = -(2**63), 2**63 - 1  # of a whole number that is one to Spark as well


class NeedsSparkError(ValueError):
    """Only Spark knows what becomes of the record."""


def plain_objects() -> Callable[[bytes], dict[str, Any]]:
    """A function that decodes such objects, and raises NeedsSparkError, or another
    ValueError, for all else."""
    import msgspec

    decode = msgspec.json.Decoder().decode

    def read(text: bytes) -> dict[str, Any]:
        if b"\\" in text:
            raise NeedsSparkError
        try:
            document = decode(text)
        except msgspec.DecodeError:  # to msgspec before 0.22 that is no ValueError
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
    """Raises NeedsSparkError for what has a name twice, or might be too much for Spark. Without
    backslashes each string has two quotes, so a field that another of its name has pushed out of
    `document` shows in their number."""
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
# Why a key or value cannot be read; None: its numbers can be read.
Check = Callable[[bytes], str | None]


def check_of(part: str, *types: Any) -> Check | None:
    """For JSON that is read as DataTypes; None if these have no DECIMAL. All else is left to
    Spark."""
    each = [found for type_ in types if (found := _of(type_)) is not None]
    if not each:
        return None

    def check(data: bytes) -> str | None:
        # Digits may be Unicode's, and an `e` may be escaped.
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
    """By part; only parts with such a type."""
    found = {part: check_of(part, *each) for part, each in types.items()}
    return {part: check for part, check in found.items() if check is not None}


class _Object(list[tuple[str, Any]]):
    """An object with all its names, also those that it has twice."""


def _of(type_: Any) -> Callable[[Any], bool] | None:
    """Whether a document has such a number where `type_` has a DECIMAL. Spark takes an object for
    an array with one element, and the reverse."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    match type_:
        case DecimalType():
            return _is_large
        case ArrayType():
            of_element = _of(type_.elementType)
            return of_element and (lambda x: any(map(of_element, _elements(x))))
        case MapType():
            of_value = _of(type_.valueType)
            return of_value and (
                lambda x: any(of_value(value) for one in _objects(x) for _, value in one)
            )
        case StructType():
            of_field = {
                one.name.lower(): found
                for one in type_.fields
                if (found := _of(one.dataType)) is not None
            }
            return _of_fields(of_field) if of_field else None
    return None


def _of_fields(of_field: dict[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    def is_large(x: Any) -> bool:
        pairs = (pair for one in _objects(x) for pair in one)
        return any(
            of(value) for name, value in pairs if (of := of_field.get(name.lower())) is not None
        )

    return is_large


def _elements(x: Any) -> list[Any]:
    return x if isinstance(x, list) and not isinstance(x, _Object) else [x]


def _objects(x: Any) -> list[_Object]:
    return [one for one in _elements(x) if isinstance(one, _Object)]


def _is_large(x: Any) -> bool:
    return any(
        isinstance(one, str) and (len(one) > MOST_DIGITS or _EXPONENT.search(one) is not None)
        for one in _elements(x)
    )
