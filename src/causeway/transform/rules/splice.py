"""Treated fields put into the text of JSON itself, so that all around them stays as it was, byte
for byte, and no document has to be written anew.

Parsing has told what is at a rule's path. Where the text has no backslash and the field's name, in
quotes, just once, that place is the field, and what is behind it is the field's value:

    {"id": 7, "name" : "Ada", "city": "London"}
    _before   _name    _token  _rest

Elsewhere, and for objects and arrays, the text is NULL, and the caller goes another way.
"""

from __future__ import annotations

from collections.abc import Sequence

from causeway.transform.rules.model import Drop, Field, Part, Rule, is_plain_name
from causeway.transform.rules.query import Query
from causeway.transform.rules.sql import literal

_BACKSLASH = literal("\\")
_ENDS = (",", "}", "]")  # of a number or boolean


def can_splice(rules: Sequence[Rule]) -> bool:
    """Whether the rules, no two of which meet in a record, can be carried out so."""
    return all(not rule.path.wild and _name(rule) is not None for rule in rules)


def splice(query: Query, part: Part, text: str, rules: Sequence[Rule]) -> str:
    """Adds the rules; the column with what becomes of the column `text`. `_xN` is what is at rule
    N's path and `_yN` what becomes of it, both variants."""
    columns = {}
    for rule in rules:
        n, x = rule.number, f"_x{rule.number}"
        if not isinstance(rule.kind, Drop):
            columns[f"_kind{n}"] = f"coalesce(schema_of_variant({x}), 'VOID')"
            columns[f"_new{n}"] = f"to_json(_y{n})"
    start = f"_{part}_text0"
    columns[start] = f"CASE WHEN NOT contains({text}, {_BACKSLASH}) THEN {text} END"
    query.extend(**columns)
    for rule in rules:
        start = _put(query, start, rule)
    return start


def _put(query: Query, text: str, rule: Rule) -> str:
    n, after = rule.number, f"_{rule.path.part}_text{rule.number}"
    if isinstance(rule.kind, Drop):
        query.extend(**{after: f"CASE WHEN _x{n} IS NULL THEN {text} END"})
        return after
    name = literal(f'"{_name(rule)}"')
    query.extend(**{f"_before{n}": f"substring_index({text}, {name}, 1)"})
    # From behind the name on, and below behind the token; a sum could be too large, says Spark.
    query.extend(**{f"_after{n}": f"substr({text}, length(concat(_before{n}, {name}, ' ')))"})
    bare = f"_after{n}"
    for end in _ENDS:
        bare = f"substring_index({bare}, '{end}', 1)"
    quoted = f"concat(substring_index(_after{n}, '\"', 2), '\"')"
    query.extend(**{f"_token{n}": f"if(_kind{n} = 'STRING', {quoted}, {bare})"})
    once = f"octet_length(_before{n}) < octet_length({text}) AND NOT contains(_after{n}, {name})"
    nested = f"startswith(_kind{n}, 'OBJECT<') OR startswith(_kind{n}, 'ARRAY<')"
    rest = f"substr(_after{n}, length(concat(_token{n}, ' ')))"
    new = f"concat(_before{n}, {name}, ':', _new{n}, {rest})"
    query.extend(
        **{
            after: f"CASE WHEN _kind{n} = 'VOID' THEN {text} "
            f"WHEN {once} AND NOT ({nested}) THEN {new} END"
        }
    )
    return after


def _name(rule: Rule) -> str | None:
    """How the field is called, where no JSON text has to write that otherwise."""
    last = rule.path.steps[-1] if rule.path.steps else None
    if isinstance(last, Field) and last.name is not None and is_plain_name(last.name):
        return last.name
    return None
