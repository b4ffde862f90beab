"""The record path keeps everything: contents, order, codec, source offsets."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import replace

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from causeway.errors import ProtocolError, TooLargeError
from causeway.records import (
    Batch,
    as_is,
    build,
    cut,
    decode,
    decode_legacy,
    densify,
    header,
    join,
    merge,
    records_of,
    unpacked_total,
)
from tests.harness.examples import examples
from tests.harness.raw_batches import CODECS, Rec, damaged, raw_batch, wrapped

ODD = [
    Rec(offset=10, timestamp=1_700_000_000_000, key=None, value=b"x" * 300),
    Rec(offset=11, timestamp=0, key=b"", value=b""),
    Rec(offset=13, timestamp=1_577_836_800_000, key=b"k", value=None),
    Rec(
        offset=20,
        timestamp=4_102_444_800_000,
        key=b"\0\xff",
        value=b"y" * 300,
        headers=[("a", b"1"), ("b", None), ("a", b""), ("é", b"\xff"), ("a", b"1")],
    ),
]

_bytes = st.none() | st.binary(max_size=20)
_timestamps = (
    st.sampled_from([-1, 0, 1, 1_577_836_800_000, 2**63 - 1, -(2**63)])
    | st.integers(-1, 2**42)
    | st.integers(-(2**63), 2**63 - 1)
)


@st.composite
def _records(draw: st.DrawFn, least: int = 1) -> list[Rec]:
    offsets = draw(st.lists(st.integers(0, 5_000), unique=True, min_size=least, max_size=12))
    return [
        Rec(
            offset=offset,
            timestamp=draw(_timestamps),
            key=draw(_bytes),
            value=draw(_bytes),
            headers=draw(st.lists(st.tuples(st.text(max_size=3), _bytes), max_size=3)),
        )
        for offset in sorted(offsets)
    ]


def _contents(batch: Batch) -> list[tuple[object, ...]]:
    return [(r.timestamp, r.key, r.value, r.headers) for r in records_of(batch)]


def _offsets(batch: Batch) -> list[int]:
    return [batch.source_offset(i) for i in range(batch.records)]


def _built(records: Sequence[Rec], codec: int = 0) -> Batch:
    batch = densify(records, 0, codec=codec, next=records[-1].offset + 1, leader_epoch=4)
    assert batch is not None
    return batch


@given(_records())
def test_decode_reads_what_the_encoder_of_the_tests_wrote(records: list[Rec]) -> None:
    read = decode(raw_batch(records, base=0))
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in read] == [
        (r.offset, *r.content) for r in records
    ]


def test_records_of_an_append_time_batch_have_the_append_time() -> None:
    read = decode(raw_batch(ODD, append_time=1_800_000_000_000))
    assert {r.timestamp for r in read} == {1_800_000_000_000}


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode(raw_batch(ODD)[:-5])
    with pytest.raises(ProtocolError):
        decode(raw_batch(ODD, extra_attributes=7))  # a codec that does not exist


@given(_records())
def test_dense_batch_keeps_every_content_and_knows_its_source_offsets(records: list[Rec]) -> None:
    batch = _built(records)

    assert _contents(batch) == [r.content for r in records]
    assert _offsets(batch) == [r.offset for r in records]
    assert (batch.first, batch.next) == (records[0].offset, records[-1].offset + 1)
    assert batch.max_timestamp == max(r.timestamp for r in records)
    stamped = KafkaPythonBatch(bytearray(header(batch, 1, 0, 0) + batch.payload))
    assert stamped.validate_crc()
    assert (stamped.records_count, stamped.last_offset_delta) == (len(records), len(records) - 1)
    assert [(wrapped(r.timestamp), r.key, r.value, r.headers) for r in stamped] == [
        r.content for r in records
    ]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_every_codec_is_kept(codec: int) -> None:
    batch = _built(ODD, codec)

    stamped = header(batch, 1, 0, 0) + batch.payload

    read = AiokafkaBatch(stamped)
    assert read.compression_type == codec
    assert [(r.timestamp, r.key, r.value, r.headers) for r in read] == [r.content for r in ODD]
    first, half = cut(batch, [2])
    whole, taken = merge([first, half])
    assert taken == 2
    assert (half.codec, whole.codec) == (codec, codec)
    assert _contents(whole) == [r.content for r in ODD]


def test_densify_begins_at_the_position() -> None:
    assert _offsets(_built([r for r in ODD if r.offset >= 12])) == [13, 20]
    later = densify(ODD, 12, codec=0, next=30, leader_epoch=1)
    assert later is not None
    assert (_offsets(later), later.first, later.next) == ([13, 20], 13, 30)
    assert densify(ODD, 21, codec=0, next=30, leader_epoch=1) is None


@given(_records(least=2), st.data())
def test_parts_make_the_whole_again(records: list[Rec], data: st.DataObject) -> None:
    batch = _built(records)
    at = data.draw(st.integers(1, len(records) - 1))

    parts = cut(batch, [at])
    whole, taken = merge(parts)

    assert taken == 2
    assert parts[0].next == parts[1].first == records[at].offset
    assert parts[1].next == batch.next
    assert _contents(parts[0]) + _contents(parts[1]) == [r.content for r in records]
    assert _contents(whole) == _contents(batch)
    assert _offsets(whole) == _offsets(batch)
    assert (whole.first, whole.next) == (batch.first, batch.next)


def test_neighbours_without_gaps_need_no_list_of_offsets() -> None:
    one = as_is(raw_batch([Rec(offset=5), Rec(offset=6)]))
    two = as_is(raw_batch([Rec(offset=7)], leader_epoch=3))
    far = as_is(raw_batch([Rec(offset=9)]))
    assert merge([one, two])[0].offsets is None
    assert merge([one, two])[0].leader_epoch == 3
    assert _offsets(merge([one, two, far])[0]) == [5, 6, 7, 9]


def test_as_is_is_the_same_payload() -> None:
    raw = raw_batch(ODD[:2], compressed=True, transactional=True, producer_id=3, leader_epoch=8)
    batch = as_is(raw)
    assert (batch.first, batch.next, batch.records, batch.leader_epoch) == (10, 12, 2, 8)
    assert batch.codec == 1
    assert _contents(batch) == [r.content for r in ODD[:2]]


@settings(max_examples=examples(50))
@given(st.lists(_records(), min_size=1, max_size=4))
def test_join_is_one_batch_of_all(runs: list[list[Rec]]) -> None:
    raws, records, base = [], [], 0
    for run in runs:
        dense = [
            Rec(offset=base + i, timestamp=r.timestamp, key=r.key, value=r.value, headers=r.headers)
            for i, r in enumerate(run)
        ]
        raws.append(memoryview(raw_batch(dense)))
        records += dense
        base += len(run)

    batch, taken = join(raws)

    assert taken == len(raws)
    assert _contents(batch) == [r.content for r in records]
    assert batch.offsets is None
    assert (batch.records, batch.first, batch.next) == (base, 0, base)


def test_join_with_gaps_knows_its_source_offsets() -> None:
    raws = [memoryview(raw_batch([Rec(offset=o)])) for o in (3, 7)]
    batch, _ = join(raws)
    assert _offsets(batch) == [3, 7]
    assert (batch.first, batch.next) == (3, 8)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("append_time", [None, 1_800_000_000_000])
def test_a_header_name_that_is_not_utf_8_is_kept(codec: int, append_time: int | None) -> None:
    odd = Rec(offset=12, key=b"k", value=None, headers=[("\udcff\udc80", b"1"), ("é", None)])
    records = [Rec(offset=10, timestamp=-1), odd, Rec(offset=2000, value=b"x" * 200)]
    read = decode(raw_batch(records, append_time=append_time))
    contents = [
        (r.timestamp if append_time is None else append_time, r.key, r.value, r.headers)
        for r in records
    ]
    assert [r.offset for r in read] == [10, 12, 2000]
    assert [(r.timestamp, r.key, r.value, r.headers) for r in read] == contents

    batch = densify(read, 0, codec=codec, next=2001, leader_epoch=0)

    assert batch is not None
    assert batch.codec == codec
    assert _contents(batch) == contents
    by_hand = [
        replace(r, offset=i, timestamp=c[0])
        for i, (r, c) in enumerate(zip(records, contents, strict=True))
    ]
    if codec == 0:
        assert batch.payload == raw_batch(by_hand, base=0)[61:]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("name", ["é", "\udcff"], ids=["utf-8", "not-utf-8"])
def test_times_further_apart_than_64_bits_tell_are_kept(codec: int, name: str) -> None:
    """Neighbours with such times are merged, a batch of them is cut."""
    times = (-1, 2**63 - 1, -(2**63), 0, 2**62, -(2**62))
    batches = [
        _built([Rec(offset=n, timestamp=time, headers=[(name, b"")])], codec)
        for n, time in enumerate(times)
    ]

    batch, taken = merge(batches)

    assert taken == len(times)
    assert [record.timestamp for record in records_of(batch)] == list(times)
    assert (batch.base_timestamp, batch.max_timestamp) == (-1, 2**63 - 1)
    parts = cut(batch, [3])
    assert [record.timestamp for part in parts for record in records_of(part)] == list(times)


@pytest.mark.parametrize("lacking", range(1, 12))
def test_a_damaged_batch_with_such_a_name_is_refused(lacking: int) -> None:
    with pytest.raises(ProtocolError):
        decode(raw_batch([Rec(offset=0, headers=[("\udcff", b"12345678")])])[:-lacking])


@pytest.mark.parametrize(
    ("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
)
def test_old_formats(magic: int, codec: int) -> None:
    base = 0 if codec == 0 or magic == 0 else 100
    rows = [(b"k", b"x" * 200), (None, b"y" * 200), (b"k", None), (b"", b"")]
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for index, (key, value) in enumerate(rows):
        builder.append(index, 1_500_000_000_000 + index, key, value)
    built = bytearray(builder.build())
    if codec:  # a broker gives the message that holds the others the offset of its last one
        built[:8] = (base + len(rows) - 1).to_bytes(8, "big")
    data = memoryview(bytes(built))
    read, at = [], 0
    while at < len(data):
        stop = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        read += decode_legacy(data[at:stop], magic)
        at = stop

    batch = densify(read, base, codec=0, next=base + len(rows), leader_epoch=-1)

    assert batch is not None
    assert [(r.key, r.value) for r in records_of(batch)] == rows
    assert _offsets(batch) == [base, base + 1, base + 2, base + 3]
    assert [r.timestamp for r in records_of(batch)] == [
        1_500_000_000_000 + i if magic else -1 for i in range(len(rows))
    ]


@pytest.mark.parametrize("codec", [0, 1])
def test_a_damaged_old_message_is_refused(codec: int) -> None:
    builder = LegacyRecordBatchBuilder(1, codec, 1 << 20)
    builder.append(0, 1_500_000_000_000, b"key", b"value" * 50)
    with pytest.raises(ProtocolError):
        decode_legacy(damaged(bytes(builder.build())), 1)


def test_build_takes_records_of_any_batch() -> None:
    records = records_of(_built(ODD))
    batch = build(records, codec=0, first=1, next=9, leader_epoch=0, offsets=[1, 3, 5, 8])
    assert _contents(batch) == [r.content for r in ODD]
    assert _offsets(batch) == [1, 3, 5, 8]


# -- what unpacks to too much ----------------------------------------------------------------------

ZEROS = b"\0" * (40 * 1024 * 1024)
PACKED_CODECS = {name: codec for name, codec in CODECS.items() if codec}


def _bomb(codec: int, count: int = 1, value: bytes = ZEROS) -> Batch:
    return build(
        [Rec(offset=i, value=value) for i in range(count)],
        codec=codec,
        first=0,
        next=count,
        leader_epoch=0,
        offsets=None,
    )


@pytest.mark.parametrize("codec", PACKED_CODECS.values(), ids=PACKED_CODECS)
def test_a_batch_that_unpacks_to_too_much_is_refused_before_it_takes_the_room(codec: int) -> None:
    bomb = _bomb(codec)
    if bomb.size * 4 > len(ZEROS):  # no compression to speak of
        pytest.skip("this codec makes no bombs")
    before, peak = unpacked_total(), _peak_bytes()

    with pytest.raises(TooLargeError, match=r"unpack to more than 33554432"):
        records_of(bomb)

    assert unpacked_total() - before <= 32 * 1024 * 1024
    assert _peak_bytes() - peak < 48 * 1024 * 1024


@pytest.mark.parametrize("codec", PACKED_CODECS.values(), ids=PACKED_CODECS)
@pytest.mark.parametrize("size", [1, 1024 * 1024, 9 * 1024 * 1024])
def test_what_has_room_is_unpacked(codec: int, size: int) -> None:
    (record,) = records_of(_bomb(codec, value=ZEROS[:size]))
    assert record.value == ZEROS[:size]


def test_a_bare_snappy_block_is_unpacked_too() -> None:
    """librdkafka writes it without Java's framing."""
    raw = raw_batch(ODD)
    packed = bytes(cramjam.snappy.compress_raw(raw[61:]))
    header = bytearray(raw[:61])
    header[22] = CODECS["snappy"]
    assert [r.value for r in decode(bytes(header) + packed)] == [r.value for r in ODD]
    bomb = bytes(cramjam.snappy.compress_raw(ZEROS))
    with pytest.raises(TooLargeError):
        decode(bytes(header) + bomb)


