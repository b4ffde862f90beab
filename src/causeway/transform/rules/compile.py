"""Compiles rules to one query of Spark SQL over the view `records`; see docs/decisions/0012.

    FROM records
    |> EXTEND   the JSON of value and key, as variants
    |> EXTEND   the value at each rule's path, and the new value
    |> EXTEND   the text with the first rule applied, with the second, … (splice)
    |> EXTEND   if that is not possible, the document with the first, with the second, …
    |> EXTEND   whether a rule drops the record, and why the record is refused
    |> SELECT   value, key, headers, _seen, _missing, _reason

A dropped record keeps its row, with its own bit in `_seen` (see rows.py), so it can be counted. A
document that a rule cannot treat becomes NULL, and `_reason` follows from that. Parts that no rule
names are not projected: they stay unchanged."""

from __future__ import annotations

from typing import Literal

from causeway.config import TransformSettings
from causeway.transform.rows import SCHEMA_FORMATS
from causeway.transform.rules import treat
from causeway.transform.rules.checks import check_keys, check_words, unusable
from causeway.transform.rules.documents import condition, treat_documents, treatment_of
from causeway.transform.rules.model import (
    Drop,
    DropRecord,
    Encrypt,
    Generalise,
    Hash,
    Mask,
    RulePath,
    Tokenise,
    TransformRule,
    Truncate,
)
from causeway.transform.rules.parse import parse
from causeway.transform.rules.query import (
    Query,
    edited,
    lacks,
    leaves_at,
    let,
    literal,
    member,
    text_of,
)

_WITH_FIELDS = ("json", *SCHEMA_FORMATS)


def to_sql(transform: TransformSettings) -> str:
    """Returns the query for `transform.rules`. It contains no secret, only names of columns of
    `secrets`. Raises ConfigError for a rule that cannot be read or does not fit the format of key
    or value, and for a key that is missing or has the wrong length."""
    rules = parse(transform.rules or "", transform.place)
    _check(rules, transform)
    check_words(rules, transform)
    check_keys(rules, transform)
    query = Query(transform)
    _treat_part(query, "value", [rule for rule in rules if rule.path.part == "value"])
    _treat_part(query, "key", [rule for rule in rules if rule.path.part == "key"])
    treat_headers(query, [rule for rule in rules if rule.path.part == "headers"])
    return query.text(rules)


def _check(rules: tuple[TransformRule, ...], transform: TransformSettings) -> None:
    whole: dict[str, TransformRule] = {}
    for rule in rules:
        path = rule.path
        if isinstance(rule.kind, DropRecord) and (
            path.wild or (path.part == "headers" and path.steps is not None)
        ):
            raise unusable(transform, rule, "`drop record` takes one field or header, no wildcards")
        if path.part == "headers":
            continue
        if path.steps is None:
            _check_whole(rule, transform)
            if not isinstance(rule.kind, DropRecord):
                whole.setdefault(path.part, rule)
            continue
        if path.part in whole and not isinstance(rule.kind, DropRecord):
            cause = f"rule {whole[path.part].number} has already changed all of it"
            raise unusable(transform, rule, cause, remedy="put rules on fields first")
        if transform.formats[path.part] not in _WITH_FIELDS:
            raise unusable(
                transform,
                rule,
                f"the {path.part} is not read as JSON",
                remedy=f"set `…transform.{transform.name}.{path.part}.format = json`",
            )


def _check_whole(rule: TransformRule, transform: TransformSettings) -> None:
    part, kind = rule.path.part, rule.kind
    format, place = transform.formats[part], f"…transform.{transform.name}.{part}.format"
    cause = remedy = ""
    if part == "value" and isinstance(kind, Drop):
        cause = "without a value a record is a tombstone, which deletes"
        remedy = "`drop record where` drops records"
    elif format in SCHEMA_FORMATS and not isinstance(kind, Drop | DropRecord):
        cause = f"all of the {part} would no longer fit its schema"
        remedy = "name a field, such as value.$.name"
    elif format == "binary" and not isinstance(kind, Drop | Hash | Encrypt):
        cause = f"the {part} is bytes, and the rule treats text"
        remedy = f"set `{place} = string`"
    if cause:
        raise unusable(transform, rule, cause, remedy=remedy)


def _treat_part(query: Query, part: Literal["value", "key"], rules: list[TransformRule]) -> None:
    if not rules:
        return
    text: str = part
    if query.transform.schemas[part] is not None:
        text = f"_{part}_text"
        query.extend(**{text: f"to_json({part})"})
    fields = [rule for rule in rules if rule.path.steps is not None]
    result = treat_documents(query, part, text, fields) if fields else text
    for rule in rules:
        if rule.path.steps is None:
            result = _treat_whole(query, part, rule, result)
    if result != text:
        query.columns[part] = result


