"""Rules on fields within the JSON of key or value.

If possible, treated fields are spliced into the text of the JSON: then all other bytes stay, and no
document has to be written. Parsing has shown the value at a rule's path. If the text has no
backslash, and the field's name in quotes only once, then that is the field, and its value follows:

    {"id": 7, "name" : "Ada", "city": "London"}
    _before   _name    _token  _rest

Otherwise, and for objects and arrays, the spliced text is NULL, and the variant's document is
written."""

from __future__ import annotations

from collections.abc import Sequence

from causeway.transform.crypto import common_path
from causeway.transform.json_text import MOST_DIGITS, NAME, NOT_JSON, is_json, reading
from causeway.transform.rules import treat
from causeway.transform.rules.checks import by_reader, has_schemas
from causeway.transform.rules.model import (
    Drop,
    DropRecord,
    Encrypt,
    FieldStep,
    Generalise,
    Hash,
    Mask,
    PartName,
    Step,
    Tokenise,
    TransformRule,
    Truncate,
    is_plain_name,
    json_path,
)
from causeway.transform.rules.query import (
    Query,
    VariantTreatment,
    at_path,
    edited,
    lacks,
    leaves_at,
    literal,
)

_DOCUMENT = (FieldStep(NAME),)  # the place of the document in the read variant


def treat_documents(query: Query, part: PartName, text: str, rules: list[TransformRule]) -> str:
    """Adds the rules. Returns the SQL for the new `part`, whose JSON is the column `text`."""
    read, whole = f"_{part}_read", f"_{part}_whole"
    query.extend(**{read: reading(text)})
    query.extend(**{whole: is_json(text, read)})
    query.refuse(f"{part} IS NOT NULL AND NOT {whole}", NOT_JSON.format(f"the {part}"))
    for rule in rules:
        if isinstance(rule.kind, DropRecord):
            x = f"_x{rule.number}"
            null = f"({x} IS NULL OR is_variant_null({x}))"
            typed = f"try_variant_get({x}, '$', '{{type}}')"
            drops = condition(rule.kind, typed, null, f"NOT {null}")
            query.drop_if(rule, f"{part} IS NOT NULL AND {drops}")
            if rule.kind.values is not None and not rule.kind.negated:
                kind = f"schema_of_variant({x})"
                nested = f"startswith({kind}, 'OBJECT<') OR startswith({kind}, 'ARRAY<')"
                query.refuse_untreated(rule, f"coalesce({nested}, false)", treat.treats(rule.kind))
    if can_splice(rules) and len(_group(rules)) == len(rules):
        return _treat_text(query, part, text, rules)
    return _rewrite_document(query, part, text, rules)


def _treat_text(query: Query, part: PartName, text: str, rules: list[TransformRule]) -> str:
    """Splices the treated values into the text; if that is not possible, writes the document."""
    read, document = f"_{part}_read", f"_{part}"
    _leaves(query, read, read, rules, within=_DOCUMENT)
    _treat_leaves(query, rules)
    treating = _treating(rules)
    if not treating:
        return text
    seen = _any_seen(treating)
    spliced = splice(query, part, text, treating)
    unspliced = f"_{part}_whole AND ({seen}) AND {spliced} IS NULL"
    query.extend(**{document: f"CASE WHEN {unspliced} THEN {at_path(read, _DOCUMENT)} END"})
    for rule in treating:
        document = _apply(query, document, rule)
    query.refuse(f"{unspliced} AND {document} IS NULL", f"the treated {part} cannot be written")
    return f"CASE WHEN {seen} THEN coalesce({spliced}, to_json({document})) ELSE {text} END"


def _rewrite_document(query: Query, part: PartName, text: str, rules: list[TransformRule]) -> str:
    document = first = f"_{part}"
    whole = f"_{part}_whole"
    got = at_path(f"_{part}_read", _DOCUMENT)
    query.extend(**{document: f"CASE WHEN {whole} THEN {got} END"})
    left = rules
    while left:
        group = _group(left)
        left = left[len(group) :]
        _leaves(query, document, first, group)
        _treat_leaves(query, group)
        for rule in _treating(group):
            document = _apply(query, document, rule)
    query.refuse(f"{whole} AND {document} IS NULL", f"the treated {part} cannot be written")
    treating = _treating(rules)
    if not treating:
        return text
    return f"CASE WHEN {_any_seen(treating)} THEN to_json({document}) ELSE {text} END"


def _treating(rules: list[TransformRule]) -> list[TransformRule]:
    return [rule for rule in rules if not isinstance(rule.kind, DropRecord)]


def _any_seen(rules: list[TransformRule]) -> str:
    return " OR ".join(f"_has{rule.number}" for rule in rules)


def _group(rules: list[TransformRule]) -> list[TransformRule]:
    """Returns the first rules, up to the first one that shares a place with an earlier one."""
    group: list[TransformRule] = []
    for rule in rules:
        if any(rule.path.overlaps(other.path) for other in group):
            break
        group.append(rule)
    return group


