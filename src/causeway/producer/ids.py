"""Which record is which: the header that both copies carry.

    causeway.id: <producer's name>/<life>-<number>       orders-app/3-1042, in ASCII

A producer's *life* is one process from its start to its end, counted up for ever by its spool; the
number counts its records in the order in which they were taken. Inside, both are one integer, the
record's *position*, which only grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ID_HEADER = "causeway.id"
NUMBER_BITS = 40  # of a position; a life has a million million records
NUMBER_MASK = (1 << NUMBER_BITS) - 1
_ID = re.compile(rb"([^/]+)/(\d+)-(\d+)")

Headers = Iterable[tuple[str, bytes | None]]


def prefix(name: str, life: int) -> bytes:
    """What the ids of one life begin with; the number follows."""
    return f"{name}/{life}-".encode()


def record_id(name: str, position: int) -> bytes:
    return b"%b%d" % (prefix(name, position >> NUMBER_BITS), position & NUMBER_MASK)


def first_position(life: int) -> int:
    return life << NUMBER_BITS


def position_of(name: str, headers: Headers | None) -> int | None:
    """None where the record is not of that producer."""
    for header, value in headers or ():
        if header == ID_HEADER and value and (found := _ID.fullmatch(value)) is not None:
            whose, life, number = found.groups()
            if whose == name.encode():
                return int(life) << NUMBER_BITS | int(number)
    return None
