"""Queries that people write, analysed, rewritten and run by a real Spark on rows at hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causeway.errors import ConfigError
from causeway.transform.json_text import NOT_JSON
from causeway.transform.plan import outputs, prepare
from causeway.transform.rows import OUTPUT
from causeway.transform.session import SESSION
from tests.harness.hostile import texts
from tests.harness.transforms import (
    TIME,
    optional,
    record,
    rows_of,
    run,
    settings,
    spark_session,
    values,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def offsets(rows: list[Any]) -> list[int]:
    return [row.offset for row in rows]


def refusal(session: Any, sql: str, **fields: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        prepare(session, settings(sql, **fields))
    assert str(caught.value).startswith("use A->B.causeway.transform.pii.sql (line 7): ")
    return str(caught.value)


def test_what_is_not_named_stays_byte_for_byte(session: Any) -> None:
    odd = b'\xff\x00{"a" :  1 }'
    (row,) = run(
        session,
        settings("SELECT 'new' AS key FROM records", value_format="json"),
        [record(5, odd, key=b"\xfe")],
    )
    assert (row.key, row.value, row.timestamp.timestamp()) == (b"new", odd, TIME.timestamp())
    assert [tuple(header) for header in row.headers] == [("h", b"\xff")]
    assert (row.offset, row.topic, row.partition, row._reason, row._seen) == (
        5,
        None,
        None,
        None,
        0,
    )


@pytest.mark.parametrize("sql", ["SELECT * FROM records", "SELECT key, value FROM records;"])
def test_columns_that_are_only_passed_replace_nothing(session: Any, sql: str) -> None:
    transform = settings(sql, key_format="json", value_format="json", secrets={"X": "s3cret"})
    prepared = prepare(session, transform)
    assert prepared.replaces == frozenset()
    (row,) = run(session, transform, [record(0, b"not JSON", key=b"nor this")])
    assert (row.key, row.value, row._reason) == (b"nor this", b"not JSON", None)


def test_the_rows_have_the_types_of_the_plan(session: Any) -> None:
    from pyspark.sql.types import StructType

    prepared = prepare(
        session, settings("SELECT upper(key) AS key FROM records", key_format="string")
    )
    assert prepared.replaces == {"key"}
    frame = prepared.apply(rows_of(session, prepared, []))
    names = [(one.name, one.dataType) for one in frame.schema]
    assert names == [(one.name, one.dataType) for one in StructType.fromDDL(OUTPUT)]


def test_where_drops_records_and_no_marker_and_order_stays(session: Any) -> None:
    texts = [json.dumps({"n": n, "country": "DE" if n % 3 else "US"}).encode() for n in range(30)]
    sql = "SELECT * FROM records WHERE get_json_object(value, '$.country') = 'US'"
    found = run(session, settings(sql, value_format="json"), values(*texts))
    assert offsets(found) == list(range(0, 30, 3))


def test_a_condition_that_throws_on_nulls_meets_no_marker(session: Any) -> None:
    sql = (
        "SELECT CAST(coalesce(value, raise_error('met')) AS STRING) AS value "
        "FROM records WHERE coalesce(value, raise_error('met')) != 'b'"
    )
    rows = [*values(b"a", b"b"), record(2, b"x", _reason="it cannot be decoded")]
    found = run(session, settings(sql, value_format="string"), rows)
    assert [(row.offset, row.value, row._reason) for row in found] == [
        (0, b"a", None),
        (2, None, "it cannot be decoded"),
    ]


def test_everything_can_be_replaced(session: Any) -> None:
    sql = """
        SELECT sha2(key, 256) AS key, concat(value, '!') AS value,
            map('a', 'b') AS headers, 1000 AS timestamp, 'other' AS topic, 7L AS `partition`
        FROM records
    """
    (row,) = run(session, settings(sql, key_format="string", value_format="string"), values(b"v"))
    assert (row.value, row.topic, row.partition) == (b"v!", "other", 7)
    assert len(row.key) == 64
    assert [tuple(header) for header in row.headers] == [("a", b"b")]
    assert row.timestamp.timestamp() == 1


def test_json_that_is_none_is_refused_where_it_is_read(session: Any) -> None:
    texts = [
        b'{"a": 1}',
        b'{"a": 1',
        b'{"a": 1} x',
        b"",
        b'{"a": "\xff"}',
        b"null",
        b"[1]",
        b'{"a": 01}',
    ]
    sql = "SELECT get_json_object(value, '$.a') AS value FROM records"
    found = run(session, settings(sql, value_format="json"), values(*texts))
    reasons = [row._reason for row in found]
    no = NOT_JSON.format("value")
    assert reasons == [None, no, no, no, no, None, None, no]
    assert found[0].value == b"1"
    assert all(row.value is None for row in found[1:])


def test_a_struct_is_read_by_its_schema_and_written_as_json(session: Any) -> None:
    sql = """
        SELECT struct(value.a + 1 AS a, upper(value.b) AS b) AS value FROM records WHERE value.a > 1
    """
    transform = settings(sql, value_format="json", value_schema="a int, b string")
    texts = [
        b'{"a": 2, "b": "x", "c": 0}',
        b'{"a": 1}',
        b'{"a": "two"}',
        b"[2]",
        b'{"a": 2',
        b"null",
    ]
    found = run(session, transform, values(*texts))
    assert [row.offset for row in found] == [0, 2, 3, 4, 5]
    assert json.loads(found[0].value) == {"a": 3, "b": "X"}
    misfit = "value does not fit its schema"
    reasons = [row._reason for row in found[1:]]
    assert reasons == [misfit, misfit, NOT_JSON.format("value"), misfit]


# Of each a reader may see one country, and another reader another.
TWO_COUNTRIES = [
    b'{"country":"US","country":"DE"}',
    b'{"country":"US","co\\u0075ntry":"DE"}',
    b'{"country":"US","a":{"b":1,"\\u0062":2}}',
    b"{'country':'US'}",
    b'{"country":"US"} {"country":"DE"}',
    b'{"country":"US"}{"country":"DE"}',
    b'{"country":"US"},{"country":"DE"}',
    b'{"country":"US"}],[{"country":"DE"}',
    b'{"country":"US"}},{"v":{"country":"DE"}',
    b'{"country":"US"},"v":{"country":"DE"}',
    b'{"country":"US"}],"v":[{"country":"DE"}',
    b'{"country":"US"}}',
    b'{"country":"US"}]',
    b'{"country":"US"} x',
    b'{"country":"US"}\x00',
    b'{"country":"US"} // DE',
    b'{"country":"US","n":NaN}',
    b'{"country":"US","n":-Infinity}',
    b'{"country":"US","n":01}',
    b'{"country":"US","n":+1}',
    b'{"country":"US","n":.5}',
    b'{"country":"US",}',
    b'{country:"US"}',
    b'{"country":"US","n":"\x01"}',
    b'{"country":"US","n":"\\x"}',
    b'/**/{"country":"US"}',
    b'\xef\xbb\xbf{"country":"US"}',
    b'{"country":"US","n":"\xff"}',
    b'\xa0{"country":"US"}',
]
_FILTER = "SELECT * FROM records WHERE {} = 'US'"


@pytest.mark.parametrize(
    "fields",
    [
        {"sql": _FILTER.format("get_json_object(value, '$.country')")},
        {"sql": _FILTER.format("value.country"), "value_schema": "country STRING"},
        {"sql": _FILTER.format("value.country"), "value_schema": "country STRING, n DOUBLE"},
        {"rules": "drop record where value.$.country is not 'US'"},
        {"rules": "mask value.$.n", "value_schema": "country STRING, n STRING"},
    ],
    ids=["sql", "schema", "schema with numbers", "rules", "rules with schema"],
)
def test_no_record_names_two_countries(session: Any, fields: dict[str, Any]) -> None:
    transform = settings(**fields, value_format="json")
    good = [b' {"country": "US"}\r\n', b'{"n":null,"a":[],"country":"US","b":{"country":"DE"}}']
    found = run(session, transform, values(*TWO_COUNTRIES, *good))
    refused = {row.offset: row._reason for row in found if row._reason is not None}
    assert [text for at, text in enumerate(TWO_COUNTRIES) if at not in refused] == []
    assert all("value is not JSON" in reason for reason in refused.values())
    assert offsets(found)[-2:] == [len(TWO_COUNTRIES), len(TWO_COUNTRIES) + 1]
    assert len(refused) == len(TWO_COUNTRIES)
    if (shortcut := prepare(session, transform).work.shortcut) is not None:
        for text in TWO_COUNTRIES:
            with pytest.raises((ValueError, RecursionError)):
                shortcut.open({})(b"k", text, b"t\x003\x00", 0)


def strict(text: bytes) -> bool:
    """JSON by RFC 8259 without a name twice, as Python sees it."""

    def members(pairs: list[tuple[str, Any]]) -> None:
        assert len({name for name, _ in pairs}) == len(pairs)

    def refuse(_: str) -> None:
        raise ValueError

    try:
        json.loads(text.decode(), object_pairs_hook=members, parse_constant=refuse)
    except (ValueError, AssertionError):
        return False
    return True


def test_json_is_what_a_strict_parser_takes(session: Any) -> None:
    within = [text for text in texts(2_000) if max(map(text.count, (b"[", b"3"))) < 900]
    transform = settings("SELECT upper(value) AS value FROM records", value_format="json")
    found = run(session, transform, values(*within))
    taken = [row._reason is None for row in found]
    assert [text for text, took in zip(within, taken, strict=True) if took != strict(text)] == []
    assert 500 < sum(taken) < len(taken) - 500


def test_a_number_that_is_none_fits_no_schema(session: Any) -> None:
    transform = settings(
        "SELECT struct(value.n AS n) AS value FROM records",
        value_format="json",
        value_schema="n DOUBLE",
    )
    found = run(session, transform, values(b'{"n":"NaN"}', b'{"n":"Infinity"}', b'{"n":1.5}'))
    assert [row._reason for row in found] == ["value does not fit its schema"] * 2 + [None]


def test_a_text_must_be_utf_8(session: Any) -> None:
    sql = "SELECT upper(key) AS key FROM records"
    rows = [record(0, b"", key="ä".encode()), record(1, b"", key=b"\xff")]
    found = run(session, settings(sql, key_format="string"), rows)
    assert [(row.key, row._reason) for row in found] == [
        ("Ä".encode(), None),
        (None, "key is not UTF-8"),
    ]


def test_tombstones_pass_what_reads_the_value_and_obey_the_rest(session: Any) -> None:
    sql = """
        SELECT sha2(key, 256) AS key, concat(v, '!') AS value
        FROM (SELECT key, upper(value) AS v FROM records)
        WHERE v = 'YES' AND key != 'b'
    """
    rows = [
        record(0, b"yes", key=b"a"),
        record(1, b"no", key=b"a"),
        record(2, None, key=b"a"),
        record(3, None, key=b"b"),
    ]
    found = run(session, settings(sql, key_format="string", value_format="string"), rows)
    assert offsets(found) == [0, 2]
    assert [row.value for row in found] == [b"YES!", None]
    assert found[0].key == found[1].key != b"a"


def test_a_query_that_names_tombstones_treats_them_itself(session: Any) -> None:
    drop = "SELECT * FROM records WHERE value IS NOT NULL AND value != 'x'"
    assert offsets(run(session, settings(drop, value_format="string"), values(b"a", None))) == [0]
    fill = "SELECT IF(value IS NULL, 'gone', value) AS value FROM records"
    found = run(session, settings(fill, value_format="string"), values(b"a", None))
    assert [row.value for row in found] == [b"a", b"gone"]


def test_a_tombstone_whose_key_would_come_of_its_value_is_refused(session: Any) -> None:
    sql = "SELECT get_json_object(value, '$.id') AS key FROM records"
    found = run(session, settings(sql, value_format="json"), values(b'{"id": 1}', None))
    assert [(row.key, row._reason) for row in found] == [
        (b"1", None),
        (None, "a tombstone, and its key is made of the value"),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT explode(split(value, ',')) AS value FROM records",
        "SELECT item AS value FROM records LATERAL VIEW explode(split(value, ',')) t AS item",
        "SELECT item.x AS value FROM (SELECT explode(transform(split(value, ','), "
        "x -> named_struct('x', x))) AS item FROM records)",
    ],
)
def test_explode_makes_several_of_one(session: Any, sql: str) -> None:
    found = run(session, settings(sql, value_format="string"), values(b"a,b", b"c", None, b"d,e"))
    assert offsets(found) == [0, 0, 1, 2, 3, 3]
    assert [row.value for row in found] == [b"a", b"b", b"c", None, b"d", b"e"]


def test_explode_drops_what_has_no_elements_and_keeps_null_ones(session: Any) -> None:
    lists = "from_json(value, 'array<string>')"
    rows = values(b'["a", null]', b"[]", b'["b"]')
    inner = settings(f"SELECT explode({lists}) AS value FROM records", value_format="json")
    assert offsets(run(session, inner, rows)) == [0, 0, 2]
    outer = settings(f"SELECT explode_outer({lists}) AS value FROM records", value_format="json")
    assert offsets(run(session, outer, rows)) == [0, 0, 1, 2]


def test_names_given_by_with_are_looked_through(session: Any) -> None:
    sql = """
        WITH young AS (SELECT key, value.name AS name FROM records WHERE value.age < 30),
            named AS (SELECT * FROM young WHERE name IS NOT NULL)
        SELECT upper(name) AS value FROM named
    """
    texts = [b'{"age": 20, "name": "x"}', b'{"age": 40, "name": "y"}', b'{"age": 20}', None]
    transform = settings(sql, value_format="json", value_schema="age int, name string")
    found = run(session, transform, values(*texts))
    assert [(row.offset, row.value) for row in found] == [(0, b"X"), (3, None)]


def test_a_path_that_a_record_brings_may_be_none(session: Any) -> None:
    sql = """
        SELECT try_variant_get(v, key, 'string') AS value
        FROM (SELECT parse_json(value) AS v, key, headers FROM records)
    """
    transform = settings(sql, key_format="string", value_format="string")
    rows = [record(0, b'{"a": 1}', key=b"$.a"), record(1, b'{"a": 1}', key=b"no path")]
    found = run(session, transform, rows)
    assert [(row.offset, row.value, row._reason is None) for row in found] == [
        (0, b"1", True),
        (1, None, False),
    ]


def test_what_no_record_can_have_is_refused_record_by_record(session: Any) -> None:
    sql = """
        SELECT IF(offset = 0, -1, 0) AS `partition`,
            IF(offset = 1, 'a b', CAST(NULL AS STRING)) AS topic,
            IF(offset = 2, -5, 1000) AS timestamp,
            array(struct(IF(offset = 3, CAST(NULL AS STRING), 'k') AS key, 'x' AS value)) AS headers
        FROM records
    """
    found = run(session, settings(sql), values(*[b"v"] * 5))
    assert [row._reason for row in found] == [
        "its partition is negative, or too large",
        "its topic is no legal name",
        "its timestamp is null, or before 1970, or too late",
        "a header has no key",
        None,
    ]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT count(*) AS value FROM records", "line 1, position 1: an aggregate"),
        ("SELECT DISTINCT key FROM records", "DISTINCT"),
        ("SELECT key FROM records GROUP BY key", "an aggregate"),
        ("SELECT a.key FROM records a JOIN records b ON a.key = b.key", "position 29: a join"),
        ("SELECT key FROM records ORDER BY key", "ORDER BY"),
        ("SELECT key FROM records\n  LIMIT 5", "LIMIT"),
        ("SELECT key FROM records LIMIT 5 OFFSET 2", "LIMIT"),
        ("SELECT key FROM records UNION ALL SELECT key FROM records", "UNION"),
        ("SELECT key FROM records TABLESAMPLE (5 ROWS)", "LIMIT"),
        ("SELECT key FROM records TABLESAMPLE (50 PERCENT)", "TABLESAMPLE"),
        ("SELECT row_number() OVER (ORDER BY key) AS value FROM records", "a window function"),
        ("SELECT key FROM records\nWHERE key IN (SELECT X'00')", "line 2, position 11: a subquery"),
        ("SELECT (SELECT max(id) FROM range(3)) AS value FROM records", "position 8: a subquery"),
        ("SELECT 'x' AS value", "another table than the view `records`"),
        ("SELECT 'x' AS value FROM range(3)", "another table than the view `records`"),
        ("SELECT key FROM elsewhere", "line 1, position 17: The table or view `elsewhere`"),
        ("SELECT keyy FROM records", "line 1, position 8: A column, variable, or function"),
        ("SELECT foo(key) AS key FROM records", "line 1, position 8: Cannot resolve routine `foo`"),
        ("SELECT key FROM\n records WHERE key = = 3", "line 2, position 22: Syntax error"),
        ("DROP TABLE records", "Syntax error"),
        ("SELECT rand() AS value FROM records", "position 8: rand() gives another result"),
        ("SELECT rand(5) AS value FROM records", "rand() gives another result"),
        ("SELECT uuid() AS value FROM records", "uuid() gives another result"),
        ("SELECT key FROM records\nWHERE rand() > 0.5", "line 2, position 7: rand()"),
        ("SELECT shuffle(array(1, 2))[0] AS partition FROM records", "shuffle() gives another"),
        ("SELECT monotonically_increasing_id() AS timestamp FROM records", "another result"),
        ("SELECT spark_partition_id() AS partition FROM records", "another result"),
        ("SELECT input_file_name() AS key FROM records", "another result"),
        ("SELECT current_timestamp() AS timestamp FROM records", "depends on the time"),
        ("SELECT now() AS timestamp FROM records", "depends on the time"),
        ("SELECT localtimestamp() AS timestamp FROM records", "depends on the time"),
        ("SELECT current_date() AS timestamp FROM records", "depends on the time"),
        ("SELECT 1000 * unix_timestamp() AS timestamp FROM records", "depends on the time"),
        ("SELECT current_user() AS key FROM records", "and the user"),
        ("SELECT reflect('java.util.UUID', 'randomUUID') AS key FROM records", "another result"),
        (
            "SELECT\n  aes_encrypt(value, secrets.K) AS value FROM records",
            "line 2, position 3: aes_encrypt has no IV",
        ),
        (
            "SELECT aes_encrypt(value, secrets.K, 'GCM', 'DEFAULT', '123456789012') AS value "
            "FROM records",
            "aes_encrypt has always the same IV",
        ),
        ("SELECT secrets.K AS value FROM records", "`value` would show a secret"),
        ("SELECT to_json(secrets) AS key FROM records", "`to_json` might show a secret"),
        ("SELECT k AS key FROM (SELECT secrets.K AS k FROM records)", "would show a secret"),
        ("SELECT offset + 1 AS offset FROM records", "`offset` is not a part of a record"),
        ("SELECT key AS name FROM records", "`name` is not a part of a record"),
        ("SELECT 'a' AS _reason FROM records", "`_reason` is not a part of a record"),
        ("SELECT 'a' AS key, 'b' AS KEY FROM records", "it projects `key` twice"),
        ("SELECT *, 'b' AS value FROM records", "it projects `value` twice"),
        ("SELECT 'b' AS value, * FROM records", "it projects `value` twice"),
        ("SELECT 5 AS value FROM records", "line 1, position 8: `value` cannot be of the type int"),
        ("SELECT array(1) AS value FROM records", "(use to_json(…))"),
        ("SELECT key AS timestamp FROM records", "`timestamp` cannot be of the type binary"),
        ("SELECT key AS headers FROM records", "`headers` cannot be of the type binary"),
        ("SELECT 5 AS topic FROM records", "`topic` cannot be of the type int"),
        ("SELECT stack(2, 'a', 'b') AS value FROM records", "stack() cannot be used"),
    ],
)
def test_what_is_refused_and_where(session: Any, sql: str, said: str) -> None:
    assert said in refusal(session, sql, secrets={"K": "0123456789abcdef"})


@pytest.mark.parametrize(
    "time",
    [
        "TIMESTAMP 'now'",
        "timestamp_ntz' NOW\t'",
        "TIMESTAMP_LTZ /* or */ r'Tomorrow Europe/Berlin'",
        "TIMESTAMP '12:30'",
        "TIMESTAMP 'T9:00:00'",
        "DATE 'today'",
        "date\n'yesterday UTC'",
        "CAST('now' AS TIMESTAMP)",
        "'now'::timestamp_ntz",
        "TRY_CAST('\u0000now' AS TIMESTAMP)",
        "CAST(concat(lower('N'), 'ow') AS TIMESTAMP)",
        "CAST('7:00' AS TIMESTAMP)",
        "CAST(CAST('today' AS DATE) AS TIMESTAMP)",
        "to_timestamp('now')",
        "to_timestamp_ltz('now')",
        "to_timestamp_ntz('now')",
        "try_to_timestamp('now')",
        "to_date('today')",
        "timestamp('now')",
        "date('today')",
        "date_add('today', 1)",
        "date_trunc('day', 'now')",
        "to_utc_timestamp('now', 'UTC')",
        "coalesce(CAST(value AS TIMESTAMP), to_timestamp('now'))",
        "IF(timestamp > 'now', timestamp, NULL)",
        "IF(timestamp BETWEEN 'yesterday' AND DATE '2024-01-01', timestamp, NULL)",
        "IF(timestamp IN ('now'), timestamp, NULL)",
        "transform(array(1), x -> TIMESTAMP 'now')[0]",
        "CAST(array(value) AS ARRAY<TIMESTAMP>)[0]",
        "CAST(from_json(value, 'a STRING') AS STRUCT<a: TIMESTAMP>).a",
        "from_json(value, 'a TIMESTAMP').a",
        "from_json(value, 'ARRAY<STRUCT<a: TIMESTAMP>>')[0].a",
        "from_csv(value, 'a TIMESTAMP').a",
        "from_xml(value, 'a TIMESTAMP').a",
        "CAST(parse_json(value) AS TIMESTAMP)",
        "try_variant_get(parse_json(value), '$.a', 'array<timestamp>')[0]",
        "timestamp_seconds(unix_timestamp())",
        "CAST(concat('2024-01-01 ', CAST(current_time() AS STRING)) AS TIMESTAMP)",
        "curdate()",
        "localtimestamp()",
        "timestamp_seconds(rand() * 100)",
    ],
)
def test_the_time_of_day_is_refused_however_it_is_spelled(session: Any, time: str) -> None:
    for sql in (
        f"SELECT {time} AS timestamp FROM records",
        f"WITH a AS (FROM (SELECT *, {time} AS t FROM records) |> WHERE t IS NULL) FROM a "
        "|> SELECT key",
    ):
        said = refusal(session, sql, value_format="string")
        assert "depends on the time" in said or "another result" in said


def test_times_that_are_whole_are_not_refused(session: Any) -> None:
    sql = """
        SELECT CAST(from_json(value, 'a TIMESTAMP_NTZ, b DATE, c STRING').c AS TIMESTAMP)
            AS timestamp
        FROM records
        WHERE timestamp > TIMESTAMP '1999-01-01 12:30' AND timestamp > CAST('epoch' AS TIMESTAMP)
            AND timestamp > '2000-01-01T12:30' AND timestamp > DATE '1970-01-01'
            AND from_json(value, 'a TIMESTAMP', map('timestampFormat', 'HH:mm')).a IS NULL
            AND to_timestamp('12:30', 'HH:mm') IS NOT NULL AND current_timezone() = 'UTC'
    """
    (row,) = run(session, settings(sql, value_format="string"), values(b'{"c": "2024-01-01"}'))
    assert row.timestamp.year == 2024


WITHOUT_DATES = [
    b"12:30",
    b"9:15:00",
    b" \t7:00 ",
    b"T12:30",
    b"T1",
    b"\x7f7:00",
    b"1:2:3.4",
    b"now",
]


@pytest.mark.parametrize(
    "time",
    [
        "CAST(value AS TIMESTAMP)",
        "to_timestamp(value)",
        "date_trunc('DAY', value)",
        "transform(array(value), x -> CAST(x AS TIMESTAMP))[0]",
    ],
)
def test_a_record_with_a_time_and_no_date_is_refused(session: Any, time: str) -> None:
    """Spark would take it for a time of today."""
    rows = values(*WITHOUT_DATES, b"2024-05-06 12:30")
    for sql in (
        f"SELECT {time} AS timestamp FROM records",
        f"SELECT * FROM records WHERE {time} > TIMESTAMP '1999-01-01'",
    ):
        found = run(session, settings(sql, value_format="string"), rows)
        reasons = ["the transform fails on it"] * len(WITHOUT_DATES)
        assert [row._reason for row in found] == [*reasons, None]
    tried = time.replace("CAST(", "TRY_CAST(").replace("to_timestamp(", "try_to_timestamp(")
    if tried != time:
        either = f"coalesce({tried}, TIMESTAMP '1999-01-01')"
        sql = f"SELECT CAST({either} AS STRING) AS value FROM records"
        found = run(session, settings(sql, value_format="string"), rows)
        assert {row.value for row in found[:-1]} == {b"1999-01-01 00:00:00"}


@pytest.mark.parametrize(
    "time",
    ["at", "inner.at", "all[0]", "inners[0].at", "map['k']"],
)
def test_a_timestamp_of_a_schema_has_a_date(session: Any, time: str) -> None:
    schema = (
        "at TIMESTAMP, open STRING, inner STRUCT<at: TIMESTAMP>, all ARRAY<TIMESTAMP>, "
        "inners ARRAY<STRUCT<at: TIMESTAMP>>, map MAP<STRING, TIMESTAMP>"
    )
    sql = f"SELECT value.{time} AS timestamp FROM records"
    path = {
        "at": '"at": "{0}"',
        "inner.at": '"inner": {{"at": "{0}"}}',
        "all[0]": '"all": ["{0}"]',
        "inners[0].at": '"inners": [{{"at": "{0}"}}]',
        "map['k']": '"map": {{"k": "{0}"}}',
    }[time]
    whole = "{" + path.format("2024-05-06T12:30:00Z") + ', "open": "12:30"}'
    texts = ["{" + path.format(one) + "}" for one in ("12:30", "T9:00")]
    transform = settings(sql, value_format="json", value_schema=schema)
    found = run(session, transform, values(*(one.encode() for one in (*texts, whole))))
    reason = "value has a time without a date"
    assert [row._reason for row in found] == [reason, reason, None]


@pytest.mark.parametrize(
    "shown",
    [
        "nvl(secrets.K, 'x')",
        "replace(secrets.K, 'a', 'b')",
        "format_string('%s', secrets.K)",
        "upper(secrets.K)",
        "coalesce(secrets.K)",
        "IF(secrets.K LIKE 'a%', 'x', 'y')",
        "CASE WHEN value = 'x' THEN secrets.K END",
        "CAST(length(secrets.K) AS STRING)",
        "base64(secrets.K)",
        "hex(CAST(secrets.K AS BINARY))",
        "md5(secrets.K)",
        "CAST(crc32(secrets.K) AS STRING)",
        "CAST(xxhash64(secrets.K, value) AS STRING)",
        "to_json(struct(secrets.K))",
        "CAST(secrets AS STRING)",
        "array_join(array(secrets.K), '')",
        "transform(array(1), x -> secrets.K)[0]",
        "transform(array(secrets.K), x -> sha2(x, 256))[0]",
        "map('a', secrets.K)['a']",
        "substr(secrets.K, 1, 1)",
        "secrets.K || value",
        "concat_ws(',', secrets.K, value)",
        "sha2(substr(secrets.K, 1, 1), 256)",
        "sha2(CAST(CAST(secrets.K AS INT) AS STRING), 256)",
        "sha2(value, length(secrets.K))",
        "raise_error(secrets.K)",
        "aes_encrypt(secrets.K, 'abcdefghijklmnop', 'ECB')",
        "aes_encrypt(value, 'abcdefghijklmnop', 'CBC', 'PKCS', CAST(secrets.K AS BINARY))",
        "aes_decrypt(value, secrets.K)",
        "mask(secrets.K)",
        "url_encode(secrets.K)",
        "reverse(secrets.K)",
        "elt(1, secrets.K)",
        "get_json_object(concat('{\"a\":\"', secrets.K, '\"}'), '$.a')",
    ],
)
def test_nothing_but_digests_may_use_a_secret(session: Any, shown: str) -> None:
    secrets = {"K": "abcdefghijklmnop"}
    for sql in (
        f"SELECT {shown} AS value FROM records",
        f"SELECT v AS value FROM (SELECT {shown} AS v FROM records)",
        f"SELECT value FROM records WHERE {shown} IS NOT NULL",
        f"SELECT value FROM records LATERAL VIEW explode(array({shown})) AS a",
    ):
        said = refusal(session, sql, value_format="string", secrets=secrets)
        assert "show a secret" in said, sql


def test_digests_may_use_a_secret(session: Any) -> None:
    sql = """
        SELECT concat(
                sha2(concat(secrets.K, value), 256), hex(hmac(unhex(h), CAST(value AS BINARY)))
            ) AS value,
            aes_encrypt(key, CAST(secrets.K AS BINARY), 'ECB') AS key
        FROM (SELECT *, secrets.H AS h FROM records)
        WHERE sha2(concat_ws(',', secrets.K, encode(secrets.H, 'UTF-8')), 512) <> value
    """
    secrets = {"K": "abcdefghijklmnop", "H": "00ff"}
    (row,) = run(session, settings(sql, value_format="string", secrets=secrets), values(b"v"))
    assert row._reason is None
    assert len(row.value) == 128


@pytest.mark.parametrize(
    ("sql", "left_out"),
    [
        ("SELECT * EXCEPT(headers) FROM records", ["headers"]),
        ("SELECT * EXCEPT (KEY, `headers`, offset) FROM records", ["key", "headers"]),
        ("SELECT r.* EXCEPT (r.headers) FROM records AS r", ["headers"]),
        ("FROM records |> DROP headers", ["headers"]),
        ("FROM records |> WHERE key IS NOT NULL |> DROP value, timestamp", ["value", "timestamp"]),
        ("SELECT key, value FROM (SELECT * EXCEPT (headers) FROM records)", ["headers"]),
        (
            "WITH a AS (FROM records |> DROP headers) SELECT upper(value) AS value FROM a",
            ["headers"],
        ),
        ("FROM (SELECT value, headers AS h FROM records) |> DROP h", ["headers"]),
        ("FROM records |> DROP topic, partition", ["topic", "partition"]),
    ],
)
def test_a_part_that_is_left_out_is_refused_as_it_would_stay(
    session: Any, sql: str, left_out: list[str]
) -> None:
    said = refusal(session, sql, value_format="string")
    found = [part for part in outputs.NAMES if f"`{part}` is left out" in said]
    assert found == [part for part in outputs.NAMES if part in left_out]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * EXCEPT (offset) FROM records",
        "FROM records |> DROP secrets, offset",
        "SELECT * EXCEPT (value), upper(value) AS value FROM records",
        "FROM records |> EXTEND upper(value) AS v |> SET value = v |> DROP v",
        "FROM records |> EXTEND upper(value) AS v |> DROP value |> SELECT v AS value",
        "SELECT value, length(value) AS n FROM records |> WHERE n = 1 |> DROP n",
        "SELECT to_json(struct(* EXCEPT (headers, value, secrets))) AS value FROM records",
        "SELECT key, value FROM records",
        "FROM records |> SET headers = filter(headers, h -> false)",
        "FROM records |> SELECT NULL AS key, value",
    ],
)
def test_what_is_left_out_and_is_no_part_or_made_anew_is_not_refused(
    session: Any, sql: str
) -> None:
    transform = settings(sql, value_format="string", secrets={"K": "x"})
    (row,) = run(session, transform, values(b"v"))
    assert row._reason is None
    assert len(row.headers) == (0 if "h -> false" in sql else 1)


def test_a_refusal_is_one_line_and_nothing_is_logged(
    session: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "\n" not in refusal(session, "SELECT keyy FROM records")
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_all_problems_are_told_at_once(session: Any) -> None:
    said = refusal(session, "SELECT uuid() AS value, 5 AS x\nFROM records ORDER BY key")
    assert said.count("\n  ") == 3
    assert "line 1, position 8: uuid()" in said
    assert "line 1, position 25: `x`" in said


def test_aes_with_an_iv_of_its_own_or_without_need_of_one_is_allowed(session: Any) -> None:
    iv = "substring(sha2(concat(topic, `partition`, offset), 256), 1, 12)"
    sql = f"""
        SELECT aes_encrypt(value, secrets.K, 'GCM', 'DEFAULT', {iv}) AS value,
            aes_encrypt(value, secrets.K, 'ECB') AS key
        FROM records
    """
    transform = settings(sql, secrets={"K": "0123456789abcdef"})
    first, second = (run(session, transform, values(b"v"))[0] for _ in range(2))
    assert first == second
    assert b"v" not in (first.key, first.value)


def test_a_schema_that_is_none_is_refused(session: Any) -> None:
    said = refusal(session, "SELECT key FROM records", value_format="json", value_schema="a intt")
    assert "its schema is not Spark DDL" in said


def test_secrets_are_in_no_plan(session: Any) -> None:
    sql = (
        "SELECT sha2(concat(secrets.SALT, key), 256) AS key FROM records "
        "WHERE key != sha2(secrets.SALT, 256)"
    )
    transform = settings(sql, key_format="string", secrets={"SALT": "s3cret-salt"})
    prepared = prepare(session, transform)
    schema = prepared.input
    assert schema["secrets"].dataType.names == ["SALT"]
    frame = prepared.apply(session.range(1).mapInArrow(lambda batches: batches, schema))
    execution = frame._jdf.queryExecution()
    assert "s3cret-salt" not in execution.toString()
    assert "s3cret" not in repr(prepared)
    (row,) = run(session, transform, values(b"v"))
    assert len(row.key) == 64


def test_the_session_is_its_own_and_has_the_fixed_settings(session: Any) -> None:
    prepared = prepare(session, settings("SELECT key FROM records"))
    own = prepared.apply(rows_of(session, prepared, [])).sparkSession
    assert {key: own.conf.get(key) for key in SESSION} == SESSION
    assert not session.catalog.tableExists("records")


FUNCTIONS = """
from pyspark.sql import functions as sf

