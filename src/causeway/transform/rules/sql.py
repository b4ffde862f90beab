"""Pieces of Spark SQL: literals, and variants at a path.

Paths without wildcards need no lambdas; the others rebuild the arrays and objects on the path."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from causeway.transform.rules.model import ElementStep, FieldStep, Step, json_path

EMPTY = "cast(array() AS array<variant>)"
HEADERS = "array<struct<key: string, value: binary>>"


def literal(text: str) -> str:
    """A string literal; a raw one if that is easier to read."""
    if "\\" in text and "'" not in text and not text.endswith("\\"):
        return f"r'{text}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def let(expression: str, name: str, body: str) -> str:
    """`body` with `name` for the value of `expression`, which is evaluated once."""
    return f"element_at(transform(array({expression}), {name} -> {body}), 1)"


def member(name: str) -> str:
    """The text of a field's name, an expression, in a path; as in RulePath."""
    quoted = f"concat('[\"', {name}, '\"]')"
    return f"if({name} RLIKE '^[A-Za-z0-9_-]+$', concat('.', {name}), {quoted})"


# From SQL for a variant, for its path with indices, and for its path with [*]: SQL for the new
# variant, NULL if the rule cannot treat it.
VariantTreatment = Callable[[str, str, str], str]


def at_path(document: str, steps: tuple[Step, ...]) -> str:
    return f"variant_get({document}, {literal(json_path(steps))})" if steps else document


def leaves_at(document: str, steps: tuple[Step, ...]) -> str:
    """All values at the path, as array<variant>."""
    return _leaves(document, steps, count(1))


def _leaves(document: str, steps: tuple[Step, ...], names: count[int]) -> str:
    before, wild, after = split_wild(steps)
    if wild is None:
        return f"filter(array({at_path(document, steps)}), x -> x IS NOT NULL)"
    kind = "array<variant>" if isinstance(wild, ElementStep) else "map<string, variant>"
    all_ = f"try_variant_get({at_path(document, before)}, '$', '{kind}')"
    if isinstance(wild, FieldStep):
        all_ = f"map_values({all_})"
    if not after:
        return f"coalesce({all_}, {EMPTY})"
    x = f"x{next(names)}"
    deeper = f"transform({all_}, {x} -> {_leaves(x, after, names)})"
    return f"coalesce(flatten({deeper}), {EMPTY})"


def edited(
    document: str, steps: tuple[Step, ...], treat: VariantTreatment | None, place: str, common: str
) -> str:
    """The document with the values at the path treated; `treat` None: without them. NULL if a value
    cannot be treated. `place`, `common`: SQL for the path of `document` itself."""
    at, shared = _concat(place, "'.$'"), _concat(common, "'.$'")
    return _edit(document, steps, treat, at, shared, count(1))


def _edit(
    document: str,
    steps: tuple[Step, ...],
    treat: VariantTreatment | None,
    place: str,
    common: str,
    names: count[int],
) -> str:
    before, wild, after = split_wild(steps)
    path = literal(json_path(before))
    tail = literal(json_path(before)[1:])
    spot, shared = (_concat(text, tail) if before else text for text in (place, common))
    if wild is None:
        if treat is None:
            return _unless_missing(document, path, f"variant_delete({document}, {path})")
        x = f"x{next(names)}"
        changed = f"variant_set({document}, {path}, {treat(x, spot, shared)})"
        found = f"CASE WHEN {x} IS NULL THEN {document} ELSE {changed} END"
        return let(f"variant_get({document}, {path})", x, found)
    x, k, e, a = (f"{letter}{next(names)}" for letter in "xkea")
    if isinstance(wild, ElementStep):
        kind, every, empty = "array<variant>", "transform", "[]"
        inner_place = _concat(spot, "'['", f"cast({k} AS string)", "']'")
        inner_common, pair, values = _concat(shared, "'[*]'"), f"({x}, {k})", a
    else:
        kind, every, empty = "map<string, variant>", "transform_values", "{}"
        inner_place, inner_common = _concat(spot, member(k)), _concat(shared, member(k))
        pair, values = f"({k}, {x})", f"map_values({a})"
    all_ = f"try_variant_get({at_path(document, before)}, '$', '{kind}')"
    if after:
        new = _edit(x, after, treat, inner_place, inner_common, names)
    elif treat is not None:
        new = treat(x, inner_place, inner_common)
    if not after and treat is None:
        rebuilt = f"CASE WHEN {e} IS NULL THEN NULL ELSE parse_json('{empty}') END"
    else:
        checked = (
            f"CASE WHEN exists({values}, y -> y IS NULL) THEN NULL ELSE to_variant_object({a}) END"
        )
        rebuilt = let(f"{every}({e}, {pair} -> {new})", a, checked)
    whole = f"variant_set({document}, {path}, {rebuilt})" if before else rebuilt
    return let(all_, e, f"CASE WHEN {e} IS NULL THEN {document} ELSE {whole} END")


def _unless_missing(document: str, path: str, changed: str) -> str:
    return f"CASE WHEN variant_get({document}, {path}) IS NULL THEN {document} ELSE {changed} END"


def split_wild(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], Step | None, tuple[Step, ...]]:
    for at, step in enumerate(steps):
        if step in (FieldStep(None), ElementStep(None)):
            return steps[:at], step, steps[at + 1 :]
    return steps, None, ()


def _concat(*parts: str) -> str:
    return f"concat({', '.join(parts)})"
