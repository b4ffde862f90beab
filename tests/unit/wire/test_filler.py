"""Batches of filler, read by aiokafka's decoder."""

from __future__ import annotations

import pytest

from causeway.records import FILLER_KEY, FILLER_RECORDS, BatchHeader, decode, filler, header


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    "count", [1, 63, 64, 65, 8_191, 8_192, 8_193, FILLER_RECORDS - 1, FILLER_RECORDS]
)
def test_records_without_content(count: int, keyed: bool) -> None:
    """Offset deltas count up, as their encoded length grows."""
    batch = filler(count, keyed, 1_234)
    raw = header(batch, 5, 6, 7, transactional=True) + batch.payload
    of = BatchHeader.of(raw)
    assert (of.producer_id, of.producer_epoch, of.sequence, of.records) == (5, 6, 7, count)
    assert (of.last_delta, of.base_timestamp, of.max_timestamp) == (count - 1, 1_234, 1_234)
    found = decode(raw)
    assert [record.offset for record in found] == list(range(count))
    assert {(r.key, r.value, r.timestamp) for r in found} == {
        (FILLER_KEY if keyed else None, None, 1_234)
    }
    assert not any(r.headers for r in found)


def test_the_largest_batch_is_small() -> None:
    for keyed in (False, True):
        assert filler(FILLER_RECORDS, keyed, 1).size < 60_000