def mask(records):
    masked = records.withColumn("value", sf.concat(sf.lit("***"), sf.right("value", sf.lit(2))))
    return masked.where(sf.col("key") != "b").drop("offset")

def lines(records):
    return records.select("key", sf.explode(sf.split("value", ",")).alias("value"))

def nothing(records):
    return None

def random(records):
    return records.where(sf.rand() > 0.5)

def joined(records):
    return records.join(records.sparkSession.range(3), "id")

def without_headers(records):
    return records.drop("headers")

def today(records):
    return records.filter("timestamp > TIMESTAMP 'today'")

def cast_now(records):
    return records.withColumn("timestamp", sf.lit("now").cast("timestamp"))

def other(records):
    return records.sparkSession.range(3).select(sf.col("id").cast("string").alias("key"))

def crossed(records):
    return records.crossJoin(records.sparkSession.range(3)).select("key")

def broken(records):
    return records.undefined_thing + 1

def user_defined(records):
    # Nulls kill each of these.
    import pandas as pd
    import pyarrow as pa

    mirror = sf.udf(lambda text: text[::-1], useArrow=True)
    twice = sf.udf(lambda text: text.upper() * 2, useArrow=False)

    @sf.pandas_udf("string")
    def exclaimed(texts: pd.Series) -> pd.Series:
        assert texts.notna().all()
        return texts + "!"

    @sf.arrow_udf("string")
    def stripped(texts: pa.Array) -> pa.Array:
        assert not texts.null_count
        return pa.compute.utf8_trim_whitespace(texts)

    value = exclaimed(stripped(twice(text=mirror("value"))))
    return records.where(mirror("value") != "b").withColumn("value", value)

