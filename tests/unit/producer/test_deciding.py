"""Ids, partitions and settings: what is decided before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from causeway.errors import ConfigError, ConflictError
from causeway.producer import ids, partitioner
from causeway.producer.encode import Packer
from causeway.producer.ledger import Ledger, Place
from causeway.producer.options import check
from causeway.producer.wire_settings import wire_settings

EAST = {"bootstrap.servers": "east:9092"}
WEST = {"bootstrap.servers": "west:9092", "sasl.password": "pssst"}


@given(some.integers(1, 2**20), some.integers(0, 2**40 - 1))
def test_an_id_says_which_record(life: int, number: int) -> None:
    position = ids.first_position(life) + number
    marked = ids.record_id("shop", position)
    assert marked == b"shop/%d-%d" % (life, number)
    assert marked == ids.prefix("shop", life) + str(number).encode()
    assert ids.position_of("shop", [("h", b"x"), (ids.ID_HEADER, marked)]) == position
    assert ids.position_of("other", [(ids.ID_HEADER, marked)]) is None


@pytest.mark.parametrize("value", [b"", None, b"shop", b"shop/1", b"shop/1-2-3", b"shop/x-1"])
def test_what_is_no_id_is_passed_over(value: bytes | None) -> None:
    assert ids.position_of("shop", [(ids.ID_HEADER, value)]) is None
    assert ids.position_of("shop", None) is None


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
    decide = partitioner.named(name, 0.01)
    assert decide is not None
    assert decide("t", key, count) == hashed % count


@pytest.mark.parametrize("name", ["random", "consistent_random", "murmur2_random", "fnv1a_random"])
def test_without_a_key_a_partition_is_stuck_to_for_a_while(name: str) -> None:
    long, short = partitioner.named(name, 3600), partitioner.named(name, 0)
    assert long is not None
    assert short is not None
    assert len({long("t", None, 50) for _ in range(100)}) == 1
    assert len({short("t", None, 50) for _ in range(100)}) > 10
    assert long("t", None, 1) == 0


def checked(east: Mapping[str, Any] = EAST, west: Mapping[str, Any] = WEST, **more: Any) -> Any:
    wanted: dict[str, Any] = {
        "spool": "spool",
        "name": None,
        "names": ("east", "west"),
        "policy": "both",
        "spool_max_bytes": 1 << 30,
        "spool_sync": "process",
        "when_full": "back-pressure",
        "partition_counts": "equal",
        "settle_s": 5.0,
        "failover_after_s": None,
        "failback": True,
    }
    return check(east, west, **{**wanted, **more})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"policy": "some"}, "policy: 'some' is none of both, primary, any"),
        ({"names": ("a", "a")}, "not two different names"),
        ({"name": "a/b"}, "without spaces and slashes"),
        ({"spool_max_bytes": 1}, "less than"),
        ({"failover_after_s": 3}, "neither side is the primary one"),
        ({"policy": "primary", "failover_after_s": 0}, "not more than 0"),
        ({"west": {}}, "bootstrap.servers of west: it is missing"),
        ({"west": EAST}, "have the same"),
        ({"east": "east:9092"}, "configuration of east: it is a str, not a dict"),
        ({"east": {**EAST, "transactional.id": "t"}}, "transactional.id of east"),
        ({"west": {**WEST, "message.timeout.ms": 1}}, "never given up"),
        ({"west": {**WEST, "enable.idempotence": False}}, "could lose, double or reorder"),
        ({"east": {**EAST, "acks": 1}}, "acks of east"),
        ({"west": {**WEST, "partitioner": "murmur2"}}, "partitioner of west: east decides"),
        ({"east": {**EAST, "partitioner": "mine"}}, "'mine' is none of"),
        ({"east": {**EAST, "queue.buffering.max.messages": "x"}}, "no whole number"),
    ],
)
def test_what_cannot_be_used_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
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
    ledger.move({"east": [(1, Place(position=7, offset=9))], "west": []})
    with pytest.raises(ConflictError, match="another producer has it open"):
        Ledger(tmp_path)
    ledger.close()
    again = Ledger(tmp_path)
    assert again.about("life") == "4"
    assert len(again.lanes()["orders"]) == 3
    assert again.places("east") == {1: Place(position=7, offset=9)}
    assert again.places("west") == {}
    again.close()


def test_a_spool_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("not a database, but long enough to be taken for one" * 99)
    with pytest.raises(ConfigError, match="not a database"):
        Ledger(tmp_path)


PEM = "-----BEGIN CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "more",
    [
        {"security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER"},
        {"sasl.mechanism": "GSSAPI", "security.protocol": "SASL_PLAINTEXT"},
        {"stats_cb": print},
        {"debug": "all"},
        {"compression.type": "lz5"},
        {"compression.level": 13},
        {"compression.level": -2},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "app"},
        {"socket.timeout.ms": "soon"},
        {"enable.ssl.certificate.verification": False, "security.protocol": "SSL"},
        {"ssl.ca.location": "/not/there", "security.protocol": "SSL"},
        {"ssl.key.password": "x", "security.protocol": "SSL"},
        {"bootstrap.servers": "SSL://east:1"},
        {"compression.type": "lz4", "compression.codec": "zstd"},
        {"nobody.knows.it": 1},
    ],
)
def test_what_our_client_does_not_know_is_librdkafka_s_to_judge(more: dict[str, Any]) -> None:
    assert wire_settings("east", EAST) is not None
    assert wire_settings("east", {**EAST, **more}) is None
    east, _ = checked({**EAST, **more}).sides
    assert east.wire is None
    assert more.items() <= east.producer.items()


def test_what_people_set_is_what_our_client_does(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    found = wire_settings(
        "east",
        {
            "bootstrap.servers": "one:9093, two,[::1]:9094",
            "client.id": "shop",
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "app",
            "sasl.password": "pssst",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.pem": PEM,
            "ssl.key.pem": "pssst",
            "compression.type": "zstd",
            "compression.level": 7,
            "linger.ms": 5,
            "max.in.flight": 9,
            "request.timeout.ms": 70_000,
            "queue.buffering.max.kbytes": 10,
            "socket.send.buffer.bytes": 1 << 20,
        },
    )
    assert found is not None
    client = found.client
    assert client.bootstrap == (("one", 9093), ("two", 9092), ("::1", 9094))
    assert (client.protocol, client.client_id) == ("SASL_SSL", "shop")
    assert client.sasl is not None
    assert (client.sasl.mechanism, client.sasl.username) == ("SCRAM-SHA-512", "app")
    assert client.sasl.password.reveal() == "pssst"
    assert client.tls is not None
    assert (client.tls.ca_pem, client.tls.cert_pem, client.tls.verify_hostname) == (PEM, PEM, True)
    assert (client.send_buffer_bytes, client.receive_buffer_bytes) == (1 << 20, -1)
    assert found.packer == Packer(4, 7)
    assert (found.most_requests, found.answer_timeout_s, found.most_bytes) == (5, 70, 10 << 10)
    assert "pssst" not in repr(found)


@pytest.mark.parametrize("level", [-1, 0, 9, 12])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_level_librdkafka_takes_can_be_packed_with(codec: str, level: int) -> None:
    found = wire_settings("east", {**EAST, "compression.type": codec, "compression.level": level})
    assert found is not None
    packed, used = found.packer.pack(b"a" * 1000)
    assert (used == 0) == (len(packed) == 1000)


def test_a_side_that_wants_another_compression_has_it_from_librdkafka() -> None:
    options = checked({**EAST, "compression.type": "lz4"}, {**WEST, "compression.type": "zstd"})
    assert [side.wire is None for side in options.sides] == [False, True]
    assert options.packer == Packer(3)
    alike = checked({**EAST, "compression.type": "lz4"}, {**WEST, "compression.codec": "lz4"})
    assert [side.wire is None for side in alike.sides] == [False, False]
