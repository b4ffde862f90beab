"""Records transformed on the way, between real clusters, by a real stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


def _customer(number: int) -> bytes:
    country = ("DE", "US", "FR")[number % 3]
    return json.dumps({"id": number, "name": f"n{number}", "country": country}).encode()


def test_a_filter_and_a_mask_beside_a_topic_that_is_relayed(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    masked, plain = prefix + "customers", prefix + "plain"
    source.create_topics([masked, plain], 2)
    for topic in (masked, plain):
        source.produce(
            topic,
            [
                Outgoing(
                    value=None if number == 77 else _customer(number),
                    key=b"k%d" % number,
                    headers=[("h", b"%d" % number)],
                    partition=number % 2,
                )
                for number in range(200)
            ],
        )
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "A->B.causeway.transforms = eu",
        f"A->B.causeway.transform.eu.topics = {masked}",
        "A->B.causeway.transform.eu.value.format = json",
        "A->B.causeway.transform.eu.sql = SELECT to_json(named_struct('id', "
        "get_json_object(value, '$.id'), 'name', sha2(get_json_object(value, '$.name'), 256))) "
        "AS value FROM records WHERE get_json_object(value, '$.country') <> 'US'",
    )
    with Running("run", file, directory=tmp_path) as run:
        wanted = {
            p: [r for r in records if r.value is None or json.loads(r.value)["country"] != "US"]
            for p, records in source.read(masked).items()
        }
        await_until(
            lambda: (
                target.partition_count(f"A.{masked}") is not None
                and target.offsets(f"A.{masked}") == {p: len(r) for p, r in wanted.items()}
            ),
            PATIENCE_S,
            "the transformed records",
        )
        found = target.read(f"A.{masked}")
        for partition, records in wanted.items():
            for before, after in zip(records, found[partition], strict=True):
                assert (after.key, after.headers, after.timestamp) == (
                    before.key,
                    before.headers,
                    before.timestamp,
                )
                if before.value is None:
                    assert after.value is None
                else:
                    value = json.loads(after.value or b"")
                    assert value["id"] == str(json.loads(before.value)["id"])
                    assert len(value["name"]) == 64
        assert run.stop() == 0, run.log
    (counts,) = status_of(file)["A->B"]["transforms"]
    assert counts["without_spark"] + counts["through_spark"] == counts["records_in"] == 200


FUNCTION = """
from pyspark.sql import functions as sf


def loud(records):
    @sf.udf("string")
    def upper(value):
        if "poison" in value:
            raise ValueError(value)
        return value.upper()

    return records.select(upper("value").alias("value"))
"""


@pytest.mark.slow
def test_the_one_record_on_which_a_function_throws_is_found(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """It kills the whole stage. Its partition stops right before it, or it becomes a dead letter;
    all others go on."""
    stops, letters = prefix + "stops", prefix + "letters"
    source.create_topics([stops, letters], 2)
    values = [b"v%d" % number for number in range(60)]
    for topic in (stops, letters):
        for partition in (0, 1):
            poisoned = [*values[:40], b"poison me", *values[40:]] if partition else values
            source.produce(
                topic, [Outgoing(value=value, partition=partition) for value in poisoned]
            )
    (tmp_path / "mine.py").write_text(FUNCTION)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "A->B.causeway.transforms = stops, letters",
        *(
            f"A->B.causeway.transform.{name}.{key} = {value}"
            for name, topic in (("stops", stops), ("letters", letters))
            for key, value in (
                ("topics", topic),
                ("value.format", "string"),
                ("python", "mine:loud"),
            )
        ),
        "A->B.causeway.transform.letters.on.error = dead-letter",
        f"A->B.causeway.transform.letters.dead.letter.topic = {prefix}refused",
    )
    with Running("run", file, directory=tmp_path, environment={"PYTHONPATH": str(tmp_path)}) as run:

        def stopped() -> str:
            found = status_of(file)["A->B"]["partitions"]
            ours = (p for p in found if p["topic"] == stops)
            return next((p["reason"] for p in ours if p["state"] == "stopped"), "")

        reason = await_until(stopped, 240, "the poisoned partition stops")
        assert f"refuses the record at offset 40 of {stops}-1" in reason
        await_until(lambda: target.offsets(f"A.{letters}") == {0: 60, 1: 60}, 240, "all others")
        assert target.offsets(f"A.{stops}") == {0: 60, 1: 40}
        assert run.stop() == 0, run.log
    assert "poison" not in run.log
    upper = [value.upper() for value in values]
    for topic, count in ((stops, 40), (letters, 60)):
        found = target.read(f"A.{topic}")
        assert [record.value for record in found[0]] == upper
        assert [record.value for record in found[1]] == upper[:count]
    (letter,) = source.read(f"{prefix}refused")[0]
    assert letter.value == b"poison me"
    assert dict(letter.headers) == {
        "causeway.topic": letters.encode(),
        "causeway.partition": b"1",
        "causeway.offset": b"40",
        "causeway.transform": b"letters",
        "causeway.reason": b"the transform fails on it",
    }