def random_udf(records):
    return records.withColumn("value", sf.udf(lambda text: text).asNondeterministic()("value"))
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_functions.py").write_text(FUNCTIONS)
    (tmp_path / "my_broken.py").write_text("import not_there_at_all\n")
    monkeypatch.delitem(__import__("sys").modules, "my_functions", raising=False)


@pytest.mark.usefixtures("functions")
def test_a_function_from_data_frame_to_data_frame(session: Any) -> None:
    formats = {"key_format": "string", "value_format": "string"}
    mask = settings(python="my_functions:mask", **formats)
    rows = [record(0, b"12345"), record(1, b"12345", key=b"b"), record(2, None)]
    found = run(session, mask, rows)
    assert [(row.offset, row.value) for row in found] == [(0, b"***45"), (2, None)]
    assert prepare(session, mask).sql is None
    lines = settings(python="my_functions:lines", **formats)
    assert [row.value for row in run(session, lines, values(b"a,b", b"c"))] == [b"a", b"b", b"c"]


@pytest.mark.slow
@pytest.mark.usefixtures("functions")
def test_user_defined_functions_are_asked_about_records_only(session: Any) -> None:
    transform = settings(python="my_functions:user_defined", value_format="string")
    rows = [
        *values(b" ax", b"b", None),
        record(3, b"\xff"),
        record(4, None, _reason="it cannot be decoded"),
    ]
    found = run(session, transform, rows)
    assert [(row.offset, row.value, row._reason) for row in found] == [
        (0, b"XA XA!", None),
        (2, None, None),
        (3, None, "value is not UTF-8"),
        (4, None, "it cannot be decoded"),
    ]


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("not_there_at_all:f", "not_there_at_all cannot be imported: ModuleNotFoundError"),
        ("my_broken:f", "my_broken cannot be imported: ModuleNotFoundError: No module named"),
        ("my_functions:absent", "the module my_functions has no absent"),
        ("my_functions:nothing", "returned a NoneType, not a DataFrame"),
        ("my_functions:random", "my_functions.py:15: rand() gives another result"),
        ("my_functions:joined", "my_functions:joined: "),
        ("my_functions:other", "another table than the view `records`"),
        ("my_functions:without_headers", "`headers` is left out"),
        ("my_functions:today", "depends on the time of evaluation"),
        ("my_functions:cast_now", "depends on the time of evaluation"),
        ("my_functions:crossed", "a join cannot be used"),
        ("my_functions:broken", "my_functions:broken: "),
        ("my_functions:random_udf", "gives another result each time"),
    ],
)
def test_a_function_that_cannot_be_used(session: Any, function: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"line 7") as caught:
        prepare(session, settings(python=function))
    assert said in str(caught.value)


