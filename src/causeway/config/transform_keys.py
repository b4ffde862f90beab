"""The keys of a flow's transforms, `causeway.transform.NAME.*`: beside keys.py, one table."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator

from causeway.config.keys import Keys, key
from causeway.config.values import Count, Text, word

LIST = "causeway.transforms"
FAMILY = "causeway.transform."
SECRET = "secret."  # noqa: S105 - how a key begins

Format = Annotated[Literal["json", "avro", "protobuf", "string", "binary"], BeforeValidator(word)]


class TransformKeys(Keys):
    """Of one transform; the names stand behind `causeway.transform.NAME.`."""

    topics: Text = key(
        "topics",
        "",
        "Whose records it is for: patterns of names on the source (required). Of several transforms"
        " the first of the list that matches a topic is its only one.",
    )
    sql: str | None = key("sql", None, "A SELECT over the view `records`.")
    sql_file: Text | None = key(
        "sql.file", None, "A UTF-8 file that holds it, by its path from the property file."
    )
    python: Text | None = key(
        "python", None, "`module:function`: a function from DataFrame to DataFrame."
    )
    rules: str | None = key(
        "rules", None, "Rules for fields: see [their page](transform-rules.md)."
    )
    rules_file: Text | None = key("rules.file", None, "A UTF-8 file that holds them.")
    value_format: Format | None = key(
        "value.format",
        None,
        "What values are: `json`, `string`, `binary`, or `avro` or `protobuf` by a"
        " [schema registry](../how-to/schema-registry.md). Default: `binary`, for rules `json`.",
    )
    key_format: Format = key("key.format", "binary", "What keys are, likewise.")
    value_schema: Text | None = key(
        "value.schema",
        None,
        "Spark DDL, such as `id BIGINT, name STRING`: the value is a struct of these columns, not"
        " text.",
    )
    key_schema: Text | None = key("key.schema", None, "The same of keys.")
    on_error: Annotated[Literal["stop", "dead-letter"], BeforeValidator(word)] = key(
        "on.error",
        "stop",
        "What becomes of a record that cannot be treated: its partition stops before it, or it goes"
        " to a topic on the source cluster (`dead-letter`).",
    )
    dead_letter_topic: Text | None = key(
        "dead.letter.topic",
        None,
        "That topic; never mirrored. Default: `__causeway.A.B.NAME.dead-letters`.",
    )
    lanes: Count = key("lanes", 1, "How many lanes share the partitions of its topics.")
    registry_url: Text | None = key(
        "registry.url", None, "Schema registry (http or https), for `avro` and `protobuf`."
    )
    registry_username: Text | None = key("registry.username", None, "Who asks it.")
    registry_password: str | None = key("registry.password", None, "Their password.")


REGISTRY_TLS = {
    "registry.ssl.truststore.location": "File of certificates trusted for the registry. Default:"
    " the system's.",
    "registry.ssl.truststore.password": "Its password (JKS, PKCS12).",
    "registry.ssl.truststore.type": "JKS, PKCS12 or PEM.",
    "registry.ssl.truststore.certificates": "Trusted certificates as PEM text.",
}
SECRETS = {
    "secret.FIELD": "A value that must not stand in a query, such as a key: the text names it"
    " `secrets.FIELD`. Usually `${env:VAR}` or `${file:/path:key}`."
}

NAMES = TransformKeys.names() | REGISTRY_TLS.keys()
# What Spark's plans show to all: nothing from outside the file is put in.
TEXTS = ("sql", "python", "rules")
TEXT_KEYS = ("sql", "sql.file", "python", "rules", "rules.file")
_TEXT = re.compile(rf"(?:.*->.*\.)?{re.escape(FAMILY)}[^.]*\.(?:{'|'.join(TEXTS)})")


def split(name: str) -> tuple[str, str]:
    """`(NAME, key)` of `causeway.transform.NAME.key`; the key may be empty."""
    transform, _, rest = name.removeprefix(FAMILY).partition(".")
    return transform, rest


def is_text(name: str) -> bool:
    """Whether a file's key `name` holds the text of a transform."""
    return _TEXT.fullmatch(name) is not None


def of_transform(name: str) -> bool:
    """Whether a file's key `name`, plain or a flow's, is one of a transform's."""
    return name.startswith(FAMILY) or f".{FAMILY}" in name


def within(name: str) -> str:
    """What stands behind `causeway.transform.NAME.` in such a key."""
    return name.partition(FAMILY)[2].partition(".")[2]


def no_references(name: str) -> str:
    """Why the text of key `name` is refused that has `${...}` in it."""
    transform, _ = split(name[name.index(FAMILY) :])
    return (
        "a query stands in Spark's plans for all to see, so ${...} cannot be in it: set"
        f" {FAMILY}{transform}.secret.FIELD and write secrets.FIELD"
    )
