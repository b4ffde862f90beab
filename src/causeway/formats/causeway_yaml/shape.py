"""The form of causeway.yaml: the place of each key in it. Reading, writing, the JSON schema and the
reference page use this one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from causeway.config import (
    REGISTRY_TLS,
    SECRET_FIELD,
    SECURITY,
    TRANSFORM_REGISTRY_TLS,
    TRANSFORM_SECRETS,
    ControlSettings,
    FlowKeys,
    HeartbeatKeys,
    HttpSettings,
    KeyTable,
    RegistryKeys,
    RunSettings,
    SchemaKeys,
    TransformKeys,
    WebhookSettings,
)
from causeway.config.reading import ROLE_KEYS
from causeway.formats.logins import MECHANISM, PASSWORD, USER

Kind = Literal["plain", "duration", "size", "list", "lines", "policy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One value. `key` is the property file's, without alias or flow; `schema` describes it as JSON
    schema; `default` as text ("": none)."""

    key: str
    kind: Kind
    meaning: str
    default: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaKeys:
    """A map of Kafka's keys, written as in a property file after `prefix`. `spread`: keys that a
    cluster cannot have as a whole go to each of its clients."""

    prefix: str
    meaning: str
    words: frozenset[str] = frozenset()
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A map of named parts."""

    parts: Mapping[str, Part]
    meaning: str = ""

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
        """All leaves in and below, with the way to each."""
        for name, part in self.parts.items():
            if isinstance(part, Leaf):
                yield (*path, name), part
            elif isinstance(part, Section):
                yield from part.leaves((*path, name))

    def maps(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], KafkaKeys]]:
        """All maps of Kafka's keys in and below, with the way to each."""
        for name, part in self.parts.items():
            if isinstance(part, KafkaKeys):
                yield (*path, name), part
            elif isinstance(part, Section):
                yield from part.maps((*path, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformList:
    """A list of transforms: names of those described at the top, or maps that begin with a name."""

    meaning: str


Part = Leaf | KafkaKeys | Section | TransformList

# The places of keys. The place of any other key is its own name: `admin.timeout.ms` is
# `admin-timeout`.
_PLACES = {
    "replication.policy.class": "naming.policy",
    "replication.policy.separator": "naming.separator",
    "replication.policy.internal.topic.separator.enabled": "naming.internal-separator",
    "causeway.internal.topics": "naming.internal-topics",
    "causeway.rename": "naming.rename",
    "source.cluster.alias": "source.alias",
    "target.cluster.alias": "target.alias",
    "refresh.topics.enabled": "refresh.topics.enabled",
    "refresh.topics.interval.seconds": "refresh.topics.interval",
    "refresh.groups.enabled": "refresh.groups.enabled",
    "refresh.groups.interval.seconds": "refresh.groups.interval",
    "sync.topic.configs.enabled": "sync.topic-configs.enabled",
    "sync.topic.configs.interval.seconds": "sync.topic-configs.interval",
    "config.properties.exclude": "sync.topic-configs.exclude",
    "use.defaults.from": "sync.topic-configs.defaults-from",
    "sync.topic.acls.enabled": "sync.acls.enabled",
    "sync.topic.acls.interval.seconds": "sync.acls.interval",
    "causeway.read.only.mirrors": "sync.acls.read-only-mirrors",
    "causeway.principal": "sync.acls.principal",
    "sync.group.offsets.enabled": "sync.group-offsets.enabled",
    "sync.group.offsets.interval.seconds": "sync.group-offsets.interval",
    "causeway.mirror.maker.offsets": "sync.mirror-maker-offsets",
    "causeway.mirror.maker.offsets.topic": "sync.mirror-maker-offsets-topic",
    "causeway.mirror.maker.connector": "sync.mirror-maker-connector",
    "emit.checkpoints.enabled": "checkpoints.enabled",
    "emit.checkpoints.interval.seconds": "checkpoints.interval",
    "checkpoints.topic.replication.factor": "checkpoints.replication-factor",
    "emit.offset-syncs.enabled": "offset-syncs.enabled",
    "offset.lag.max": "offset-syncs.lag-max",
    "offset-syncs.topic.location": "offset-syncs.location",
    "offset-syncs.topic.replication.factor": "offset-syncs.replication-factor",
    "emit.heartbeats.enabled": "heartbeats.enabled",
    "emit.heartbeats.interval.seconds": "heartbeats.interval",
    "heartbeats.topic.replication.factor": "heartbeats.replication-factor",
    "heartbeats.replication.enabled": "heartbeats.replicated",
    "causeway.schemas": "schemas.mode",
    "causeway.schemas.interval.seconds": "schemas.interval",
    "causeway.schemas.subjects": "schemas.subjects",
    "causeway.schemas.names": "schemas.names",
    "causeway.schemas.context": "schemas.context",
    "causeway.schemas.unknown": "schemas.unknown",
    "causeway.schemas.parts": "schemas.parts",
    "causeway.registry.url": "registry.url",
    "causeway.registry.username": "registry.username",
    "causeway.registry.password": "registry.password",
    "causeway.registry.token": "registry.token",
    "causeway.registry.ssl.truststore.location": "registry.truststore.location",
    "causeway.registry.ssl.truststore.password": "registry.truststore.password",
    "causeway.registry.ssl.truststore.type": "registry.truststore.type",
    "causeway.registry.ssl.truststore.certificates": "registry.truststore.certificates",
    "causeway.metrics.port": "metrics.port",
    "causeway.metrics.host": "metrics.host",
    "causeway.metrics.names": "metrics.names",
    "causeway.http.port": "http.port",
    "causeway.http.host": "http.host",
    "causeway.http.token": "http.token",
    "causeway.http.tls.certificate": "http.tls.certificate",
    "causeway.http.tls.key": "http.tls.key",
    "causeway.http.tls.client.ca": "http.tls.client-ca",
    "causeway.webhook.url": "webhook.url",
    "causeway.webhook.token": "webhook.token",
    "causeway.webhook.secret": "webhook.secret",
    "causeway.lane.buffer.bytes": "lane-buffer",
    "value.format": "value.format",
    "value.schema": "value.schema",
    "key.format": "key.format",
    "key.schema": "key.schema",
    "registry.url": "registry.url",
    "registry.username": "registry.username",
    "registry.password": "registry.password",
    "registry.ssl.truststore.location": "registry.truststore.location",
    "registry.ssl.truststore.password": "registry.truststore.password",
    "registry.ssl.truststore.type": "registry.truststore.type",
    "registry.ssl.truststore.certificates": "registry.truststore.certificates",
    "bootstrap.servers": "bootstrap",
    "security.protocol": "security.protocol",
    "sasl.mechanism": "security.sasl.mechanism",
    "sasl.jaas.config": "security.sasl.jaas-config",
    "sasl.oauthbearer.token.endpoint.url": "security.sasl.oauth.token-endpoint",
    "sasl.oauthbearer.client.credentials.client.id": "security.sasl.oauth.client-id",
    "sasl.oauthbearer.client.credentials.client.secret": "security.sasl.oauth.client-secret",
    "sasl.oauthbearer.scope": "security.sasl.oauth.scope",
    "ssl.truststore.location": "security.tls.truststore.location",
    "ssl.truststore.password": "security.tls.truststore.password",
    "ssl.truststore.type": "security.tls.truststore.type",
    "ssl.truststore.certificates": "security.tls.truststore.certificates",
    "ssl.keystore.location": "security.tls.keystore.location",
    "ssl.keystore.password": "security.tls.keystore.password",
    "ssl.keystore.type": "security.tls.keystore.type",
    "ssl.keystore.key": "security.tls.keystore.key",
    "ssl.keystore.certificate.chain": "security.tls.keystore.certificate-chain",
    "ssl.key.password": "security.tls.keystore.key-password",
    "ssl.enabled.protocols": "security.tls.versions",
    "ssl.endpoint.identification.algorithm": "security.tls.endpoint-identification",
}
# Keys without a place: only one value is allowed, or the form has another way to set it.
_LEFT_OUT = frozenset(
    {
        "topic.filter.class",
        "group.filter.class",
        "config.property.filter.class",
        "transforms",
        "causeway.transforms",
    }
)
_LISTS = frozenset(
    {
        "topics",
        "topics.exclude",
        "groups",
        "groups.exclude",
        "config.properties.exclude",
        "causeway.schemas.subjects",
        "causeway.metrics.names",
        "bootstrap.servers",
        "ssl.enabled.protocols",
        "causeway.paused",
    }
)
_ENUMS = {"security.protocol": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]}
_UNITS: tuple[tuple[str, Kind], ...] = (
    (".interval.seconds", "duration"),
    (".ms", "duration"),
    (".bytes", "size"),
)


def _kind(name: str) -> Kind:
    if name in _LISTS:
        return "list"
    if name == "replication.policy.class":
        return "policy"
    if name in ("rules", "causeway.rename"):
        return "lines"
    return next((kind for suffix, kind in _UNITS if name.endswith(suffix)), "plain")


def _place(name: str) -> tuple[str, ...]:
    if name in _PLACES:
        return tuple(_PLACES[name].split("."))
    short = name.removeprefix("causeway.")
    for suffix in (".seconds", ".ms"):
        short = short.removesuffix(suffix)
    return (short.replace(".", "-"),)


def _of_table(table: type[KeyTable]) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for key in table.table().values():
        if key.name not in _LEFT_OUT:
            leaf = Leaf(
                key=key.name,
                kind=_kind(key.name),
                meaning=key.meaning,
                default=key.default or "",
                schema=key.kind.schema,
            )
            yield _place(key.name), leaf


def _of_security() -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for name, meaning in SECURITY.items():
        yield _text(name, meaning)
        if name == MECHANISM:
            for key, told in _LOGIN.items():
                path = ("security", "sasl", key.rpartition("/")[2])
                yield path, Leaf(key=key, kind="plain", meaning=told, schema=_TEXT)


def _text(name: str, meaning: str) -> tuple[tuple[str, ...], Leaf]:
    schema = {"enum": _ENUMS[name]} if name in _ENUMS else _TEXT
    return _place(name), Leaf(key=name, kind=_kind(name), meaning=meaning, schema=schema)


_TEXT: Mapping[str, Any] = {"type": "string"}
_LOGIN = {
    USER: "Of PLAIN and SCRAM; with `password` in place of `jaas-config`.",
    PASSWORD: "Usually `${env:VAR}` or `${file:/path:key}`.",
}


def _section(leaves: Iterable[tuple[tuple[str, ...], Part]], meaning: str = "") -> Section:
    parts: dict[str, Part] = {}
    below: dict[str, list[tuple[tuple[str, ...], Part]]] = {}
    for (name, *rest), part in leaves:
        if rest:
            below.setdefault(name, []).append((tuple(rest), part))
            parts.setdefault(name, part)  # its place in the order
        else:
            parts[name] = part
    return Section(
        parts={
            name: _section(below[name], _MEANINGS.get(name, "")) if name in below else part
            for name, part in parts.items()
        },
        meaning=meaning,
    )


_MEANINGS = {
    "security": "How the cluster is reached.",
    "sasl": "Who we are to it.",
    "oauth": "Client credentials for OAUTHBEARER.",
    "tls": "TLS.",
    "truststore": "Who is trusted.",
    "keystore": "Our own certificate, for mutual TLS.",
    "naming": "How mirrored topics are called.",
    "refresh": "Looking for what is new.",
    "sync": "What is mirrored besides records.",
    "checkpoints": "The groups' translated offsets, as MirrorMaker 2 writes them.",
    "offset-syncs": "Pairs of source and target offsets, as MirrorMaker 2 writes them.",
    "heartbeats": "Heartbeats to the target; of every pair of clusters, also if no link runs.",
    "metrics": "For Prometheus.",
    "http": "The server in a run: metrics, REST API, probes.",
    "webhook": "Where what happens is posted.",
    "schemas": "The schemas of the records, by the registries of both clusters.",
    "registry": "Schema registry.",
    "key": "The records' keys.",
    "value": "The records' values.",
    "source": "What this link says of its source.",
    "target": "What this link says of its target.",
}


_TRANSFORMS = TransformList(
    meaning="Transforms of these links' records: names of those described at the top, or maps that"
    " begin with `name:`. The first that matches a topic is its only one."
)


def _client(role: str, prefix: str = "") -> KafkaKeys:
    return KafkaKeys(
        prefix=f"{prefix}{role}.",
        meaning=f"Keys of Kafka's {role} client.",
        words=ROLE_KEYS[role],
    )


@cache
def cluster() -> Section:
    """Of one cluster: `A.key`."""
    clients: list[tuple[tuple[str, ...], Part]] = [((role,), _client(role)) for role in ROLE_KEYS]
    every = KafkaKeys(
        prefix="",
        meaning="Keys of all Kafka's clients of this cluster.",
        words=frozenset.intersection(*ROLE_KEYS.values()),
        spread=True,
    )
    registry = (_text(name, meaning) for name, meaning in REGISTRY_TLS.items())
    return _section(
        [*_of_security(), *_of_table(RegistryKeys), *registry, (("client",), every), *clients]
    )


@cache
def link() -> Section:
    """Of one link: `A->B.key`."""
    return _section(
        [
            *_of_flow(),
            (("transforms",), _TRANSFORMS),
            (("source", "consumer"), _client("consumer", "source.")),
            (("source", "admin"), _client("admin", "source.")),
            (("target", "producer"), _client("producer", "target.")),
            (("target", "admin"), _client("admin", "target.")),
        ]
    )


@cache
def defaults() -> Section:
    """Of all links and clusters that say nothing of their own: plain `key`."""
    flows = [(path, leaf) for path, leaf in _of_flow() if leaf.key != "enabled"]
    return _section([*flows, (("transforms",), _TRANSFORMS), *_of_security()])


def _of_flow() -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for table in (FlowKeys, ControlSettings, SchemaKeys, HeartbeatKeys):
        yield from _of_table(table)


@cache
def transform() -> Section:
    """Of one transform: `causeway.transform.NAME.key`."""
    secrets = KafkaKeys(prefix=SECRET_FIELD, meaning=TRANSFORM_SECRETS["secret.FIELD"])
    registry = (_text(name, meaning) for name, meaning in TRANSFORM_REGISTRY_TLS.items())
    return _section([*_of_table(TransformKeys), (("secrets",), secrets), *registry])


@cache
def run() -> Section:
    """Of the whole process."""
    tables = (RunSettings, HttpSettings, WebhookSettings)
    return _section(leaf for table in tables for leaf in _of_table(table))