def test_rules_may_refuse_records_and_say_which_paths_they_saw(session: Any) -> None:
    rules = optional("mask value.$.card keep last 4; drop value.$.email")
    texts = [b'{"card": "4111111111111111", "email": "x"}', b'{"a": 1}', b'{"a": 1', None]
    found = run(session, settings(rules=rules, value_format="json"), values(*texts))
    assert [(row.offset, row._seen) for row in found] == [(0, 3), (1, 0), (2, 0), (3, 0)]
    assert json.loads(found[0].value) == {"card": "************1111"}
    assert found[1].value == texts[1]
    assert "is not JSON" in found[2]._reason
    assert (found[3].value, found[3]._reason) == (None, None)


def test_rules_that_tokenise_go_through_python(session: Any) -> None:
    transform = settings(
        rules="tokenise value.$.card with k",
        value_format="json",
        secrets={"k": "00112233445566778899aabbccddeeff"},
    )
    texts = [b'{"card": "4111111111111111"}', None, b"no JSON"]
    found = run(session, transform, values(*texts))
    card = json.loads(found[0].value)["card"]
    assert len(card) == 16
    assert card.isdigit()
    assert card != "4111111111111111"
    assert found[1].value is None
    assert found[2]._reason is not None


_DIGITS = "CAST(value AS INT)"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT CAST({_DIGITS} AS STRING) AS value FROM records",
        f"SELECT * FROM records WHERE {_DIGITS} >= 0",
        f"SELECT key AS key, CAST(line AS STRING) AS value FROM records "
        f"LATERAL VIEW OUTER explode(array({_DIGITS})) AS line",
        f"SELECT explode(array(CAST({_DIGITS} AS STRING))) AS value FROM records",
        f"WITH read AS (SELECT *, {_DIGITS} AS n FROM records) "
        "SELECT CAST(n + 1 AS STRING) AS value FROM read WHERE n >= 0",
        f"SELECT value AS value, CAST({_DIGITS} AS BIGINT) * 1000000000000000 AS timestamp "
        "FROM records",
        f"SELECT value AS value, {_DIGITS} * 2147483648L AS `partition` FROM records",
    ],
    ids=["projected", "condition", "lateral", "explode", "nested", "timestamp", "partition"],
)
def test_a_record_on_which_the_query_throws_is_refused_and_no_other(session: Any, sql: str) -> None:
    """The job goes on; the reason says nothing of the record."""
    rows = values(b"0", b"SECRET-7", b"99999", b"0")
    found = run(session, settings(sql, value_format="string"), rows)
    reasons = {row.offset: row._reason for row in found}
    assert reasons[0] is None
    assert reasons[3] is None
    assert reasons[1] == "the transform fails on it"