def _leaves(
    query: Query,
    document: str,
    first: str,
    group: list[TransformRule],
    within: tuple[Step, ...] = (),
) -> None:
    """Adds columns: `_xN`, the value at rule N's path; `_hasN`, whether the record had a value
    there; and `_lacksN`, whether it lacked the path (see checks.py). `within`: the place in
    `document` and `first` at which the paths begin."""
    columns, has, missing = {}, {}, {}
    for rule in group:
        steps = (*within, *(rule.path.steps or ()))
        x, get = f"_x{rule.number}", leaves_at if rule.path.wild else at_path
        source = first if isinstance(rule.kind, DropRecord) else document
        columns[x] = get(source, steps)
        was = x if source == first else get(first, steps)
        there = f"size({was}) > 0" if rule.path.wild else f"{was} IS NOT NULL"
        has[f"_has{rule.number}"] = f"coalesce({there}, false)"
        there = lacks(first, rule.path.steps or (), within)
        if not rule.path.wild:
            there = f"NOT _has{rule.number} AND {there}"
        if has_schemas(rule, query.transform):
            by_schema = f"(_lacking & {1 << (rule.number - 1)}L) <> 0"
            null = by_reader(rule, query.transform) and rule.required is None
            there = by_schema if null else f"({there} OR {by_schema})"
        missing[f"_lacks{rule.number}"] = f"_{rule.path.part}_whole AND {there}"
        query.saw(rule, f"_has{rule.number}", f"_lacks{rule.number}")
    query.extend(**columns)
    query.extend(**has)
    query.extend(**missing)
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


def _treat_leaves(query: Query, group: list[TransformRule]) -> None:
    """Adds columns `_yN`, the new value for `_xN`, for paths that lead to one place and keep it."""
    treated = {}
    for rule in group:
        if rule.path.wild or isinstance(rule.kind, Drop | DropRecord):
            continue
        x, y = f"_x{rule.number}", f"_y{rule.number}"
        spot = literal(str(rule.path))
        common = literal(common_path(str(rule.path)))
        treated[y] = treatment_of(query, rule)(x, spot, common)
        query.refuse_untreated(rule, f"{x} IS NOT NULL AND {y} IS NULL", treat.treats(rule.kind))
    if treated:
        query.extend(**treated)


def _apply(query: Query, document: str, rule: TransformRule) -> str:
    """Returns a column with the document after the rule. NULL stays NULL."""
    after = f"_{rule.path.part}{rule.number}"
    steps, x, y = rule.path.steps or (), f"_x{rule.number}", f"_y{rule.number}"
    drops = isinstance(rule.kind, Drop)
    if rule.path.wild:
        place = literal(rule.path.part)
        treatment = None if drops else treatment_of(query, rule)
        query.extend(**{after: edited(document, steps, treatment, place, place)})
        untreated = f"{document} IS NOT NULL AND {after} IS NULL"
        query.refuse_untreated(rule, untreated, treat.treats(rule.kind))
        return after
    path = literal(json_path(steps))
    changed = f"variant_delete({document}, {path})"
    if not drops:
        changed = f"variant_set({document}, {path}, {y})"
    query.extend(**{after: f"CASE WHEN {x} IS NULL THEN {document} ELSE {changed} END"})
    return after


def treatment_of(query: Query, rule: TransformRule) -> VariantTreatment:
    """Returns the treatment of a variant at the rule's path."""
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


def condition(kind: DropRecord, typed: str, null: str, some: str, named: str = "") -> str:
    """Returns SQL for whether `kind` drops a record. `typed`: its value as the type `{type}`.
    `null`, `some`: whether it is NULL, and is not. `named`: for a rule on headers, whether a header
    `h` has the rule's name."""
    if kind.values is None:
        return null if kind.negated else some
    tests = " OR ".join(_comparison(value, typed) for value in kind.values)
    if named:
        tests = f"exists(headers, h -> {named} AND ({tests}))"
    test = f"coalesce({tests}, false)"
    return f"NOT {test}" if kind.negated else test


def _comparison(value: str | int | float | bool, typed: str) -> str:
    """Returns SQL for whether the result of `typed`, for a type in place of `{type}`, is
    `value`."""
    match value:
        case bool():
            return f"{typed.format(type='boolean')} = {str(value).lower()}"
        case int() | float():
            # Java needs half a minute to read a text of 900 kB as a number.
            short = f"length({typed.format(type='string')}) <= {MOST_DIGITS}"
            return f"({short} AND {typed.format(type='decimal(38, 9)')} = {value})"
        case _:
            return f"{typed.format(type='string')} = {literal(value)}"


_BACKSLASH = literal("\\")
_ENDS = (",", "}", "]")  # of a number or boolean


def can_splice(rules: Sequence[TransformRule]) -> bool:
    """Returns whether the rules can be spliced. No two of them may share a place."""
    return all(not rule.path.wild and _name(rule) is not None for rule in rules)


def splice(query: Query, part: PartName, text: str, rules: Sequence[TransformRule]) -> str:
    """Adds the rules. Returns the column with the new text for the column `text`. `_xN` is the
    value at rule N's path and `_yN` its new value, both variants."""
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


def _put(query: Query, text: str, rule: TransformRule) -> str:
    n, after = rule.number, f"_{rule.path.part}_text{rule.number}"
    if isinstance(rule.kind, Drop):
        query.extend(**{after: f"CASE WHEN _x{n} IS NULL THEN {text} END"})
        return after
    name = literal(f'"{_name(rule)}"')
    query.extend(**{f"_before{n}": f"substring_index({text}, {name}, 1)"})
    # The text after the name, and below after the token. A sum of lengths could overflow in Spark.
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


def _name(rule: TransformRule) -> str | None:
    """Returns the field's name, if JSON texts can write it in only one way."""
    last = rule.path.steps[-1] if rule.path.steps else None
    if isinstance(last, FieldStep) and last.name is not None and is_plain_name(last.name):
        return last.name
    return None
