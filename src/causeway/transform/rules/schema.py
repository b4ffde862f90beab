"""Whether the paths of rules are in the schemas of key and value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from causeway.config import TransformSettings
from causeway.transform.rules.model import Element, Step
from causeway.transform.rules.parse import parse
from causeway.transform.rules.secret_keys import unusable


def check_paths(transform: TransformSettings) -> None:
    """Needs a running Spark, which knows its DDL. Raises ConfigError for a path that no record can
    have, and Spark's exceptions for a schema that is none."""
    from pyspark.sql.types import DataType

    for part, schema in (("value", transform.value_schema), ("key", transform.key_schema)):
        if schema is None or transform.rules is None:
            continue
        shape = DataType.fromDDL(schema)
        for rule in parse(transform.rules, transform.place):
            steps = rule.path.steps if rule.path.part == part else None
            if steps is not None and (missing := _missing(shape, steps)):
                raise unusable(transform, rule, f"the {part}'s schema has no {missing}")


def _missing(shape: Any, steps: Sequence[Step]) -> str | None:
    """The first step that leads nowhere."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if not steps or isinstance(shape, VariantType):
        return None
    step, *after = steps
    if isinstance(step, Element):
        if not isinstance(shape, ArrayType):
            return f"array where {'[*]' if step.index is None else f'[{step.index}]'} stands"
        return _missing(shape.elementType, after)
    if isinstance(shape, MapType):
        return _missing(shape.valueType, after)
    if not isinstance(shape, StructType):
        return f"object where .{step.name or '*'} stands"
    if step.name is not None:
        if step.name not in shape.names:
            return f"field {step.name} there"
        return _missing(shape[step.name].dataType, after)
    found = [_missing(field.dataType, after) for field in shape.fields]
    return None if None in found else (found or ["field there"])[0]
