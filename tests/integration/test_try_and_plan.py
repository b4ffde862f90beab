"""`causeway try` and `plan` with transforms, as a person uses them, on real records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.customers import Customers
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.schema_registry import RegistryServer

pytestmark = pytest.mark.integration

PEPPER = "pepper-of-32-bytes-or-somewhat-more"
SQL = (
    "SELECT regexp_replace(value, '[0-9]{4}', '****') AS value,"
    " CASE WHEN value LIKE '%route%' THEN 'elsewhere' END AS topic,"
    " CASE WHEN value LIKE '%boom%' THEN CAST(value AS INT) END AS partition"
    " FROM records WHERE value NOT LIKE '%drop%'"
)


@pytest.fixture
def file(source_cluster: LocalCluster, prefix: str, tmp_path: Path) -> Path:
    """Nobody listens where its target is said to be."""
    path = tmp_path / "mm2.properties"
    path.write_text(
        f"""clusters = a, b
a.bootstrap.servers = {source_cluster.bootstrap}
b.bootstrap.servers = localhost:1
a->b.enabled = true
topics = {prefix}.*
a->b.causeway.transforms = cards, mails, idle
a->b.causeway.transform.mails.topics = {prefix}mails
a->b.causeway.transform.mails.secret.pepper = {PEPPER}
a->b.causeway.transform.mails.rules = hash value.$.mail with pepper; \\
    mask value.$.card keep last 4; drop record where value.$.country is 'DE' optional
