"""The form of a KafkaMirrorMaker2 resource: each field of its API versions, and what it is for.

What is ignored says how Strimzi runs Connect's pods, which there are none of here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

API = "kafka.strimzi.io"
NEW, OLD = "v1", "v1beta2"
# By `apiVersion`, the form that a resource has. IBM Event Streams runs Strimzi's operator under a
# group of its own, with the same form.
FORMS = {
    f"{API}/{NEW}": NEW,
    f"{API}/{OLD}": OLD,
    "eventstreams.ibm.com/v1beta2": OLD,
    "eventstreams.ibm.com/v1alpha1": OLD,
}
KIND = "KafkaMirrorMaker2"
STATES = ("running", "paused", "stopped")
AUTHENTICATIONS = ("tls", "scram-sha-256", "scram-sha-512", "plain", "oauth", "custom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """`only`: the version that has the field, where not both have."""

    required: bool = False
    only: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Field):
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Field):
    least: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Field):
    """True or false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys(Field):
    """Any keys with a text each, as Kafka's configs have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored(Field):
    """Whatever stands there is named, and not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Field):
    parts: Mapping[str, Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Field):
    of: Form


Part = Text | Number | Flag | Keys | Ignored | Form | Items

_TEXT, _NEEDED, _IGNORED = Text(), Text(required=True), Ignored()
_KEY_OF_SECRET = Form(parts={"secretName": _NEEDED, "key": _NEEDED}, only=OLD)
_TRUSTED = Items(of=Form(parts={"secretName": _NEEDED, "certificate": _TEXT, "pattern": _TEXT}))
# Of OAuth: acted on, or refused where it asks for what there is not (clusters.py).
_OAUTH: Mapping[str, Part] = {
    **dict.fromkeys(("clientId", "scope", "tokenEndpointUri"), Text(only=OLD)),
    **dict.fromkeys(
        ("clientSecret", "accessToken", "refreshToken", "clientAssertion"), _KEY_OF_SECRET
    ),
    **dict.fromkeys(
        (
            *("accessTokenLocation", "audience", "clientAssertionLocation"),
            *("clientAssertionType", "grantType"),
        ),
        Text(only=OLD),
    ),
    "disableTlsHostnameVerification": Flag(only=OLD),
    "tlsTrustedCertificates": replace(_TRUSTED, only=OLD),
    "saslExtensions": Keys(only=OLD),
    **dict.fromkeys(
        (
            *("accessTokenIsJwt", "connectTimeoutSeconds", "enableMetrics", "httpRetries"),
            *("httpRetryPauseMs", "includeAcceptHeader", "maxTokenExpirySeconds"),
            "readTimeoutSeconds",
        ),
        Ignored(only=OLD),
    ),
}
AUTHENTICATION = Form(
    parts={
        "type": Text(required=True, choices=AUTHENTICATIONS),
        "username": _TEXT,
        "passwordSecret": Form(parts={"secretName": _NEEDED, "password": _NEEDED}),
        "certificateAndKey": Form(
            parts={"secretName": _NEEDED, "certificate": _NEEDED, "key": _NEEDED}
        ),
        "sasl": Flag(),
        "config": Keys(),
        **_OAUTH,
    }
)
_CLUSTER: Mapping[str, Part] = {
    "alias": _NEEDED,
    "bootstrapServers": _NEEDED,
    "tls": Form(parts={"trustedCertificates": _TRUSTED}),
    "authentication": AUTHENTICATION,
    "config": Keys(),
}
_TARGET = Form(
    parts={
        **_CLUSTER,
        "offsetStorageTopic": _NEEDED,
        **dict.fromkeys(("groupId", "configStorageTopic", "statusStorageTopic"), _IGNORED),
    }
)
CONNECTOR = Form(
    parts={
        "config": Keys(),
        "state": Text(choices=STATES),
        "pause": Flag(only=OLD),
        "tasksMax": Number(least=1),
        **dict.fromkeys(("autoRestart", "version", "listOffsets", "alterOffsets"), _IGNORED),
    }
)
MIRROR = Form(
    parts={
        "source": Form(parts=_CLUSTER),
        "sourceCluster": Text(only=OLD),
        "targetCluster": Text(only=OLD),
        "sourceConnector": CONNECTOR,
        "checkpointConnector": CONNECTOR,
        "heartbeatConnector": replace(CONNECTOR, only=OLD),
        "topicsPattern": _TEXT,
        "topicsExcludePattern": _TEXT,
        "topicsBlacklistPattern": Text(only=OLD),
        "groupsPattern": _TEXT,
        "groupsExcludePattern": _TEXT,
        "groupsBlacklistPattern": Text(only=OLD),
    }
)
SPEC = Form(
    required=True,
    parts={
        "target": _TARGET,
        "mirrors": Items(of=MIRROR, required=True),
        "connectCluster": Text(only=OLD),
        "clusters": Items(of=Form(parts=_CLUSTER), only=OLD),
        **dict.fromkeys(
            (
                *("version", "replicas", "image", "resources", "livenessProbe", "readinessProbe"),
                *("jvmOptions", "jmxOptions", "logging", "clientRackInitImage", "rack"),
                *("metricsConfig", "tracing", "template"),
            ),
            _IGNORED,
        ),
        "externalConfiguration": Ignored(only=OLD),
    },
)
# `metadata` and `status` are Kubernetes' own.
TOP = ("apiVersion", "kind", "metadata", "spec", "status")
