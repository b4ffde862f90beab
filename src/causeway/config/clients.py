"""The keys of Kafka's clients, of schema registries, and of the schemas of a flow; how a client
reaches a cluster.

The settings go to lanes on other machines and hold all that a lane needs: the driver converts key
stores and trust stores to PEM text, so an executor reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import msgspec

from causeway.config.key_table import AS_AT_START, LIVE, KeyTable, key, start_key, texts
from causeway.config.logins import SaslSettings, TlsSettings
from causeway.config.values import (
    BOOL,
    COUNT,
    HEADER,
    INT_MAX,
    LIST,
    LONG_MAX,
    MILLIS,
    PATTERNS,
    SECONDS,
    SECRET,
    SHARE,
    SIZE,
    TEXT,
    FrozenMap,
    Secret,
    ValueKind,
    choice,
    whole,
)
from causeway.patterns import Pattern

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


def _is_committed(level: str) -> bool:
    return level == "read_committed"


def _level(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


@dataclass(frozen=True, kw_only=True)
class ClientKeys(KeyTable, applies=LIVE):
    """The keys of any client: `A.consumer.key`, `A.producer.key`, `A.admin.key`."""

    client_id: str = key("client.id", TEXT, "causeway", "Shown in the brokers' logs and quotas.")
    request_timeout_ms: int = key(
        "request.timeout.ms", MILLIS, 30_000, "Timeout of a broker's answer."
    )
    connect_timeout_ms: int = key(
        "socket.connection.setup.timeout.ms", MILLIS, 10_000, "Timeout of opening a connection."
    )
    receive_buffer_bytes: int = key(
        "receive.buffer.bytes",
        whole(1, INT_MAX, -1),
        -1,
        "Size of a socket's receive buffer; -1: the kernel decides, also for distant clusters.",
    )
    send_buffer_bytes: int = key(
        "send.buffer.bytes", whole(1, INT_MAX, -1), -1, "Size of its send buffer; -1: likewise."
    )


@dataclass(frozen=True, kw_only=True)
class FetchSettings(KeyTable, applies=LIVE):
    """The keys of a flow's reader: `A.consumer.key`."""

    read_committed: bool = start_key(
        "isolation.level",
        choice("read_committed", "read_uncommitted").then(_is_committed, _level),
        "read_committed",
        "Whether aborted and open transactions are read.",
    )
    start: Literal["earliest", "latest"] = key(
        "auto.offset.reset",
        choice("earliest", "latest"),
        "earliest",
        "Start of a partition that was never mirrored. With `latest`, topics and partitions that"
        " are created while the mirror runs still start at their first record.",
    )
    max_wait_ms: int = key(
        "fetch.max.wait.ms", SIZE, 500, "How long a broker may wait for fetch.min.bytes."
    )
    min_bytes: int = key("fetch.min.bytes", SIZE, 1, "Least bytes of a fetch answer.")
    max_bytes: int = key("fetch.max.bytes", COUNT, 50 << 20, "Most bytes of a fetch answer.")
    max_partition_bytes: int | None = key(
        "max.partition.fetch.bytes",
        COUNT,
        None,
        "Most bytes of a partition in a fetch answer. Default: 2 to 4 MiB, up to 32 far away.",
    )
    metadata_max_age_ms: int = key(
        "metadata.max.age.ms",
        whole(0, LONG_MAX),
        300_000,
        "Maximum time between two requests for the leaders of the partitions that are read.",
    )


@dataclass(frozen=True, kw_only=True)
class ProducerKeys(ClientKeys):
    """The keys of a flow's writer: `A.producer.key`."""

    max_request_bytes: int | None = key(
        "max.request.size",
        COUNT,
        None,
        "The most bytes of a request that holds records. Larger batches are sent in parts; a single"
        " record that is larger is sent all the same. Default: 4 MiB, or less once a broker has"
        " closed connections after large requests.",
    )
    compression_type: Literal["none", "producer", "gzip", "snappy", "lz4", "zstd"] = key(
        "compression.type",
        choice("none", "producer", "gzip", "snappy", "lz4", "zstd"),
        "none",
        "Codec for batches that come without compression"
        " ([when to use it](../how-to/compression.md)). `none` and `producer`: batches keep their"
        " codec.",
    )
    gzip_level: int = key(
        "compression.gzip.level", whole(1, 9, -1), -1, "Level of gzip; -1 means 6."
    )
    lz4_level: int = key(
        "compression.lz4.level",
        whole(1, 17),
        9,
        "Level of lz4. As with Java, 9 is the fast compressor; each other level compresses more,"
        " and takes longer.",
    )
    zstd_level: int = key("compression.zstd.level", whole(-131_072, 22), 3, "Level of zstd.")


