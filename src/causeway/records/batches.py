"""Kafka's record batch (magic 2): the 61-byte header, its CRC, and a batch ready to be produced.

Layout, from Kafka's DefaultRecordBatch:

    baseOffset 8 | batchLength 4 | partitionLeaderEpoch 4 | magic 1 | crc 4 |      not in the CRC
    attributes 2 | lastOffsetDelta 4 | baseTimestamp 8 | maxTimestamp 8 |          in the CRC
    producerId 8 | producerEpoch 2 | baseSequence 4 | recordsCount 4 | records …   in the CRC

A payload gets another header without being read, because CRC-32C is linear. For two headers of the
same length, followed by the same payload of `size` bytes:

    crc(new + payload) ^ crc(old + payload) = (crc(new) ^ crc(old)) · x^(8 size)    mod Castagnoli

So if the old CRC does not match the payload, the new CRC does not match either. The product is
computed in steps: google_crc32c reads up to 4 kB of zeros, and tables give the rest, one for each
digit of the length. A table is made when it is first needed. It takes 0.1 ms and 40 kB; all lengths
below 256 kB need 63 tables.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar, cast

from google_crc32c import extend, value

from causeway.errors import ProtocolError

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
MAGIC_AT = 16
MAGIC = 2
LENGTH_OVERHEAD = 12  # baseOffset and batchLength themselves are not in batchLength
CRC_START = 21

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

NO_PRODUCER = -1
SEQUENCE_SPACE = 1 << 31

_UNCHECKED = Struct(">qiibI")
_CHECKED = Struct(">hiqqqhii")


class BatchHeader(NamedTuple):
    """The fields of HEADER. `base`: the offset of the first record; `sequence`: its sequence."""

    base: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    records: int

    @classmethod
    def of(cls, raw: bytes | memoryview) -> BatchHeader:
        return cls._make(HEADER.unpack_from(raw))

    @property
    def last(self) -> int:
        """The offset of the last record."""
        return self.base + self.last_delta

    @property
    def following(self) -> int:
        """The sequence after the last record."""
        return advance(self.sequence, self.last_delta + 1)


class Batch(NamedTuple):
    """A dense batch: a run of records from the source, ready to get a header and to be produced.

    `payload` has the records, compressed with `codec`, with offset deltas 0 to `records` - 1.
    `first` is the source offset of the first record. Each source offset from `first` to `next` - 1
    is in the batch or was dropped on purpose. `offsets` lists the source offset of each record if
    they are not `first`, `first` + 1, …

    `unread` is set if `payload` is an unchecked view of a fetched frame. It has two CRCs: the CRC
    in the fetched header, and the CRC of the last 40 bytes of that header (from `attributes` on).
    Each field of such a batch may be damaged. Then the target refuses the batch.
    """

    payload: bytes | memoryview
    codec: int
    base_timestamp: int
    max_timestamp: int
    records: int
    first: int
    next: int
    leader_epoch: int
    offsets: Sequence[int] | None = None
    unread: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Bytes in the target's log."""
        return HEADER_SIZE + len(self.payload)

    def source_offset(self, index: int) -> int:
        """The source offset of the record at `index` (0 to `records` - 1)."""
        return self.first + index if self.offsets is None else self.offsets[index]

    def below(self, offset: int) -> int:
        """The number of records in the batch below source offset `offset`."""
        if self.offsets is not None:
            return bisect_left(self.offsets, offset)
        return max(0, min(offset - self.first, self.records))


N = TypeVar("N", bound=tuple[Any, ...])


def fast_tuple(kind: type[N]) -> Callable[[tuple[Any, ...]], N]:
    """Returns a constructor that takes all fields of a named tuple as one plain tuple, unchecked.
    The named tuple's own constructor is a Python function, which takes three times as long."""
    return cast("Callable[[tuple[Any, ...]], N]", partial(tuple.__new__, kind))


def checksum(checked_header: bytes, payload: bytes) -> int:
    """The CRC-32C of the 40 header bytes from `attributes` on, followed by the records."""
    crc: int = extend(value(checked_header), payload)
    return crc


