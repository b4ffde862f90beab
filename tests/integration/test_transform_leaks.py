"""What a transform takes away is nowhere but on the source.

It is looked for, byte by byte, in the target's logs on disk, in all that was printed, on Spark's
pages and in its event log.

Among the records are some that cannot be parsed, some on which a query throws, and some for which
a Python function returns what is not of its type.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.files import files_below
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, arguments_of, mm2_file, status_of
from tests.harness.spark_pages import spark_shows
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

# Each kind of function returns the record's text where its type is another one.
FUNCTIONS = """
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as sf


def _made(records, function):
    return records.select(function("value").cast("string").alias("value"))


def pickled(records):
    return _made(records, sf.udf(lambda value: value, "struct<a: int>", useArrow=False))


def arrow(records):
    return _made(records, sf.udf(lambda value: value, "int", useArrow=True))


def series(records):
    def same(values: pd.Series) -> pd.Series:
        return values

    return _made(records, sf.pandas_udf(same, "bigint"))


def arrays(records):
    def same(values: pa.Array) -> pa.Array:
        return values

    return _made(records, sf.arrow_udf(same, "bigint"))
"""
KINDS = ("pickled", "arrow", "series", "arrays")


@pytest.mark.slow
def test_no_byte_of_a_marked_field_leaves(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marked, pepper = f"Marked{uuid.uuid4().hex}", f"Pepper{uuid.uuid4().hex}"
    ruled, queried = prefix + "ruled", prefix + "queried"
    source.create_topics([ruled, queried], 1)
    good = [_customer(number, f"{marked}-{number}") for number in range(100)]
    for topic in (ruled, queried):
        source.produce(topic, [*good[:50], f'{{"name": "{marked}'.encode(), *good[50:]])
    source.produce(queried, [_customer(f"{marked}", "none"), *good])
    for kind in KINDS:
        source.create_topic(prefix + kind, 1)
        source.produce(prefix + kind, [Outgoing(value=marked.encode(), partition=0)])
    led = prefix + "led"
    source.create_topic(led, 1)
    nowhere = [f"{marked} x", f"__{marked}", f"B.{marked}", f"{marked}.heartbeats", marked * 9]
    source.produce(
        led, [Outgoing(value=each.encode(), partition=0) for each in (*nowhere, "1000", "eu")]
    )
    (tmp_path / "theirs.py").write_text(FUNCTIONS)
    events = tmp_path / "events"
    events.mkdir()
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"A->B.causeway.transforms = rules, query, led, {', '.join(KINDS)}",
        f"A->B.causeway.transform.led.topics = {led}",
        "A->B.causeway.transform.led.value.format = string",
        "A->B.causeway.transform.led.sql = SELECT IF(value = '1000', NULL, IF(value = 'eu', "
        f"'{prefix}eu', value)) AS topic, IF(value = '1000', 1000, NULL) AS partition FROM records",
        "A->B.causeway.transform.led.on.error = dead-letter",
        f"A->B.causeway.transform.rules.topics = {ruled}",
        "A->B.causeway.transform.rules.rules = hash value.$.name with pepper",
        "A->B.causeway.transform.rules.secret.pepper = ${env:PEPPER}",
        "A->B.causeway.transform.rules.on.error = dead-letter",
        f"A->B.causeway.transform.query.topics = {queried}",
        "A->B.causeway.transform.query.value.format = json",
        "A->B.causeway.transform.query.sql = SELECT to_json(named_struct('id', "
        "CAST(get_json_object(value, '$.id') AS INT) + 1)) AS value FROM records",
        "A->B.causeway.transform.query.on.error = dead-letter",
        *(
            f"A->B.causeway.transform.{kind}.{line}"
            for kind in KINDS
            for line in (
                f"topics = {prefix}{kind}",
                "value.format = string",
                f"python = theirs:{kind}",
                "on.error = dead-letter",
            )
        ),
        "spark.ui.enabled = true",
        "spark.ui.port = 0",
        "spark.log.level = ALL",
        "spark.eventLog.enabled = true",
        "spark.eventLog.compress = false",
        f"spark.eventLog.dir = file:{events}",
    )
    environment = {"PEPPER": pepper, "CAUSEWAY_DEBUG": "1", "PYTHONPATH": str(tmp_path)}
    monkeypatch.setenv("PEPPER", pepper)
    with Running("run", file, directory=tmp_path, environment=environment) as run:
        await_until(
            lambda: (
                target.partition_count(f"A.{queried}") is not None
                and target.partition_count(f"A.{ruled}") is not None
                and target.offsets(f"A.{ruled}")[0] == 100
                and target.offsets(f"A.{queried}")[0] == 200
            ),
            240,
            "the transformed records",
        )
        for kind in KINDS:
            await_until(lambda kind=kind: _letters(source, kind), 240, f"the dead letter of {kind}")  # type: ignore[misc]
        await_until(
            lambda: (
                target.partition_count(f"A.{prefix}eu") is not None
                and target.offsets(f"A.{prefix}eu")[0] == 1
            ),
            240,
            "the record that is led on",
        )
        statuses = json.dumps(status_of(file))
        assert all(
            each["state"] == "running" for each in json.loads(statuses)["A->B"]["partitions"]
        )
        shown = dict(spark_shows(run))
        shown["status"] = statuses
        assert any("sql" in page for page in shown)
        arguments = " ".join(map(arguments_of, run.processes()))
        assert run.stop() == 0, run.log
    shown["the log"] = run.log
    shown["arguments"] = arguments
    shown |= {str(path): path.read_text() for path in events.rglob("*") if path.is_file()}
    assert len(shown["the log"]) > 100_000  # Spark's own as well

    for where, text in shown.items():
        for secret in (marked, pepper):
            at = text.find(secret)
            assert at < 0, f"{where}: …{text[max(0, at - 300) : at + 100]}…"
    for path, found in _on_disk(target_cluster, marked.encode(), pepper.encode()):
        pytest.fail(f"{path} holds {found!r}")

    letters = source.read("__causeway.A.B.query.dead-letters")[0]
    headers = [dict(letter.headers) for letter in letters]
    reasons = {
        str(each["causeway.reason"])
        for each in headers
        if each["causeway.topic"] == queried.encode()
    }
    assert len(reasons) == 2, reasons
    letters = source.read("__causeway.A.B.led.dead-letters")[0]
    # One may be there again: the lane came to them once more after it had waited for a topic.
    written = [letter.value for letter in letters]
    assert list(dict.fromkeys(written)) == [each.encode() for each in (*nowhere, "1000")]
    assert any("the transform fails on it" in reason for reason in reasons), reasons


def _letters(source: KafkaTools, transform: str) -> bool:
    topic = f"__causeway.A.B.{transform}.dead-letters"
    return source.partition_count(topic) is not None and sum(source.offsets(topic).values()) > 0


def _customer(number: object, name: str) -> Outgoing:
    return Outgoing(value=json.dumps({"id": number, "name": name}).encode(), partition=0)


def _on_disk(cluster: LocalCluster, *secrets: bytes) -> Iterator[tuple[Path, bytes]]:
    """In all that the cluster's brokers keep: logs of topics, the progress topic's among them."""
    folders = {broker.directory for broker in cluster.brokers.values()}
    for folder in folders:
        for path, data in files_below(folder):
            yield from ((path, secret) for secret in secrets if secret in data)
