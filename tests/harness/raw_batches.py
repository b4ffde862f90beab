"""Record batches made byte by byte, as Kafka's documentation says: an encoder of the tests' own.

It shares no code with what it checks, and makes what no producer's builder would: gaps, control
batches, append times, odd attributes.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka.record.util import calc_crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ABORT, COMMIT = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rec:
    """A record with its absolute offset. `timestamp` in ms. A header's name may hold bytes that are
    no UTF-8, as Python's surrogate escapes."""

    offset: int
    timestamp: int = 1_600_000_000_000
    key: bytes | None = None
    value: bytes | None = b"v"
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)

    @property
    def content(self) -> tuple[object, ...]:
        return (self.timestamp, self.key, self.value, self.headers)


def raw_batch(
    records: Sequence[Rec],
    *,
    base: int | None = None,
    last: int | None = None,
    compressed: bool = False,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    append_time: int | None = None,
    leader_epoch: int = 0,
    extra_attributes: int = 0,
) -> bytes:
    """One whole batch; it spans the offsets `base` to `last`, by default those of its records."""
    base = records[0].offset if base is None else base
    last = records[-1].offset if last is None else last
    first_timestamp = records[0].timestamp if records else -1
    newest = max((r.timestamp for r in records), default=-1)
    body = b"".join(_record(r, base, first_timestamp) for r in records)
    attributes = (
        extra_attributes
        | (append_time is not None) << 3
        | transactional << 4
        | control << 5
        | compressed * CODECS["gzip"]
    )
    if compressed:
        body = gzip.compress(body)
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        last - base,
        first_timestamp,
        newest if append_time is None else append_time,
        producer_id,
        epoch,
        sequence,
        len(records),
    )
    length = len(checked) + len(body) + 9
    crc = calc_crc32c(checked + body)
    return struct.pack(">qiibI", base, length, leader_epoch, 2, crc) + checked + body


def marker(offset: int, producer_id: int, kind: int, *, leader_epoch: int = 0) -> bytes:
    """The control batch that ends a transaction: ABORT or COMMIT."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    return raw_batch(
        [Rec(offset=offset, key=key, value=value)],
        producer_id=producer_id,
        epoch=0,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )


def damaged(raw: bytes, at: int = -1) -> bytes:
    """The same with one byte changed."""
    changed = bytearray(raw)
    changed[at] ^= 0xFF
    return bytes(changed)


def wrapped(number: int) -> int:
    """As one of 64 bits, which wrap around in Java."""
    return (number + 2**63) % 2**64 - 2**63


def _record(record: Rec, base: int, first_timestamp: int) -> bytes:
    out = bytearray(b"\0")
    put = out.append
    _varint(wrapped(record.timestamp - first_timestamp), put)
    _varint(record.offset - base, put)
    for part in (record.key, record.value):
        _bytes(part, out)
    _varint(len(record.headers), put)
    for name, value in record.headers:
        _bytes(name.encode(errors="surrogateescape"), out)
        _bytes(value, out)
    length = bytearray()
    _varint(len(out), length.append)
    return bytes(length + out)


def _bytes(part: bytes | None, out: bytearray) -> None:
    _varint(-1 if part is None else len(part), out.append)
    out += part or b""


def _varint(number: int, put: Callable[[int], None]) -> None:
    unsigned = number << 1 if number >= 0 else (-number << 1) - 1
    while unsigned > 0x7F:
        put(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    put(unsigned)