def frames(data: memoryview, subject: str = "") -> Iterator[memoryview]:
    """Yields the whole batches in a fetched part of a log, and the messages of older formats.
    Raises ProtocolError, which names `subject`, if a batch is too short."""
    at = 0
    while len(data) - at > MAGIC_AT:
        size = LENGTH_OVERHEAD + int.from_bytes(data[at + 8 : at + LENGTH_OVERHEAD])
        if at + size > len(data):
            return
        if size < (HEADER_SIZE if data[at + MAGIC_AT] >= MAGIC else MAGIC_AT + 1):
            offset = int.from_bytes(data[at : at + 8])
            what = f"the batch at offset {offset} says that it has {size} bytes"
            raise ProtocolError("read", subject, what)
        yield data[at : at + size]
        at += size


def header(
    batch: Batch,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    *,
    transactional: bool = False,
) -> bytes:
    """The 61 bytes before the payload in a Produce request. They have base offset 0, no leader
    epoch, CreateTime, no control bit, the given producer state, and the right CRC."""
    payload, codec, base_timestamp, max_timestamp, records, _, _, _, _, unread = batch
    checked = _CHECKED.pack(
        codec | TRANSACTIONAL if transactional else codec,
        records - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        records,
    )
    size = len(payload)
    if unread is None:
        crc = extend(value(checked), payload)
    else:
        crc = unread[0] ^ carried_crc(unread[1] ^ value(checked), size)
    return _UNCHECKED.pack(0, HEADER_SIZE - LENGTH_OVERHEAD + size, -1, MAGIC, crc) + checked


def read(batch: Batch) -> bytes:
    """Returns the payload after its CRC is checked. Raises ProtocolError if it is damaged."""
    if batch.unread is None:
        return bytes(batch.payload)
    payload = bytes(batch.payload)
    crc, of_header = batch.unread
    if extend(of_header, payload) != crc:
        raise wrong_crc("", batch.first)
    return payload


def wrong_crc(subject: str, offset: int) -> ProtocolError:
    return ProtocolError("read", subject, f"the batch at offset {offset} has a wrong CRC")


def advance(sequence: int, count: int) -> int:
    """The sequence after `count` more records. Sequences wrap after 2**31 - 1 to 0."""
    return (sequence + count) % SEQUENCE_SPACE


def distance(start: int, end: int) -> int:
    """The number of records from sequence `start` to sequence `end`."""
    return (end - start) % SEQUENCE_SPACE


_INVERTED: Final = 0xFFFFFFFF  # CRC-32C inverts all bits, before and after
_UNIT_BITS: Final = 12
_UNIT: Final = (1 << _UNIT_BITS) - 1
_DIGIT_BITS: Final = 6
_DIGIT: Final = (1 << _DIGIT_BITS) - 1
_ZEROS: Final = bytes(1 << _UNIT_BITS)

_Table = tuple[list[int], list[int], list[int], list[int]]  # a list for each byte, the lowest first


def carried_crc(difference: int, size: int) -> int:
    """Two CRCs differ by `difference`, and then both read the same `size` bytes (below 1 GiB).
    Returns their difference after that."""
    crc: int = extend(difference ^ _INVERTED, _ZEROS[: size & _UNIT]) ^ _INVERTED
    size >>= _UNIT_BITS
    level = 0
    while size:
        if digit := size & _DIGIT:
            a, b, c, d = _table(level, digit)
            crc = a[crc & 255] ^ b[crc >> 8 & 255] ^ c[crc >> 16 & 255] ^ d[crc >> 24]
        size >>= _DIGIT_BITS
        level += 1
    return crc


@cache
def _table(level: int, digit: int) -> _Table:
    """The table for `digit` · 64 ** `level` units of 4 kB."""
    if digit > 1:
        steps = [_table(level, digit // 2), _table(level, digit - digit // 2)]
    elif level:
        steps = [_table(level - 1, (_DIGIT + 1) // 2)] * 2
    else:
        steps = []
    bits = [1 << bit for bit in range(32)]
    if not steps:
        bits = [extend(bit ^ _INVERTED, _ZEROS) ^ _INVERTED for bit in bits]
    for a, b, c, d in steps:
        bits = [a[v & 255] ^ b[v >> 8 & 255] ^ c[v >> 16 & 255] ^ d[v >> 24] for v in bits]
    return _of(bits[:8]), _of(bits[8:16]), _of(bits[16:24]), _of(bits[24:])


def _of(bits: list[int]) -> list[int]:
    """For each of the 256 bytes: the XOR of the elements of `bits` at the byte's set bits."""
    table = [0]
    for bit in bits:
        table += [bit ^ one for one in table]
    return table
