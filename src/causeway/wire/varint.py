"""Kafka's unsigned varints (as in Protocol Buffers), for the messages walked by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from causeway.errors import ProtocolError

_MOST_BYTES = 5  # of 32 bits: Kafka's lengths, counts and tags have no more


def put_uvarint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at `at` and the place after it. Raises ProtocolError for more than 5 bytes,
    IndexError where the data ends first."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    number = byte & 0x7F
    for shift in range(7, 7 * _MOST_BYTES, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ProtocolError("read", "a length", f"more than {_MOST_BYTES} bytes are not Kafka's")


def skip_tags(frame: memoryview, at: int) -> int:
    """The place after the tagged fields at `at`."""
    count, at = uvarint(frame, at)
    for _ in range(count):
        _, at = uvarint(frame, at)
        size, at = uvarint(frame, at)
        at += size
    return at


@contextmanager
def walking(what: str) -> Iterator[None]:
    """Makes a ProtocolError of running past the end of a message that is walked by hand."""
    try:
        yield
    except (IndexError, struct.error) as error:
        raise ProtocolError("read", what, "it ends too early") from error
