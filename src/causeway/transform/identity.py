"""A hash of all that decides what a transform makes of a record; it stands in claims.

Another hash: what is in the target was made by another transform, and counting on from there would
lose or double records.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
from collections.abc import Mapping
from importlib.metadata import version

from causeway.config.settings import Secret, TransformSettings
from causeway.errors import ConfigError
from causeway.transform.session import MEANING, RUNNING

_FINGERPRINT = b"causeway transform secret"


def identity(transform: TransformSettings, spark_conf: Mapping[str, str | Secret]) -> str:
    """Hexadecimal. Neither topics, dead letters nor lanes matter to it; of secrets it has names and
    fingerprints. Of a Python function it has the module's source, not what that imports. Raises
    ConfigError where there is no such module, or rules cannot be read."""
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
        "source": _source(transform),
        "formats": [transform.key_format, transform.value_format],
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


def _source(transform: TransformSettings) -> str | None:
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
    with open(spec.origin, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _no_module(transform: TransformSettings, cause: str) -> ConfigError:
    return ConfigError(
        "use",
        transform.place or f"transform {transform.name}",
        cause,
        remedy="write module:function, and put the module's folder on PYTHONPATH",
    )
