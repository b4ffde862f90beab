"""Rules on fields within the JSON of key or value."""

from __future__ import annotations

from causeway.transform.crypto import common_path
from causeway.transform.rules import treat, variants
from causeway.transform.rules.model import (
    Drop,
    DropRecord,
    Encrypt,
    Generalise,
    Hash,
    Mask,
    Part,
    Rule,
    Tokenise,
    Truncate,
    json_path,
)
from causeway.transform.rules.query import Query
from causeway.transform.rules.sql import literal


def treat_documents(query: Query, part: Part, text: str, rules: list[Rule]) -> str:
    """Adds the rules; the SQL of what becomes of `part`, whose JSON is the column `text`.

    The document is parsed within an array, with the offset behind it: only so does Spark see what
    stands behind the end of a JSON text, which else would pass unread.
    """
    document = f"_{part}"
    query.extend(**{f"{document}_read": f"try_parse_json(concat('[', {text}, ',', offset, ']'))"})
    whole = f"try_variant_get({document}_read, '$[1]', 'bigint') = offset"
    query.extend(**{document: f"if({whole}, variant_get({document}_read, '$[0]'), NULL)"})
    query.refuse(
        f"{part} IS NOT NULL AND {document} IS NULL",
        f"the {part} is not JSON, or an object in it has a name twice",
    )
    first, bits = document, []
    while rules:
        group = _group(rules)
        rules = rules[len(group) :]
        _leaves(query, document, first, group)
        for rule in group:
            bits.append(rule)
            if isinstance(rule.kind, DropRecord):
                query.drop_if(f"{part} IS NOT NULL AND {_condition(rule.kind, f'_x{rule.number}')}")
                continue
            document = _apply(query, document, rule)
    seen = " OR ".join(
        f"_has{rule.number}" for rule in bits if not isinstance(rule.kind, DropRecord)
    )
    return f"CASE WHEN {seen} THEN to_json({document}) ELSE {text} END" if seen else text


def _group(rules: list[Rule]) -> list[Rule]:
    """The first rules, as far as no two of them meet in a record."""
    group: list[Rule] = []
    for rule in rules:
        if any(rule.path.overlaps(other.path) for other in group):
            break
        group.append(rule)
    return group


def _leaves(query: Query, document: str, first: str, group: list[Rule]) -> None:
    """Columns `_xN`, what lies at rule N's path now, and `_hasN`, whether the record had it."""
    columns, has = {}, {}
    for rule in group:
        steps = rule.path.steps or ()
        x, get = f"_x{rule.number}", variants.leaves if rule.path.wild else variants.get
        source = first if isinstance(rule.kind, DropRecord) else document
        columns[x] = get(source, steps)
        was = x if source == first else get(first, steps)
        there = f"size({was}) > 0" if rule.path.wild else f"{was} IS NOT NULL"
        has[f"_has{rule.number}"] = f"coalesce({there}, false)"
        query.saw(rule, f"_has{rule.number}")
    query.extend(**columns)
    query.extend(**has)
    tokens = {}
    for rule in group:
        if isinstance(rule.kind, Tokenise):
            x = f"_x{rule.number}"
            args = f"{literal(rule.kind.alphabet)}, secrets.{rule.kind.key}"
            if rule.path.wild:
                texts = f"transform({x}, x -> to_json(x))"
                tokens[f"_t{rule.number}"] = f"causeway_tokenise_all({texts}, {args})"
            else:
                tokens[f"_t{rule.number}"] = f"causeway_tokenise(to_json({x}), {args})"
    if tokens:
        query.extend(**tokens)


def _apply(query: Query, document: str, rule: Rule) -> str:
    after = f"_{rule.path.part}{rule.number}"
    steps, x = rule.path.steps or (), f"_x{rule.number}"
    treatment = None if isinstance(rule.kind, Drop) else treatment_of(query, rule)
    if rule.path.wild:
        place = literal(rule.path.part)
        query.extend(**{after: variants.edit(document, steps, treatment, place, place)})
    else:
        path = literal(json_path(steps))
        if treatment is None:
            changed = f"variant_delete({document}, {path})"
        else:
            spot = literal(str(rule.path))
            new = f"_y{rule.number}"
            query.extend(**{new: treatment(x, spot, literal(common_path(str(rule.path))))})
            changed = f"variant_set({document}, {path}, {new})"
        query.extend(**{after: f"CASE WHEN {x} IS NULL THEN {document} ELSE {changed} END"})
    query.refuse_untreated(
        rule, f"{document} IS NOT NULL AND {after} IS NULL", treat.treats(rule.kind)
    )
    return after


def treatment_of(query: Query, rule: Rule) -> variants.Treat:
    """What becomes of a variant at the rule's path."""
    kind = rule.kind

    def treatment(x: str, place: str, common: str) -> str:
        match kind:
            case Mask():
                return treat.mask(kind, x)
            case Hash():
                return treat.hash_variant(kind, x)
            case Tokenise():
                if rule.path.wild:
                    token = f"element_at(_t{rule.number}, to_json({x}))"
                else:
                    token = f"_t{rule.number}"
                return f"CASE WHEN is_variant_null({x}) THEN {x} ELSE try_parse_json({token}) END"
            case Encrypt():
                key = treat.aes_key(kind.key, query.secret(kind.key))
                data = f"cast(to_json({x}) AS binary)"
                boxed = treat.box(kind, key, query.key_size(kind.key), data, place, common)
                text = treat.box_text(kind, boxed)
                return f"CASE WHEN is_variant_null({x}) THEN {x} ELSE cast({text} AS variant) END"
            case Generalise():
                return treat.generalise(kind, x)
            case Truncate():
                return treat.truncate(kind, x)
            case _:
                raise AssertionError(kind)

    if isinstance(kind, Encrypt) and kind.id_in == "header":
        query.announce(rule)
    return treatment


def _condition(kind: DropRecord, x: str) -> str:
    if kind.values is None:
        test = f"({x} IS NULL OR is_variant_null({x}))"
        return f"NOT {test}" if kind.negated is False else test
    tests = [comparison(value, f"try_variant_get({x}, '$', '{{type}}')") for value in kind.values]
    test = f"coalesce({' OR '.join(tests)}, false)"
    return f"NOT {test}" if kind.negated else test


def comparison(value: str | int | float | bool, typed: str) -> str:
    """Whether what `typed` gives, for a type in place of `{type}`, is `value`."""
    match value:
        case bool():
            return f"{typed.format(type='boolean')} = {str(value).lower()}"
        case int() | float():
            return f"{typed.format(type='decimal(38, 9)')} = {value}"
        case _:
            return f"{typed.format(type='string')} = {literal(value)}"
