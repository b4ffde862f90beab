"""What the source worker makes of records without Spark is what Spark makes of them, to the byte.

As test_rules_shortcut.py, for queries: thousands of texts go both ways. And queries, settings and
formats that are not beyond doubt have no shortcut.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from causeway.transform.plan import prepare
from tests.harness.hostile import LEAVES, NAMES, compare, compare_chunks
from tests.harness.transforms import settings, spark_session

pytestmark = pytest.mark.integration

KEYS = [b"k", "ключ".encode(), b"\xff", None, b'{"name":"Ada","id":7}', b"", b"kk%", b"3"]


def member(*names: str, part: str = "value") -> str:
    return f"get_json_object({part}, '$.{'.'.join(names)}')"


QUERIES = [
    f"{member('country')} <> 'US'",
    f"{member('country')} = 'US' OR {member('email')} > 'b' OR key IS NULL",
    f"NOT ({member('name')} IN ('x', 'name', '7', 'true') AND {member('id')} <= '7')",
    f"{member('name')} NOT IN ('x', NULL) OR {member('id')} IS NOT NULL",
    f"{member('address', 'name')} IS NULL AND coalesce({member('note')}, key, 'z') <=> 'z'",
    f"{member('id')} BETWEEN -12 AND 7 OR {member('note')} BETWEEN 'a' AND 'z'",
    f"{member('id')} >= -12 AND {member('id')} <= 7L OR {member('born')} LIKE '18%-12%'",
    f"value IS NULL OR {member('email')} LIKE '%a%@%.org' OR {member('name')} LIKE 'x'",
    f"value IS NOT NULL AND topic = 't' AND partition >= 3 AND {member('id')} IS NULL",
    f"startswith({member('name')}, {member('note')}) OR endswith({member('email')}, 'org')",
    "contains(key, 'k') OR offset > 2000L",
    "key >= '3' AND key < 'ключа'",
    "topic <> 't'",
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def prepared(session: Any, condition: str, **fields: Any) -> Any:
    fields = {"value_format": "json", "key_format": "string", **fields}
    transform = settings(f"SELECT * FROM records WHERE {condition}", **fields)
    return transform, prepare(session, transform)


@pytest.mark.parametrize("condition", QUERIES)
def test_nothing_differs_from_what_spark_makes(session: Any, condition: str) -> None:
    transform, found = prepared(session, condition)
    assert found.work.shortcut is not None
    assert compare(session, transform, found.work.shortcut.open({}), KEYS) > 600


def random_condition(rng: random.Random, depth: int) -> str:
    if depth and rng.random() < 0.8:
        left, right = random_condition(rng, depth - 1), random_condition(rng, depth - 1)
        return rng.choice(
            (
                f"({left} AND {right})",
                f"({left} OR {right})",
                f"NOT {left}",
                f"({left} <=> {right})",
            )
        )
    names = ("name", "email", "id", "born", "country", "note", "x", "é")[: rng.choice((5, 6, 7))]
    x, y = (member(*rng.choices(names, k=rng.choice((1, 1, 2)))) for _ in "xy")
    text = rng.choice(("''", "'7'", "'EU'", "'x'", "'true'", "'Ω, é, ß, ǅ'", "NULL", "'ada@'"))
    return rng.choice(
        (
            *(f"({x} {sign} {text})" for sign in ("=", "<>", "<", ">=", "<=>")),
            f"({x} > {y})",
            f"({x} IN ({text}, 'US', '-12'))",
            f"({x} IS NULL)",
            f"contains({x}, {y})",
            f"({x} LIKE '%a%')",
        )
    )


@pytest.mark.parametrize("seed", range(6))
def test_no_condition_differs_however_its_parts_are_put_together(session: Any, seed: int) -> None:
    condition = random_condition(random.Random(seed), 4)
    transform, found = prepared(session, condition)
    assert found.work.shortcut is not None, condition
    assert compare(session, transform, found.work.shortcut.open({}), KEYS) > 600, condition


@pytest.mark.parametrize(
    ("condition", "format"),
    [
        (f"{member('country')} <> 'US' OR {member('name', part='key')} = 'Ada'", "json"),
        (f"{member('name', part='key')} IS NULL OR {member('country')} IS NULL", "string"),
        (f"{member('country')} <> 'US' AND key IS NOT NULL", "binary"),
    ],
)
def test_a_chunk_becomes_the_same_with_and_without_the_shortcut(
    session: Any, condition: str, format: str
) -> None:
    _, found = prepared(session, condition, key_format=format)
    assert found.work.shortcut is not None
    compare_chunks(session, found, {}, condition)


@pytest.mark.parametrize(
    "condition",
    [
        "value = 'x'",  # whole documents
        "length(value) > 7",
        f"{member('id')} > 1.5",
        f"{member('id')} + 1 = 8",
        "get_json_object(value, '$.a[0]') = 'x'",
        "get_json_object(value, '$.*') = 'x'",
        "get_json_object(value, '$[\\'a\\']') = 'x'",
        "get_json_object(value, key) = 'x'",
        "get_json_object(key, '$.a') = key",
        f"{member('name')} COLLATE UTF8_LCASE = 'ada'",
        f"{member('name')} LIKE 'a_b'",
        f"{member('name')} LIKE 'a!%b' ESCAPE '!'",
        f"{member('name')} RLIKE 'a'",
        f"try_to_number({member('id')}, '99') = 7",
        "size(headers) > 0",
        "timestamp > TIMESTAMP '2024-01-01'",
    ],
)
def test_what_is_not_beyond_doubt_has_no_shortcut(session: Any, condition: str) -> None:
    _, found = prepared(session, condition)
    assert found.work.shortcut is None


def test_what_is_made_anew_or_looked_at_otherwise_has_no_shortcut(session: Any) -> None:
    for query in (
        f"SELECT array({member('country')}) AS value FROM records",
        "SELECT struct(struct(1 AS a) AS b) AS value FROM records",
        "SELECT struct(1.5D AS a) AS value FROM records",
        "SELECT value AS key FROM records",
        f"SELECT value, {member('country')} AS topic FROM records",
        "SELECT value FROM records LATERAL VIEW explode(array(1, 2)) AS one",
        f"WITH r AS (SELECT * FROM records WHERE {member('id')} = '7') SELECT * FROM r",
        f"WITH r AS (FROM records |> WHERE {member('id')} = '7') FROM r |> WHERE key > 'a'",
        f"SELECT value, length({member('country')}) AS n FROM records |> WHERE n = 2 |> DROP n",
    ):
        assert prepare(session, settings(query, value_format="json")).work.shortcut is None, query


@pytest.mark.parametrize(
    "query",
    [
        f"* FROM records WHERE coalesce({member('name')}, raise_error('no name')) <> 'x'",
        f"coalesce({member('name')}, CAST(assert_true(key = 'k') AS STRING)) AS value FROM records",
        "struct() AS value FROM records",
    ],
)
def test_what_throws_or_makes_nothing_has_no_shortcut(session: Any, query: str) -> None:
    transform = settings(f"SELECT {query}", value_format="json", key_format="string")
    assert prepare(session, transform).work.shortcut is None


def less_than_nan(records: Any) -> Any:
    from pyspark.sql import functions as sf

    return records.filter(sf.col("value.x") < sf.lit(float("nan")))


def in_no_list(records: Any) -> Any:
    return records.filter(~records.value.getField("name").isin([]))


def with_settings_of_its_own(records: Any) -> Any:
    records.sparkSession.conf.set("spark.sql.caseSensitive", "true")
    return records.filter("value.id = 7")


@pytest.mark.parametrize("function", [less_than_nan, in_no_list, with_settings_of_its_own])
def test_what_only_a_function_can_say_has_no_shortcut(session: Any, function: Any) -> None:
    path = f"{__name__}:{function.__name__}"
    transform = settings(python=path, value_format="json", value_schema=SCHEMA)
    assert prepare(session, transform).work.shortcut is None


def test_projections_on_the_way_are_followed(session: Any) -> None:
    query = (
        f"FROM (SELECT *, {member('country')} AS country, key AS k FROM records) AS r "
        "|> WHERE country = 'US' |> EXTEND coalesce(country, k) AS both |> WHERE both <> 'x' "
        "|> SELECT value, key"
    )
    transform = settings(query, value_format="json", key_format="string")
    shortcut = prepare(session, transform).work.shortcut
    assert shortcut is not None
    assert compare(session, transform, shortcut.open({}), KEYS) > 600


SCHEMA = "name STRING, id INT, note STRING, big BIGINT, ok BOOLEAN, x DOUBLE"
SECRETS = {"pepper": "a pepper; è"}
MADE = [
    "value FROM records WHERE value.x > 100.5 OR value.x = value.id",
    "struct(value.x > 0.3 AS a, value.x = value.big AS b, value.x BETWEEN 0 AND 1000 AS c) "
    "AS value FROM records",
    "struct(value.name AS name, value.id AS id, value.note AS n, value.big AS b, value.ok AS o) "
    "AS value FROM records",
    "struct(mask(value.name) AS name, sha2(concat(secrets.Pepper, value.note), 256) AS note, "
    "'x-y' AS x, mask(value.note, NULL, 'y', '#', '-') AS m, value.id > value.big AS g) AS value "
    "FROM records WHERE value.ok IS NOT NULL OR value.id > 7",
    "concat(value.name, ':', key) AS key, struct(value.ok AS ok) AS value FROM records",
    "sha2(key, 512) AS key, sha2(value.note, 224) AS value FROM records WHERE value.id <> 0",
    "struct(value.id AS id, offset AS at, topic AS t, coalesce(value.name, key) AS n) AS value "
    "FROM records WHERE value IS NULL OR NOT value.ok",
]


def fitting(count: int) -> list[bytes | None]:
    """Texts of which most fit SCHEMA."""
    rng = random.Random(30)
    texts = [one for one in LEAVES if one[:1] == '"']
    numbers = ["0", "7", "-1", "-0", "2147483647", "2147483648", "-2147483648", "-2147483649"]
    leaves = {
        "name": texts,
        "id": numbers[:5] * 9 + numbers,
        "note": texts,
        "big": [*numbers, *(str(n) for n in (2**63 - 1, -(2**63)))] * 9 + [str(2**63)],
        "ok": ["true", "false"],
        "x": [
            *numbers,
            "0.1",
            "12.50",
            "1e3",
            "-0.0",
            "100.5",
            "1E30",
            "5e-324",
            "1E308",
            "0.30000000000000004",
        ],
    }

    def document() -> bytes:
        pairs = []
        for name, known in leaves.items():
            if (luck := rng.random()) < 0.85:
                pairs.append((name, rng.choice(known)))
            elif luck < 0.93:
                pairs.append((name, "null"))
            elif luck < 0.95:
                pairs.append((name.upper(), rng.choice(known)))
        if rng.random() < 0.1:
            pairs.append((rng.choice((*leaves, "more", "__misfit", "")), rng.choice(LEAVES)))
        if rng.random() < 0.5:
            rng.shuffle(pairs)
        gap = rng.choice(("", "", " ", "\n"))
        return ("{" + ",".join(f'"{name}":{gap}{x}{gap}' for name, x in pairs) + "}").encode()

    return [None, b"{}", b"null", b"[]", *(document() for _ in range(count))]


@pytest.mark.parametrize("query", MADE)
def test_what_is_made_by_a_schema_does_not_differ(session: Any, query: str) -> None:
    transform = settings(
        f"SELECT {query}",
        value_format="json",
        value_schema=SCHEMA,
        key_format="string",
        secrets=SECRETS,
    )
    found = prepare(session, transform)
    assert found.work.shortcut is not None
    treat = found.work.shortcut.open(SECRETS)
    assert compare(session, transform, treat, KEYS, fitting(4_000)) > 1_500
    compare_chunks(session, found, SECRETS, query, fitting(701))


def test_members_come_out_as_texts_as_spark_writes_them(session: Any) -> None:
    columns = ", ".join(
        f"{member(*path)} AS {'_'.join(path)}"
        for path in (*((name,) for name in NAMES), ("address", "id"), ("address", "address", "id"))
    )
    transform = settings(f"SELECT struct({columns}) AS value FROM records", value_format="json")
    shortcut = prepare(session, transform).work.shortcut
    assert shortcut is not None
    assert compare(session, transform, shortcut.open({}), KEYS) > 600
    for path in ("id", "note"):  # and alone, so that fewer are odd
        transform = settings(f"SELECT {member(path)} AS value FROM records", value_format="json")
        shortcut = prepare(session, transform).work.shortcut
        assert shortcut is not None
        assert compare(session, transform, shortcut.open({}), KEYS) > 600


def test_every_condition_is_null_where_it_is_so_to_spark(session: Any) -> None:
    rng = random.Random(5)
    conditions = [random_condition(rng, 2) for _ in range(60)]
    columns = ", ".join(f"{one} AS c{at}" for at, one in enumerate(conditions))
    transform = settings(f"SELECT struct({columns}) AS value FROM records", value_format="json")
    shortcut = prepare(session, transform).work.shortcut
    assert shortcut is not None
    assert compare(session, transform, shortcut.open({}), KEYS) > 300


@pytest.mark.parametrize(
    "schema", ["a FLOAT", "a ARRAY<INT>", "a INT NOT NULL", "a DATE", "`a b` INT"]
)
def test_schemas_that_are_not_beyond_doubt_have_no_shortcut(session: Any, schema: str) -> None:
    query = "SELECT * FROM records WHERE value IS NOT NULL"
    transform = settings(query, value_format="json", value_schema=schema)
    assert prepare(session, transform).work.shortcut is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.legacy.json.allowEmptyString.enabled", "true"),
        ("spark.sql.optimizer.maxIterations", "99"),  # no one knows
    ],
)
def test_settings_that_might_change_what_a_query_means_leave_it_to_spark(
    session: Any, key: str, value: str
) -> None:
    conf = session.sparkContext._jsc.sc().conf()
    conf.set(key, value)
    try:
        assert prepared(session, f"{member('country')} <> 'US'")[1].work.shortcut is None
    finally:
        conf.remove(key)
