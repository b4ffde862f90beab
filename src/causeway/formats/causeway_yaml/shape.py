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
    Key,
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
    """One value. `key`: the property file's key, without alias or flow. `schema`: its JSON schema.
    `default`: as text; "" if there is none."""

    key: str
    kind: Kind
    meaning: str
    default: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaKeys:
    """A map of Kafka's keys, as a property file has them after `prefix`. `spread`: a key that the
    whole cluster cannot have goes to each of its clients."""

    prefix: str
    meaning: str
    words: frozenset[str] = frozenset()
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A map of named parts."""

    parts: Mapping[str, Part]
    meaning: str = ""

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Part]]:
        """Yields all parts below, except sections, with the path to each."""
        for name, part in self.parts.items():
            if isinstance(part, Section):
                yield from part.walk((*path, name))
            else:
                yield (*path, name), part

    def leaves(self) -> Iterator[tuple[tuple[str, ...], Leaf]]:
        return ((way, part) for way, part in self.walk() if isinstance(part, Leaf))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformList:
    """A list of transforms: names of those described at the top, or maps that begin with a name."""

    meaning: str


Part = Leaf | KafkaKeys | Section | TransformList

# The place of a key, or of all keys that begin so. Each dot in the rest of a name becomes a dash:
# `admin.timeout.ms` is `admin-timeout`.
_PLACES = {
    "replication.policy.class": "naming.policy",
    "replication.policy.internal.topic.separator.enabled": "naming.internal-separator",
    "replication.policy.": "naming.",
    "causeway.internal.topics": "naming.internal-topics",
    "causeway.rename": "naming.rename",
    "source.cluster.": "source.",
    "target.cluster.": "target.",
    "refresh.topics.": "refresh.topics.",
    "refresh.groups.": "refresh.groups.",
    "sync.topic.configs.": "sync.topic-configs.",
    "config.properties.": "sync.topic-configs.",
    "use.defaults.from": "sync.topic-configs.defaults-from",
    "sync.topic.acls.": "sync.acls.",
    "causeway.read.only.mirrors": "sync.acls.read-only-mirrors",
    "causeway.principal": "sync.acls.principal",
    "sync.group.offsets.": "sync.group-offsets.",
    "causeway.mirror.maker.": "sync.mirror-maker-",
    "emit.checkpoints.": "checkpoints.",
    "checkpoints.topic.": "checkpoints.",
    "emit.offset-syncs.": "offset-syncs.",
    "offset.lag.max": "offset-syncs.lag-max",
    "offset-syncs.topic.": "offset-syncs.",
    "emit.heartbeats.": "heartbeats.",
    "heartbeats.topic.": "heartbeats.",
    "heartbeats.replication.enabled": "heartbeats.replicated",
    "causeway.schemas.": "schemas.",
    "causeway.schemas": "schemas.mode",
    "causeway.registry.ssl.truststore.": "registry.truststore.",
    "causeway.registry.": "registry.",
    "registry.ssl.truststore.": "registry.truststore.",
    "registry.": "registry.",
    "causeway.metrics.": "metrics.",
    "causeway.http.tls.": "http.tls.",
    "causeway.http.": "http.",
    "causeway.webhook.": "webhook.",
    "causeway.lane.buffer.bytes": "lane-buffer",
    "value.": "value.",
    "key.": "key.",
    "bootstrap.servers": "bootstrap",
    "security.": "security.",
    "sasl.oauthbearer.token.endpoint.url": "security.sasl.oauth.token-endpoint",
    "sasl.oauthbearer.client.credentials.": "security.sasl.oauth.",
    "sasl.oauthbearer.assertion.claim.": "security.sasl.oauth.assertion.",
    "sasl.oauthbearer.assertion.": "security.sasl.oauth.assertion.",
    "sasl.oauthbearer.": "security.sasl.oauth.",
    "sasl.kerberos.": "security.sasl.kerberos.",
    "causeway.krb5.": "security.sasl.kerberos.krb5-",
    "sasl.": "security.sasl.",
    "ssl.truststore.": "security.tls.truststore.",
    "ssl.key.password": "security.tls.keystore.key-password",
    "ssl.keystore.": "security.tls.keystore.",
    "ssl.enabled.protocols": "security.tls.versions",
    "ssl.endpoint.identification.algorithm": "security.tls.endpoint-identification",
    "causeway.": "",
}
# Keys without a place: only one value is allowed, or the form has another way to set it.
_LEFT_OUT = frozenset(
    {"topic.filter.class", "group.filter.class", "config.property.filter.class"}
    | {"transforms", "causeway.transforms"}
)
_KINDS: tuple[tuple[str, Kind], ...] = (  # by the end of a name
    ("replication.policy.class", "policy"),
    ("rules", "lines"),
    ("causeway.rename", "lines"),
    (".interval.seconds", "duration"),
    (".exp.seconds", "duration"),
    (".nbf.seconds", "duration"),
    (".ms", "duration"),
    (".bytes", "size"),
)


def _kind(key: Key) -> Kind:
    if key.kind.several:
        return "list"
    return next((kind for end, kind in _KINDS if key.name.endswith(end)), "plain")


def _place(name: str) -> tuple[str, ...]:
    start = next((start for start in _PLACES if name.startswith(start)), "")
    rest = name.removeprefix(start).removesuffix(".seconds").removesuffix(".ms")
    return tuple((_PLACES.get(start, "") + rest.replace(".", "-")).split("."))


def _of_keys(keys: Iterable[Key]) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for key in keys:
        if key.name not in _LEFT_OUT:
            leaf = Leaf(
                key=key.name,
                kind=_kind(key),
                meaning=key.meaning,
                default=key.default or "",
                schema=key.kind.schema,
            )
            yield _place(key.name), leaf


def _of_security() -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for way, leaf in _of_keys(SECURITY.values()):
        yield way, leaf
        if leaf.key == MECHANISM:
            for key, told in _LOGIN.items():
                path = ("security", "sasl", key.rpartition("/")[2])
                yield path, Leaf(key=key, kind="plain", meaning=told, schema=leaf.schema)


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
    "oauth": "Where OAUTHBEARER gets its tokens.",
    "assertion": "A signed statement that replaces the client's secret, or is the grant.",
    "kerberos": "For GSSAPI.",
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
    """Returns the section of one cluster: `A.key`."""
    clients: list[tuple[tuple[str, ...], Part]] = [((role,), _client(role)) for role in ROLE_KEYS]
    every = KafkaKeys(
        prefix="",
        meaning="Keys of all Kafka's clients of this cluster.",
        words=frozenset.intersection(*ROLE_KEYS.values()),
        spread=True,
    )
    registry = _of_keys([*RegistryKeys.all_keys(), *REGISTRY_TLS.values()])
    return _section([*_of_security(), *registry, (("client",), every), *clients])


@cache
def link() -> Section:
    """Returns the section of one link: `A->B.key`."""
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
    """Returns the section for links and clusters without their own values: plain `key`."""
    flows = [(path, leaf) for path, leaf in _of_flow() if leaf.key != "enabled"]
    return _section([*flows, (("transforms",), _TRANSFORMS), *_of_security()])


def _of_flow() -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for table in (FlowKeys, ControlSettings, SchemaKeys, HeartbeatKeys):
        yield from _of_keys(table.all_keys())


@cache
def transform() -> Section:
    """Returns the section of one transform: `causeway.transform.NAME.key`."""
    secrets = KafkaKeys(prefix=SECRET_FIELD, meaning=TRANSFORM_SECRETS["secret.FIELD"].meaning)
    registry = _of_keys(TRANSFORM_REGISTRY_TLS.values())
    return _section([*_of_keys(TransformKeys.all_keys()), (("secrets",), secrets), *registry])


@cache
def run() -> Section:
    """Of the whole process."""
    tables = (RunSettings, HttpSettings, WebhookSettings)
    return _section(_of_keys(key for table in tables for key in table.all_keys()))
