"""Reads and writes records in Python if aiokafka's compiled codec refuses them, but brokers do not.

There are two cases. The name of a header is not UTF-8: its invalid bytes become Python's surrogate
escapes. Or the difference of two timestamps does not fit in 64 bits: it wraps around, as in Java.

Layout of a record, from Kafka's DefaultRecord. The attributes are one byte; all other numbers are
zigzag varints. A length of -1 means null.

    length | attributes 1 | timestamp delta | offset delta | key | value | count | (name | value) …
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka.record.util import decode_varint, encode_varint

from causeway.records.batches import HEADER, HEADER_SIZE, LOG_APPEND_TIME

_HALF = 1 << 63


class PlainRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def decode(raw: memoryview) -> list[PlainRecord]:
    """Returns the records of one whole batch that is not compressed. Raises ValueError or
    IndexError if `raw` is damaged."""
    fields = HEADER.unpack_from(raw)
    base, base_timestamp, max_timestamp, count = fields[0], fields[7], fields[8], fields[12]
    append_time = fields[5] & LOG_APPEND_TIME
    records = []
    at = HEADER_SIZE
    for _ in range(count):
        size, at = decode_varint(raw, at)
        stop = at + size
        delta, at = decode_varint(raw, at + 1)
        offset, at = decode_varint(raw, at)
        key, at = _field(raw, at)
        value, at = _field(raw, at)
        names, at = decode_varint(raw, at)
        headers = []
        for _ in range(names):
            name, at = _field(raw, at)
            content, at = _field(raw, at)
            headers.append(((name or b"").decode(errors="surrogateescape"), content))
        if at != stop:
            raise ValueError("the length of a record is wrong")
        timestamp = max_timestamp if append_time else _wrapped(base_timestamp + delta)
        records.append(PlainRecord(base + offset, timestamp, key, value, headers))
    if at != len(raw):
        raise ValueError("it does not end with its last record")
    return records


def encode(records: Iterable[PlainRecord]) -> bytes:
    """Returns the payload of a batch with these records, not compressed, with offset deltas from 0
    on."""
    out = bytearray()
    first: int | None = None
    for index, record in enumerate(records):
        first = record.timestamp if first is None else first
        one = bytearray(1)
        encode_varint(_wrapped(record.timestamp - first), one.append)
        encode_varint(index, one.append)
        _put(record.key, one)
        _put(record.value, one)
        encode_varint(len(record.headers), one.append)
        for name, content in record.headers:
            _put(name.encode(errors="surrogateescape"), one)
            _put(content, one)
        encode_varint(len(one), out.append)
        out += one
    return bytes(out)


def _wrapped(number: int) -> int:
    """`number` as a signed number of 64 bits."""
    return (number + _HALF) % (2 * _HALF) - _HALF


def _field(raw: memoryview, at: int) -> tuple[bytes | None, int]:
    size, at = decode_varint(raw, at)
    if size < 0:
        return None, at
    if size > len(raw) - at:
        raise ValueError("a record is cut off")
    return bytes(raw[at : at + size]), at + size


def _put(part: bytes | None, out: bytearray) -> None:
    encode_varint(-1 if part is None else len(part), out.append)
    out += part or b""
