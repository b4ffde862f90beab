"""The keys of schema registries and of what becomes of schemas: beside keys.py, one table."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from causeway.config.keys import Keys, key
from causeway.config.values import Header, Seconds, Text, word


class SchemaKeys(Keys):
    """Of a flow: the schemas of its records."""

    schemas: Annotated[Literal["off", "copy", "translate"], BeforeValidator(word)] = key(
        "causeway.schemas",
        "off",
        "`copy` keeps the source's [schema registry](../how-to/schemas-copy.md) copied into the"
        " target's, ids and all; `translate` registers the schemas there and writes"
        " their ids there into records. Both need the registries of both clusters.",
    )
    interval: Seconds = key(
        "causeway.schemas.interval.seconds", 30, "How often to look for new schemas."
    )
    subjects: Text = key(
        "causeway.schemas.subjects",
        "",
        "Subjects besides the topics' own (`TOPIC-key`, `TOPIC-value`): a list of whole-name"
        " regular expressions.",
    )
    subject_names: Annotated[Literal["mirror", "source", "both"], BeforeValidator(word)] = key(
        "causeway.schemas.names",
        "mirror",
        "What a topic's subjects are called on the target: after the mirrored topic"
        " (`A.orders-value`), as on the source (`orders-value`), or both.",
    )
    context: Text = key(
        "causeway.schemas.context",
        "",
        "Context of the target's registry that the copies go to, without its dot.",
    )
    unknown: Annotated[Literal["stop", "pass"], BeforeValidator(word)] = key(
        "causeway.schemas.unknown",
        "stop",
        "With `translate`: whether a partition waits before a record with an id that the source's"
        " registry does not know, or the record passes as it is.",
    )
    parts: Annotated[Literal["key", "value", "both"], BeforeValidator(word)] = key(
        "causeway.schemas.parts",
        "both",
        "With `translate`: what of a record has ids in it. `value` where keys are numbers, whose"
        " bytes look like the id of a schema.",
    )


class RegistryKeys(Keys):
    """Of a cluster's schema registry: `A.key`."""

    url: Text | None = key(
        "causeway.registry.url", None, "Schema registry of this cluster (http or https)."
    )
    username: Text | None = key("causeway.registry.username", None, "Who asks it.")
    password: str | None = key("causeway.registry.password", None, "Their password.")
    token: Header | None = key(
        "causeway.registry.token", None, "What is sent there as `Authorization: Bearer …` instead."
    )


REGISTRY_TLS = {
    "causeway.registry.ssl.truststore.location": "File of certificates trusted for it. Default: the"
    " system's.",
    "causeway.registry.ssl.truststore.password": "Its password (JKS, PKCS12).",
    "causeway.registry.ssl.truststore.type": "JKS, PKCS12 or PEM.",
    "causeway.registry.ssl.truststore.certificates": "Trusted certificates as PEM text.",
}
OF_REGISTRIES = RegistryKeys.names() | REGISTRY_TLS.keys()
