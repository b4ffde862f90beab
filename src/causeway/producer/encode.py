"""Records as a batch of Kafka's holds them, encoded once for both sides.

Layout of each (see `causeway.wire.plain_records`); all numbers are zigzag varints:

    length | attributes 1 | timestamp delta | offset delta | key | value | count | (name | value) …

The varints of most numbers lie ready, so that a record costs some look-ups and one copy.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence

import cramjam
from aiokafka.codec import snappy_encode

from causeway.producer.ids import ID_HEADER, NUMBER_MASK
from causeway.producer.journal import Header, Record
from causeway.records import Batch

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""The numbers that batches have, by librdkafka's names."""
_DEFAULT_LEVELS = {1: 6, 3: 1, 4: 3}  # the codecs' own, as librdkafka's
_READY = 1 << 14
_TWO_BYTES = 1 << 6  # zigzag doubles a number, and a byte has seven bits of it
_THREE_BYTES = 1 << 13
_NULL = b"\x01"  # a length of -1


def varint(number: int) -> bytes:
    """Zigzag, as Kafka's records have it; of 64 bits."""
    left = number << 1 ^ number >> 63
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


_VARINTS: list[bytes] = [
    *(bytes((n << 1,)) for n in range(_TWO_BYTES)),
    *(bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(_TWO_BYTES, _THREE_BYTES)),
    *(
        bytes((n << 1 & 0x7F | 0x80, n >> 6 & 0x7F | 0x80, n >> 13))
        for n in range(_THREE_BYTES, _READY)
    ),
]
_ID_NAME = varint(len(ID_HEADER)) + ID_HEADER.encode()


class Packer:
    """Compresses a batch's records: with codec number `codec`; `level` of None is the codec's own
    default."""

    def __init__(self, codec: int, level: int | None = None) -> None:
        self.codec = codec
        self._level = _DEFAULT_LEVELS.get(codec, 0) if level is None else level
        self._pack = _packing(codec, self._level)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Packer) and (self.codec, self._level) == (
            other.codec, other._level,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.codec, self._level))

    def pack(self, payload: bytes) -> tuple[bytes, int]:
        """What to send, and its codec: none where compression gains nothing."""
        packed = self._pack(payload)
        return (packed, self.codec) if len(packed) < len(payload) else (payload, 0)


def _packing(codec: int, level: int) -> Callable[[bytes], bytes]:
    if codec == CODECS["gzip"]:
        return lambda payload: gzip.compress(payload, level, mtime=0)
    if codec == CODECS["snappy"]:
        return snappy_encode  # type: ignore[no-any-return]
    if codec == CODECS["lz4"]:
        return lambda payload: _lz4(payload, level)
    if codec == CODECS["zstd"]:
        return lambda payload: bytes(cramjam.zstd.compress(payload, level=level))
    return lambda payload: payload


def _lz4(payload: bytes, level: int) -> bytes:
    """Brokers do not take blocks that refer to those before them."""
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(payload)
    return bytes(compressor.finish())


def batch_of(records: Sequence[Record], prefix: bytes, packer: Packer) -> Batch:
    """Of one partition's records (at least one), in their order; `prefix`: what their ids begin
    with. Their offsets in it are their positions."""
    times = [record[2] for record in records]
    positions = [record[0] for record in records]
    payload, codec = packer.pack(payload_of(records, prefix))
    return Batch(
        payload,
        codec,
        times[0],
        max(times),
        len(records),
        positions[0],
        positions[-1] + 1,
        -1,
        positions,
    )


def payload_of(records: Sequence[Record], prefix: bytes) -> bytes:
    """Not compressed."""
    ready, most = _VARINTS, _READY
    marks: Mapping[int, bytes] = _Marks(prefix)
    base = records[0][2]
    parts: list[bytes] = []
    add = parts.append
    for index, (position, _, timestamp, key, value, headers) in enumerate(records):
        number = b"%d" % (position & NUMBER_MASK)
        after = timestamp - base
        if key is None:
            key_size = _NULL
        else:
            size = len(key)
            key_size = ready[size] if size < most else varint(size)
        if value is None:
            value_size = _NULL
        else:
            size = len(value)
            value_size = ready[size] if size < most else varint(size)
        record = b"".join(
            (
                b"\0",
                ready[after] if 0 <= after < most else varint(after),
                ready[index] if index < most else varint(index),
                key_size,
                key or b"",
                value_size,
                value or b"",
                _encoded(headers) if headers else b"\x02",
                marks[len(number)],
                number,
            )
        )
        size = len(record)
        add(ready[size] if size < most else varint(size))
        add(record)
    return b"".join(parts)


class _Marks(dict[int, bytes]):
    """The header of the id up to its number, by how many digits that has."""

    def __init__(self, prefix: bytes) -> None:
        super().__init__()
        self._prefix = prefix

    def __missing__(self, digits: int) -> bytes:
        made = self[digits] = _ID_NAME + varint(len(self._prefix) + digits) + self._prefix
        return made


def _encoded(headers: Sequence[Header]) -> bytes:
    """How many there are, with that of the id, which follows, and the others."""
    parts = [varint(len(headers) + 1)]
    for name, content in headers:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (_NULL,) if content is None else (varint(len(content)), content)
    return b"".join(parts)
