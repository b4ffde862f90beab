"""Rules to one query of Spark SQL over the view `records`; see docs/decisions/0012.

    FROM records
    |> EXTEND   the JSON of value and key, as variants
    |> EXTEND   what lies at each rule's path, and what becomes of it
    |> EXTEND   the text with the first rule applied, with the second, … (splice)
    |> EXTEND   where that cannot be done, the document with the first, with the second, …
    |> EXTEND   whether a rule drops the record, and why the record is refused
    |> SELECT   value, key, headers, _seen, _missing, _reason

A record that is dropped keeps its row, with a bit of its own in `_seen` (see rule_counts), so
that it is counted. A document that a rule cannot treat becomes NULL, which is how `_reason` knows.
What no rule names is not projected: it stays as it is.
"""

from __future__ import annotations

from typing import Literal

from causeway.config import TransformSettings
from causeway.transform.rules import treat
from causeway.transform.rules.documents import comparison, treat_documents
from causeway.transform.rules.headers import treat_headers
from causeway.transform.rules.model import Drop, DropRecord, Encrypt, Hash, Rule, Tokenise
from causeway.transform.rules.parse import parse
from causeway.transform.rules.presence import check_words
from causeway.transform.rules.query import Query
from causeway.transform.rules.secret_keys import check_keys, unusable
from causeway.transform.rules.sql import literal
from causeway.transform.rules.whole import text_of, token_call, treat_whole
from causeway.transform.schemas import FORMATS

_WITH_FIELDS = ("json", *FORMATS)


def to_sql(transform: TransformSettings) -> str:
    """The query that `transform.rules` becomes. It holds no secret, only the names of columns of
    `secrets`. Raises ConfigError: a rule that cannot be read or does not fit the format of key or
    value, or a key that is missing or has the wrong length."""
    rules = parse(transform.rules or "", transform.place)
    _check(rules, transform)
    check_words(rules, transform)
    check_keys(rules, transform)
    query = Query(transform)
    _treat_part(query, "value", [rule for rule in rules if rule.path.part == "value"])
    _treat_part(query, "key", [rule for rule in rules if rule.path.part == "key"])
    treat_headers(query, [rule for rule in rules if rule.path.part == "headers"])
    return query.text(rules)


def _check(rules: tuple[Rule, ...], transform: TransformSettings) -> None:
    whole: dict[str, Rule] = {}
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
            cause = f"rule {whole[path.part].number} has changed all of it by then"
            raise unusable(transform, rule, cause, remedy="put rules on fields first")
        if _format(transform, path.part) not in _WITH_FIELDS:
            raise unusable(
                transform,
                rule,
                f"the {path.part} is not read as JSON",
                remedy=f"set `…transform.{transform.name}.{path.part}.format = json`",
            )


def _check_whole(rule: Rule, transform: TransformSettings) -> None:
    part, kind = rule.path.part, rule.kind
    if part == "value" and isinstance(kind, Drop):
        raise unusable(
            transform,
            rule,
            "without a value a record is a tombstone, which deletes",
            remedy="`drop record where` drops records",
        )
    if _format(transform, part) in FORMATS and not isinstance(kind, Drop | DropRecord):
        raise unusable(
            transform,
            rule,
            f"all of the {part} would no longer fit its schema",
            remedy="name a field, such as value.$.name",
        )
    if _format(transform, part) == "binary" and not isinstance(kind, Drop | Hash | Encrypt):
        raise unusable(
            transform,
            rule,
            f"the {part} is bytes, and the rule treats text",
            remedy=f"set `…transform.{transform.name}.{part}.format = string`",
        )


def _format(transform: TransformSettings, part: str) -> str:
    return transform.value_format if part == "value" else transform.key_format


def _schema(transform: TransformSettings, part: str) -> str | None:
    return transform.value_schema if part == "value" else transform.key_schema


def _treat_part(query: Query, part: Literal["value", "key"], rules: list[Rule]) -> None:
    if not rules:
        return
    text: str = part
    if _schema(query.transform, part) is not None:
        text = f"_{part}_text"
        query.extend(**{text: f"to_json({part})"})
    fields = [rule for rule in rules if rule.path.steps is not None]
    result = treat_documents(query, part, text, fields) if fields else text
    for rule in rules:
        if rule.path.steps is None:
            result = _treat_whole(query, part, rule, result)
    if result != text:
        query.columns[part] = result


def _treat_whole(query: Query, part: str, rule: Rule, data: str) -> str:
    query.saw(rule, f"{part} IS NOT NULL")
    kind = rule.kind
    if isinstance(kind, DropRecord):
        query.drop_if(rule, _condition(kind, data))
        return data
    if isinstance(kind, Drop):
        return (
            f"cast(NULL AS {'binary' if _format(query.transform, part) == 'binary' else 'string'})"
        )
    before, after = f"_all{rule.number}", f"_{part}{rule.number}"
    query.extend(**{before: f"cast({data} AS binary)"})
    if isinstance(kind, Tokenise):
        token = f"_t{rule.number}"
        query.extend(**{token: token_call(rule, text_of(before))})
        new = f"cast(variant_get(try_parse_json({token}), '$', 'string') AS binary)"
    else:
        new = treat_whole(query, rule, before, literal(part), literal(part))
    query.extend(**{after: new})
    if not isinstance(kind, Hash | Encrypt):
        query.refuse_untreated(
            rule, f"{before} IS NOT NULL AND {after} IS NULL", treat.treats(kind)
        )
    return after


def _condition(kind: DropRecord, part: str) -> str:
    if kind.values is None:
        return f"{part} IS {'' if kind.negated else 'NOT '}NULL"
    tests = [comparison(value, f"try_cast({part} AS {{type}})") for value in kind.values]
    test = f"coalesce({' OR '.join(tests)}, false)"
    return f"NOT {test}" if kind.negated else test
