"""Kafka's record batch (magic 2): the 61-byte header, its CRC, and a batch ready to be produced.

Layout, from Kafka's DefaultRecordBatch:

    baseOffset 8 | batchLength 4 | partitionLeaderEpoch 4 | magic 1 | crc 4 |      not in the CRC
    attributes 2 | lastOffsetDelta 4 | baseTimestamp 8 | maxTimestamp 8 |          in the CRC
    producerId 8 | producerEpoch 2 | baseSequence 4 | recordsCount 4 | records …   in the CRC
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class Batch(NamedTuple):
    """A dense run of records from the source, ready to be stamped and produced.

    `payload` is what follows the header, in codec `attributes & 7`, with offset deltas 0 to
    `records` - 1. `first` is the source offset of its first record; every source offset from there
    up to, not including, `next` is in it or was rightly dropped. `offsets` lists the source
    offset of each record where they are not `first`, `first` + 1, …

    `unread`: set where nobody has looked at the payload, a view of what was fetched: the CRC that
    came with it, and the CRC of the 40 checked bytes of the header that it came with. All that is
    said of such a batch may be damaged, and then its target refuses it.
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


N = TypeVar("N", bound=tuple[Any, ...])


def plainly(kind: type[N]) -> Callable[[tuple[Any, ...]], N]:
    """Makes a named tuple of a plain one that has all of its fields, unchecked: its own constructor
    is a function of Python's, which for what is made for each batch takes three times as long."""
    return cast("Callable[[tuple[Any, ...]], N]", partial(tuple.__new__, kind))


def checksum(checked_header: bytes, payload: bytes) -> int:
    """CRC-32C of the 40 header bytes from `attributes` on, then the records."""
    crc: int = extend(value(checked_header), payload)
    return crc


def header(
    batch: Batch,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    *,
    transactional: bool = False,
) -> bytes:
    """The 61 bytes that make `batch` a Produce request's batch: base offset 0, no leader epoch,
    CreateTime, no control batch, the given producer state, and the right CRC."""
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
        crc = unread[0] ^ carried(unread[1] ^ value(checked), size)
    return _UNCHECKED.pack(0, HEADER_SIZE - LENGTH_OVERHEAD + size, -1, MAGIC, crc) + checked


def read(batch: Batch) -> bytes:
    """The payload, to be looked into. Raises ProtocolError for one that came damaged."""
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
    """The sequence `count` records on. Sequences wrap after 2**31 - 1 to 0."""
    return (sequence + count) % SEQUENCE_SPACE


def distance(start: int, end: int) -> int:
    """How many records on from sequence `start` sequence `end` is."""
    return (end - start) % SEQUENCE_SPACE


_TURNED: Final = 0xFFFFFFFF  # a CRC's bits are, before and after
_UNIT_BITS: Final = 12
_UNIT: Final = (1 << _UNIT_BITS) - 1
_DIGIT_BITS: Final = 6
_DIGIT: Final = (1 << _DIGIT_BITS) - 1
_ZEROS: Final = bytes(1 << _UNIT_BITS)

_Table = tuple[list[int], list[int], list[int], list[int]]  # by byte of a CRC, the lowest first


def carried(difference: int, size: int) -> int:
    """How two CRCs differ behind `size` bytes (below 1 GiB) that both have read, where before them
    they differed by `difference`."""
    crc: int = extend(difference ^ _TURNED, _ZEROS[: size & _UNIT]) ^ _TURNED
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
    """Of so many units: `digit` · 64 ** `level`."""
    if digit > 1:
        steps = [_table(level, digit // 2), _table(level, digit - digit // 2)]
    elif level:
        steps = [_table(level - 1, (_DIGIT + 1) // 2)] * 2
    else:
        steps = []
    bits = [1 << bit for bit in range(32)]
    if not steps:
        bits = [extend(bit ^ _TURNED, _ZEROS) ^ _TURNED for bit in bits]
    for a, b, c, d in steps:
        bits = [a[v & 255] ^ b[v >> 8 & 255] ^ c[v >> 16 & 255] ^ d[v >> 24] for v in bits]
    return _of(bits[:8]), _of(bits[8:16]), _of(bits[16:24]), _of(bits[24:])


def _of(bits: list[int]) -> list[int]:
    """What each byte becomes, where each of its bits becomes one of `bits`."""
    table = [0]
    for bit in bits:
        table += [bit ^ one for one in table]
    return table
