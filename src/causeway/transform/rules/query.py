"""The query of rules, which grows rule by rule, and pieces of Spark SQL: literals, and variants at
a path.

Paths without wildcards need no lambdas. The others rebuild the arrays and objects on the path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from causeway.config import TransformSettings
from causeway.transform import crypto
from causeway.transform.rows import DROPPED_SQL
from causeway.transform.rules.checks import OPTIONAL, must_be_there
from causeway.transform.rules.model import (
    ElementStep,
    Encrypt,
    FieldStep,
    Step,
    TransformRule,
    json_path,
)

EMPTY = "cast(array() AS array<variant>)"
HEADERS = "array<struct<key: string, value: binary>>"


def literal(text: str) -> str:
    """Returns a string literal; a raw one if that is easier to read."""
    if "\\" in text and "'" not in text and not text.endswith("\\"):
        return f"r'{text}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def let(expression: str, name: str, body: str) -> str:
    """Returns `body` with `name` for the value of `expression`, which is evaluated once."""
    return f"element_at(transform(array({expression}), {name} -> {body}), 1)"


def member(name: str) -> str:
    """Returns SQL for the step to a field in a path, as in RulePath. `name`: SQL for its name."""
    quoted = f"concat('[\"', {name}, '\"]')"
    return f"if({name} RLIKE '^[A-Za-z0-9_-]+$', concat('.', {name}), {quoted})"


# Returns SQL for the new variant; NULL if the rule cannot treat it. Arguments: SQL for a variant,
# for its path with indices, and for its path with [*].
VariantTreatment = Callable[[str, str, str], str]


def at_path(document: str, steps: tuple[Step, ...]) -> str:
    return f"variant_get({document}, {literal(json_path(steps))})" if steps else document


def leaves_at(document: str, steps: tuple[Step, ...]) -> str:
    """Returns all values at the path, as array<variant>."""
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
    """Returns the document with the values at the path treated; without these values if `treat` is
    None; NULL if a value cannot be treated. `place`, `common`: SQL for the path of `document`."""
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


def lacks(document: str, steps: tuple[Step, ...], within: tuple[Step, ...] = ()) -> str:
    """Returns SQL for whether `document`, a variant, lacks the path; never NULL. `within`: the
    place in it at which the path begins."""
    return f"NOT coalesce({_leads_on(document, steps, count(1), within)}, false)"


def _leads_on(
    document: str, steps: tuple[Step, ...], names: count[int], within: tuple[Step, ...] = ()
) -> str:
    before, wild, after = split_wild(steps)
    here = (*within, *before)
    nulls = " OR ".join(
        f"is_variant_null({at_path(document, here[:end])})"
        for end in range(len(within), len(here) + (wild is not None))
    )
    if wild is None:
        found = f"{at_path(document, here)} IS NOT NULL"
        return f"({found} OR {nulls})" if nulls else found
    kind = "array<variant>" if isinstance(wild, ElementStep) else "map<string, variant>"
    inside = f"try_variant_get({at_path(document, here)}, '$', '{kind}')"
    if not isinstance(wild, ElementStep):
        inside = f"map_values({inside})"
    every = f"{inside} IS NOT NULL"
    if after:
        x = f"p{next(names)}"
        every = f"forall({inside}, {x} -> {x} IS NULL OR {_leads_on(x, after, names)})"
    return f"({every} OR {nulls})"


def text_of(data: str) -> str:
    """Returns SQL for bytes as text; NULL if they are not UTF-8."""
    return f"if(is_valid_utf8(cast({data} AS string)), cast({data} AS string), NULL)"


@dataclass(slots=True)
class Query:
    """The query so far. `columns`: the projection, by name."""

    transform: TransformSettings
    columns: dict[str, str] = field(default_factory=dict)
    _pipes: list[str] = field(default_factory=list)
    _seen: dict[int, str] = field(default_factory=dict)
    _lacks: dict[int, str] = field(default_factory=dict)
    _troubles: list[tuple[str, str]] = field(default_factory=list)
    _drops: list[str] = field(default_factory=list)
    _announced: list[TransformRule] = field(default_factory=list)

    def extend(self, **columns: str) -> None:
        """Adds columns that are computed from the columns before."""
        lines = (f"{sql} AS {name}" for name, sql in columns.items())
        self._pipes.append("|> EXTEND " + ",\n          ".join(lines))

    def saw(self, rule: TransformRule, condition: str, lacks: str = "false") -> None:
        """`condition`: whether the record has a value at the rule's path; `lacks`: whether it lacks
        the path. Neither is NULL."""
        self._seen[rule.number] = condition
        self._lacks[rule.number] = lacks

    def refuse(self, condition: str, reason: str) -> None:
        self._troubles.append((condition, reason))

    def refuse_untreated(self, rule: TransformRule, condition: str, treats: str) -> None:
        self.refuse(condition, f"rule {rule.number} ({rule.name}) treats {treats} only")

    def drop_if(self, rule: TransformRule, condition: str) -> None:
        """`condition` may be NULL, which means no. A rule that requires its path does not drop a
        record without it."""
        named = rule.path.steps is not None or rule.path.part == "headers"
        if named and must_be_there(rule, self.transform):
            condition = f"NOT _lacks{rule.number} AND {condition}"
        self._drops.append(f"coalesce({condition}, false)")

    def announce(self, rule: TransformRule) -> None:
        """Adds the rule's key id as a header to records that have its path."""
        self._announced.append(rule)

    def secret(self, rule_key: str) -> str:
        return self.transform.secrets[rule_key].reveal()

    def key_size(self, rule_key: str) -> int:
        return len(crypto.aes_key(self.secret(rule_key)))

    def text(self, rules: tuple[TransformRule, ...]) -> str:
        if self._announced:
            entries = []
            for rule in self._announced:
                assert isinstance(rule.kind, Encrypt)
                entry = (
                    f"named_struct('key', '{crypto.HEADER}', "
                    f"'value', cast({literal(f'{rule.kind.key} {rule.path}')} AS binary))"
                )
                entries.append(f"CASE WHEN {self._seen[rule.number]} THEN array({entry}) END")
            before = self.columns.get("headers", "headers")
            empty = f"cast(array() AS {HEADERS})"
            added = ", ".join(f"coalesce({entry}, {empty})" for entry in entries)
            self.columns["headers"] = f"concat(coalesce({before}, {empty}), {added})"
        self.extend(_goes=" OR ".join(self._drops) or "false")
        for rule in rules:
            lacks = self._lacks[rule.number]
            if lacks != "false" and must_be_there(rule, self.transform):
                why = f"rule {rule.number} ({rule.name}) finds no such {_place(rule)} ({OPTIONAL})"
                self.refuse(f"NOT _goes AND {lacks}", why)
        cases = " ".join(f"WHEN {when} THEN {literal(why)}" for when, why in self._troubles)
        reason = f"CASE {cases} END" if cases else "cast(NULL AS string)"
        self.extend(_reason=reason)
        gone = f"if(_goes AND _reason IS NULL, {DROPPED_SQL}, 0L)"
        self.extend(
            _seen=f"{_bits(self._seen, rules)} | {gone}", _missing=_bits(self._lacks, rules)
        )
        projected = [f"{sql} AS {name}" for name, sql in self.columns.items()]
        own = ["_seen", "_missing", "_reason"]
        self._pipes.append("|> SELECT " + ",\n          ".join([*projected, *own]))
        return "\n".join(["FROM records", *self._pipes])


def _place(rule: TransformRule) -> str:
    return "field" if rule.path.steps is not None else "header"


def _bits(conditions: dict[int, str], rules: tuple[TransformRule, ...]) -> str:
    bits = [
        f"if({conditions[rule.number]}, {1 << (rule.number - 1)}L, 0L)"
        for rule in rules
        if conditions[rule.number] != "false"
    ]
    return " | ".join(bits) or "0L"
