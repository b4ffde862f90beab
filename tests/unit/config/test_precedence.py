"""The order was read off MirrorMaker 2 itself: what its configs answered for the same keys."""

from __future__ import annotations

import pytest

from causeway.config import Entry
from causeway.config.reading import client_entries, flow_entries
from causeway.config.reading.precedence import Role, Side

NAME = "security.protocol"  # a key that every cluster and client may set

# From the strongest to the weakest, for the reader of A in the flow A->B.
LEVELS = [
    f"A->B.source.consumer.{NAME}",
    f"A.consumer.{NAME}",
    f"A.{NAME}",
    NAME,
    f"A->B.consumer.{NAME}",
    f"A->B.source.cluster.{NAME}",
]


def entries(*keys: str) -> dict[str, Entry]:
    return {key: Entry(key=key, value=key, line=1) for key in keys}


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_strongest_level_counts(first: int) -> None:
    found = client_entries(entries(*LEVELS[first:]), "A", "B", "source", "consumer")
    assert found[NAME].value == LEVELS[first]


@pytest.mark.parametrize(
    ("side", "role", "key"),
    [
        ("target", "producer", "B.producer.acks"),
        ("target", "admin", "B.admin.client.id"),
        ("source", "admin", "A.admin.client.id"),
        ("source", "consumer", "A->B.consumer.client.id"),
        ("target", "producer", "A->B.target.producer.client.id"),
    ],
)
def test_keys_of_one_client_reach_only_it(side: Side, role: Role, key: str) -> None:
    name = "acks" if key.endswith("acks") else "client.id"
    sides: list[tuple[Side, Role]] = [
        ("source", "consumer"),
        ("source", "admin"),
        ("target", "producer"),
        ("target", "admin"),
    ]
    reached = [
        pair for pair in sides if name in client_entries(entries(key), "A", "B", pair[0], pair[1])
    ]
    assert reached == [(side, role)]


def test_a_connector_s_override_of_the_producer_counts_most() -> None:
    levels = [
        "A->B.producer.override.client.id",
        "producer.override.client.id",
        "A->B.target.producer.client.id",
    ]
    for first in range(len(levels)):
        found = client_entries(entries(*levels[first:]), "A", "B", "target", "producer")
        assert found["client.id"].value == levels[first]
    assert "client.id" not in client_entries(entries(levels[0]), "A", "B", "source", "producer")


def test_only_security_and_addresses_are_for_all_clients_of_a_cluster() -> None:
    given = entries("A.bootstrap.servers", "A.fetch.max.bytes", "fetch.max.bytes")
    assert set(client_entries(given, "A", "B", "source", "consumer")) == {"bootstrap.servers"}


def test_a_flows_own_keys() -> None:
    given = entries("topics", "A->B.topics", "A->C.groups", "groups")
    found = flow_entries(given, "A", "B", frozenset({"topics", "groups"}))
    assert {name: entry.value for name, entry in found.items()} == {
        "topics": "A->B.topics",
        "groups": "groups",
    }
