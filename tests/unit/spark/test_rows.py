"""Rows as records, and the digest that tells them apart."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StringType, StructType

from causeway.errors import ConfigError
from causeway.records import PlainRecord
from causeway.spark.columns import OutgoingRow, RowsDigest, check_columns, rows


def test_each_column_has_its_place_and_those_that_are_not_there_are_null() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 123_999, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "value": pa.array(["a", None]),
            "timestamp": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "headers": pa.array(
                [[{"key": "h", "value": None}, {"key": "h", "value": b"x"}], None],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "other": pa.array([1, 2]),
        }
    )
    first, second = rows(batch)
    assert first.record.timestamp == 1_769_860_800_123
    assert first.record[2:] == (None, b"a", [("h", None), ("h", b"x")])
    assert (first.topic, first.partition) == (None, None)
    assert second.record.timestamp > 1_769_860_800_123
    assert second.record[2:] == (None, None, [])


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ({"key": StringType()}, "t", "column value"),
        ({"value": StringType()}, None, "set option topic"),
        ({"value": IntegerType()}, "t", "not string or binary"),
        ({"value": StringType(), "headers": StringType()}, "t", "array<struct<key:string"),
    ],
)
def test_rows_that_cannot_be_records_are_refused(
    columns: dict[str, object], topic: str | None, said: str
) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    with pytest.raises(ConfigError, match=said):
        check_columns(schema, topic)


parts = st.none() | st.binary(max_size=3)
some_rows = st.lists(
    st.builds(
        lambda topic, partition, time, key, value: OutgoingRow(
            topic, partition, PlainRecord(0, time, key, value, []), True
        ),
        st.none() | st.sampled_from("ab"),
        st.none() | st.integers(0, 1),
        st.integers(0, 1),
        parts,
        parts,
    ),
    max_size=6,
)


def digest(of: list[OutgoingRow]) -> str:
    found = RowsDigest()
    for row in of:
        found.add(row)
    return str(found)


@example(
    [OutgoingRow("a", 0, PlainRecord(0, 0, None, b"", []), True)],
    [OutgoingRow("a", 0, PlainRecord(0, 1, None, None, []), True)],
)
@given(some_rows, some_rows)
def test_a_digest_tells_rows_apart_and_not_their_order(
    one: list[OutgoingRow], other: list[OutgoingRow]
) -> None:
    same = sorted(map(repr, one)) == sorted(map(repr, other))
    assert (digest(one) == digest(other)) == same
    assert digest(one) == digest(one[::-1])


def test_the_present_time_is_no_part_of_a_digest() -> None:
    """Also where the rows have a column for it."""
    now, later = (OutgoingRow(None, None, PlainRecord(0, t, b"k", b"v", [])) for t in (1, 2))
    assert digest([now]) == digest([later])
    assert digest([now._replace(timed=True)]) != digest([later._replace(timed=True)])
    batch = pa.record_batch(
        {"value": ["v", "v"], "timestamp": pa.array([None, 0], pa.timestamp("us", "UTC"))}
    )
    assert [row.timed for row in rows(batch)] == [False, True]


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_times_are_exact_however_far_away(moments: list[int]) -> None:
    times = pa.array(moments, pa.timestamp("us", "UTC"))
    found = rows(pa.record_batch({"value": ["v"] * len(moments), "timestamp": times}))
    assert [row.record.timestamp for row in found] == [moment // 1000 for moment in moments]
