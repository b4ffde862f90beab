"""Records transformed on the way, between real clusters, by a real stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.dev.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, mm2_file, status_of
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
            120,
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
        print(json.dumps(status_of(file), indent=1, default=str)[:3000])
        assert run.stop() == 0, run.log
