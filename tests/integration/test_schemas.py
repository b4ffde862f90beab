"""Schemas from one registry to another: a real one (Apicurio), and one in this process that has the
modes which a real one with Confluent's API would need to keep ids."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.config import RegistrySettings, SchemaSettings
from causeway.filters import compile_patterns
from causeway.schemas import LinkSchemas, SchemaRegistry
from causeway.schemas.client import RegistryRefusedError
from causeway.schemas.copying import SubjectPair
from causeway.schemas.link import Copier, CopyRound
from causeway.schemas.registry import Reference, Schema
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.registry_stand_in import RegistryStandIn, registry_stand_in
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.schema_registry import RegistryServer
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
UNKNOWN = 4_000_000
DRAFT = "http://json-schema.org/draft-07/schema#"  # by which Apicurio knows JSON Schema


@pytest.fixture
def other() -> Iterator[RegistryStandIn]:
    with registry_stand_in() as registry:
        yield registry


def framed(id: int, number: int) -> bytes:
    return struct.pack(">bI", 0, id) + b"%d" % number


def avro(name: str, *fields: str) -> dict[str, object]:
    made = [{"name": field, "type": "string", "default": ""} for field in fields]
    return {"type": "record", "name": name, "fields": made}


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_what_a_real_registry_has_is_copied_with_its_ids(
    schema_registry: RegistryServer, other: RegistryStandIn, prefix: str, kind: str
) -> None:
    """All versions, soft deletes, references: out of Apicurio."""
    name = prefix.replace("-", "_") + kind
    if kind == "AVRO":
        texts = [json.dumps(avro(name)), json.dumps(avro(name, "a")), json.dumps(avro(name, "b"))]
    elif kind == "JSON":
        texts = [json.dumps({"$schema": DRAFT, "title": f"{name}{n}"}) for n in range(3)]
    else:
        texts = [f'syntax = "proto3";\nmessage {name} {{ int32 x = {n}; }}\n' for n in (1, 2, 3)]
    subject = f"{prefix}{kind}-value"
    ids = [schema_registry.register(subject, text, kind) for text in texts]
    source = SchemaRegistry(schema_registry.settings)
    source.delete(subject, 2)
    pair = SubjectPair(source=subject, target=f"A.{subject}")
    done = Copier(source, SchemaRegistry(other.settings)).run([pair])
    assert (done.copied, dict(done.items)) == (1, {})
    assert list(other.ids(pair.target).values()) == ids
    assert other.deleted(pair.target) == [2]


NAMED = os.environ.get("CAUSEWAY_SCHEMA_REGISTRY")  # a real one, that has the mode IMPORT


@pytest.fixture(params=["stand-in", "named"] if NAMED else ["stand-in"])
def keeper(request: pytest.FixtureRequest) -> Iterator[RegistrySettings]:
    """A registry that keeps ids. None can be had from package registries, so that a real one is
    tried where somebody names it."""
    if request.param == "named":
        yield RegistrySettings(url=str(NAMED), timeout_ms=5000)
    else:
        with registry_stand_in() as registry:
            yield registry.settings


@pytest.mark.parametrize("context", ["", "elsewhere"])
@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_what_is_copied_keeps_ids_numbers_references_and_what_is_deleted(
    keeper: RegistrySettings, prefix: str, kind: str, context: str
) -> None:
    """By all registries that keep ids alike; after a failover the copy leaves the subject alone."""
    mark = random.randrange(10**6, 10**9)  # for ids and names that a real one has not met yet
    order, money = f"Order{mark}", f"Money{mark}"
    subject, needed = f"{prefix}{mark}-value", f"{prefix}{mark}-money"
    texts, money_text = schemas_of(kind, order, money)
    target = SchemaRegistry(keeper, context)
    with registry_stand_in(first_id=mark) as own:
        source = SchemaRegistry(own.settings)
        copier = Copier(source, target)
        references = (Reference(name=money_name(kind, money), subject=needed, version=1),)
        as_json = [each.as_json() for each in references]
        base = own.register(needed, money_text, kind)
        ids = [own.register(subject, text, kind, as_json) for text in texts[:3]]
        own.levels[subject] = "FULL"
        own.delete(subject, 2)
        pair = SubjectPair(source=subject, target=f"A.{subject}")
        for _ in range(2):
            assert copier.run([pair]) == CopyRound(copied=2)
            copier.forget()
        assert target.versions(pair.target) == [1, 3]
        assert target.versions(pair.target, deleted=True) == [1, 2, 3]
        for number, id in enumerate(ids, start=1):
            found, by_id = target.version(pair.target, number), target.by_id(id)
            assert found is not None
            assert by_id is not None
            assert found.id == id
            wanted = Schema(text=texts[number - 1], kind=kind, references=references)
            assert found.schema.same_as(wanted)
            assert by_id.same_as(wanted)
        there = target.version(needed, 1)
        assert there is not None
        assert there.id == base
        assert (target.level(pair.target), target.mode(pair.target)) == ("FULL", "IMPORT")
        with pytest.raises(RegistryRefusedError):
            target.register(pair.target, Schema(text=texts[3], kind=kind))

        target.set_mode(pair.target, "READWRITE", force=True)
        own.register(subject, texts[3], kind, as_json)
        told = copier.run([pair])
        assert "it is in mode READWRITE there" in told.items[pair.target]
        assert target.versions(pair.target) == [1, 3]


def test_an_id_that_is_another_schemas_there_is_left_alone(
    keeper: RegistrySettings, prefix: str
) -> None:
    mark = random.randrange(10**6, 10**9)
    target, theirs = SchemaRegistry(keeper), f"{prefix}{mark}-theirs"
    with registry_stand_in(first_id=mark) as own:
        id = own.register(f"{prefix}{mark}-value", avro(f"Ours{mark}"))
        target.set_mode(theirs, "IMPORT")
        text = json.dumps(avro(f"Theirs{mark}"))
        target.register(theirs, Schema(text=text), id=id, number=1)
        pair = SubjectPair(source=f"{prefix}{mark}-value", target=f"A.{prefix}{mark}-value")
        told = Copier(SchemaRegistry(own.settings), target).run([pair])
        assert f"the id {id} of version 1 is another schema's there" in told.items[pair.target]
        assert target.versions(pair.target, deleted=True) == []
        found = target.by_id(id)
        assert found is not None
        assert found.same_as(Schema(text=text))


def schemas_of(kind: str, order: str, money: str) -> tuple[list[str], str]:
    """Four versions of `order`, that refer to the other, which comes last."""
    if kind == "AVRO":
        fields = [{"name": "m", "type": money}]
        return [
            json.dumps(
                {
                    "type": "record",
                    "name": order,
                    "fields": [
                        *fields,
                        *({"name": f"f{n}", "type": "string", "default": ""} for n in range(count)),
                    ],
                }
            )
            for count in range(4)
        ], json.dumps(avro(money))
    if kind == "JSON":
        return [
            json.dumps(
                {
                    "$schema": DRAFT,
                    "title": order,
                    "type": "object",
                    "properties": {"m": {"$ref": f"{money}.json"}, f"f{n}": {"type": "string"}},
                }
            )
            for n in range(4)
        ], json.dumps({"$schema": DRAFT, "title": money, "type": "object"})
    return [
        f'syntax = "proto3";\nimport "{money}.proto";\n\n'
        f"message {order} {{\n  {money} m = 1;\n  int32 x = {n + 2};\n}}\n"
        for n in range(4)
    ], f'syntax = "proto3";\n\nmessage {money} {{\n  int64 cents = 1;\n}}\n'


def money_name(kind: str, money: str) -> str:
    """By which a schema of `kind` refers to it."""
    return {"AVRO": money, "JSON": f"{money}.json", "PROTOBUF": f"{money}.proto"}[kind]


def test_a_real_registry_that_keeps_no_ids_is_told_as_such(
    schema_registry: RegistryServer, other: RegistryStandIn, prefix: str
) -> None:
    other.register(f"{prefix}t-value", avro("T"))
    pair = SubjectPair(source=f"{prefix}t-value", target=f"A.{prefix}t-value")
    target = SchemaRegistry(schema_registry.settings)
    done = Copier(SchemaRegistry(other.settings), target).run([pair])
    assert done.items[pair.target] == (
        "the target's registry has no mode IMPORT, which keeps ids: set causeway.schemas ="
        " translate"
    )
    assert target.versions(pair.target) == []


def test_references_are_registered_in_a_real_registry(
    schema_registry: RegistryServer, other: RegistryStandIn, prefix: str
) -> None:
    money, order = (prefix.replace("-", "_") + name for name in ("Money", "Order"))
    other.register(f"{prefix}money", avro(money))
    reference = {"name": money, "subject": f"{prefix}money", "version": 1}
    fields = [{"name": "m", "type": money}]
    text = {"type": "record", "name": order, "fields": fields}
    other.register(f"{prefix}o-value", text, references=[reference])
    schemas = LinkSchemas(
        SchemaSettings(
            mode="translate",
            source=other.settings,
            target=schema_registry.settings,
            subjects=compile_patterns("nothing"),
        )
    )
    topics = [(f"{prefix}o", f"A.{prefix}o")]
    assert [one.changes for one in schemas.due(topics)] == [("register version 1",)]
    done = schemas.run(topics)
    assert (done.copied, dict(done.items)) == (1, {})
    assert [one.changes for one in schemas.due(topics)] == [()]
    there = SchemaRegistry(schema_registry.settings).version(f"A.{prefix}o-value", 1)
    assert there is not None
    assert there.schema.references == (Reference(**reference),)  # type: ignore[arg-type]


def test_records_arrive_once_with_the_targets_ids_whatever_happens(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    schema_registry: RegistryServer,
    other: RegistryStandIn,
    prefix: str,
    tmp_path: Path,
) -> None:
    """From the registry in this process to a real one, whose ids clash with its own. The source's
    is out of reach while records of a new schema come: these wait and say so, another topic goes
    on. All is killed and started again. An id that nobody knows stops its partition alone."""
    topic, plain = prefix + "orders", prefix + "plain"
    source.create_topics([topic, plain], 2)
    names = [prefix.replace("-", "_") + name for name in ("First", "Second")]
    schema_registry.register(f"{prefix}taken-value", avro(names[1]))
    ids = [other.register(f"{topic}-value", avro(names[0]))]
    sent: dict[int, list[tuple[int, int]]] = {0: [], 1: []}

    def send(numbers: range, id: int) -> None:
        for number in numbers:
            sent[number % 2].append((id, number))
        source.produce(topic, [Outgoing(value=framed(id, n), partition=n % 2) for n in numbers])
        source.produce(plain, [Outgoing(value=b"%d" % n, partition=0) for n in numbers])

    def arrived(name: str) -> bool:
        return ends_of(f"A.{name}") == source.offsets(name)

    def ends_of(mirror: str) -> dict[int, int]:
        there = target.partition_count(mirror) is not None
        return target.offsets(mirror) if there else {}

    def reasons() -> dict[tuple[str, int], str]:
        found = status_of(file)["A->B"]["partitions"]
        return {(one["topic"], one["partition"]): one["reason"] for one in found if one["reason"]}

    def figures() -> dict[str, int]:
        tasks = status_of(file)["A->B"]["tasks"]
        return next((one["figures"] for one in tasks if one["task"] == "schemas"), {})

    def told(text: str, *partitions: int) -> bool:
        found = reasons()
        return all(text in found.get((topic, number), "") for number in partitions)

    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"A.causeway.registry.url = {other.url}",
        f"B.causeway.registry.url = {schema_registry.url}",
        "A->B.causeway.schemas = translate",
        "A->B.causeway.schemas.parts = value",
        "A->B.causeway.schemas.interval.seconds = 3600",
    )
    send(range(20), ids[0])
    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: arrived(topic) and arrived(plain), PATIENCE_S, "all records")
        await_until(lambda: figures().get("copied") == 1, PATIENCE_S, "the subject is counted")
        other.down = True
        ids.append(other.register(f"{topic}-value", avro(names[0], "more")))
        send(range(20, 30), ids[1])
        waits = f"by the registry {other.url}: it answered (HTTP 503)"
        await_until(lambda: arrived(plain), PATIENCE_S, "the other topic")
        await_until(lambda: told(waits, 0, 1), PATIENCE_S, "both partitions wait")
        run.kill()
    other.down = False
    send(range(30, 40), ids[0])
    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: arrived(topic), PATIENCE_S, "all records")
        source.produce(topic, [Outgoing(value=framed(UNKNOWN, 0), partition=1)])
        send(range(40, 50), ids[1])
        await_until(lambda: told("does not know its schema", 1), PATIENCE_S, "one waits")
        ends = source.offsets(topic)
        await_until(
            lambda: target.offsets(f"A.{topic}")[0] == ends[0], PATIENCE_S, "the other partition"
        )
        assert run.stop() == 0, run.log
    assert "Traceback" not in run.log

    registry = SchemaRegistry(schema_registry.settings)
    there = {version: registry.version(f"A.{topic}-value", version) for version in (1, 2)}
    own = {
        version: SchemaRegistry(other.settings).version(f"{topic}-value", version)
        for version in (1, 2)
    }
    meant: dict[int, int] = {}
    for version, found in there.items():
        wanted = own[version]
        assert found is not None
        assert wanted is not None
        assert found.schema.same_as(wanted.schema)
        meant[wanted.id] = found.id
    assert set(meant) == set(ids)
    assert meant[ids[0]] != ids[0]
    values = {p: [one.value for one in found] for p, found in target.read(f"A.{topic}").items()}
    assert values[0] == [framed(meant[id], number) for id, number in sent[0]]
    assert values[1] == [framed(meant[id], number) for id, number in sent[1][:20]]
