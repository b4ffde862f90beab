"""Kafka's unsigned varints (as in Protocol Buffers), for the messages walked by hand."""

from __future__ import annotations


def put_uvarint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at `at` and the place after it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def skip_tags(frame: memoryview, at: int) -> int:
    """The place after the tagged fields at `at`."""
    count, at = uvarint(frame, at)
    for _ in range(count):
        _, at = uvarint(frame, at)
        size, at = uvarint(frame, at)
        at += size
    return at
