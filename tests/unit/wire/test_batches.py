"""The 61 bytes: what we write is what kafka-python, aiokafka and the tests' own encoder read."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from google_crc32c import value
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from causeway.errors import ProtocolError
from causeway.records import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    SEQUENCE_SPACE,
    Batch,
    advance,
    checksum,
    distance,
    header,
    read,
)
from tests.harness.raw_batches import Rec, raw_batch

RECORDS = [Rec(offset=7, key=b"k"), Rec(offset=8, value=None, timestamp=1_700_000_000_000)]


def _batch(raw: bytes, records: int, codec: int = 0) -> Batch:
    fields = HEADER.unpack_from(raw)
    return Batch(
        raw[HEADER_SIZE:], codec, fields[7], fields[8], records, fields[0], fields[0] + records, 0
    )


@pytest.mark.parametrize("compressed", [False, True])
def test_stamped_batch_is_what_an_idempotent_producer_would_have_sent(compressed: bool) -> None:
    source = raw_batch(
        RECORDS,
        compressed=compressed,
        producer_id=5,
        epoch=6,
        sequence=7,
        transactional=True,
        leader_epoch=9,
        extra_attributes=0x40,
    )
    batch = _batch(source, 2, codec=int(compressed))

    stamped = header(batch, 1234, 5, 678) + batch.payload

    theirs = KafkaPythonBatch(bytearray(stamped))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.leader_epoch, theirs.magic) == (0, -1, 2)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (1234, 5, 678)
    assert theirs.attributes == int(compressed)
    assert theirs.last_offset_delta == 1
    assert theirs.size_in_bytes == len(stamped) == batch.size
    read = [(r.timestamp, r.key, r.value, r.headers) for r in theirs]
    assert read == [r.content for r in RECORDS]
    assert AiokafkaBatch(stamped).validate_crc()


def test_checksum_is_that_of_the_whole_batch() -> None:
    raw = raw_batch(RECORDS)
    crc = HEADER.unpack_from(raw)[4]
    assert checksum(raw[21:HEADER_SIZE], raw[HEADER_SIZE:]) == crc
    assert checksum(raw[21:HEADER_SIZE], raw[HEADER_SIZE:-1] + b"?") != crc


def _unread(raw: bytes, records: int) -> Batch:
    crc = HEADER.unpack_from(raw)[4]
    batch = _batch(raw, records, codec=HEADER.unpack_from(raw)[5] & 7)
    view = memoryview(raw)[HEADER_SIZE:]
    return batch._replace(payload=view, unread=(crc, value(raw[CRC_START:HEADER_SIZE])))


@given(st.integers(0, 100_000), st.booleans())
def test_an_unread_batch_is_stamped_like_a_read_one(size: int, transactional: bool) -> None:
    raw = raw_batch([Rec(offset=7, value=bytes(size))], producer_id=3, epoch=1, sequence=9)
    unread = _unread(raw, 1)
    read_one = unread._replace(payload=raw[HEADER_SIZE:], unread=None)

    stamp = header(unread, 1234, 5, 678, transactional=transactional)

    assert stamp == header(read_one, 1234, 5, 678, transactional=transactional)
    assert read(unread) == raw[HEADER_SIZE:]


@given(st.data())
def test_unread_damage_shows_in_the_new_crc(data: st.DataObject) -> None:
    raw = raw_batch([Rec(offset=7, value=bytes(3000))], compressed=True)
    bits = st.integers(17 * 8, len(raw) * 8 - 1)  # the CRC, and all that it is of
    changed = bytearray(raw)
    for bit in data.draw(st.lists(bits, min_size=1, max_size=3, unique=True)):
        changed[bit // 8] ^= 1 << bit % 8

    unread = _unread(bytes(changed), 1)
    stamp = header(unread, 1234, 5, 678)

    assert checksum(stamp[CRC_START:], bytes(unread.payload)) != HEADER.unpack(stamp)[4]
    with pytest.raises(ProtocolError, match="the batch at offset 7 has a wrong CRC"):
        read(unread)


def test_sequences_wrap_after_the_largest_int() -> None:
    assert advance(2**31 - 1, 1) == 0
    assert advance(2**31 - 3, 5) == 2
    assert distance(2**31 - 3, 2) == 5
    assert distance(3, 3) == 0


@given(st.integers(0, SEQUENCE_SPACE - 1), st.integers(0, SEQUENCE_SPACE - 1))
def test_distance_undoes_advance(start: int, count: int) -> None:
    assert distance(start, advance(start, count)) == count
    # As the broker counts it: DefaultRecordBatch.incrementSequence of Apache Kafka.
    largest = 2**31 - 1
    broker = count - (largest - start) - 1 if start > largest - count else start + count
    assert advance(start, count) == broker


def test_source_offsets_of_a_batch_with_gaps() -> None:
    dense = Batch(b"", 0, 0, 0, 3, 10, 15, 0)
    gappy = dense._replace(offsets=(10, 12, 14))
    assert [dense.source_offset(i) for i in range(3)] == [10, 11, 12]
    assert [gappy.source_offset(i) for i in range(3)] == [10, 12, 14]
