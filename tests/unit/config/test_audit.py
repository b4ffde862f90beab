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
from causeway.config.reading import KeyEffect, audit_key, key_warnings, known, split_key

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
        ("clusters", KeyEffect.ACTS),
        ("config.providers.env.class", KeyEffect.ACTS),
        ("spark.anything", KeyEffect.ACTS),
        ("causeway.lanes", KeyEffect.ACTS),
        ("A->B.causeway.delivery", KeyEffect.ACTS),
        ("groups.blacklist", KeyEffect.ACTS),
        ("A->B.emit.heartbeats.enabled", KeyEffect.ACTS),
        ("A.emit.checkpoints.enabled", KeyEffect.MISPLACED),
        ("A->B.tasks.max", KeyEffect.MEANINGLESS),
        ("A->B.causeway.lanes", KeyEffect.MISPLACED),
        ("ssl.truststore.location", KeyEffect.ACTS),
        ("A.admin.request.timeout.ms", KeyEffect.ACTS),
        ("A->B.source.cluster.bootstrap.servers", KeyEffect.ACTS),
        ("A->B.source.producer.client.id", KeyEffect.NOT_YET),
        ("A->B.target.producer.client.id", KeyEffect.ACTS),
        ("A->B.producer.override.client.id", KeyEffect.ACTS),
        ("producer.override.request.timeout.ms", KeyEffect.ACTS),
        ("A->B.producer.override.compression.type", KeyEffect.ACTS),
        ("A->B.producer.override.compresion.type", KeyEffect.UNKNOWN),
        ("B.producer.override.client.id", KeyEffect.MISPLACED),
        ("A->B.consumer.override.client.id", KeyEffect.MISPLACED),
        ("A.sasl.kerberos.service.name", KeyEffect.ACTS),
        ("A.sasl.kerberos.kinit.cmd", KeyEffect.ACTS),
        ("causeway.krb5.conf", KeyEffect.ACTS),
        ("A.producer.compression.type", KeyEffect.ACTS),
        ("A->B.target.producer.compression.zstd.level", KeyEffect.ACTS),
        ("A->B.source.producer.compression.type", KeyEffect.NOT_YET),
        ("A.consumer.compression.type", KeyEffect.UNKNOWN),
        ("A.producer.batch.size", KeyEffect.NOT_YET),
        ("A.group.id", KeyEffect.MEANINGLESS),
        ("A.admin.listeners", KeyEffect.MEANINGLESS),
        ("A.offset.storage.topic", KeyEffect.ACTS),
        ("A.offset.storage.replication.factor", KeyEffect.ACTS),
        ("key.converter.plugin.version", KeyEffect.MEANINGLESS),
        ("use.incremental.alter.configs", KeyEffect.MEANINGLESS),
        ("metric.names.formats", KeyEffect.MEANINGLESS),
        ("forwarding.admin.class", KeyEffect.NOT_YET),
        ("A.fetch.max.bytes", KeyEffect.MISPLACED),
        ("B.producer.max.request.size", KeyEffect.ACTS),
        ("A->B.producer.max.request.size", KeyEffect.ACTS),
        ("A->B.producer.override.max.request.size", KeyEffect.ACTS),
        ("A.consumer.max.request.size", KeyEffect.UNKNOWN),
        ("compression.type", KeyEffect.MISPLACED),
        ("A.topics", KeyEffect.MISPLACED),
        ("A.consumer.fetch.max.byte", KeyEffect.UNKNOWN),
        ("A->B.consumer.no.such", KeyEffect.UNKNOWN),
        ("something", KeyEffect.UNKNOWN),
    ],
)
def test_effects(key: str, effect: KeyEffect) -> None:
    assert audit_key(key, ALIASES).effect is effect


@pytest.mark.parametrize("name", sorted(known.CLUSTER_KEYS | known.FLOW))
def test_what_kafka_knows_is_never_unknown(name: str) -> None:
    for key in (name, f"A->B.{name}"):
        known_to_us = (KeyEffect.ACTS, KeyEffect.MEANINGLESS, KeyEffect.NOT_YET)
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
