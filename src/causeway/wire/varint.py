"""Kafka's unsigned varints (as in Protocol Buffers), with at most five bytes.

The messages that we decode ourselves use them; `bound_kafka_python` sets the same limit for
kafka-python.
"""

from __future__ import annotations

import struct
from typing import Any

from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from causeway.errors import ProtocolError

_MOST_BYTES = 5  # of 32 bits: Kafka's lengths, counts and tags have no more
_SHIFTS = tuple(range(0, 7 * _MOST_BYTES, 7))


def put_uvarint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """Returns the number at `at`, and the position after it. Raises ProtocolError if it has more
    than 5 bytes, IndexError if the data ends before."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    number = byte & 0x7F
    for shift in _SHIFTS[1:]:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ProtocolError("read", "a length", f"more than {_MOST_BYTES} bytes are not Kafka's")


def skip_tags(frame: memoryview, at: int) -> int:
    """Returns the position after the tagged fields at `at`."""
    if not frame[at]:  # there are no tagged fields
        return at + 1
    count, at = uvarint(frame, at)
    for _ in range(count):
        _, at = uvarint(frame, at)
        size, at = uvarint(frame, at)
        at += size
    return at


ENDS_TOO_EARLY = IndexError, struct.error  # the errors of reading beyond the end of a message


def ends_too_early(what: str) -> ProtocolError:
    """Returns the error for a message that is too short."""
    return ProtocolError("read", what, "it ends too early")


def bound_kafka_python() -> None:
    """Limits kafka-python's decoders to five bytes, too. Without a limit, a varint of a megabyte
    takes minutes. Call this before kafka-python has made a decoder."""

    def emit(context: Any, name: str, indent: str) -> None:
        byte, shift = context.next_var("b"), context.next_var("sh")
        for line in (
            f"{name} = 0",
            f"for {shift} in {_SHIFTS}:",
            f"    {byte} = data[pos]",
            "    pos += 1",
            f"    {name} |= ({byte} & 0x7f) << {shift}",
            f"    if {byte} < 0x80: break",
            "else:",
            f"    raise ValueError('a length of more than {_MOST_BYTES} bytes')",
        ):
            context.emit(indent, line)

    UnsignedVarInt32.emit_decode_from = staticmethod(emit)
