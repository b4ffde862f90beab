"""Single values of JSON to what fastavro writes; MisfitError for one that is of another type."""

from __future__ import annotations

import base64
import binascii
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any

from causeway.transform.registry import MisfitError

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


TIMES: Mapping[str, tuple[Any, int]] = {  # the class, and the microseconds of a unit
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
