"""A hash of all that decides what a transform makes of a record; it stands in claims.

Another hash: what is in the target was made by another transform, and counting on from there would
lose or double records.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from causeway.config import Secret, TransformSettings
from causeway.errors import ConfigError
from causeway.transform.local_modules import sources
from causeway.transform.session import MEANING, RUNNING
from causeway.transform.strict_json import is_json, reading

_FINGERPRINT = b"causeway transform secret"
_WRITTEN_BY = {"avro": "fastavro", "protobuf": "protobuf"}


def identity(
    transform: TransformSettings, spark_conf: Mapping[str, str | Secret], java: int | None = None
) -> str:
    """Hexadecimal. Neither topics, dead letters nor lanes matter to it; of secrets it has names and
    fingerprints. `java`: the feature number of the one that Spark runs on. What else runs a
    transform counts by the part of its version that is to change what it does: an upgrade of no
    more than patches is to stop nobody. Raises ConfigError where there is no module of that name,
    or rules cannot be read."""
    settings = {
        key: value.reveal() if isinstance(value, Secret) else value
        for key, value in spark_conf.items()
        if key.startswith("spark.sql.") and key not in RUNNING
    }
    registry = transform.registry
    decides = {
        "sql": transform.sql,
        "rules": _of_rules(transform),
        "python": transform.python,
        "sources": _sources(transform),
        "libraries": _libraries(transform),
        "java": java,
        "formats": [transform.key_format, transform.value_format],
        **_of_json(transform),
        "schemas": [transform.key_schema, transform.value_schema],
        "registry": None if registry is None else registry.url,
        "secrets": {name: _fingerprint(value) for name, value in transform.secrets.items()},
        "spark": version("pyspark"),
        "settings": settings | dict(MEANING),
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _fingerprint(secret: Secret) -> str:
    return hmac.new(secret.reveal().encode(), _FINGERPRINT, hashlib.sha256).hexdigest()


def _of_rules(transform: TransformSettings) -> list[str] | None:
    """What they become, which another version of Causeway may do in another way."""
    if transform.rules is None:
        return None
    from causeway.transform import rules

    query = rules.to_sql(transform)
    return [query, version("fastfpe")] if "causeway_tokenise" in query else [query]


def _of_json(transform: TransformSettings) -> dict[str, str]:
    """The definition of JSON. Rules have it in their query."""
    by_query = transform.rules is None and "json" in (transform.key_format, transform.value_format)
    return {"json": is_json("text", reading("text"))} if by_query else {}


def _libraries(transform: TransformSettings) -> dict[str, str | None]:
    """Those that this transform uses. Their absence is told where they are needed."""
    formats = (transform.key_format, transform.value_format)
    names = {_WRITTEN_BY[format] for format in formats if format in _WRITTEN_BY}
    if transform.python is None:
        return {name: _major(name) for name in names}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python} | {name: _major(name) for name in (*names, "pandas", "pyarrow")}


def _major(name: str) -> str | None:
    try:
        return version(name).partition(".")[0]
    except PackageNotFoundError:
        return None


def _sources(transform: TransformSettings) -> dict[str, str] | None:
    if transform.python is None:
        return None
    module = transform.python.partition(":")[0]
    try:
        spec = importlib.util.find_spec(module)
    except Exception as error:  # a parent package is imported, and may raise anything
        raise _no_module(transform, f"{type(error).__name__}: {error}") from None
    if spec is None:
        raise _no_module(transform, f"there is no module {module}")
    if spec.origin is None or not spec.has_location:
        raise _no_module(transform, f"the module {module} has no source file")
    return sources(module, Path(spec.origin))


def _no_module(transform: TransformSettings, cause: str) -> ConfigError:
    return ConfigError(
        "use",
        transform.place or f"transform {transform.name}",
        cause,
        remedy="write module:function, and put the module's folder on PYTHONPATH",
    )