a->b.causeway.transform.cards.topics = {prefix}cards
a->b.causeway.transform.cards.value.format = string
a->b.causeway.transform.cards.sql = {SQL}
a->b.causeway.transform.idle.topics = nothing-like-it
a->b.causeway.transform.idle.sql = SELECT * FROM records
emit.heartbeats.enabled = false
"""
    )
    return path


@pytest.mark.slow
def test_records_before_and_after(file: Path, source: KafkaTools, prefix: str) -> None:
    topic = prefix + "cards"
    source.create_topic(topic)
    values = [b"old 1111", b"card 1234", b"plain", b"drop 1", b"route 5678", b"\xff", b"boom", None]
    source.produce(
        topic,
        [Outgoing(value=v, key=b"k", headers=[("h", b"x")], partition=0) for v in values],
        codec="zstd",
    )

    tried = causeway("try", file, "--topic", topic, "--limit", "7", "--json")

    assert tried.code == 7, tried.err
    assert (tried.json["transform"], tried.json["link"]) == ("cards", "a->b")
    records = {one["offset"]: one for one in tried.json["records"]}
    assert list(records) == [1, 2, 3, 4, 5, 6, 7]
    outcomes = [records[offset]["outcome"] for offset in records]
    assert outcomes == ["changed", "same", "dropped", "changed", "refused", "fails", "same"]
    card, route = records[1], records[4]
    assert card["before"]["value"] == "card 1234"
    (made,) = card["after"]
    assert (made["value"], made["key"], made["headers"]) == ("card ****", "k", [["h", "x"]])
    assert made["topic"] == f"a.{topic}"
    assert (route["after"][0]["topic"], route["after"][0]["partition"]) == ("a.elsewhere", None)
    assert records[5]["before"]["value"] == {"base64": "/w=="}
    assert "UTF-8" in records[5]["reason"]
    assert records[6]["reason"] == "CAST_INVALID_INPUT"
    assert "boom" not in tried.err, "what Spark says of it quotes the record"
    assert records[6]["after"] == []
    assert records[7]["after"][0]["value"] is None

    shown = causeway("try", file, "--topic", topic, "--limit", "2", "--from", "0")

    assert shown.code == 0, shown.err
    assert "transform cards (sql), 2 records, 2 changed" in shown.out
    assert "old 1111" in shown.out
    assert "card ****" in shown.out
    assert "plain" not in shown.out


@pytest.mark.slow
def test_rules_on_real_records(file: Path, source: KafkaTools, prefix: str) -> None:
    topic = prefix + "mails"
    source.create_topic(topic)
    values = [
        b'{"mail":"a@b.c","card":"1234-5678","n":1.50}',
        b'{"country":"DE","mail":"d@e.f"}',
        b"no JSON",
    ]
    source.produce(topic, [Outgoing(value=value, partition=0) for value in values])

    tried = causeway("try", file, "--topic", topic, "--json")

    assert tried.code == 7, tried.err
    first, second, third = tried.json["records"]
    made = json.loads(first["after"][0]["value"])
    assert made["card"] == "****-5678"
    assert made["mail"] not in ("a@b.c", None)
    assert made["n"] == 1.5
    assert (second["outcome"], third["outcome"]) == ("dropped", "refused")
    assert PEPPER not in tried.out + tried.err
    assert "secrets.pepper" in tried.json["sql"]


@pytest.mark.slow
def test_avro_is_shown_by_its_schema(
    file: Path, source: KafkaTools, schema_registry: RegistryServer, prefix: str
) -> None:
    """A page for people, and with `--json` for programs: neither has bytes that nobody reads."""
    customers = Customers(schema_registry, prefix)
    first, second = customers.avro_ids
    source.create_topic(customers.avro)
    values = [customers.by_avro(1, 0), customers.by_avro(3, 1), b"no Avro"]
    source.produce(customers.avro, [Outgoing(value=value, partition=0) for value in values])
    name = "a->b.causeway.transform.avro"
    text = file.read_text().replace("cards, mails", "cards, avro, mails")
    file.write_text(
        f"""{text}{name}.topics = {customers.avro}
{name}.value.format = avro
{name}.registry.url = {schema_registry.url}
{name}.rules = mask value.$.mail keep domain
"""
    )

    tried = causeway("try", file, "--topic", customers.avro, "--json")

    assert tried.code == 7, tried.err
    one, other, bad = tried.json["records"]
    masked = {"id": 2**60 + 3, "mail": "****@b.c", "card": "4111-0003", "note": "note ü 3"}
    assert one["before"]["value"]["schema_id"] == one["after"][0]["value"]["schema_id"] == first
    assert one["before"]["value"]["json"]["mail"] == "ann1@b.c"
    assert other["before"]["value"] == {
        "schema_id": second,
        "json": masked | {"mail": "ann3@b.c"},
    }
    assert other["after"][0]["value"] == {"schema_id": second, "json": masked}
    assert (bad["outcome"], bad["before"]["value"]) == ("refused", "no Avro")

    shown = causeway("try", file, "--topic", customers.avro, "--from", "0", "--limit", "1")

    assert shown.code == 0, shown.err
    assert f"(schema {first})" in shown.out
    assert '"mail":"ann1@b.c"' in shown.out
    assert '"mail":"****@b.c"' in shown.out


def test_what_is_not_transformed_is_said_without_spark(
    file: Path, source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "plain"
    source.create_topic(topic)

    shown = causeway("try", file, "--topic", topic)

    assert (shown.code, shown.out) == (
        0,
        f"a->b has no transform for {topic}: it is mirrored unchanged\n",
    )


@pytest.mark.slow
def test_what_is_wrong_with_transforms_is_told_as_of_a_bad_file(file: Path) -> None:
    text = file.read_text().replace("SELECT * FROM", "SELECT count(*) AS value FROM")
    file.write_text(text.replace("regexp_replace(value", "regexp_replace(valeu"))

    told = causeway("plan", file)

    assert told.code == 2
    assert "a->b.causeway.transform.cards.sql (line 13)" in told.err
    assert "valeu" in told.err
    assert "a->b.causeway.transform.idle.sql (line 15)" in told.err


@pytest.mark.slow
def test_a_plan_says_what_becomes_of_each_topic(
    file: Path, source: KafkaTools, target_cluster: LocalCluster, prefix: str
) -> None:
    source.create_topic(prefix + "cards")
    source.create_topic(prefix + "plain")
    text = file.read_text().replace("localhost:1", target_cluster.bootstrap)
    file.write_text(f"{text}replication.factor = 1\n")

    shown, told = causeway("plan", file), causeway("plan", file, "--json")

    assert (shown.code, told.code) == (0, 0), shown.err + told.err
    rows = [line.split() for line in shown.out.splitlines()]
    (cards,) = [row for row in rows if row[:1] == [prefix + "cards"]]
    (plain,) = [row for row in rows if row[:1] == [prefix + "plain"]]
    assert cards[2:5] == ["by", "cards", "(sql)"]
    assert plain[2:3] == ["unchanged"]
    assert f"  {SQL}" in shown.out
    assert "transform idle matches no mirrored topic" in shown.out
    (link,) = told.json["links"]
    by_topic = {
        one["topic"]: one["transform"]
        for one in link["mirrored"]
        if one["topic"].startswith(prefix)  # others' heartbeats are mirrored too
    }
    assert by_topic == {prefix + "cards": "cards", prefix + "plain": None}
    first, mails, second = link["transforms"]
    assert (first["transform"], first["sql"], first["topics"]) == (
        "cards",
        SQL,
        [prefix + "cards"],
    )
    assert "secrets.pepper" in mails["sql"]
    assert PEPPER not in shown.out + told.out
    assert first["replaces"] == ["partition", "topic", "value"]
    assert (second["transform"], second["topics"]) == ("idle", [])
