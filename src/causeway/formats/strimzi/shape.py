"""The form of a KafkaMirrorMaker2 resource: each field of its API versions.

Ignored fields describe how Strimzi runs Connect's pods. Causeway runs no Connect.
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
class ResourceField:
    """`only`: the only API version that has the field; None: both have it."""

    required: bool = False
    only: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextField(ResourceField):
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberField(ResourceField):
    least: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagField(ResourceField):
    """True or false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapField(ResourceField):
    """Any keys with a text each, as Kafka's configs have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredField(ResourceField):
    """A warning names the field; its content is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectField(ResourceField):
    parts: Mapping[str, Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListField(ResourceField):
    of: ObjectField


Part = TextField | NumberField | FlagField | MapField | IgnoredField | ObjectField | ListField

_TEXT, _NEEDED, _IGNORED = TextField(), TextField(required=True), IgnoredField()
_KEY_OF_SECRET = ObjectField(parts={"secretName": _NEEDED, "key": _NEEDED}, only=OLD)
_TRUSTED = ListField(
    of=ObjectField(parts={"secretName": _NEEDED, "certificate": _TEXT, "pattern": _TEXT})
)
# Fields of OAuth: acted on, or refused if they are not supported (clusters.py).
_OAUTH: Mapping[str, Part] = {
    **dict.fromkeys(("clientId", "scope", "tokenEndpointUri"), TextField(only=OLD)),
    **dict.fromkeys(
        ("clientSecret", "accessToken", "refreshToken", "clientAssertion"), _KEY_OF_SECRET
    ),
    **dict.fromkeys(
        (
            *("accessTokenLocation", "audience", "clientAssertionLocation"),
            *("clientAssertionType", "grantType"),
        ),
        TextField(only=OLD),
    ),
    "disableTlsHostnameVerification": FlagField(only=OLD),
    "tlsTrustedCertificates": replace(_TRUSTED, only=OLD),
    "saslExtensions": MapField(only=OLD),
    **dict.fromkeys(
        (
            *("accessTokenIsJwt", "connectTimeoutSeconds", "enableMetrics", "httpRetries"),
            *("httpRetryPauseMs", "includeAcceptHeader", "maxTokenExpirySeconds"),
            "readTimeoutSeconds",
        ),
        IgnoredField(only=OLD),
    ),
}
AUTHENTICATION = ObjectField(
    parts={
        "type": TextField(required=True, choices=AUTHENTICATIONS),
        "username": _TEXT,
        "passwordSecret": ObjectField(parts={"secretName": _NEEDED, "password": _NEEDED}),
        "certificateAndKey": ObjectField(
            parts={"secretName": _NEEDED, "certificate": _NEEDED, "key": _NEEDED}
        ),
        "sasl": FlagField(),
        "config": MapField(),
        **_OAUTH,
    }
)
_CLUSTER: Mapping[str, Part] = {
    "alias": _NEEDED,
    "bootstrapServers": _NEEDED,
    "tls": ObjectField(parts={"trustedCertificates": _TRUSTED}),
    "authentication": AUTHENTICATION,
    "config": MapField(),
}
_TARGET = ObjectField(
    parts={
        **_CLUSTER,
        "offsetStorageTopic": _NEEDED,
        **dict.fromkeys(("groupId", "configStorageTopic", "statusStorageTopic"), _IGNORED),
    }
)
CONNECTOR = ObjectField(
    parts={
        "config": MapField(),
        "state": TextField(choices=STATES),
        "pause": FlagField(only=OLD),
        "tasksMax": NumberField(least=1),
        **dict.fromkeys(("autoRestart", "version", "listOffsets", "alterOffsets"), _IGNORED),
    }
)
MIRROR = ObjectField(
    parts={
        "source": ObjectField(parts=_CLUSTER),
        "sourceCluster": TextField(only=OLD),
        "targetCluster": TextField(only=OLD),
        "sourceConnector": CONNECTOR,
        "checkpointConnector": CONNECTOR,
        "heartbeatConnector": replace(CONNECTOR, only=OLD),
        "topicsPattern": _TEXT,
        "topicsExcludePattern": _TEXT,
        "topicsBlacklistPattern": TextField(only=OLD),
        "groupsPattern": _TEXT,
        "groupsExcludePattern": _TEXT,
        "groupsBlacklistPattern": TextField(only=OLD),
    }
)
SPEC = ObjectField(
    required=True,
    parts={
        "target": _TARGET,
        "mirrors": ListField(of=MIRROR, required=True),
        "connectCluster": TextField(only=OLD),
        "clusters": ListField(of=ObjectField(parts=_CLUSTER), only=OLD),
        **dict.fromkeys(
            (
                *("version", "replicas", "image", "resources", "livenessProbe", "readinessProbe"),
                *("jvmOptions", "jmxOptions", "logging", "clientRackInitImage", "rack"),
                *("metricsConfig", "tracing", "template"),
            ),
            _IGNORED,
        ),
        "externalConfiguration": IgnoredField(only=OLD),
    },
)
# `metadata` and `status` are Kubernetes' own.
TOP = ("apiVersion", "kind", "metadata", "spec", "status")