@pytest.mark.timeout(120)
def test_a_cast_counts_no_digits_for_hours(session: Any) -> None:
    """Nor half a minute, as Java does for as many digits as a record has room for."""
    long = b"1" * 900_000
    given = (b"1.5", b"1e-99999999", b"1e99999999", b"-2E+00099999999", long, b" 2 ")
    sql = "SELECT CAST(CAST(value AS DECIMAL(10, 2)) AS STRING) AS value FROM records"
    began = time.monotonic()
    rows = run(session, settings(sql, value_format="string"), values(*given))
    assert [row.value for row in rows if row._reason is None] == [b"1.50", b"0.00", b"2.00"]
    assert [row.offset for row in rows if row._reason is not None] == [2, 3, 4]
    sql = sql.replace("CAST(value", "try_cast(value")
    rows = run(session, settings(sql, value_format="string"), values(*given))
    assert [row.value for row in rows] == [b"1.50", b"0.00", None, None, None, b"2.00"]
    rules = "drop record where value.$.a is 7"
    documents = [b'{"a":"%s"}' % text for text in (long, b"7", b"7.0", b"8")]
    rows = run(session, settings(None, rules=rules, value_format="json"), values(*documents))
    assert [row.offset for row in rows] == [0, 3]
    took_s = time.monotonic() - began
    assert took_s < 15, "18 s for the cast of one such text alone"
