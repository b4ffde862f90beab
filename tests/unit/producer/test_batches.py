"""Records as both sides and the spool get them: what is decoded is what was taken."""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from causeway.producer import ID_HEADER, encode
from causeway.producer.encode import CODECS, Packer, batch_of
from causeway.producer.ids import first_position, prefix, record_id
from causeway.producer.journal import Chunk, Record
from causeway.producer.lanes import Lane
from causeway.producer.message import messages
from causeway.producer.shares import batches_in, marshalled, records_in, share_out
from causeway.records import records_of

CONTENT = some.one_of(some.none(), some.binary(max_size=40), some.just(b"v" * 20_000))
TIME = some.one_of(some.integers(1, 1 << 62), some.just(1_700_000_000_000))
HEADERS = some.lists(some.tuples(some.text(max_size=5), CONTENT), max_size=3)
ROW = some.tuples(some.integers(0, 2), TIME, CONTENT, CONTENT, HEADERS)


def taken(rows: Sequence[tuple[Any, ...]], life: int = 3) -> list[Record]:
    first = first_position(life) + 1
    return [
        (first + index, lane, time, key, value, headers or None)
        for index, (lane, time, key, value, headers) in enumerate(rows)
    ]


@given(some.lists(ROW, min_size=1, max_size=30), some.sampled_from(sorted(CODECS)))
def test_a_batch_holds_its_records(rows: list[tuple[Any, ...]], codec: str) -> None:
    records = taken(rows)
    batch = batch_of(records, prefix("shop", 3), Packer(CODECS[codec]))
    assert records_in(batch, 0) == [(r[0], 0, *r[2:]) for r in records]
    marks = [dict(record.headers)[ID_HEADER] for record in records_of(batch)]
    assert marks == [record_id("shop", r[0]) for r in records]
    assert batch.max_timestamp == max(r[2] for r in records)
    assert (batch.first, batch.next) == (records[0][0], records[-1][0] + 1)


@given(some.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_are_as_kafka_s(number: int) -> None:
    from kafka.record.util import encode_varint

    wanted = bytearray()
    encode_varint(number, wanted.append)
    assert encode.varint(number) == bytes(wanted)


def test_the_ready_numbers_are_the_others() -> None:
    assert [encode.varint(n) for n in range(1 << 14)] == encode._VARINTS


@pytest.mark.parametrize("old", [False, True])
def test_a_spool_is_read_also_where_an_earlier_version_wrote_it(old: bool) -> None:
    records = taken([(n % 3, 1_700_000_000_000 + n, b"k", b"%d" % n, []) for n in range(20)])
    lanes = {n: Lane(n, "orders", n, []) for n in range(3)}
    content = (
        marshal.dumps(records, 2)
        if old
        else marshalled(share_out(records, lanes, prefix("shop", 3), Packer(3)))
    )
    chunk = Chunk(records[0][0], records[-1][0], content)
    found = {lane: records_in(batch, lane) for lane, batch in batches_in(chunk, "shop")}
    assert found == {n: [r for r in records if r[1] == n] for n in range(3)}
    for _, batch in batches_in(chunk, "shop"):
        marks = [dict(record.headers)[ID_HEADER] for record in records_of(batch)]
        assert marks == [record_id("shop", position) for position in batch.offsets or ()]


def test_a_message_is_as_confluent_s() -> None:
    (record,) = taken([(0, 77, b"k", None, [("h", None)])])
    (message,) = messages("orders", 2, [9], [record], "shop")
    assert (message.topic(), message.partition(), message.offset()) == ("orders", 2, 9)
    assert (message.key(), message.value(), message.error()) == (b"k", None, None)
    assert message.timestamp() == (1, 77)
    assert message.headers() == [("h", None), (ID_HEADER, b"shop/3-1")]
    assert len(message) == 0
    assert bool(cast(object, message))
    assert "k" not in repr(message).replace("Kafka", "")
