"""OutcomeReader that the source worker answers itself, and those of which it treats what it can."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.records import Batch, PlainRecord
from causeway.transform import ChunkOutcome
from causeway.transform.json_text import NeedsSparkError
from causeway.transform.rows import MARK, MISSING, REASON, SEEN
from causeway.transform.rules import shortcut_of
from causeway.transform.rules.shortcut import hmac_of
from causeway.transform.stage import Rows
from causeway.transform.stage import direct as module
from causeway.transform.stage.direct import Direct
from causeway.transform.stage.source_rows import NOT_A_NAME, NOT_A_TIME
from causeway.transform.stage.workers import OutcomeReader
from tests.harness.stage import batch_of, chunk_of, read
from tests.harness.transforms import settings

RULES = "mask value.$.name optional; drop record where value.$.country is 'US' optional"
PLAIN, ODD = b'{"name":"Ada","n":1}', b'{"name":"A\\u0064a"}'
GONE = b'{"name":"Ada","country":"US"}'


def direct(rules: str = RULES) -> Direct:
    shortcut = shortcut_of(settings(rules=rules, value_format="json"))
    assert shortcut is not None
    return Direct(shortcut.open({}), Rows({}))


def rows_of(answer: object) -> list[dict[str, object]]:
    assert not isinstance(answer, ChunkOutcome)
    batches: list[pa.RecordBatch] = list(answer)  # type: ignore[call-overload]
    return [row for batch in batches for row in batch.to_pylist()]


def by_spark(answer: object, treated: bytes = b"by Spark") -> ChunkOutcome:
    """What comes of rows for Spark, where that makes `treated` of what was not by then."""
    found = OutcomeReader()
    assert not isinstance(answer, ChunkOutcome)
    for batch in list(answer):  # type: ignore[call-overload]
        rows = batch.to_pylist()
        for row in rows:
            if row[MARK] is None:
                row["value"] = treated
            row[SEEN] = row[MISSING] = 0
        schema = batch.schema
        for name in (SEEN, MISSING):
            schema = schema.append(pa.field(name, pa.int64()))
        for outcome in found.add(pa.RecordBatch.from_pylist(rows, schema=schema)):
            return outcome
    raise AssertionError("no chunk was closed")


def test_a_chunk_that_is_plain_never_sees_spark() -> None:
    records = [
        PlainRecord(5, 1_000, b"k", PLAIN, [("h", b"1"), ("h", None)]),
        PlainRecord(6, -1, None, None, []),
        PlainRecord(7, 2_000, b"k", GONE, []),
        PlainRecord(8, 3_000, b"\xff", b'{ "other" : [] }', []),
    ]
    outcome = direct().answer(chunk_of(9, batch_of(records, first=5, codec=4)))
    assert isinstance(outcome, ChunkOutcome)
    assert outcome.number == 9
    assert (outcome.records_in, outcome.records_out, outcome.dropped) == (4, 3, 1)
    assert (outcome.found, outcome.missing) == ((2, 1), (1, 2))
    masked = records[0]._replace(value=b'{"name":"***","n":1}')
    assert list(read(outcome)) == [masked, records[1], records[3]]
    assert [output.batch.next for output in outcome.outputs] == [9]


def test_of_several_batches_the_offsets_stay() -> None:
    compacted = batch_of([PLAIN, PLAIN])._replace(next=30, offsets=[20, 25])
    batches: Sequence[Batch] = (batch_of([GONE], first=10), compacted)
    outcome = direct().answer(chunk_of(1, *batches))
    assert isinstance(outcome, ChunkOutcome)
    assert [record.offset for record in read(outcome)] == [20, 25]
    outcome = direct().answer(chunk_of(1, batch_of([GONE])))
    assert isinstance(outcome, ChunkOutcome)
    assert (outcome.outputs, outcome.dropped) == ((), 1)


def test_only_what_is_odd_goes_through_spark() -> None:
    values = [PLAIN, ODD, GONE, PLAIN, ODD, PLAIN]
    rows = rows_of(direct().answer(chunk_of(1, batch_of(values))))
    assert [(row["offset"], row["value"], row[MARK]) for row in rows[:-1]] == [
        (1, ODD, None),
        (4, ODD, None),
    ]
    mark = json.loads(str(rows[-1][MARK]))
    assert (mark["records"], mark["without_spark"]) == (6, 4)
    assert (mark["found"], mark["missing"]) == ([4, 1], [0, 3])
    outcome = by_spark(direct().answer(chunk_of(1, batch_of(values))))
    masked = b'{"name":"***","n":1}'
    assert [(record.offset, record.value) for record in read(outcome)] == [
        (0, masked),
        (1, b"by Spark"),
        (3, masked),
        (4, b"by Spark"),
        (5, masked),
    ]
    assert (outcome.records_out, outcome.dropped) == (5, 1)
    assert (outcome.found, outcome.missing) == ((4, 1), (0, 3))
    assert (outcome.records_in, outcome.without_spark) == (6, 4)


def test_an_odd_record_that_the_query_drops_leaves_the_others() -> None:
    answer = direct().answer(chunk_of(1, batch_of([PLAIN, ODD, PLAIN])))
    assert not isinstance(answer, ChunkOutcome)
    *_, marker = list(answer)
    marker = marker.append_column(SEEN, pa.nulls(1, pa.int64()))
    (outcome,) = OutcomeReader().add(marker)
    assert [record.offset for record in read(outcome)] == [0, 2]
    assert (outcome.records_in, outcome.records_out, outcome.dropped) == (3, 2, 1)


def test_headers_and_times_of_what_needs_no_spark_stay() -> None:
    records = [
        PlainRecord(5, 1_000, b"k", PLAIN, [("h", b"1"), ("h", None)]),
        PlainRecord(6, 2_000, b"k", ODD, [("h", b"2")]),
        PlainRecord(7, -1, None, None, []),
    ]
    outcome = by_spark(direct().answer(chunk_of(1, batch_of(records, first=5))))
    masked = records[0]._replace(value=b'{"name":"***","n":1}')
    assert list(read(outcome)) == [masked, records[1]._replace(value=b"by Spark"), records[2]]


def test_what_lacks_the_path_of_a_required_rule_is_left_to_the_query_unless_it_is_dropped() -> None:
    treat = direct("mask value.$.a.name; drop record where value.$.country is 'US'")
    plain = b'{"a":{"name":"Ada"},"country":"DE"}'
    values = [plain, b'{"a":null,"country":null}', b'{"country":"US"}', None]
    outcome = treat.answer(chunk_of(1, batch_of(values)))
    assert isinstance(outcome, ChunkOutcome)
    assert (outcome.records_out, outcome.dropped) == (3, 1)
    assert (outcome.found, outcome.missing) == ((1, 3), (1,))
    lacking = [b'{"a":{"Name":"Ada"},"country":"DE"}', b'{"a":[],"country":"DE"}', b'{"a":null}']
    rows = rows_of(treat.answer(chunk_of(1, batch_of([plain, *lacking]))))
    assert [row["value"] for row in rows[:-1]] == lacking


def test_a_time_that_spark_cannot_express_is_refused() -> None:
    records = [PlainRecord(0, 2**60, None, PLAIN, []), PlainRecord(1, 1, None, PLAIN, [])]
    rows = rows_of(direct().answer(chunk_of(1, batch_of(records))))
    assert [(row["offset"], row[REASON]) for row in rows[:-1]] == [(0, NOT_A_TIME)]


def test_what_cannot_be_decoded_and_what_only_asks_goes_to_spark() -> None:
    broken = batch_of([PLAIN])._replace(payload=b"nothing")
    assert len(rows_of(direct().answer(chunk_of(1, broken)))) == 2
    empty = chunk_of(1, batch_of([PLAIN]))._replace(batches=())
    assert len(rows_of(direct().answer(empty))) == 1


def test_a_chunk_that_unpacks_to_much_goes_to_spark_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chunk = chunk_of(1, batch_of([PLAIN] * 9), batch_of([PLAIN] * 9, first=9))
    assert isinstance(direct().answer(chunk), ChunkOutcome)
    monkeypatch.setattr(module, "MOST_BYTES", 10 * len(PLAIN))
    rows = rows_of(direct().answer(chunk))
    assert [row[MARK] for row in rows[:-1]] == [None] * 18


def test_a_topic_of_odd_records_is_tried_less_and_less() -> None:
    tried = direct()
    odd, plain = batch_of([ODD] * 3 + [PLAIN]), batch_of([PLAIN])
    untried = [
        all(row[MARK] is None for row in rows_of(tried.answer(chunk_of(1, odd)))[:-1])
        for _ in range(60)
    ]
    assert untried.count(False) < 8
    answers = [tried.answer(chunk_of(1, plain)) for _ in range(100)]
    assert isinstance(answers[-1], ChunkOutcome)
    assert isinstance(tried.answer(chunk_of(1, plain)), ChunkOutcome)


@pytest.mark.parametrize(
    "rules",
    [
        "drop value.$.a",
        "mask value.$.a[*]",
        "mask value.$.a.*",
        "mask value.$.a with '\"'",
        "mask value.$.a; truncate value.$.a to 3",
        "mask value.$.a; drop headers.h",
        "generalise value.$.a to ranges of 10",
        "mask value",
    ],
)
def test_what_only_the_query_knows(rules: str) -> None:
    assert shortcut_of(settings(rules=rules, value_format="json")) is None


def test_values_with_a_schema_are_left_to_the_query() -> None:
    transform = settings(rules="mask value.$.a", value_format="json", value_schema="a STRING")
    assert shortcut_of(transform) is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_hmac(key: bytes, data: bytes) -> None:
    assert hmac_of(key)(data) == hmac.digest(key, data, "sha256")


def test_many_small_records_are_not_held_as_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_RECORDS", 3)
    few, many = chunk_of(1, batch_of([PLAIN] * 3)), chunk_of(1, *[batch_of([PLAIN] * 2)] * 2)
    assert isinstance(direct().answer(few), ChunkOutcome)
    assert all(row[MARK] is None for row in rows_of(direct().answer(many))[:-1])


@pytest.mark.parametrize("text", [b"", b"{", b"\xef\xbb\xbf{}", b'{"a":1e400}'])
def test_what_cannot_be_decoded_is_odd_to_every_version_of_the_decoder(text: bytes) -> None:
    shortcut = shortcut_of(settings(rules=RULES, value_format="json"))
    assert shortcut is not None
    with pytest.raises(NeedsSparkError):
        shortcut.open({})(None, text, b"", 0)


@pytest.mark.parametrize(
    "rules", ["hash value.$.a with k", "encrypt value.$.a with k", "hash key with k"]
)
def test_no_other_key_replaces_a_missing_one(rules: str) -> None:
    shortcut = shortcut_of(settings(rules=rules, value_format="json"))
    assert shortcut is not None
    with pytest.raises(KeyError):
        shortcut.open({"other": "00" * 16})


def test_what_spark_refuses_before_any_rule_is_not_dropped() -> None:
    records = [
        PlainRecord(0, 2**60, None, GONE, []),
        PlainRecord(1, 1, None, GONE, [("\udcff", None)]),
        PlainRecord(2, 1, None, GONE, []),
        PlainRecord(3, 1, None, PLAIN, []),
    ]
    rows = rows_of(direct().answer(chunk_of(1, batch_of(records))))[:-1]
    assert [(row["offset"], row[REASON]) for row in rows] == [
        (0, NOT_A_TIME),
        (1, NOT_A_NAME),
    ]
