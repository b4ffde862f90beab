"""Rules on headers: whole ones, and fields within JSON that stands in one."""

from __future__ import annotations

from causeway.transform.rules import treat, variants
from causeway.transform.rules.documents import comparison, treatment_of
from causeway.transform.rules.model import Drop, DropRecord, Path, Rule, Tokenise
from causeway.transform.rules.presence import lacks
from causeway.transform.rules.query import Query
from causeway.transform.rules.secret_keys import unusable
from causeway.transform.rules.sql import let, literal, member
from causeway.transform.rules.whole import text_of, treat_whole


def treat_headers(query: Query, rules: list[Rule]) -> None:
    """Adds the rules, each on what the one before it left; headers that none names stay."""
    headers = "headers"
    for rule in rules:
        named = "true" if rule.path.header is None else f"h.key = {literal(rule.path.header)}"
        at, kind = rule.path, rule.kind
        if isinstance(kind, Tokenise):
            raise unusable(query.transform, rule, "`tokenise` works on values and keys only")
        there = named
        if at.steps is not None:
            found = variants.leaves(f"try_parse_json({text_of('h.value')})", at.steps)
            there = f"{named} AND size({found}) > 0"
        has, missing = f"_has{rule.number}", f"_lacks{rule.number}"
        query.extend(
            **{
                has: f"coalesce(exists(headers, h -> {there}), false)",
                missing: f"value IS NOT NULL AND {_lacks(at, named)}",
            }
        )
        query.saw(rule, has, missing)
        if isinstance(kind, DropRecord):
            query.drop_if(rule, _condition(rule, kind, named))
            continue
        after = f"_headers{rule.number}"
        if isinstance(kind, Drop) and at.steps is None:
            query.extend(**{after: f"filter({headers}, h -> NOT ({named}))"})
        else:
            new = _treated(query, rule)
            changed = f"named_struct('key', h.key, 'value', {new})"
            query.extend(
                **{
                    after: f"transform({headers}, (h, i) -> "
                    f"CASE WHEN {named} AND h.value IS NOT NULL THEN {changed} ELSE h END)"
                }
            )
            lost, had = (
                f"size(filter({which}, h -> {named} AND h.value IS NULL))"
                for which in (after, headers)
            )
            treats = treat.treats(kind)
            if at.steps is not None:
                treats = f"JSON, and in it {treats},"
            query.refuse_untreated(rule, f"{lost} > {had}", treats)
        headers = after
    if headers != "headers":
        query.columns["headers"] = headers


def _lacks(path: Path, named: str) -> str:
    """SQL: whether a record lacks the header, or some header of the name lacks the field."""
    tests = []
    if path.header is not None:
        tests.append(f"NOT coalesce(exists(headers, h -> {named}), false)")
    if path.steps is not None:
        document = f"try_parse_json({text_of('h.value')})"
        short = let(document, "d", lacks("d", path.steps))
        test = f"{named} AND h.value IS NOT NULL AND {short}"
        tests.append(f"coalesce(exists(headers, h -> {test}), false)")
    return f"({' OR '.join(tests)})" if tests else "false"


def _treated(query: Query, rule: Rule) -> str:
    """SQL for the new bytes of the header `h`, the i-th."""
    prefix = literal(str(Path("headers", None, rule.path.header)))
    if rule.path.header is None:
        prefix = f"concat('headers', {member('h.key')})"
    place = f"concat({prefix}, '[', cast(i AS string), ']')"
    if rule.path.steps is None:
        return treat_whole(query, rule, "h.value", place, prefix)
    treatment = None if isinstance(rule.kind, Drop) else treatment_of(query, rule)
    edited = variants.edit("d", rule.path.steps, treatment, place, prefix)
    document = f"try_parse_json({text_of('h.value')})"
    return let(document, "d", f"cast(to_json({edited}) AS binary)")


def _condition(rule: Rule, kind: DropRecord, named: str) -> str:
    if kind.values is None:
        exists = f"coalesce(exists(headers, h -> {named} AND h.value IS NOT NULL), false)"
        return exists if not kind.negated else f"NOT {exists}"
    text = text_of("h.value")
    tests = [comparison(value, f"try_cast({text} AS {{type}})") for value in kind.values]
    test = f"coalesce(exists(headers, h -> {named} AND ({' OR '.join(tests)})), false)"
    return f"NOT {test}" if kind.negated else test
