from __future__ import annotations

import pytest

from causeway.config import (
    ControlSettings,
    Entry,
    FetchSettings,
    FlowKeys,
    HeartbeatKeys,
    HttpSettings,
    KeyTable,
    ProducerKeys,
    RunSettings,
    WebhookSettings,
)
from causeway.config.reading import Effect, audit_key, key_warnings, known, split_key

ALIASES = ("A", "B", "us.east", "us")


@pytest.mark.parametrize(
    ("key", "split"),
    [
        ("topics", ("", "topics")),
        ("A.bootstrap.servers", ("A", "bootstrap.servers")),
        ("us.east.bootstrap.servers", ("us.east", "bootstrap.servers")),
        ("us.sasl.mechanism", ("us", "sasl.mechanism")),
        ("A->B.topics", ("A->B", "topics")),
        ("us.east->us.topics", ("us.east->us", "topics")),
        ("A->us.east.topics", ("A->us.east", "topics")),
        ("A->C.topics", ("", "A->C.topics")),
        ("Ax.topics", ("", "Ax.topics")),
    ],
)
def test_prefixes(key: str, split: tuple[str, str]) -> None:
    assert split_key(key, ALIASES) == split


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        ("clusters", Effect.ACTED_ON),
        ("config.providers.env.class", Effect.ACTED_ON),
        ("spark.anything", Effect.ACTED_ON),
        ("causeway.lanes", Effect.ACTED_ON),
        ("A->B.causeway.delivery", Effect.ACTED_ON),
        ("groups.blacklist", Effect.ACTED_ON),
        ("A->B.emit.heartbeats.enabled", Effect.ACTED_ON),
        ("A.emit.checkpoints.enabled", Effect.MISPLACED),
        ("A->B.tasks.max", Effect.MEANINGLESS),
        ("A->B.causeway.lanes", Effect.MISPLACED),
        ("ssl.truststore.location", Effect.ACTED_ON),
        ("A.admin.request.timeout.ms", Effect.ACTED_ON),
        ("A->B.source.cluster.bootstrap.servers", Effect.ACTED_ON),
        ("A->B.source.producer.client.id", Effect.NOT_YET),
        ("A->B.target.producer.client.id", Effect.ACTED_ON),
        ("A->B.producer.override.client.id", Effect.ACTED_ON),
        ("producer.override.request.timeout.ms", Effect.ACTED_ON),
        ("A->B.producer.override.compression.type", Effect.NOT_YET),
        ("A->B.producer.override.compresion.type", Effect.UNKNOWN),
        ("B.producer.override.client.id", Effect.MISPLACED),
        ("A->B.consumer.override.client.id", Effect.MISPLACED),
        ("A.sasl.kerberos.service.name", Effect.NOT_YET),
        ("A.producer.compression.type", Effect.NOT_YET),
        ("A.group.id", Effect.MEANINGLESS),
        ("A.admin.listeners", Effect.MEANINGLESS),
        ("A.offset.storage.topic", Effect.ACTED_ON),
        ("A.offset.storage.replication.factor", Effect.ACTED_ON),
        ("key.converter.plugin.version", Effect.MEANINGLESS),
        ("use.incremental.alter.configs", Effect.MEANINGLESS),
        ("metric.names.formats", Effect.MEANINGLESS),
        ("forwarding.admin.class", Effect.NOT_YET),
        ("A.fetch.max.bytes", Effect.MISPLACED),
        ("B.producer.max.request.size", Effect.ACTED_ON),
        ("A->B.producer.max.request.size", Effect.ACTED_ON),
        ("A->B.producer.override.max.request.size", Effect.ACTED_ON),
        ("A.consumer.max.request.size", Effect.UNKNOWN),
        ("compression.type", Effect.MISPLACED),
        ("A.topics", Effect.MISPLACED),
        ("A.consumer.fetch.max.byte", Effect.UNKNOWN),
        ("A->B.consumer.no.such", Effect.UNKNOWN),
        ("something", Effect.UNKNOWN),
    ],
)
def test_effects(key: str, effect: Effect) -> None:
    assert audit_key(key, ALIASES).effect is effect


@pytest.mark.parametrize("name", sorted(known.CLUSTER_KEYS | known.FLOW))
def test_what_kafka_knows_is_never_unknown(name: str) -> None:
    for key in (name, f"A->B.{name}"):
        known_to_us = (Effect.ACTED_ON, Effect.MEANINGLESS, Effect.NOT_YET)
        assert audit_key(key, ALIASES).effect in known_to_us


@pytest.mark.parametrize(
    "model",
    [
        RunSettings,
        HttpSettings,
        WebhookSettings,
        FlowKeys,
        ControlSettings,
        HeartbeatKeys,
        ProducerKeys,
        FetchSettings,
    ],
)
def test_every_key_says_what_it_is_for(model: type[KeyTable]) -> None:
    for key in model.table().values():
        assert key.name
        assert key.meaning


def test_a_comment_behind_a_value_is_named() -> None:
    entries = {
        entry.key: entry
        for entry in (
            Entry(key="topics", value="orders.*  # all of them", line=3),
            Entry(key="A.sasl.jaas.config", value="x # y", line=4),
            Entry(key="groups", value=r"a\#b", line=5),
        )
    }
    (line,) = key_warnings(entries, ALIASES)
    assert line == "# does not end a value, so it is part of the value here: topics (line 3)"
