"""The keys of a flow's transforms, `causeway.transform.NAME.*`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from causeway.config.key_table import AS_AT_START, KeyTable, key, texts
from causeway.config.values import (
    COUNT,
    FORMAT,
    PATTERNS,
    RAW,
    SECRET,
    TEXT,
    Secret,
    TransformFormat,
    choice,
)
from causeway.patterns import Pattern

TRANSFORMS = "causeway.transforms"
TRANSFORM_FAMILY = "causeway.transform."
SECRET_FIELD = "secret."  # noqa: S105 - how a key begins


@dataclass(frozen=True, kw_only=True)
class TransformKeys(KeyTable, applies=AS_AT_START):
    """Of one transform, after the prefix `causeway.transform.NAME.`."""

    topics: tuple[Pattern, ...] = key(
        "topics",
        PATTERNS,
        "",
        "Topics of the transform: patterns of names on the source (required). If several transforms"
        " of the list match a topic, only the first one is used.",
    )
    sql: str | None = key("sql", RAW, None, "A SELECT over the view `records`.")
    sql_file: str | None = key(
        "sql.file", TEXT, None, "A UTF-8 file that holds it, by its path from the property file."
    )
    python: str | None = key(
        "python", TEXT, None, "`module:function`: a function from DataFrame to DataFrame."
    )
    rules: str | None = key(
        "rules", RAW, None, "Rules for fields: see [their page](transform-rules.md)."
    )
    rules_file: str | None = key("rules.file", TEXT, None, "A UTF-8 file that holds them.")
    value_format: TransformFormat | None = key(
        "value.format",
        FORMAT,
        None,
        "Format of the values: `json`, `string`, `binary`, or `avro` or `protobuf` by a"
        " [schema registry](../how-to/schema-registry.md). Default: `binary`, for rules `json`.",
    )
    key_format: TransformFormat = key(
        "key.format", FORMAT, "binary", "Format of the keys, likewise."
    )
    value_schema: str | None = key(
        "value.schema",
        TEXT,
        None,
        "Spark DDL, such as `id BIGINT, name STRING`: the value is a struct of these columns, not"
        " text.",
    )
    key_schema: str | None = key("key.schema", TEXT, None, "The same for keys.")
    on_error: Literal["stop", "dead-letter"] = key(
        "on.error",
        choice("stop", "dead-letter"),
        "stop",
        "What to do with a record that cannot be transformed: stop its partition before the record"
        " (`stop`), or write the record to a topic on the source cluster (`dead-letter`).",
    )
    dead_letter_topic: str | None = key(
        "dead.letter.topic",
        TEXT,
        None,
        "Name of that topic, which is never mirrored. Default: `__causeway.A.B.NAME.dead-letters`.",
    )
    lanes: int = key("lanes", COUNT, 1, "How many lanes share the partitions of its topics.")
    registry_url: str | None = key(
        "registry.url", TEXT, None, "Schema registry (http or https), for `avro` and `protobuf`."
    )
    registry_username: str | None = key(
        "registry.username", TEXT, None, "User name for the registry."
    )
    registry_password: Secret | None = key(
        "registry.password", SECRET, None, "Password of that user."
    )


TRANSFORM_REGISTRY_TLS = texts(
    {
        "registry.ssl.truststore.location": "File of trusted certificates for the registry."
        " Default: the system's.",
        "registry.ssl.truststore.password": "Password of that file (JKS, PKCS12).",
        "registry.ssl.truststore.type": "JKS, PKCS12 or PEM.",
        "registry.ssl.truststore.certificates": "Trusted certificates as PEM text.",
    },
    applies=AS_AT_START,
)
TRANSFORM_SECRETS = texts(
    {
        "secret.FIELD": "A value that must not be written into a query, such as a key. The query"
        " refers to it by `secrets.FIELD`. Usually `${env:VAR}` or `${file:/path:key}`."
    },
    applies=AS_AT_START,
)

TRANSFORM_NAMES = TransformKeys.key_names() | TRANSFORM_REGISTRY_TLS.keys()
# Spark's plans show these texts to everyone, so no value from outside the file is put in.
TEXTS = ("sql", "python", "rules")
TEXT_KEYS = ("sql", "sql.file", "python", "rules", "rules.file")
_TEXT = re.compile(rf"(?:.*->.*\.)?{re.escape(TRANSFORM_FAMILY)}[^.]*\.(?:{'|'.join(TEXTS)})")


def split_transform_key(name: str) -> tuple[str, str]:
    """Returns `(NAME, key)` of `causeway.transform.NAME.key`. The key may be empty."""
    transform, _, rest = name.removeprefix(TRANSFORM_FAMILY).partition(".")
    return transform, rest


def is_transform_text(name: str) -> bool:
    """Returns whether a file's key `name` holds the text of a transform."""
    return _TEXT.fullmatch(name) is not None


def is_transform_key(name: str) -> bool:
    """Returns whether a file's key `name`, plain or a flow's, is one of a transform's."""
    return name.startswith(TRANSFORM_FAMILY) or f".{TRANSFORM_FAMILY}" in name


def key_in_transform(name: str) -> str:
    """Returns the part of such a key after `causeway.transform.NAME.`."""
    return name.partition(TRANSFORM_FAMILY)[2].partition(".")[2]


def no_references(name: str) -> str:
    """Returns why the text of key `name` must not have `${...}` in it."""
    transform, _ = split_transform_key(name[name.index(TRANSFORM_FAMILY) :])
    return (
        "Spark's plans show a query to everyone, so a query cannot have ${...} in it: set"
        f" {TRANSFORM_FAMILY}{transform}.secret.FIELD and write secrets.FIELD"
    )
