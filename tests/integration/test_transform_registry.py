"""Avro and Protobuf through a real Spark, with a real registry."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from causeway.config import RegistrySettings, Routes, TransformSettings
from causeway.daemon.spark import Spark, Stages
from causeway.errors import ConfigError
from causeway.filters import TopicRules, compile_patterns
from causeway.model import TopicPartition
from causeway.naming import ReplicationPolicy
from causeway.operate.try_transform import Content, Decoded, Read, TrialOutcome, Trials, prepared
from causeway.records import PlainRecord
from causeway.relay import StageEnded, new_secret
from causeway.transform import ChunkOutcome
from causeway.transform.plan import prepare
from causeway.transform.schema_formats.avro import Avro
from causeway.transform.schema_formats.protobuf import Protobuf
from causeway.transform.schema_formats.registry import place_of
from tests.harness.schema_registry import RegistryServer
from tests.harness.stage import FakeLane, batch_of, chunk_of, read

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = new_secret()


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Customer", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
MAIL = {"name": "mail", "type": "string"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
FIRST, SECOND = record(ID, MAIL), record(ID, MAIL, NOTE)
PERSON = {"type": "record", "name": "Person", "fields": [MAIL]}
COMPANY = {"type": "record", "name": "Company", "fields": [NOTE]}
WHO = {"name": "who", "type": ["null", PERSON], "default": None}
RENAMED = {"name": "post", "type": "string", "aliases": ["mail"]}
# Versions of one subject, each compatible with the one before; the last one has lost the field.
DRIFTING = [
    record(ID, WHO),
    record(ID, {**WHO, "type": ["null", PERSON, COMPANY]}),
    record(ID, {**WHO, "type": ["null", {**PERSON, "fields": [RENAMED]}, COMPANY]}),
    record(ID, {**WHO, "type": ["null", COMPANY]}),
]
PROTO = """
syntax = "proto3";
message Unused { int32 x = 1; }
message Customer { int64 id = 1; string mail = 2; int32 points = 3; }
"""


class World:
    def __init__(self, registry: RegistryServer) -> None:
        self.registry = registry
        self.first = self.registry.register("t-value", FIRST)
        self.second = self.registry.register("t-value", SECOND)
        self.proto = self.registry.register("p-value", PROTO, "PROTOBUF")
        self.spark = Spark({}, 1, SECRET, on_lane_ended=lambda *_: None, staged=2)
        self.spark.start()
        self.ended: list[StageEnded] = []
        self.stages = Stages(self.spark, self.ended.append, prepare)

    def launch(self, key: str, lane: FakeLane, **fields: Any) -> None:
        transform = TransformSettings(
            name="pii",
            topics=compile_patterns("t"),
            place="test",
            **{"registry": self.registry.settings, "value_format": "avro", **fields},
        )
        self.stages.launch(key, transform, lane.address)
        lane.meet()

    def by_first(self, value: dict[str, Any]) -> bytes:
        return _avro(self.first, FIRST, value)

    def by_second(self, value: dict[str, Any]) -> bytes:
        return _avro(self.second, SECOND, value)

    def read(self, data: bytes | None) -> tuple[int, Any] | None:
        """The id, and what is in it."""
        if data is None:
            return None
        _, id = struct.unpack_from(">bI", data)
        schema = {self.first: FIRST, self.second: SECOND}[id]
        return id, json.loads(Avro(json.dumps(schema)).decode(data[5:]))


def _avro(id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    return struct.pack(">bI", 0, id) + Avro(json.dumps(schema)).encode(json.dumps(value))


@pytest.fixture(scope="module")
def world(schema_registry: RegistryServer) -> Iterator[World]:
    world = World(schema_registry)
    try:
        yield world
    finally:
        world.stages.stop_all()
        world.spark.stop()


@pytest.fixture
def lane(world: World, request: pytest.FixtureRequest) -> Iterator[FakeLane]:
    lane = FakeLane(SECRET, registry=world.registry.settings.as_json())
    try:
        yield lane
    finally:
        world.stages.stop(request.node.name)
        lane.close()


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def through(lane: FakeLane, *values: bytes | PlainRecord | None) -> ChunkOutcome:
    lane.send(chunk_of(1, batch_of(list(values))))
    (outcome,) = lane.take(1)
    return outcome


def values(outcome: ChunkOutcome) -> dict[int, bytes | None]:
    return {one.offset: one.value for one in read(outcome)}


@pytest.mark.slow
def test_rules_keep_the_id_of_each_record(world: World, lane: FakeLane, key: str) -> None:
    world.launch(key, lane, rules="mask value.$.mail keep domain; mask value.$.id keep last 1")
    outcome = through(
        lane,
        world.by_first({"id": 123, "mail": "ann@b.c"}),
        world.by_second({"id": 456, "mail": "bob@d.e", "note": "hi"}),
        world.by_second({"id": 7, "mail": "eve@f.g", "note": None}),
        None,
    )
    assert outcome.refused == ()
    found = {offset: world.read(value) for offset, value in values(outcome).items()}
    assert found == {
        0: (world.first, {"id": 3, "mail": "***@b.c"}),
        1: (world.second, {"id": 6, "mail": "***@d.e", "note": "hi"}),
        2: (world.second, {"id": 0, "mail": "***@f.g", "note": None}),
        3: None,
    }


def test_a_compatible_change_of_a_schema_switches_no_rule_off(
    world: World, lane: FakeLane, key: str
) -> None:
    ids = [world.registry.register(f"who{n}-value", one) for n, one in enumerate(DRIFTING)]

    def by(version: int, who: Any) -> bytes:
        return _avro(ids[version], DRIFTING[version], {"id": 1, "who": who})

    world.launch(key, lane, rules="mask value.$.who.mail keep domain")
    outcome = through(
        lane,
        by(0, {"mail": "ann@b.c"}),
        by(0, None),
        by(1, {"Person": {"mail": "bob@d.e"}}),
        by(1, {"Company": {"note": "eve@f.g"}}),
        by(2, {"Person": {"post": "joe@h.i"}}),
        by(3, {"note": "eve@f.g"}),
        by(3, None),
    )
    assert values(outcome) == {
        0: by(0, {"mail": "***@b.c"}),
        1: by(0, None),
        2: by(1, {"Person": {"mail": "***@d.e"}}),
        4: by(2, {"Person": {"post": "***@h.i"}}),
    }
    assert [one.offset for one in outcome.refused] == [3, 5, 6]
    assert all("finds no such field" in one.reason for one in outcome.refused)
    assert (outcome.found, outcome.missing) == ((3,), (3,))


def test_with_a_schema_of_the_reader_null_passes_and_a_schema_without_the_field_does_not(
    world: World, lane: FakeLane, key: str
) -> None:
    ids = [world.registry.register(f"who{n}-value", one) for n, one in enumerate(DRIFTING)]
    known = _avro(ids[0], DRIFTING[0], {"id": 1, "who": None})
    drifted = _avro(ids[3], DRIFTING[3], {"id": 1, "who": None})
    schema = "id BIGINT, who STRUCT<mail: STRING>"
    world.launch(key, lane, rules="mask value.$.who.mail", value_schema=schema)
    outcome = through(lane, known, drifted)
    assert values(outcome) == {0: known}
    assert [one.offset for one in outcome.refused] == [1]


def test_what_a_query_does_not_replace_passes_byte_for_byte(
    world: World, lane: FakeLane, key: str
) -> None:
    sql = "SELECT * FROM records WHERE cast(get_json_object(value, '$.id') AS bigint) > 1"
    world.launch(key, lane, sql=sql)
    second = world.by_second({"id": 2, "mail": "b", "note": "n"})
    outcome = through(lane, world.by_first({"id": 1, "mail": "a"}), second, None)
    assert values(outcome) == {1: second, 2: None}


def test_a_query_sees_both_versions_by_its_schema_and_its_result_finds_one(
    world: World, lane: FakeLane, key: str
) -> None:
    sql = (
        "SELECT named_struct('id', value.id + 1, 'mail', upper(value.mail),"
        " 'note', coalesce(value.note, 'none')) AS value FROM records"
    )
    world.launch(key, lane, sql=sql, value_schema="id BIGINT, mail STRING, note STRING")
    outcome = through(
        lane,
        world.by_first({"id": 1, "mail": "a"}),
        world.by_second({"id": 2**53, "mail": "b", "note": "n"}),
    )
    found = [world.read(value) for value in values(outcome).values()]
    assert found == [
        (world.second, {"id": 2, "mail": "A", "note": "none"}),  # the first version has no note
        (world.second, {"id": 2**53 + 1, "mail": "B", "note": "n"}),
    ]


def test_what_cannot_be_read_or_written_is_refused(world: World, lane: FakeLane, key: str) -> None:
    sql = "SELECT to_json(named_struct('id', length(value))) AS value FROM records"
    world.launch(key, lane, sql=sql)
    good = world.by_first({"id": 1, "mail": "a"})
    elsewhere = PlainRecord(7, 1_000_000, None, good, [("__value_schema_id", b"\1" + bytes(16))])
    outcome = through(
        lane,
        *(good, good[:-1], b"\0\0\0\3\xe8\2", b"text", None, good[:-1], good, elsewhere),
    )
    assert [tuple(one) for one in outcome.refused] == [
        (0, "the transformed value fits no schema of its subject"),
        (1, "value is not Avro of its schema"),
        (2, "the registry does not know the schema of its value"),
        (3, "value is not Avro with the id of a schema"),
        (5, "value is not Avro of its schema"),
        (6, "the transformed value fits no schema of its subject"),
        (7, "the id of the schema of its value is in a header"),
    ]
    assert values(outcome) == {4: None}


def test_protobuf_keeps_its_id_and_its_message(world: World, lane: FakeLane, key: str) -> None:
    rules = "mask value.$.mail keep domain; drop record where value.$.points is 0"
    world.launch(key, lane, rules=rules, value_format="protobuf", key_format="protobuf")
    customer = Protobuf(PROTO)
    head = struct.pack(">bI", 0, world.proto) + b"\2\2"  # the second message of the file

    def written(value: dict[str, Any]) -> bytes:
        return head + customer.message(place_of((1,))).encode(json.dumps(value))

    outcome = through(
        lane,
        written({"id": 2**60 + 1, "mail": "ann@b.c", "points": 5}),
        written({"id": 2, "mail": "bob@d.e"}),
        head + b"\xff",
    )
    assert values(outcome) == {0: written({"id": 2**60 + 1, "mail": "***@b.c", "points": 5})}
    assert [tuple(one) for one in outcome.refused] == [(2, "value is not Protobuf of its schema")]


@pytest.mark.slow
def test_while_the_registry_does_not_answer_records_wait_and_none_is_refused(
    world: World, lane: FakeLane, key: str
) -> None:
    hasty = replace(world.registry.settings, timeout_ms=2000)
    world.launch(key, lane, rules="mask value.$.mail", registry=hasty)
    world.registry.freeze()
    try:
        lane.send(chunk_of(1, batch_of([world.by_first({"id": 1, "mail": "a@b"})])))
        lane.until(lambda: len(lane.waiting) >= 2)
        assert not lane.outcomes
    finally:
        world.registry.thaw()
    (outcome,) = lane.take(1)
    assert outcome.refused == ()
    assert world.read(values(outcome)[0]) == (world.first, {"id": 1, "mail": "*@*"})
    assert set(lane.waiting) == {"it does not answer in time"}


def test_plan_and_try_say_that_a_registry_is_not_there(world: World) -> None:
    place = "A->B.causeway.transform.pii.registry.url (line 9)"
    gone = RegistrySettings(url="http://127.0.0.1:1", place=place)
    transform = TransformSettings(
        name="pii",
        topics=compile_patterns("t"),
        rules="mask value.$.mail",
        value_format="avro",
        registry=gone,
    )
    with pytest.raises(ConfigError) as caught:
        prepared(world.spark.session, transform)
    assert str(caught.value) == (
        f"use {place}: the schema registry http://127.0.0.1:1: connection refused"
    )


def test_a_trial_reads_and_writes_as_a_stage_does(world: World) -> None:
    transform = TransformSettings(
        name="pii",
        topics=compile_patterns("t"),
        rules="mask value.$.mail",
        value_format="avro",
        registry=world.registry.settings,
    )
    given = [world.by_first({"id": 1, "mail": "a@b"}), b"text"]
    batch, at = batch_of(given), TopicPartition("t", 0)
    records = [
        Read(at, offset, Content(timestamp=1, key=None, value=value, headers=()), batch)
        for offset, value in enumerate(given)
    ]
    session = world.spark.session
    rules = TopicRules(source="A", target="B", policy=ReplicationPolicy())
    routes = Routes(rules=rules)
    query = prepare(session, transform)
    tried = Trials(session, query, transform, print, routes).of(records)
    assert [one.outcome for one in tried] == [TrialOutcome.CHANGED, TrialOutcome.REFUSED]
    assert world.read(tried[0].after[0].value) == (world.first, {"id": 1, "mail": "*@*"})
    assert tried[1].reason == "value is not Avro with the id of a schema"
    first, second = tried
    assert first.before is not None
    assert second.before is not None
    assert first.before.decoded == {"value": Decoded(world.first, '{"id":1,"mail":"a@b"}')}
    assert first.after[0].decoded == {"value": Decoded(world.first, '{"id":1,"mail":"*@*"}')}
    assert second.before.decoded == {}
