"""Records as Arrow; what Spark makes of it is in tests/integration."""

from __future__ import annotations

import pyarrow as pa
import pytest

from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.records import PlainRecord
from causeway.spark.columns import batches
from causeway.spark.log import Run

AT = TopicPartition("orders", 3)
TIMES = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("offset", pa.int64())])
LAST = 9_223_372_036_854_775  # ms: the last that has a place in 64 bits of µs
NANOSECONDS = 1_767_225_600_000_000_000


def run(*times: int | None) -> Run:
    records = [PlainRecord(7 + at, time, None, b"v", []) for at, time in enumerate(times)]  # type: ignore[arg-type]
    return Run(records, 10, 7 + len(times), 0)


def column(*times: int | None, late_is_null: bool) -> list[int | None]:
    (batch,) = batches(AT, [run(*times)], TIMES, late_is_null=late_is_null)
    assert batch.schema == TIMES
    found: list[int | None] = batch.column(0).cast(pa.int64()).to_pylist()
    return found


@pytest.mark.parametrize("late", [LAST + 1, -LAST - 1, NANOSECONDS, 2**63 - 1, -(2**63)])
def test_a_time_beyond_sparks_is_an_error_that_names_the_record_or_null(late: int) -> None:
    with pytest.raises(CausewayError) as caught:
        column(1, 2, late, 3, late_is_null=False)
    told = str(caught.value)
    assert told.startswith(f"read the record at offset 9 of {AT}: its time, {late} ms since 1970,")
    assert "timestampOverflow" in told
    found = column(LAST, late, None, -LAST, late_is_null=True)
    assert found == [LAST * 1000, None, -1000, -LAST * 1000]


@pytest.mark.parametrize("late_is_null", [True, False])
def test_times_up_to_the_last_are_exact(late_is_null: bool) -> None:
    found = column(LAST, -LAST, None, late_is_null=late_is_null)
    assert found == [LAST * 1000, -LAST * 1000, -1000]


def test_a_query_that_leaves_times_out_meets_none() -> None:
    (batch,) = batches(AT, [run(NANOSECONDS)], pa.schema([("offset", pa.int64())]))
    assert batch.column(0).to_pylist() == [7]
