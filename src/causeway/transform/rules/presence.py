"""Whether a record has the path of a rule, and whether a record without the path is refused.

A record lacks a path if something other than null ends it too early: an object without the field,
text, a number, or an array that is too short. All elements of `[*]` and all fields of `.*` must
have the rest of the path. Null and an empty array or object lack nothing, because nothing is there
to protect.
"""

from __future__ import annotations

from itertools import count

from causeway.config import TransformSettings
from causeway.transform.rules import variants
from causeway.transform.rules.model import DropRecord, Element, Rule, Step
from causeway.transform.rules.secret_keys import unusable
from causeway.transform.schemas import FORMATS

OPTIONAL = "write `optional` at the end of the rule to let such records pass"


def must_be_there(rule: Rule, transform: TransformSettings) -> bool:
    """Whether a record without the rule's path is refused.

    The rule's own word counts. Without a word it is refused if the rule would let it pass
    untreated. Two kinds of rules do not: conditions that are about null, or that drop what is
    missing (`is null`, `is not in`), and rules on JSON with a schema in Spark's DDL, because
    nothing but the schema's fields comes out, and a missing field is null there."""
    if rule.required is not None:
        return rule.required
    if by_reader(rule, transform) and not has_schemas(rule, transform):
        return False
    kind = rule.kind
    return not isinstance(kind, DropRecord) or (kind.values is not None and not kind.negated)


def by_reader(rule: Rule, transform: TransformSettings) -> bool:
    """Whether the rule is on fields of a schema in Spark's DDL, which are null if they are
    missing."""
    schema = {"value": transform.value_schema, "key": transform.key_schema}.get(rule.path.part)
    return rule.path.steps is not None and schema is not None


def has_schemas(rule: Rule, transform: TransformSettings) -> bool:
    """Whether each record has the id of a schema, which knows the path of a field."""
    format = {"value": transform.value_format, "key": transform.key_format}.get(rule.path.part)
    return rule.path.steps is not None and format in FORMATS


def check_words(rules: tuple[Rule, ...], transform: TransformSettings) -> None:
    """Raises ConfigError if a rule on a whole value or key has a word about its absence."""
    for rule in rules:
        whole = rule.path.steps is None and (rule.path.part != "headers" or not rule.path.header)
        if whole and rule.required is not None:
            word = "required" if rule.required else "optional"
            cause = f"`{word}` is for fields and headers, and {rule.path} names neither"
            raise unusable(transform, rule, cause)


def lacks(document: str, steps: tuple[Step, ...], within: tuple[Step, ...] = ()) -> str:
    """SQL: whether `document`, a variant, lacks the path. `within`: where the path begins in it.
    Never NULL."""
    return f"NOT coalesce({_leads_on(document, steps, count(1), within)}, false)"


def _leads_on(
    document: str, steps: tuple[Step, ...], names: count[int], within: tuple[Step, ...] = ()
) -> str:
    before, wild, after = variants.split(steps)
    here = (*within, *before)
    nulls = " OR ".join(
        f"is_variant_null({variants.get(document, here[:end])})"
        for end in range(len(within), len(here) + (wild is not None))
    )
    if wild is None:
        found = f"{variants.get(document, here)} IS NOT NULL"
        return f"({found} OR {nulls})" if nulls else found
    kind = "array<variant>" if isinstance(wild, Element) else "map<string, variant>"
    inside = f"try_variant_get({variants.get(document, here)}, '$', '{kind}')"
    if not isinstance(wild, Element):
        inside = f"map_values({inside})"
    every = f"{inside} IS NOT NULL"
    if after:
        x = f"p{next(names)}"
        every = f"forall({inside}, {x} -> {x} IS NULL OR {_leads_on(x, after, names)})"
    return f"({every} OR {nulls})"