CLUSTER_ID = "causeway.cluster.id"
# Client keys that decide how a cluster is reached: `A.key`, or `key` for all clusters.
SECURITY = texts(
    {
        "bootstrap.servers": "host:port of some brokers, comma-separated.",
        CLUSTER_ID: "The cluster's id: brokers of another cluster are refused. Default: the id in"
        " the progress topic.",
        "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or GSSAPI"
        " (Kerberos, Kafka's default).",
        "sasl.jaas.config": "Login module and its options, as for Java clients.",
        "sasl.login.callback.handler.class": "Class of Kafka, Strimzi, Google or Amazon that gets"
        " tokens. Causeway runs no Java class: it does the same work itself.",
        "sasl.kerberos.service.name": "First part of the brokers' principals, usually `kafka`.",
        "sasl.kerberos.kinit.cmd": "Program that renews the ticket of a ticket cache."
        " Causeway runs it with `-R`. Default: `/usr/bin/kinit`.",
        "sasl.kerberos.ticket.renew.window.factor": "Share of the life of a ticket cache's ticket"
        " after which Causeway renews the ticket: with the jitter, 0.95 at most. Default: 0.8.",
        "sasl.kerberos.ticket.renew.jitter": "Largest share of the life by which the renewal is"
        " later, at random. Default: 0.05.",
        "sasl.kerberos.min.time.before.relogin": "Least milliseconds between two attempts to renew"
        " a ticket: 5000 or more, and 5000 if the ticket expires before. Default: 60000.",
        "causeway.krb5.conf": "Kerberos' configuration file. Default: that of the environment"
        " (`KRB5_CONFIG`, or `java.security.krb5.conf` in `KAFKA_OPTS`), else `/etc/krb5.conf`.",
        "sasl.oauthbearer.token.endpoint.url": "URL of the token endpoint (https), or `file:///PATH`"
        " of a file with a token, which is read again when it changes.",
        "sasl.oauthbearer.client.credentials.client.id": "OAuth client.",
        "sasl.oauthbearer.client.credentials.client.secret": "Its secret.",
        "sasl.oauthbearer.scope": "Scope to ask for.",
        "sasl.oauthbearer.header.urlencode": "Whether client and secret are URL-encoded in the"
        " request's header, as RFC 6749 says. Default: false, as in Kafka.",
        "sasl.oauthbearer.jwt.retriever.class": "How a token is asked for: Kafka's"
        " `DefaultJwtRetriever` (default), `ClientCredentialsJwtRetriever`, `JwtBearerJwtRetriever`"
        " or `FileJwtRetriever`.",
        "sasl.oauthbearer.assertion.file": "File with a signed assertion, which is read again when"
        " it changes. It wins over the keys below.",
        "sasl.oauthbearer.assertion.private.key.file": "PEM file with the private key that signs"
        " assertions.",
        "sasl.oauthbearer.assertion.private.key.passphrase": "Its passphrase.",
        "sasl.oauthbearer.assertion.algorithm": "RS256 (default) or ES256.",
        "sasl.oauthbearer.assertion.template.file": "JSON file with more headers and claims of"
        ' assertions: `{"header": {…}, "payload": {…}}`.',
        "sasl.oauthbearer.assertion.claim.iss": "Issuer of assertions. With client credentials it"
        " means that an assertion replaces the secret.",
        "sasl.oauthbearer.assertion.claim.sub": "Subject of assertions.",
        "sasl.oauthbearer.assertion.claim.aud": "Audience of assertions.",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "Seconds after the request until an"
        " assertion expires. Default: 300.",
        "sasl.oauthbearer.assertion.claim.nbf.seconds": "Seconds before the request from which on"
        " an assertion is valid. Default: 60.",
        "sasl.oauthbearer.assertion.claim.jti.include": "Whether each assertion has an id of its"
        " own. Default: false.",
        "ssl.truststore.location": "File of trusted certificates. Default: the system's.",
        "ssl.truststore.password": "Its password (JKS, PKCS12).",
        "ssl.truststore.type": "JKS, PKCS12 or PEM.",
        "ssl.truststore.certificates": "Trusted certificates as PEM text.",
        "ssl.keystore.location": "File with the client's key and certificate chain.",
        "ssl.keystore.password": "Its password (JKS, PKCS12).",
        "ssl.keystore.type": "JKS, PKCS12 or PEM.",
        "ssl.keystore.key": "Private key as PEM text.",
        "ssl.keystore.certificate.chain": "Its certificate chain as PEM text.",
        "ssl.key.password": "Password of the private key.",
        "ssl.enabled.protocols": "TLSv1.2, TLSv1.3 or both; older versions are never used.",
        "ssl.endpoint.identification.algorithm": "https: the broker's certificate must name its"
        " host. Empty: anyone with a trusted certificate can impersonate a broker.",
    },
    {
        "bootstrap.servers": LIST,
        "security.protocol": ValueKind(str.strip, {"enum": list(get_args(SecurityProtocol))}),
        "ssl.enabled.protocols": LIST,
        "sasl.kerberos.ticket.renew.window.factor": SHARE,
        "sasl.kerberos.ticket.renew.jitter": SHARE,
        "sasl.kerberos.min.time.before.relogin": SIZE,
        "sasl.oauthbearer.header.urlencode": BOOL,
        "sasl.oauthbearer.assertion.claim.exp.seconds": SIZE,
        "sasl.oauthbearer.assertion.claim.nbf.seconds": SIZE,
        "sasl.oauthbearer.assertion.claim.jti.include": BOOL,
    },
    applies=LIVE,
)


