"""Checks rules before anything starts: their keys, their paths, and whether a record may lack a
path.

A record lacks a path if a value other than null ends the path too early: an object without the
field, text, a number, or an array that is too short. All elements of `[*]` and all fields of `.*`
must have the rest of the path. Null, and an empty array or object, lack nothing, because they have
nothing to protect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from causeway.config import TransformSettings
from causeway.errors import ConfigError
from causeway.transform.crypto import aes_key
from causeway.transform.rows import SCHEMA_FORMATS
from causeway.transform.rules.model import (
    DropRecord,
    ElementStep,
    Encrypt,
    Hash,
    Step,
    Tokenise,
    TransformRule,
)
from causeway.transform.rules.parse import parse

MIN_HASH_KEY_BYTES = 16


def check_keys(rules: tuple[TransformRule, ...], transform: TransformSettings) -> None:
    """Raises ConfigError, which names the rule and the key, and never quotes the key."""
    for rule in rules:
        if not isinstance(rule.kind, Hash | Tokenise | Encrypt):
            continue
        name = rule.kind.key
        secret = transform.secrets.get(name)
        if secret is None:
            raise unusable(
                transform,
                rule,
                f"there is no secret {name}",
                remedy=f"set it in the file, as in `…transform.{transform.name}.secret.{name} = "
                "${env:…}`",
            )
        text = secret.reveal()
        if isinstance(rule.kind, Hash):
            if len(text.encode()) < MIN_HASH_KEY_BYTES:
                raise unusable(
                    transform,
                    rule,
                    f"the secret {name} is too short for a hash: if the key can be guessed, the "
                    f"hashed texts can be guessed",
                    remedy=f"take {MIN_HASH_KEY_BYTES} characters or more",
                )
            continue
        try:
            aes_key(text)
        except ValueError as error:
            raise unusable(
                transform,
                rule,
                f"the secret {name} is no AES key: {error}",
                remedy="make one with `openssl rand -hex 32`",
            ) from None


def unusable(
    transform: TransformSettings, rule: TransformRule, cause: str, *, remedy: str = ""
) -> ConfigError:
    where = f"rule {rule.number} ({rule.name}), character {rule.position}"
    return ConfigError("use the rules", transform.place, f"{where}: {cause}", remedy=remedy)


def check_paths(transform: TransformSettings) -> None:
    """Raises ConfigError for a path that no record can have, and Spark's exceptions for an invalid
    schema. Needs a running Spark, which parses its DDL."""
    from pyspark.sql.types import DataType

    for part, schema in transform.schemas.items():
        if schema is None or transform.rules is None:
            continue
        shape = DataType.fromDDL(schema)
        for rule in parse(transform.rules, transform.place):
            steps = rule.path.steps if rule.path.part == part else None
            if steps is not None and (missing := _missing(shape, steps)):
                raise unusable(transform, rule, f"the {part}'s schema has no {missing}")


def _missing(shape: Any, steps: Sequence[Step]) -> str | None:
    """Returns the first step that leads to nothing; None if there is none."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if not steps or isinstance(shape, VariantType):
        return None
    step, *after = steps
    if isinstance(step, ElementStep):
        if not isinstance(shape, ArrayType):
            return f"array where {'[*]' if step.index is None else f'[{step.index}]'} is"
        return _missing(shape.elementType, after)
    if isinstance(shape, MapType):
        return _missing(shape.valueType, after)
    if not isinstance(shape, StructType):
        return f"object where .{step.name or '*'} is"
    if step.name is not None:
        if step.name not in shape.names:
            return f"field {step.name} there"
        return _missing(shape[step.name].dataType, after)
    found = [_missing(field.dataType, after) for field in shape.fields]
    return None if None in found else (found or ["field there"])[0]


OPTIONAL = "write `optional` at the end of the rule to let such records pass"


def must_be_there(rule: TransformRule, transform: TransformSettings) -> bool:
    """Returns whether a record without the rule's path is refused.

    The rule's word `required` or `optional` decides. Without such a word the record is refused if
    the rule would let it pass untreated. Two kinds of rules never do that: conditions about null or
    that drop records without the path (`is null`, `is not in`), and rules on JSON with a schema in
    Spark's DDL: only the schema's fields come out, and a missing field is null there.
    """
    if rule.required is not None:
        return rule.required
    if by_reader(rule, transform) and not has_schemas(rule, transform):
        return False
    kind = rule.kind
    return not isinstance(kind, DropRecord) or (kind.values is not None and not kind.negated)


def by_reader(rule: TransformRule, transform: TransformSettings) -> bool:
    """Returns whether the rule is on fields of a schema in Spark's DDL, where a missing field is
    null."""
    return rule.path.steps is not None and transform.schemas.get(rule.path.part) is not None


def has_schemas(rule: TransformRule, transform: TransformSettings) -> bool:
    """Returns whether each record has the id of a schema, which shows whether a field can exist."""
    return rule.path.steps is not None and transform.formats.get(rule.path.part) in SCHEMA_FORMATS


def check_words(rules: tuple[TransformRule, ...], transform: TransformSettings) -> None:
    """Raises ConfigError if a rule on a whole value or key is marked required or optional."""
    for rule in rules:
        whole = rule.path.steps is None and (rule.path.part != "headers" or not rule.path.header)
        if whole and rule.required is not None:
            word = "required" if rule.required else "optional"
            cause = f"`{word}` is for fields and headers, and {rule.path} names neither"
            raise unusable(transform, rule, cause)
