"""Stages on a real Spark, between workers that talk to a lane that is not there.

One Spark serves all tests, with its event log on: at the end no byte of a value or a secret is in
it, nor in what Spark printed.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causeway.config import Secret, TransformSettings
from causeway.daemon.spark import Spark, Stages
from causeway.daemon.spark.engine import GAVE_NO_ANSWER
from causeway.filters import compile_patterns
from causeway.records import PlainRecord
from causeway.relay import StageEnded, new_secret
from causeway.transform import ChunkOutcome
from causeway.transform.json_text import LARGE
from causeway.transform.plan import prepare
from tests.harness.stage import FakeLane, batch_of, chunk_of, read

pytestmark = pytest.mark.integration

SECRET = new_secret()
PEPPER = "Tw3lve-Zebras"
PRIVATE = b"Pr1vate"  # stands in values


class World:
    """One Spark, its stages, and what they said."""

    def __init__(self, folder: Path) -> None:
        self.log = folder
        conf = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": folder.as_uri(),
        }
        self.spark = Spark(conf, 1, SECRET, on_lane_ended=lambda *_: None, staged=3)
        self.spark.start()
        self.ended: list[StageEnded] = []
        self.stages = Stages(self.spark, self.ended.append, prepare)

    def launch(self, key: str, sql: str | None, lane: FakeLane, **fields: Any) -> None:
        secrets = {"pepper": Secret(PEPPER)}
        topics = compile_patterns("t")
        transform = TransformSettings(
            name="pii", topics=topics, sql=sql, secrets=secrets, place="test", **fields
        )
        self.stages.launch(key, transform, lane.address)
        lane.meet()

    def reasons(self, key: str) -> list[str]:
        return [ended.reason for ended in self.ended if ended.key == key]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("events"))
    try:
        yield world
    finally:
        world.stages.stop_all()
        world.spark.stop()


@pytest.fixture
def lane(world: World, request: pytest.FixtureRequest) -> Iterator[FakeLane]:
    lane = FakeLane(SECRET, {"pepper": PEPPER})
    try:
        yield lane
    finally:
        world.stages.stop(request.node.name)
        lane.close()


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def test_chunks_come_back_in_order_without_what_a_query_drops(
    world: World, lane: FakeLane, key: str
) -> None:
    """From three partitions, some of them with nothing left, also more than fits on its way."""
    world.launch(key, "SELECT * FROM records WHERE substr(value, 1, 1) != X'64'", lane)
    chunks, at = [], [0, 0, 0]
    for number in range(60):
        kinds = [b"drop", b"keep"] if number % 4 else [b"drop"]
        values = [kinds[i % len(kinds)] + bytes(number * 40) for i in range(number * 10 + 1)]
        partition = number % 3
        batch = batch_of(values, first=at[partition], codec=number % 5)
        at[partition] = batch.next
        chunks.append(chunk_of(number, batch, partition=partition))
    lane.send(*chunks)
    for chunk, outcome in zip(chunks, lane.take(60), strict=True):
        assert outcome.number == chunk.number
        assert outcome.records_in == chunk.batches[0].records
        assert outcome.records_out + outcome.dropped == outcome.records_in
        kept = chunk.number * 10 // 2 if chunk.number % 4 else 0
        assert len(list(read(outcome))) == outcome.records_out
        assert outcome.records_out in {kept, kept + chunk.number % 2}
        for output in outcome.outputs:
            assert output.batch.next == chunk.next


def test_records_without_a_transform_for_their_parts_are_the_same(
    world: World, lane: FakeLane, key: str
) -> None:
    world.launch(key, "SELECT * FROM records", lane)
    records = [
        PlainRecord(0, 1_700_000_000_123, b"key", PRIVATE, [("h", b"1"), ("h", None), ("", b"")]),
        PlainRecord(1, -1, None, None, []),
        PlainRecord(2, 0, b"", b"", [("ü", bytes(2000))]),
        PlainRecord(3, 2**50, b"\xff\x00", bytes(range(256)) * 40_000, []),
    ]
    lane.send(chunk_of(1, batch_of(records)))
    (outcome,) = lane.take(1)
    assert list(read(outcome)) == records


def test_one_record_becomes_many_on_other_topics(world: World, lane: FakeLane, key: str) -> None:
    sql = """
        SELECT concat('to-', word) AS topic, length(word) AS partition,
            encode(word, 'UTF-8') AS value
        FROM records LATERAL VIEW OUTER explode(split(value, ' ')) AS word
    """
    world.launch(key, sql, lane, value_format="string")
    lane.send(chunk_of(1, batch_of([b"a bb a", None, b"a"])))
    (outcome,) = lane.take(1)
    found = {
        (output.topic, output.partition): list(read(ChunkOutcome(1, (output,))))
        for output in outcome.outputs
    }
    assert [record.offset for record in found["to-a", 1]] == [0, 0, 2]
    assert [record.value for record in found["to-bb", 2]] == [b"bb"]
    assert (outcome.records_in, outcome.dropped) == (3, 0)


def test_secrets_reach_a_query(world: World, lane: FakeLane, key: str) -> None:
    sql = "SELECT encode(sha2(concat(secrets.pepper, value), 256), 'UTF-8') AS value FROM records"
    world.launch(key, sql, lane, value_format="string")
    lane.send(chunk_of(1, batch_of([PRIVATE])))
    (outcome,) = lane.take(1)
    expected = hashlib.sha256(PEPPER.encode() + PRIVATE).hexdigest().encode()
    assert [record.value for record in read(outcome)] == [expected]


def test_what_cannot_be_read_comes_back_with_a_reason(
    world: World, lane: FakeLane, key: str
) -> None:
    sql = "SELECT to_json(value) AS value FROM records"
    world.launch(key, sql, lane, value_format="json", value_schema="a int")
    lane.send(chunk_of(1, batch_of([b'{"a": 1}', b"no " + PRIVATE, b'{"a": 2}'])))
    (outcome,) = lane.take(1)
    assert [refusal.offset for refusal in outcome.refused] == [1]
    assert PRIVATE.decode() not in outcome.refused[0].reason
    assert [record.value for record in read(outcome)] == [b'{"a":1}', b'{"a":2}']


def test_values_of_many_megabytes(world: World, lane: FakeLane, key: str) -> None:
    world.launch(key, "SELECT * FROM records", lane)
    values = [bytes([i]) * 8_000_000 for i in range(8)]
    for i, value in enumerate(values):
        lane.send(chunk_of(i, batch_of([b"small", value, b"small"], first=i * 3, codec=4)))
    for value, outcome in zip(values, lane.take(8), strict=True):
        assert [record.value for record in read(outcome)] == [b"small", value, b"small"]


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ({"sql": "SELECT * FROM records"}, b"v"),
        ({"python": "tests.harness.transforms:twice_by_arrow"}, b"vv"),
        ({"python": "tests.harness.transforms:twice_pickled"}, b"vv"),
        ({"python": "tests.harness.transforms:twice_twice"}, b"vvvv"),
    ],
)
def test_a_single_record_does_not_wait_for_others(
    world: World, lane: FakeLane, key: str, transform: dict[str, str], said: bytes
) -> None:
    """Nor where a query holds Python functions, before and behind which Spark collects rows too."""
    world.launch(key, transform.get("sql"), lane, python=transform.get("python"))
    for number in range(8):
        lane.send(chunk_of(number, batch_of([b"v"], first=number)))
        assert [(one.offset, one.value) for one in read(*lane.take(1))] == [(number, said)]


def test_a_lane_that_hangs_up_ends_its_stage_in_order(
    world: World, lane: FakeLane, key: str
) -> None:
    world.launch(key, "SELECT * FROM records", lane)
    lane.send(chunk_of(1, batch_of([b"v"] * 5000)))  # nobody waits for what becomes of it
    lane.hang_up()
    lane.meet()
    assert world.reasons(key) == [""]
    lane.send(chunk_of(1, batch_of([b"v"])))
    lane.take(1)
    assert len({greeting.attempt for greeting in lane.greetings}) == 2


def test_a_record_on_which_a_query_throws_is_refused_and_kills_nothing(
    world: World, lane: FakeLane, key: str
) -> None:
    sql = "SELECT encode(CAST(CAST(value AS int) AS string), 'UTF-8') AS value FROM records"
    world.launch(key, sql, lane, value_format="string")
    lane.send(chunk_of(1, batch_of([b"1", PRIVATE, b"7"])))
    (outcome,) = lane.take(1)
    assert [refusal.offset for refusal in outcome.refused] == [1]
    assert PRIVATE.decode() not in outcome.refused[0].reason
    assert [record.value for record in read(outcome)] == [b"1", b"7"]
    assert lane.deaths == 0
    assert world.reasons(key) == []


_AMOUNT = "amount DECIMAL(10, 2), id STRING"


@pytest.mark.parametrize("large", [b"1e99999999", b'"1E-99999999"'])
@pytest.mark.parametrize(
    ("sql", "schema"),
    [
        ("SELECT struct(value.amount AS amount) AS value FROM records", _AMOUNT),
        (
            "WITH read AS (SELECT from_json(CAST(value AS STRING), '" + _AMOUNT + "') AS x "
            "FROM records) SELECT struct(x.amount AS amount) AS value FROM read",
            None,
        ),
    ],
    ids=["schema", "from_json"],
)
@pytest.mark.timeout(150)
def test_a_number_whose_digits_would_take_hours_is_refused(
    world: World, lane: FakeLane, key: str, large: bytes, sql: str, schema: str | None
) -> None:
    world.launch(key, sql, lane, value_format="json", value_schema=schema)
    values = [b'{"amount":1.5,"id":"1e99999999"}', b'{"amount":%s}' % large, b'{"amount":"2"}']
    lane.send(chunk_of(1, batch_of(values)))
    (outcome,) = lane.take(1)
    assert [tuple(refusal) for refusal in outcome.refused] == [(1, LARGE.format("value"))]
    assert [record.value for record in read(outcome)] == [b'{"amount":1.50}', b'{"amount":2.00}']


def test_a_record_that_takes_for_ever_holds_up_no_next_attempt(
    world: World, lane: FakeLane, key: str
) -> None:
    """Spark cannot interrupt the row that it computes, nor does that end by itself."""
    sql = "SELECT * FROM records WHERE NOT value RLIKE '(.*a){12}b'"
    world.launch(key, sql, lane, value_format="string")
    attempt = lane.greetings[-1].attempt
    lane.send(chunk_of(1, batch_of([b"a" * 60 + b"!"])))
    lane.hang_up()
    world.stages.give_up(key, attempt)
    lane.meet()
    assert lane.greetings[-1].attempt != attempt
    assert world.reasons(key) == [GAVE_NO_ANSWER]
    lane.send(chunk_of(1, batch_of([b"v"])))
    (outcome,) = lane.take(1)
    assert [record.value for record in read(outcome)] == [b"v"]


@pytest.mark.parametrize("end", ["source", "sink"])
def test_a_worker_that_is_killed_comes_back(
    world: World, lane: FakeLane, key: str, end: str
) -> None:
    world.launch(key, "SELECT * FROM records", lane)
    os.kill(lane.process(end), signal.SIGKILL)
    lane.until(lambda: lane.deaths == 1)
    lane.meet()
    lane.send(chunk_of(2, batch_of([b"7"])))
    lane.take(1)
    assert len(world.reasons(key)) == 1


def test_what_rules_treat_without_spark_stays_in_order_with_what_they_do_not(
    world: World, lane: FakeLane, key: str
) -> None:
    """Some chunks are plain, some have a record that only the query can treat, some one that it
    refuses."""
    rules = "mask value.$.name; mask value.$.card; drop record where value.$.n is 7"
    world.launch(key, None, lane, rules=rules, value_format="json")
    plain, escaped, broken = b'"Pr1vate"', b'"Pr1v\\u0061te"', b'"Pr1vate'
    chunks, wanted = [], []
    for number in range(60):
        names = [plain] * 40
        if number % 3 == 1:
            names[number % 40] = escaped
        if number % 10 == 3:
            names[7] = broken
        texts = [b'{"n":%d,"name":%b,"card":"12"}' % (n, name) for n, name in enumerate(names)]
        if number % 10 == 3:
            del texts[7:]
            texts.append(b'{"name":"Pr1vate')
        chunks.append(chunk_of(number, batch_of(texts, first=100 * number)))
        wanted.append(
            [
                {"n": n, "name": "*" * len(PRIVATE), "card": "**"}
                for n in range(40)
                if n != 7 and not (number % 10 == 3 and n > 6)
            ]
        )
    lane.send(*chunks)
    outcomes = sorted(lane.take(60))
    for number, (outcome, documents) in enumerate(zip(outcomes, wanted, strict=True)):
        assert outcome.number == number
        records = list(read(outcome))
        assert [json.loads(record.value or b"") for record in records] == documents
        at = [record.offset - 100 * number for record in records]
        assert at == [document["n"] for document in documents]
        assert [refusal.offset for refusal in outcome.refused] == (
            [100 * number + 7] if number % 10 == 3 else []
        )
        assert outcome.dropped == (number % 10 != 3)
        assert len(outcome.found) == 3


def test_a_stage_that_is_stopped_stays_away(world: World, lane: FakeLane, key: str) -> None:
    world.launch(key, "SELECT * FROM records", lane)
    world.stages.stop(key)
    lane.until(lambda: lane.deaths == 1)
    assert world.reasons(key) == []


def test_z_nothing_of_records_and_secrets_is_in_spark_s_event_log(world: World) -> None:
    """Runs last, over all that the others did."""
    world.stages.stop_all()
    world.spark.stop()
    (log,) = world.log.iterdir()
    content = log.read_bytes()
    assert b"mapInArrow" in content or b"MapInArrow" in content
    assert PRIVATE not in content
    assert PEPPER.encode() not in content
    assert SECRET.encode() not in content
