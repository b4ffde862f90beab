"""The form of a KafkaMirrorMaker2 resource: the fields of its API versions. Checks a document
against the form.

Ignored fields describe how Strimzi runs Connect's pods. Causeway runs no Connect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from causeway.formats.causeway_yaml.document import Value, ValueReader, YamlEntry, YamlPlace

API = "kafka.strimzi.io"
NEW, OLD = "v1", "v1beta2"
# The form of a resource by its `apiVersion`. IBM Event Streams runs Strimzi's operator with its own
# API group and the same form.
FORMS = {
    f"{API}/{NEW}": NEW,
    f"{API}/{OLD}": OLD,
    "eventstreams.ibm.com/v1beta2": OLD,
    "eventstreams.ibm.com/v1alpha1": OLD,
}
KIND = "KafkaMirrorMaker2"
_COUNT = re.compile(r"[1-9]\d{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceField:
    """`kind`: a "count" is a whole number of at least 1, a "flag" is true or false. A "map" has any
    keys, each with a text, like Kafka's configs. An "object", and each item of a "list", has
    `parts`. The content of an "ignored" field is not read; a warning names the field. `only`: the
    only API version that has the field; None if both have it."""

    kind: Literal["text", "count", "flag", "map", "ignored", "object", "list"] = "text"
    required: bool = False
    only: str | None = None
    choices: tuple[str, ...] = ()  # of a text
    parts: Mapping[str, ResourceField] = field(default_factory=dict)


def _object(parts: Mapping[str, ResourceField], only: str | None = None) -> ResourceField:
    return ResourceField(kind="object", parts=parts, only=only)


def _all(names: str, each: ResourceField) -> dict[str, ResourceField]:
    return dict.fromkeys(names.split(), each)


_TEXT, _NEEDED = ResourceField(), ResourceField(required=True)
_OLD_TEXT, _OLD_FLAG = ResourceField(only=OLD), ResourceField(kind="flag", only=OLD)
_FLAG, _MAP = ResourceField(kind="flag"), ResourceField(kind="map")
_IGNORED = ResourceField(kind="ignored")
_TRUSTED = ResourceField(
    kind="list", parts={"secretName": _NEEDED, "certificate": _TEXT, "pattern": _TEXT}
)
AUTHENTICATION = _object(
    {
        "type": ResourceField(
            required=True,
            choices=("tls", "scram-sha-256", "scram-sha-512", "plain", "oauth", "custom"),
        ),
        "username": _TEXT,
        "passwordSecret": _object(_all("secretName password", _NEEDED)),
        "certificateAndKey": _object(_all("secretName certificate key", _NEEDED)),
        "sasl": _FLAG,
        "config": _MAP,
        # OAuth: clusters.py acts on these, or refuses them if they are not supported.
        **_all("clientId scope tokenEndpointUri audience clientAssertionType", _OLD_TEXT),
        **_all("accessTokenLocation clientAssertionLocation grantType", _OLD_TEXT),
        **_all(
            "clientSecret accessToken refreshToken clientAssertion",
            _object(_all("secretName key", _NEEDED), OLD),
        ),
        "disableTlsHostnameVerification": _OLD_FLAG,
        "tlsTrustedCertificates": replace(_TRUSTED, only=OLD),
        "saslExtensions": replace(_MAP, only=OLD),
        **_all(
            "accessTokenIsJwt connectTimeoutSeconds enableMetrics httpRetries httpRetryPauseMs"
            " includeAcceptHeader maxTokenExpirySeconds readTimeoutSeconds",
            replace(_IGNORED, only=OLD),
        ),
    }
)
_CLUSTER: Mapping[str, ResourceField] = {
    "alias": _NEEDED,
    "bootstrapServers": _NEEDED,
    "tls": _object({"trustedCertificates": _TRUSTED}),
    "authentication": AUTHENTICATION,
    "config": _MAP,
}
_CONNECTOR = _object(
    {
        "config": _MAP,
        "state": ResourceField(choices=("running", "paused", "stopped")),
        "pause": _OLD_FLAG,
        "tasksMax": ResourceField(kind="count"),
        **_all("autoRestart version listOffsets alterOffsets", _IGNORED),
    }
)
_MIRROR: Mapping[str, ResourceField] = {
    "source": _object(_CLUSTER),
    **_all("sourceCluster targetCluster", _OLD_TEXT),
    **_all("sourceConnector checkpointConnector", _CONNECTOR),
    "heartbeatConnector": replace(_CONNECTOR, only=OLD),
    **_all("topicsPattern topicsExcludePattern groupsPattern groupsExcludePattern", _TEXT),
    **_all("topicsBlacklistPattern groupsBlacklistPattern", _OLD_TEXT),
}
SPEC = _object(
    {
        "target": _object(
            {
                **_CLUSTER,
                "offsetStorageTopic": _NEEDED,
                **_all("groupId configStorageTopic statusStorageTopic", _IGNORED),
            }
        ),
        "mirrors": ResourceField(kind="list", parts=_MIRROR, required=True),
        "connectCluster": _OLD_TEXT,
        "clusters": ResourceField(kind="list", parts=_CLUSTER, only=OLD),
        **_all(
            "version replicas image resources livenessProbe readinessProbe jvmOptions jmxOptions"
            " logging clientRackInitImage rack metricsConfig tracing template",
            _IGNORED,
        ),
        "externalConfiguration": replace(_IGNORED, only=OLD),
    }
)
# `metadata` and `status` are Kubernetes' own.
TOP = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(slots=True, kw_only=True)
class Tree:
    """The values of an object. As in Kubernetes, a field without a value is absent."""

    path: str
    position: YamlPlace
    texts: dict[str, YamlEntry] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    items: dict[str, list[Tree]] = field(default_factory=dict)
    keys: dict[str, dict[str, YamlEntry]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return self.given.place

    @property
    def given(self) -> YamlEntry:
        """A value for entries that follow from the presence of the object."""
        return YamlEntry.at("", "", self.path, self.position)


@dataclass(slots=True, kw_only=True)
class Checker(ValueReader):
    """`ignored`: paths of fields that have no meaning here."""

    telling: ClassVar = re.compile(r"[A-Za-z]+([.-][A-Za-z]+)*")  # also a key of Kafka's
    version: str
    ignored: list[str] = field(default_factory=list)

    def tree(self, value: Value, form: ResourceField, path: str) -> Tree:
        """Returns the values of `form` in `value`. Values that do not fit go to `problems`."""
        fields = self.fields(value, path)
        tree = Tree(path=path, position=value.place)
        for name, each in fields.values.items():
            part, where = form.parts.get(name), f"{path}.{name} ({fields.places[name]})"
            if part is None:
                there = [n for n, p in form.parts.items() if p.only in (None, self.version)]
                self.unknown(name, fields.places[name], path, there)
            elif part.only not in (None, self.version):
                self.problems.add(
                    f"{where} is of {part.only}; by its apiVersion the resource has the form of"
                    f" {self.version}"
                )
            elif not each.empty:
                self._part(tree, name, part, each)
            elif part.required:
                self.problems.add(f"{where} has no value")
        for name, part in form.parts.items():
            if part.required and name not in fields.values:
                self.problems.add(f"{path} ({value.place}) has no {name}")
        return tree

    def _part(self, tree: Tree, name: str, part: ResourceField, value: Value) -> None:
        path = f"{tree.path}.{name}"
        match part.kind:
            case "object":
                tree.trees[name] = self.tree(value, part, path)
            case "list":
                items = enumerate(self.items(value, path))
                tree.items[name] = [self.tree(each, part, f"{path}[{at}]") for at, each in items]
            case "map":
                tree.keys[name] = dict(self._keys(value, path))
            case "ignored":
                self.ignored.append(path)
            case _ if (given := self._scalar(value, path)) is not None:
                if expected := _expected(part, given.value):
                    self.problems.add(f"{given.place} must be {expected}, not {given.value!r}")
                else:
                    tree.texts[name] = given

    def _keys(self, value: Value, path: str) -> Iterator[tuple[str, YamlEntry]]:
        for name, each in self.fields(value, path).values.items():
            if (given := self._scalar(each, f"{path}.{name}")) is not None:
                yield name, given

    def _scalar(self, value: Value, path: str) -> YamlEntry | None:
        text = self.text(value)
        if text is None:
            self.problems.add(f"{path} ({value.place}) must be one value")
            return None
        return YamlEntry.at("", text, path, value.place)


def _expected(part: ResourceField, text: str) -> str:
    """Returns the expected form of `text`; empty if `text` fits."""
    if part.choices and text not in part.choices:
        return f"one of {', '.join(part.choices)}"
    if part.kind == "flag" and text not in ("true", "false"):
        return "true or false"
    if part.kind == "count" and not _COUNT.fullmatch(text):
        return "a whole number of at least 1"
    return ""
