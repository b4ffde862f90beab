"""Numbers with so many digits that reading them would take hours.

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

from causeway.transform.strict_json import NOT_JSON

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
