"""JSON objects of a plain form: of those it is sure what Spark reads in them.

They have no backslash and no name twice in an object, nothing in them is near a bound of Spark's
parser, and a strict decoder takes them. All others are odd: only Spark knows what it makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Bytes. Spark minds names of 50,000 characters, numbers of 1,000, and 1,000 brackets in brackets:
# what is this short has none of these …
SHORT, _LONGEST = 1_000, 48 * 1024
_DEEPEST = 200  # … longer ones are odd with more brackets than this …
_DIGITS, _STEP = 50, 250  # … or more than 300 digits in a row
_LEAST, _MOST = -(2**63), 2**63 - 1  # of a whole number that is one to Spark as well


class OddError(ValueError):
    """Only Spark knows what becomes of the record."""


def plain_objects() -> Callable[[bytes], dict[str, Any]]:
    """A function that decodes such objects, and raises OddError, or another
    ValueError, for all else."""
    import msgspec

    decode = msgspec.json.Decoder().decode

    def read(text: bytes) -> dict[str, Any]:
        if b"\\" in text:
            raise OddError
        try:
            document = decode(text)
        except msgspec.DecodeError:  # to msgspec before 0.22 that is no ValueError
            raise OddError from None
        if type(document) is not dict:
            raise OddError
        _check(text, document)
        return document

    return read


def check_whole(x: int) -> None:
    if not _LEAST <= x <= _MOST:
        raise OddError


def _check(text: bytes, document: dict[str, Any]) -> None:
    """Raises OddError for what has a name twice, or might be too much for Spark. Without
    backslashes each string has two quotes, so a field that another of its name has pushed out of
    `document` shows in their number."""
    quotes = text.count(b'"')
    flat = [*map(type, document.values())].count(str)
    if quotes != 2 * (len(document) + flat) and quotes != 2 * _strings(document):
        raise OddError
    if len(text) > SHORT and (
        len(text) > _LONGEST
        or text.count(b"{") + text.count(b"[") > _DEEPEST
        or any(text[at : at + _DIGITS].isdigit() for at in range(_STEP - 1, len(text), _STEP))
    ):
        raise OddError


def _strings(value: Any) -> int:
    if type(value) is dict:
        return len(value) + sum(map(_strings, value.values()))
    if type(value) is list:
        return sum(map(_strings, value))
    return type(value) is str
