"""Avro and Protobuf between real clusters, with a real registry that is there, and is not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.harness.customers import PEPPER, Customers
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.proxy import Proxy
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.schema_registry import RegistryServer
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

UNKNOWN = 4_000_000


def test_what_is_there_arrives_once_whatever_the_registry_does(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    schema_registry: RegistryServer,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The registry is out of reach at the start, and again once another version of both schemas is
    written: records wait, and `status` says why, while another topic goes on. What nobody knows the
    schema of stops its partition, or becomes a dead letter."""
    customers = Customers(schema_registry, prefix)
    avro, proto, plain = customers.avro, customers.proto, prefix + "plain"
    source.create_topics([avro, proto, plain], 2)
    sent: dict[str, list[tuple[int, bytes]]] = {avro: [], proto: [], plain: []}

    def send(numbers: range, version: int) -> None:
        for number in numbers:
            sent[avro].append((number % 2, customers.by_avro(number, version)))
            sent[proto].append((number % 2, customers.by_proto(number, version)))
            sent[plain].append((number % 2, b"v%d" % number))
        for topic, made in sent.items():
            source.produce(topic, [_out(p, value) for p, value in made[-len(numbers) :]])

    send(range(60), version=0)
    way = Proxy(schema_registry.port)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "A->B.causeway.transforms = pii, proto",
        *(
            f"A->B.causeway.transform.{name}.{key} = {value}"
            for name, topic, format, rules in (
                ("pii", avro, "avro", "; hash value.$.card with pepper"),
                ("proto", proto, "protobuf", ""),
            )
            for key, value in (
                ("topics", topic),
                ("value.format", format),
                ("registry.url", f"http://127.0.0.1:{way.address[1]}{schema_registry.path}"),
                ("rules", f"mask value.$.mail keep domain{rules}"),
            )
        ),
        f"A->B.causeway.transform.pii.secret.pepper = {PEPPER}",
        "A->B.causeway.transform.proto.on.error = dead-letter",
        f"A->B.causeway.transform.proto.dead.letter.topic = {prefix}refused",
    )

    def reasons() -> dict[str, str | None]:
        return {one["transform"]: one["reason"] for one in status_of(file)["A->B"]["transforms"]}

    def both_wait() -> bool:
        found = reasons()
        return all("waits for the schema registry http" in (why or "") for why in found.values())

    def arrived(topic: str, left_out: int = 0) -> bool:
        ends = _ends(target, f"A.{topic}")
        return sum(ends.values()) == len(sent[topic]) - left_out

    way.refuse()
    with Running("run", file, directory=tmp_path) as run:
        await_until(both_wait, PATIENCE_S, "both transforms wait", poll_s=1)
        await_until(lambda: arrived(plain), PATIENCE_S, "the topic that no transform is for")
        assert sum(_ends(target, f"A.{avro}").values()) == 0
        assert sum(_ends(target, f"A.{proto}").values()) == 0
        way.refuse(False)
        await_until(lambda: arrived(avro) and arrived(proto), PATIENCE_S, "all records")
        await_until(lambda: not any(reasons().values()), PATIENCE_S, "no reason any more")

        way.refuse()
        send(range(60, 90), version=1)
        await_until(both_wait, PATIENCE_S, "both wait for the new version", poll_s=1)
        send(range(90, 100), version=0)
        assert not arrived(avro)
        way.refuse(False)
        await_until(lambda: arrived(avro) and arrived(proto), PATIENCE_S, "all records")

        for topic in (avro, proto):
            unknown = struct.pack(">bI", 0, UNKNOWN) + b"\2\2\2\2"
            source.produce(topic, [_out(1, unknown)])
        send(range(100, 110), version=1)
        left_out = sum(number % 2 for number in range(100, 110))  # behind the one that stops
        await_until(lambda: arrived(proto) and arrived(avro, left_out), PATIENCE_S, "the others")

        def stopped() -> dict[tuple[str, int], str]:
            found = status_of(file)["A->B"]["partitions"]
            states = {(p["topic"], p["partition"]): p["reason"] for p in found if p["reason"]}
            return states if (avro, 1) in states else {}

        why = await_until(stopped, PATIENCE_S, "the partition stops")
        assert list(why) == [(avro, 1)]
        assert f"refuses the record at offset 50 of {avro}-1" in why[avro, 1]
        assert "the registry does not know the schema of its value" in why[avro, 1]
        assert run.stop() == 0, run.log
    way.close()
    assert "Traceback" not in run.log

    before = {p: [value for at, value in sent[avro] if at == p] for p in (0, 1)}
    before[1] = before[1][:50]
    masked = {p: list(map(customers.masked_avro, values)) for p, values in before.items()}
    _assert_values(target, f"A.{avro}", masked)
    versions = [0] * 60 + [1] * 30 + [0] * 10 + [1] * 10
    made = [customers.masked_proto(number, version) for number, version in enumerate(versions)]
    _assert_values(target, f"A.{proto}", {0: made[::2], 1: made[1::2]})
    (letter,) = [one for found in source.read(f"{prefix}refused").values() for one in found]
    assert letter.value == unknown
    headers = dict(letter.headers)
    assert (headers["causeway.partition"], headers["causeway.offset"]) == (b"1", b"50")
    assert headers["causeway.reason"] == b"the registry does not know the schema of its value"


def _out(partition: int, value: bytes) -> Outgoing:
    return Outgoing(value=value, key=b"k", headers=[("h", b"\0")], partition=partition)


def _ends(cluster: KafkaTools, topic: str) -> dict[int, int]:
    return {} if cluster.partition_count(topic) is None else cluster.offsets(topic)


def _assert_values(cluster: KafkaTools, topic: str, wanted: dict[int, list[bytes]]) -> None:
    for read_committed in (False, True):
        found = cluster.read(topic, read_committed=read_committed)
        assert {p: [one.value for one in records] for p, records in found.items()} == wanted
        beside = {(one.key, one.headers) for records in found.values() for one in records}
        assert beside == {(b"k", (("h", b"\0"),))}