def _treat_whole(query: Query, part: str, rule: TransformRule, data: str) -> str:
    query.saw(rule, f"{part} IS NOT NULL")
    kind = rule.kind
    if isinstance(kind, DropRecord):
        typed = f"try_cast({data} AS {{type}})"
        query.drop_if(rule, condition(kind, typed, f"{data} IS NULL", f"{data} IS NOT NULL"))
        return data
    if isinstance(kind, Drop):
        return (
            f"cast(NULL AS {'binary' if query.transform.formats[part] == 'binary' else 'string'})"
        )
    before, after = f"_all{rule.number}", f"_{part}{rule.number}"
    query.extend(**{before: f"cast({data} AS binary)"})
    if isinstance(kind, Tokenise):
        token = f"_t{rule.number}"
        query.extend(**{token: token_call(rule, text_of(before))})
        new = f"cast(variant_get(try_parse_json({token}), '$', 'string') AS binary)"
    else:
        new = _new_bytes(query, rule, before, literal(part), literal(part))
    query.extend(**{after: new})
    if not isinstance(kind, Hash | Encrypt):
        query.refuse_untreated(
            rule, f"{before} IS NOT NULL AND {after} IS NULL", treat.treats(kind)
        )
    return after


def _new_bytes(query: Query, rule: TransformRule, data: str, place: str, path: str) -> str:
    """Returns the new bytes for `data`; NULL if the rule cannot treat them. `place`, `path`: SQL
    for the path with an index, and without."""
    kind = rule.kind
    text = "t"
    match kind:
        case Mask():
            new = treat.mask_text(kind, text)
        case Hash():
            return f"cast({treat.hash_bytes(kind, data)} AS binary)"
        case Encrypt():
            key = treat.aes_key(kind.key, query.secret(kind.key))
            boxed = treat.box(kind, key, query.key_size(kind.key), data, place, path)
            if kind.id_in == "header":
                query.announce(rule)
                return boxed
            return f"cast({treat.box_text(kind, boxed)} AS binary)"
        case Generalise():
            new = treat.generalise_text(kind, text)
        case Truncate():
            new = f"left({text}, {kind.length})"
        case _:
            raise AssertionError(kind)
    return f"cast({let(text_of(data), text, new)} AS binary)"


def token_call(rule: TransformRule, text: str) -> str:
    """Returns the JSON of the token of `text`, which may be NULL."""
    assert isinstance(rule.kind, Tokenise)
    args = f"{literal(rule.kind.alphabet)}, secrets.{rule.kind.key}"
    return f"causeway_tokenise(to_json(cast({text} AS variant)), {args})"


def treat_headers(query: Query, rules: list[TransformRule]) -> None:
    """Adds the rules, each on the result of the one before. Headers that no rule names stay."""
    headers = "headers"
    for rule in rules:
        named = "true" if rule.path.header is None else f"h.key = {literal(rule.path.header)}"
        at, kind = rule.path, rule.kind
        if isinstance(kind, Tokenise):
            raise unusable(query.transform, rule, "`tokenise` works on values and keys only")
        there = named
        if at.steps is not None:
            found = leaves_at(f"try_parse_json({text_of('h.value')})", at.steps)
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
            found = f"coalesce(exists(headers, h -> {named} AND h.value IS NOT NULL), false)"
            typed = f"try_cast({text_of('h.value')} AS {{type}})"
            query.drop_if(rule, condition(kind, typed, f"NOT {found}", found, named))
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


def _lacks(path: RulePath, named: str) -> str:
    """Returns SQL for whether the record lacks the header, or a header of the name lacks the
    field."""
    tests = []
    if path.header is not None:
        tests.append(f"NOT coalesce(exists(headers, h -> {named}), false)")
    if path.steps is not None:
        document = f"try_parse_json({text_of('h.value')})"
        short = let(document, "d", lacks("d", path.steps))
        test = f"{named} AND h.value IS NOT NULL AND {short}"
        tests.append(f"coalesce(exists(headers, h -> {test}), false)")
    return f"({' OR '.join(tests)})" if tests else "false"


def _treated(query: Query, rule: TransformRule) -> str:
    """Returns SQL for the new bytes of the header `h`, the i-th."""
    prefix = literal(str(RulePath("headers", None, rule.path.header)))
    if rule.path.header is None:
        prefix = f"concat('headers', {member('h.key')})"
    place = f"concat({prefix}, '[', cast(i AS string), ']')"
    if rule.path.steps is None:
        return _new_bytes(query, rule, "h.value", place, prefix)
    treatment = None if isinstance(rule.kind, Drop) else treatment_of(query, rule)
    document_sql = edited("d", rule.path.steps, treatment, place, prefix)
    document = f"try_parse_json({text_of('h.value')})"
    return let(document, "d", f"cast(to_json({document_sql}) AS binary)")
