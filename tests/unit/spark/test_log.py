"""What a Fetch answer's batches hold of a range."""

from __future__ import annotations

import pytest

from causeway.errors import ProtocolError
from causeway.records import PlainRecord, build, header
from causeway.spark.log import runs


def raw(first: int, count: int) -> bytes:
    records = [PlainRecord(0, 1000 + n, b"k", b"%d" % n, []) for n in range(count)]
    batch = build(records, codec=0, first=0, next=count, leader_epoch=-1, offsets=None)
    whole = header(batch, 7, 0, 0) + batch.payload
    return first.to_bytes(8, "big") + whole[8:]  # the CRC does not cover the base offset


def offsets(data: bytes, position: int, end: int) -> tuple[list[int], int]:
    found, at = [], position
    for run in runs(memoryview(data), position, end, (), "t-0"):
        found += [record.offset for record in run.records]
        at = run.next
    return found, at


def test_a_range_that_begins_and_ends_inside_of_batches() -> None:
    data = raw(10, 5) + raw(15, 5) + raw(20, 5)
    assert offsets(data, 12, 22) == (list(range(12, 22)), 22)
    assert offsets(data, 0, 100) == (list(range(10, 25)), 25)


def test_a_batch_that_is_cut_off_is_left_to_the_next_fetch() -> None:
    assert offsets(raw(10, 5) + raw(15, 5)[:-1], 10, 100) == (list(range(10, 15)), 15)


def test_offsets_that_are_gone_end_a_range_all_the_same() -> None:
    assert offsets(raw(10, 5) + raw(90, 5), 10, 50) == (list(range(10, 15)), 50)


def test_a_corrupt_batch_is_never_passed_on() -> None:
    data = bytearray(raw(10, 5))
    data[-1] ^= 1
    with pytest.raises(ProtocolError, match="wrong CRC"):
        offsets(bytes(data), 10, 20)
