"""Editing JSON as Spark's variants: SQL for what lies at a path, and for the document with it
treated. Paths without wildcards need no lambdas; the others rebuild arrays and objects on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from causeway.transform.rules.model import Element, Field, Step, json_path
from causeway.transform.rules.sql import EMPTY, let, literal, member

# Of a variant, its place with indices, and its place with [*] for them (both SQL for strings): the
# variant that stands there afterwards, NULL where the rule cannot treat it.
Treat = Callable[[str, str, str], str]


def get(document: str, steps: tuple[Step, ...]) -> str:
    return f"variant_get({document}, {literal(json_path(steps))})" if steps else document


def leaves(document: str, steps: tuple[Step, ...]) -> str:
    """All that the path leads to, as array<variant>."""
    return _leaves(document, steps, count(1))


def _leaves(document: str, steps: tuple[Step, ...], names: count[int]) -> str:
    before, wild, after = split(steps)
    if wild is None:
        return f"filter(array({get(document, steps)}), x -> x IS NOT NULL)"
    kind = "array<variant>" if isinstance(wild, Element) else "map<string, variant>"
    all_ = f"try_variant_get({get(document, before)}, '$', '{kind}')"
    if isinstance(wild, Field):
        all_ = f"map_values({all_})"
    if not after:
        return f"coalesce({all_}, {EMPTY})"
    x = f"x{next(names)}"
    deeper = f"transform({all_}, {x} -> {_leaves(x, after, names)})"
    return f"coalesce(flatten({deeper}), {EMPTY})"


def edit(
    document: str, steps: tuple[Step, ...], treat: Treat | None, place: str, common: str
) -> str:
    """The document with what lies at the path treated; `treat` None: without it. NULL where
    something cannot be treated. `place`, `common`: SQL for the path of `document` itself."""
    at, shared = _concat(place, "'.$'"), _concat(common, "'.$'")
    return _edit(document, steps, treat, at, shared, count(1))


def _edit(
    document: str,
    steps: tuple[Step, ...],
    treat: Treat | None,
    place: str,
    common: str,
    names: count[int],
) -> str:
    before, wild, after = split(steps)
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
    if isinstance(wild, Element):
        kind, every, empty = "array<variant>", "transform", "[]"
        inner_place = _concat(spot, "'['", f"cast({k} AS string)", "']'")
        inner_common, pair, values = _concat(shared, "'[*]'"), f"({x}, {k})", a
    else:
        kind, every, empty = "map<string, variant>", "transform_values", "{}"
        inner_place, inner_common = _concat(spot, member(k)), _concat(shared, member(k))
        pair, values = f"({k}, {x})", f"map_values({a})"
    all_ = f"try_variant_get({get(document, before)}, '$', '{kind}')"
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


def split(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], Step | None, tuple[Step, ...]]:
    for at, step in enumerate(steps):
        if step in (Field(None), Element(None)):
            return steps[:at], step, steps[at + 1 :]
    return steps, None, ()


def _concat(*parts: str) -> str:
    return f"concat({', '.join(parts)})"