@pytest.mark.parametrize("codec", PACKED_CODECS.values(), ids=PACKED_CODECS)
def test_damaged_compression_is_refused(codec: int) -> None:
    batch = _bomb(codec, value=bytes(range(256)) * 10)
    with pytest.raises(ProtocolError):
        records_of(batch._replace(payload=batch.payload[: len(batch.payload) // 2]))
    with pytest.raises(ProtocolError):
        records_of(batch._replace(payload=b"no such frame" * 9))


def test_more_records_than_memory_is_meant_for_are_refused() -> None:
    """200,000 of the smallest fill a batch of the default size; half a million is no accident."""
    many = _bomb(CODECS["zstd"], 200_000, b"")
    assert len(records_of(many)) == 200_000
    with pytest.raises(TooLargeError, match="600000 records"):
        records_of(many._replace(records=600_000))


@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (1, 1), (1, 2), (1, 3)])
def test_an_old_message_that_unpacks_to_too_much_is_refused(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    builder.append(0, 1_500_000_000_000, b"k", ZEROS)
    with pytest.raises(TooLargeError):
        decode_legacy(bytes(builder.build()), magic)


def test_merging_stops_before_what_unpacks_to_too_much() -> None:
    zstd = CODECS["zstd"]
    small = [_bomb(zstd, value=b"x" * 500)._replace(first=i, next=i + 1) for i in range(3)]
    bomb = _bomb(zstd, value=ZEROS[: 2 * 1024 * 1024])
    before = unpacked_total()

    assert merge([*small[:2], bomb, small[2]])[1] == 2
    assert merge([bomb, *small]) == (bomb, 1)
    large = _bomb(zstd, value=ZEROS[: 400 * 1024])
    assert merge([large] * 5)[1] == 2

    assert unpacked_total() - before < 5 * 1024 * 1024


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
