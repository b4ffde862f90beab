"""A batch in another codec has the same records at the same offsets, as decoders that share no code
with Causeway read it; and what cannot be compressed stays as it came."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from importlib import import_module

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from google_crc32c import value
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from causeway.records import (
    CODEC_MASK,
    CRC_START,
    GZIP,
    HEADER,
    HEADER_SIZE,
    LZ4,
    SNAPPY,
    ZSTD,
    Batch,
    as_is,
    header,
    repack,
)
from causeway.records.compress import compress
from tests.harness.raw_batches import CODECS, Rec, damaged, raw_batch

CODEC_AT = 22
PACKED = {name: codec for name, codec in CODECS.items() if codec}
ODD = [
    Rec(offset=100, timestamp=1_700_000_000_000, key=None, value=b"x" * 300),
    Rec(offset=101, timestamp=0, key=b"", value=b""),
    Rec(offset=102, timestamp=1_577_836_800_000, key=b"k", value=None),
    Rec(
        offset=103,
        timestamp=4_102_444_800_000,
        key=b"\0\xff",
        value=b"y" * 300,
        headers=[("a", b"1"), ("b", None), ("a", b""), ("é", b"\xff"), ("a", b"1")],
    ),
]
TEXT = [Rec(offset=i, value=b"%d, and the words that all share " % i * 9) for i in range(99)]


def _stamped(batch: Batch) -> bytes:
    return header(batch, 7, 3, 41) + bytes(batch.payload)


def _read(raw: bytes) -> list[tuple[object, ...]]:
    """As independent decoders have it; kafka-python reads gzip without more libraries. The batch's
    CRC is right."""
    found: list[list[tuple[object, ...]]] = []
    for decoder in (AiokafkaBatch, KafkaPythonBatch):
        batch = decoder(bytearray(raw))
        assert batch.validate_crc()
        if decoder is KafkaPythonBatch and raw[CODEC_AT] & CODEC_MASK > GZIP:
            continue
        found.append([(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch])
    assert found == found[:1] * len(found)
    return found[0]


def _contents(records: Sequence[Rec]) -> list[tuple[object, ...]]:
    return [(index, *record.content) for index, record in enumerate(records)]


@pytest.mark.parametrize("codec", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("records", [ODD, TEXT], ids=["odd", "text"])
def test_other_decoders_read_the_same_records(codec: int, records: list[Rec]) -> None:
    plain = as_is(raw_batch(records))
    packed = repack(plain, codec)

    assert packed.codec == codec
    assert packed.size < plain.size
    assert packed == plain._replace(payload=packed.payload, codec=codec)
    raw = _stamped(packed)
    assert _read(raw) == _contents(records)
    of_header = HEADER.unpack_from(raw)
    assert of_header[4] == value(raw[CRC_START:])
    assert of_header[5:7] == (codec, len(records) - 1)
    assert of_header[9:13] == (7, 3, 41, len(records))


@pytest.mark.parametrize("codec", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("before", PACKED.values(), ids=PACKED)
def test_from_each_codec_to_each_other(before: int, codec: int) -> None:
    once = repack(as_is(raw_batch(TEXT)), before)
    again = repack(once, codec)
    assert again.codec == codec
    assert (again is once) == (before == codec)
    assert _read(_stamped(again)) == _contents(TEXT)


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=400), st.integers(0, 2**42)), min_size=1),
    st.sampled_from(sorted(PACKED.values())),
)
def test_any_records_in_any_codec(values: list[tuple[bytes | None, int]], codec: int) -> None:
    records = [
        Rec(offset=5 + i, timestamp=time, value=value) for i, (value, time) in enumerate(values)
    ]
    plain = as_is(raw_batch(records))
    packed = repack(plain, codec)
    assert packed.size <= plain.size
    assert packed.codec == (codec if packed.size < plain.size else 0)
    assert _read(_stamped(packed)) == _contents(records)


def test_the_source_offsets_stay() -> None:
    offsets = [*range(7, 7 + len(TEXT) - 1), 500]
    plain = as_is(raw_batch(TEXT))._replace(first=7, next=900, offsets=offsets)
    packed = repack(plain, ZSTD)
    assert (packed.first, packed.next, packed.offsets) == (7, 900, offsets)
    assert (packed.records, packed.leader_epoch) == (plain.records, plain.leader_epoch)


# -- framing and levels ----------------------------------------------------------------------------

WORDS = b" ".join(b"%d %x" % (i * i % 977, i * 7919) for i in range(9_000))


def test_the_framing_is_that_of_javas_producers() -> None:
    assert gzip.decompress(compress(GZIP, WORDS)) == WORDS
    assert compress(SNAPPY, WORDS)[:8] == b"\x82SNAPPY\0"
    lz4 = compress(LZ4, WORDS)
    assert lz4[:4] == b"\x04\x22\x4d\x18"
    independent_blocks, content_checksum = lz4[4] & 0x20, lz4[4] & 0x04
    assert independent_blocks
    assert not content_checksum
    assert compress(ZSTD, WORDS)[:4] == b"\x28\xb5\x2f\xfd"


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(GZIP, (1, 6, 9)), (LZ4, (9, 3, 17)), (ZSTD, (-50, 3, 22))],
    ids=["gzip", "lz4", "zstd"],
)
def test_levels_count(codec: int, levels: tuple[int, int, int]) -> None:
    """Kafka's level 9 of lz4 is the fast compressor, as Java's producers have it."""
    sizes = [len(compress(codec, WORDS, level)) for level in levels]
    assert sizes == sorted(set(sizes), reverse=True)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, 6), (GZIP, -1), (LZ4, 9), (ZSTD, 3)])
def test_the_default_levels_are_those_of_kafkas_producers(codec: int, level: int) -> None:
    assert compress(codec, WORDS, level) == compress(codec, WORDS)


@pytest.mark.parametrize("level", [1, 2, 12, 13, 17])
def test_each_level_of_lz4_that_kafka_takes_can_be_read(level: int) -> None:
    assert bytes(cramjam.lz4.decompress(compress(LZ4, WORDS, level))) == WORDS


def test_the_level_reaches_the_batch() -> None:
    plain = as_is(raw_batch([Rec(offset=0, value=WORDS)]))
    assert repack(plain, ZSTD, 19).size < repack(plain, ZSTD, -50).size


# -- what stays as it came -------------------------------------------------------------------------


@pytest.mark.parametrize("codec", PACKED.values(), ids=PACKED)
def test_a_batch_that_compression_makes_larger_stays_plain(codec: int) -> None:
    for records in ([Rec(offset=0, value=b"v")], [Rec(offset=0, value=os.urandom(5_000))]):
        plain = as_is(raw_batch(records))
        assert repack(plain, codec) is plain


def test_an_unread_batch_is_checked_first() -> None:
    raw = raw_batch(TEXT)
    checked = HEADER_SIZE - CRC_START

    def unread(raw: bytes) -> Batch:
        crc, of_header = HEADER.unpack_from(raw)[4], value(raw[CRC_START:][:checked])
        return as_is(raw)._replace(payload=memoryview(raw)[HEADER_SIZE:], unread=(crc, of_header))

    packed = repack(unread(raw), LZ4)
    assert packed.unread is None
    assert _read(_stamped(packed)) == _contents(TEXT)
    bad = unread(damaged(raw))
    assert repack(bad, LZ4) is bad  # and the target refuses it by its CRC


ZEROS = bytes(40 * 1024 * 1024)


@pytest.mark.parametrize("before", [GZIP, LZ4, ZSTD], ids=["gzip", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_too_much_stays(before: int) -> None:
    bomb = as_is(raw_batch([Rec(offset=0, value=b"v")]))
    bomb = bomb._replace(payload=compress(before, ZEROS), codec=before)
    assert repack(bomb, SNAPPY) is bomb


def test_a_batch_with_more_records_than_readers_take_stays() -> None:
    many = as_is(raw_batch([Rec(offset=0, value=ZEROS[:5_000])]))
    assert repack(many._replace(records=600_000), ZSTD).codec == 0
    assert repack(many._replace(records=400_000), ZSTD).codec == ZSTD


@pytest.mark.parametrize("before", PACKED.values(), ids=PACKED)
def test_a_payload_that_is_no_data_of_its_codec_stays(before: int) -> None:
    bad = as_is(raw_batch(TEXT))._replace(codec=before)
    assert repack(bad, ZSTD if before != ZSTD else LZ4) is bad
    cut = repack(as_is(raw_batch(TEXT)), before)
    cut = cut._replace(payload=cut.payload[: len(cut.payload) // 2])
    assert repack(cut, ZSTD if before != ZSTD else LZ4) is cut


@given(st.binary(min_size=1, max_size=300), st.sampled_from(sorted(PACKED.values())), st.data())
def test_no_payload_raises(noise: bytes, before: int, data: st.DataObject) -> None:
    """The lane goes on with all its partitions, whatever a producer has written."""
    good = bytes(repack(as_is(raw_batch(TEXT)), before).payload)
    at = data.draw(st.integers(0, len(good)))
    payload = data.draw(st.sampled_from([noise, good[:at] + noise, good[:at] + noise + good[at:]]))
    bad = as_is(raw_batch(TEXT))._replace(codec=before, payload=payload)
    found = repack(bad, ZSTD if before != ZSTD else LZ4)
    assert found is bad or found.codec != before


def test_a_codec_that_there_is_not_stays() -> None:
    odd = as_is(raw_batch(TEXT))._replace(codec=6)
    assert repack(odd, ZSTD) is odd


def test_a_compressor_that_fails_leaves_the_batch_as_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A high level of zstd may find no memory."""

    def fails(*_: object) -> bytes:
        raise MemoryError

    batch = as_is(raw_batch([Rec(offset=i, value=b"x" * 100) for i in range(50)]))
    assert repack(batch, ZSTD).codec == ZSTD
    monkeypatch.setattr(import_module("causeway.records.repack"), "compress", fails)
    assert repack(batch, ZSTD) is batch


@pytest.mark.parametrize("compressed", [False, True])
def test_a_batch_of_more_than_eight_mebibytes_stays(compressed: bool) -> None:
    def batch(mebibytes: int) -> Batch:
        value = bytes(mebibytes << 20)
        return as_is(raw_batch([Rec(offset=0, value=value)], compressed=compressed))

    large = batch(9)
    assert repack(large, ZSTD) is large
    assert repack(batch(7), ZSTD).codec == ZSTD