def _without_dot(context: str) -> str:
    return context.removeprefix(".")


def _parts(word: str) -> tuple[str, ...]:
    return ("key", "value") if word == "both" else (word,)


def _word(parts: tuple[str, ...]) -> str:
    return "both" if len(parts) > 1 else parts[0]


@dataclass(frozen=True, kw_only=True)
class SchemaKeys(KeyTable, applies=AS_AT_START):
    """The keys of a flow about the schemas of its records."""

    mode: Literal["off", "copy", "translate"] = key(
        "causeway.schemas",
        choice("off", "copy", "translate"),
        "off",
        "`copy` copies the source's [schema registry](../how-to/schemas-copy.md) into the"
        " target's, with the same ids; `translate` registers the schemas there and writes"
        " their ids there into records. Both need the registries of both clusters.",
    )
    interval_s: float = key(
        "causeway.schemas.interval.seconds",
        SECONDS,
        30,
        "How often to look for new schemas.",
        applies=LIVE,
    )
    subjects: tuple[Pattern, ...] = key(
        "causeway.schemas.subjects",
        PATTERNS,
        "",
        "More subjects than the topics' own (`TOPIC-key`, `TOPIC-value`): a list of whole-name"
        " regular expressions.",
        applies=LIVE,
    )
    names: Literal["mirror", "source", "both"] = key(
        "causeway.schemas.names",
        choice("mirror", "source", "both"),
        "mirror",
        "Names of a topic's subjects on the target: by the mirrored topic"
        " (`A.orders-value`), as on the source (`orders-value`), or both.",
    )
    context: str = key(
        "causeway.schemas.context",
        TEXT.then(_without_dot),
        "",
        "Context in the target's registry for the copies, without its dot.",
    )
    unknown: Literal["stop", "pass"] = key(
        "causeway.schemas.unknown",
        choice("stop", "pass"),
        "stop",
        "With `translate`: if a record has an id that the source's registry does not know, the"
        " partition waits before it (`stop`), or the record passes unchanged (`pass`).",
    )
    parts: tuple[str, ...] = key(
        "causeway.schemas.parts",
        choice("key", "value", "both").then(_parts, _word),
        "both",
        "With `translate`: the parts of a record that have ids. `value`: for topics whose keys are"
        " numbers, because their bytes look like the id of a schema.",
    )


@dataclass(frozen=True, kw_only=True)
class RegistryKeys(KeyTable, applies=LIVE):
    """The keys of a cluster's schema registry: `A.key`."""

    url: str | None = start_key(
        "causeway.registry.url", TEXT, None, "Schema registry of this cluster (http or https)."
    )
    username: str | None = key(
        "causeway.registry.username", TEXT, None, "User name for the registry."
    )
    password: Secret | None = key(
        "causeway.registry.password", SECRET, None, "Password of that user."
    )
    token: Secret | None = key(
        "causeway.registry.token",
        HEADER,
        None,
        "Token, in place of user name and password: sent as `Authorization: Bearer …`.",
    )


REGISTRY_TLS = texts(
    {
        "causeway.registry.ssl.truststore.location": "File of certificates trusted for it."
        " Default: the system's.",
        "causeway.registry.ssl.truststore.password": "Its password (JKS, PKCS12).",
        "causeway.registry.ssl.truststore.type": "JKS, PKCS12 or PEM.",
        "causeway.registry.ssl.truststore.certificates": "Trusted certificates as PEM text.",
    },
    applies=LIVE,
)
OF_REGISTRIES = RegistryKeys.key_names() | REGISTRY_TLS.keys()


@dataclass(frozen=True, kw_only=True)
class ClientSettings(ProducerKeys):
    """How one role (source reader, target writer, admin) of one link reaches one cluster."""

    alias: str
    bootstrap: tuple[tuple[str, int], ...]
    protocol: SecurityProtocol = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    cluster_id: str | None = (
        None  # only this cluster may answer; None: the id in the progress topic
    )


def to_wire(settings: ClientSettings) -> dict[str, Any]:
    """Returns `settings` in JSON's types, for the encrypted control socket to the lanes. The
    secrets are in clear text, so the result must not go to a log or a file. Lanes on other machines
    do not have the driver's files, so their names are left out."""
    if (sasl := settings.sasl) is not None:
        oauth, kerberos = sasl.oauth, sasl.kerberos
        alone = replace(
            sasl,
            oauth=oauth and replace(oauth, files={}),
            kerberos=kerberos and replace(kerberos, renewal=None),
        )
        settings = replace(settings, sasl=alone)
    wire: dict[str, Any] = msgspec.to_builtins(settings, enc_hook=_revealed)
    return wire


def from_wire(data: Mapping[str, Any]) -> ClientSettings:
    """Returns the value that `to_wire` was given. Raises msgspec.ValidationError for other data."""
    return msgspec.convert(data, ClientSettings, dec_hook=_restored)


def _revealed(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, FrozenMap):
        return dict(value)
    raise NotImplementedError


def _restored(kind: type[Any], value: Any) -> Any:
    return kind(value)
