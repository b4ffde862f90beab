"""Partitions and settings: decided before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from causeway_producer import SettingsError, SpoolInUseError
from causeway_producer.options import Options, check
from causeway_producer.partitioner import partitioner
from causeway_producer.spool import Ledger, Place

EAST = {"bootstrap.servers": "east:9092"}
WEST = {"bootstrap.servers": "west:9092", "sasl.password": "pssst"}


# Java's DefaultPartitioner and librdkafka's own tests have these.
@pytest.mark.parametrize(
    ("name", "key", "hashed"),
    [
        ("murmur2", b"kafka", 0xD067CF64 & 0x7FFFFFFF),
        ("murmur2_random", b"giberish123456789", 0x8F552B0C & 0x7FFFFFFF),
        ("murmur2", b"", 0x106E08D9),
        ("consistent", b"123456789", 0xCBF43926),
        ("consistent_random", b"123456789", 0xCBF43926),
        ("fnv1a", b"kafka", 0xD33C4E1),
        ("fnv1a_random", b"giberish123456789", 0x77A58295),
    ],
)
@pytest.mark.parametrize("count", [1, 7, 100])
def test_keys_decide_as_librdkafka_has_it(name: str, key: bytes, hashed: int, count: int) -> None:
    decide = partitioner(name, 0.01)
    assert decide is not None
    assert decide("t", key, count) == hashed % count


@pytest.mark.parametrize("name", ["random", "consistent_random", "murmur2_random", "fnv1a_random"])
def test_without_a_key_a_partition_is_stuck_to_for_a_while(name: str) -> None:
    long, short = partitioner(name, 3600), partitioner(name, 0)
    assert long is not None
    assert short is not None
    assert len({long("t", None, 50) for _ in range(100)}) == 1
    assert len({short("t", None, 50) for _ in range(100)}) > 10
    assert long("t", None, 1) == 0


def checked(
    east: Mapping[str, Any] = EAST, west: Mapping[str, Any] = WEST, **settings: Any
) -> Options:
    return check(east, west, "spool", settings)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"policy": "some"}, "policy: 'some' is not one of both, primary, any"),
        ({"names": ("a", "a")}, "not two different names"),
        ({"name": "a/b"}, "without spaces and slashes"),
        ({"spool_max_bytes": 1}, "less than"),
        ({"failover_after_s": 3}, "only policy 'primary'"),
        ({"policy": "primary", "failover_after_s": 0}, "not more than 0"),
        ({"west": {}}, "bootstrap.servers of west: it is missing"),
        ({"west": EAST}, "have the same"),
        ({"east": "east:9092"}, "configuration of east: it is a str, not a dict"),
        ({"east": {**EAST, "transactional.id": "t"}}, "transactional.id of east"),
        ({"west": {**WEST, "message.timeout.ms": 1}}, "never given up"),
        ({"west": {**WEST, "enable.idempotence": False}}, "could lose, double or reorder"),
        ({"east": {**EAST, "acks": 1}}, "acks of east"),
        ({"west": {**WEST, "partitioner": "murmur2"}}, "partitioner of west: east decides"),
        ({"east": {**EAST, "partitioner": "mine"}}, "'mine' is neither a function"),
        ({"east": {**EAST, "queue.buffering.max.messages": "x"}}, "not a whole number"),
    ],
)
def test_what_cannot_be_used_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError) as refused:
        checked(**more)
    assert why in str(refused.value)
    assert "pssst" not in str(refused.value)


def test_both_sides_write_by_the_same_rules() -> None:
    options = checked(
        {**EAST, "message.max.bytes": 5000, "acks": "all", "partitioner": lambda t, k, n: 0},
        {**WEST, "linger.ms": 3},
    )
    east, west = options.sides
    for side in (east, west):
        assert side.producer["message.max.bytes"] == 5000
        assert side.producer["message.timeout.ms"] == 0
        assert side.producer["enable.idempotence"] is True
    assert west.reader == {**WEST, "log_level": 3}
    assert options.partitioner("t", b"k", 5) == 0
    assert "pssst" not in repr(options)


def test_a_ledger_remembers_and_is_for_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.add_topic("orders", 2) == [1, 2]
    assert ledger.add_topic("orders", 3)[:2] == [1, 2]
    ledger.note("life", "4")
    ledger.move({"east": {1: Place(7, 9)}, "west": {}})
    with pytest.raises(SpoolInUseError, match="another producer has it open"):
        Ledger(tmp_path)
    ledger.database.close()
    again = Ledger(tmp_path)
    assert again.about("life") == "4"
    assert len(again.partitions()["orders"]) == 3
    assert again.places("east") == {1: Place(7, 9)}
    assert again.places("west") == {}
    again.database.close()


def test_a_spool_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("not a database, but long enough to be taken for one" * 99)
    with pytest.raises(SettingsError, match="not a database"):
        Ledger(tmp_path)
