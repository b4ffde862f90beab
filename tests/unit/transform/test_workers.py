"""Source records to Arrow rows, and rows to what a lane sends on."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.config import INTERNAL, MOST_PARTITIONS, NOT_A_PARTITION
from causeway.records import PlainRecord
from causeway.transform import ChunkOutcome, Refusal
from causeway.transform.rows import CHUNK, MARK, MISSING, REASON, SECRETS, SEEN
from causeway.transform.stage import Rows
from causeway.transform.stage.outcome import BATCH_BYTES, NO_NAME, outcome_of
from causeway.transform.stage.source_rows import NOT_A_BATCH, NOT_A_NAME, NOT_A_TIME
from causeway.transform.stage.workers import OutcomeReader, bounded
from tests.harness.stage import batch_of, chunk_of, read

MARKED = {
    **{"topic": "o", "partition": 0, "next": 100, "codec": 0, "epoch": 3, "records": 50},
    **{"found": [], "missing": [], "without_spark": 0},
}
_SCHEMA = (
    Rows({})
    .schema.append(pa.field(SEEN, pa.int64()))
    .append(pa.field(MISSING, pa.int64()))
    .remove(1)  # its marks are given by each test
)


def _row(offset: int, value: bytes | None = b"v", **columns: Any) -> dict[str, Any]:
    return {
        CHUNK: 1,
        SEEN: 0,
        MISSING: 0,
        "offset": offset,
        "timestamp": 0,
        "value": value,
        **columns,
    }


def _rows(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=_SCHEMA)


def _outcome(*rows: dict[str, Any], **mark: int) -> ChunkOutcome:
    return outcome_of(1, MARKED | mark, [_rows(*rows)] if rows else [])


_bytes = st.one_of(st.none(), st.binary(max_size=300))
_records = st.lists(
    st.tuples(
        st.integers(0, 3),  # the step from the offset before: 0 where one record became several
        st.integers(-(2**40), 2**53),
        _bytes,
        _bytes,
        st.lists(st.tuples(st.text(max_size=9), _bytes), max_size=3),
    ),
    min_size=1,
    max_size=40,
)


@given(_records, st.sampled_from([0, 1, 2, 3, 4]))
def test_records_come_back_from_rows_as_they_were(found: list[Any], codec: int) -> None:
    offset, records = 7, []
    for step, *rest in found:
        offset += step
        records.append(PlainRecord(offset, *rest))
    rows = [
        _row(
            record.offset,
            record.value,
            timestamp=record.timestamp * 1000,
            key=record.key,
            headers=[{"key": name, "value": value} for name, value in record.headers],
        )
        for record in records
    ]
    outcome = _outcome(*rows, codec=codec, next=offset + 5)
    assert list(read(outcome)) == records
    (output,) = outcome.outputs
    assert output.batch.next == offset + 5
    assert output.batch.base_timestamp == records[0].timestamp
    assert output.batch.max_timestamp == max(record.timestamp for record in records)
    assert output.batch.leader_epoch == 3
    assert outcome.records_out == len(records)
    assert outcome.dropped == 50 - len({record.offset for record in records})


@given(st.lists(st.tuples(_bytes, _bytes), min_size=1, max_size=20), st.integers(-1, 2**50))
def test_source_records_become_rows_and_back(found: list[Any], timestamp: int) -> None:
    records = [
        PlainRecord(40 + i, timestamp + i, key, value, [("h", key), ("h", None)][: i % 3])
        for i, (key, value) in enumerate(found)
    ]
    batches = list(Rows({}).of(chunk_of(5, batch_of(records, first=40, codec=4), topic="o")))
    for batch in batches[:-1]:
        assert set(batch.column("topic").to_pylist()) == {"o"}
        assert set(batch.column("partition").to_pylist()) == {0}
    chunks = OutcomeReader()
    (outcome,) = [outcome for batch in batches for outcome in chunks.add(_routed(batch))]
    assert outcome.number == 5
    assert list(read(outcome)) == records
    (output,) = outcome.outputs
    assert (output.topic, output.partition) == (None, None)
    assert output.batch.offsets is None
    assert output.batch.next == 40 + len(records)
    assert (outcome.records_in, outcome.dropped) == (len(records), 0)


def _routed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What a query that does nothing makes of it."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    count = batch.num_rows
    columns |= {"topic": pa.nulls(count, pa.string()), "partition": pa.nulls(count, pa.int32())}
    bits = pa.array([0] * count, pa.int64())
    return pa.RecordBatch.from_pydict({**columns, SEEN: bits, MISSING: bits})


def test_offsets_with_gaps_are_those_of_the_source() -> None:
    batch = batch_of([b"a", b"b", b"c"], first=10)._replace(offsets=[10, 12, 19], next=25)
    rows, mark = Rows({}).of(chunk_of(1, batch))
    assert rows.column("offset").to_pylist() == [10, 12, 19]
    assert json.loads(mark.column(MARK)[0].as_py())["next"] == 25
    (output,) = _outcome(_row(10), _row(12), _row(19), next=25).outputs
    assert output.batch.offsets == [10, 12, 19]
    assert (output.batch.first, output.batch.next) == (10, 25)


def test_a_record_that_leads_where_none_may_go_is_refused_and_no_other() -> None:
    """Nor does anything else that became of that record go anywhere."""
    secret = "Jane"
    rows = [
        _row(0),
        _row(1, topic="paid"),
        _row(1, topic=f"__{secret}"),
        _row(2, topic="paid"),
        _row(3, partition=MOST_PARTITIONS),
        _row(4, topic="o", partition=MOST_PARTITIONS - 1),
        _row(5, topic=f"__{secret}", partition=MOST_PARTITIONS),
    ]
    outcome = outcome_of(
        1, MARKED, [_rows(*rows)], why_not=lambda name: INTERNAL if "__" in name else None
    )
    assert [tuple(refusal) for refusal in outcome.refused] == [
        (1, INTERNAL),
        (3, NOT_A_PARTITION),
        (5, INTERNAL),
    ]
    assert {(out.topic, out.partition): out.batch.first for out in outcome.outputs} == {
        (None, None): 0,
        ("paid", None): 2,
        (None, MOST_PARTITIONS - 1): 4,
    }
    assert (outcome.records_out, outcome.dropped) == (3, 50 - 6)


def test_the_name_of_a_record_that_is_refused_already_is_not_asked_for() -> None:
    """What a worker has asked for it keeps, and such a name may have any length."""
    asked: list[str] = []
    long = _row(1, topic="x" * 1_000_000) | {REASON: "no legal name"}
    rows = [_row(0, topic="paid"), long]
    outcome = outcome_of(1, MARKED, [_rows(*rows)], why_not=asked.append)
    assert asked == ["paid"]
    assert [tuple(refusal) for refusal in outcome.refused] == [(1, "no legal name")]


def test_a_source_with_many_partitions_may_lead_to_as_many() -> None:
    many = 2 * MOST_PARTITIONS
    outcome = _outcome(_row(0, partition=many - 1), _row(1, partition=many + 1), partition=many)
    assert [refusal.offset for refusal in outcome.refused] == [1]


def test_records_for_the_mirror_itself_stay_in_order_however_it_is_named() -> None:
    places = [(None, None), ("o", None), (None, 0), ("o", 0), (None, None)]
    rows = [_row(at, topic=topic, partition=part) for at, (topic, part) in enumerate(places)]
    (output,) = _outcome(*rows).outputs
    assert (output.topic, output.partition) == (None, None)
    assert (output.batch.first, output.batch.records) == (0, 5)
    assert output.batch.offsets is None
    eu, own = _outcome(
        _row(0, topic="eu", partition=0), _row(1, topic="o", partition=1), _row(2, topic="eu")
    ).outputs
    assert (eu.topic, eu.partition, eu.batch.offsets) == ("eu", None, [0, 2])
    assert (own.topic, own.partition) == (None, 1)


def test_what_cannot_be_a_row_says_why() -> None:
    bad = PlainRecord(0, 0, None, b"v", [("\udcff", b"")])
    late = PlainRecord(1, 2**62, None, b"v", [])
    rows, _ = Rows({}).of(chunk_of(1, batch_of([bad, late, b"fine"])))
    assert rows.column(REASON).to_pylist() == [NOT_A_NAME, NOT_A_TIME, None]
    early = PlainRecord(0, -(2**63), None, b"v", [])
    rows, _ = Rows({}).of(chunk_of(1, batch_of([early])))
    assert rows.column(REASON).to_pylist() == [NOT_A_TIME]
    garbage = batch_of([b"a", b"b"], first=5)._replace(payload=b"\xff" * 10)
    rows, mark = Rows({}).of(chunk_of(1, garbage))
    assert rows.column(REASON).to_pylist() == [NOT_A_BATCH] * 2
    assert rows.column("offset").to_pylist() == [5, 6]
    assert rows.column("value").null_count == 2
    assert json.loads(mark.column(MARK)[0].as_py())["records"] == 2


def test_all_rows_have_the_secrets() -> None:
    rows = Rows({"pepper": "s", "key": "k"})
    found, _ = rows.of(chunk_of(1, batch_of([b"a", b"b"])))
    assert found.column(SECRETS).to_pylist() == [{"pepper": "s", "key": "k"}] * 2
    assert rows.markers(3).column(SECRETS).to_pylist() == [{"pepper": "s", "key": "k"}] * 3


def test_large_records_are_spread_over_rows_batches() -> None:
    batch = batch_of([bytes(5_000_000)] * 4)
    *found, _ = Rows({}).of(chunk_of(1, batch))
    assert [rows.num_rows for rows in found] == [1, 1, 1, 1]


def test_large_records_are_pushed_on_by_markers_small_ones_are_not() -> None:
    rows = Rows({})
    markers = rows.markers(256)
    large = next(rows.of(chunk_of(1, batch_of([bytes(3_000_000)] * 2))))
    small = next(rows.of(chunk_of(2, batch_of([bytes(3_000)] * 600))))
    found = [batch is markers for batch in bounded(iter([large] * 5 + [small] * 20), markers)]
    assert found.count(True) == 2
    assert [at for at, pushed in enumerate(found) if pushed] == [2, 5]


def test_no_batch_reaches_over_a_refused_record() -> None:
    refused: Any = {REASON: "no", "value": None}
    outcome = _outcome(_row(3), _row(4), _row(5, **refused), _row(8), _row(9, **refused), _row(10))
    assert outcome.refused == (Refusal(5, "no"), Refusal(9, "no"))
    found = [(o.batch.first, o.batch.records, o.batch.next) for o in outcome.outputs]
    assert found == [(3, 2, 5), (8, 1, 9), (10, 1, 100)]
    assert (outcome.records_out, outcome.dropped) == (4, 44)


def test_of_a_refused_record_nothing_goes_on() -> None:
    unnamed = [{"key": None, "value": b""}]
    outcome = _outcome(_row(3), _row(3, headers=unnamed), _row(4))
    assert outcome.refused == (Refusal(3, NO_NAME),)
    assert [record.offset for record in read(outcome)] == [4]


def test_what_one_record_became_lies_in_one_batch() -> None:
    half = bytes(BATCH_BYTES * 2 // 5)
    rows = [_row(1, half), _row(2, half), _row(2, half), _row(2, half), _row(3, half), _row(4)]
    outcome = _outcome(*rows)
    found = [[o.batch.source_offset(i) for i in range(o.batch.records)] for o in outcome.outputs]
    assert found == [[1], [2, 2, 2], [3, 4]]
    assert [o.batch.next for o in outcome.outputs] == [2, 3, 100]


def test_a_large_record_does_not_take_its_neighbours_along() -> None:
    large = bytes(8_000_000)
    outcome = _outcome(_row(1), _row(2, large), _row(3))
    assert [o.batch.records for o in outcome.outputs] == [1, 1, 1]


def test_each_outlet_has_its_records_in_order() -> None:
    outcome = _outcome(
        _row(1, b"a", topic="eu"),
        _row(2, b"b"),
        _row(3, b"c", topic="eu", partition=2),
        _row(4, b"d", topic="eu"),
        _row(4, b"e", topic="us"),
    )
    found = {
        (o.topic, o.partition): [r.value for r in read(ChunkOutcome(1, (o,)))]
        for o in outcome.outputs
    }
    assert found == {
        ("eu", None): [b"a", b"d"],
        (None, None): [b"b"],
        ("eu", 2): [b"c"],
        ("us", None): [b"e"],
    }
    assert {o.batch.next for o in outcome.outputs} == {100}
    assert (outcome.records_out, outcome.dropped) == (5, 46)


def test_a_chunk_of_which_nothing_is_left() -> None:
    outcome = _outcome()
    assert (outcome.outputs, outcome.records_in, outcome.dropped) == ((), 50, 50)


def test_each_rule_counts_the_records_with_its_path_and_those_without() -> None:
    gone = -(2**63) | 4  # a rule drops it
    rows = (
        _row(1, _seen=5, _missing=2),
        _row(2, _seen=None),
        _row(3, _seen=6),
        _row(4, _seen=gone),
    )
    outcome = _outcome(*rows)
    assert (outcome.found, outcome.missing) == ((1, 1, 3), (0, 1))
    assert (outcome.records_out, outcome.dropped) == (3, 47)


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_chunks_are_separated_for_every_cut_of_rows(size: int) -> None:
    rows = Rows({})
    batches = []
    for number in (1, 2, 3):
        chunk = chunk_of(number, batch_of([b"a", b"b"], first=number * 10), partition=number)
        batches += list(rows.of(chunk))
    batches.append(rows.markers(9))
    table = pa.Table.from_batches([_routed(batch) for batch in batches]).combine_chunks()
    chunks = OutcomeReader()
    found = [outcome for batch in table.to_batches(size) for outcome in chunks.add(batch)]
    assert [outcome.number for outcome in found] == [1, 2, 3]
    assert [[r.offset for r in read(outcome)] for outcome in found] == [
        [10, 11],
        [20, 21],
        [30, 31],
    ]
