"""Applies rules in the worker itself, to records of a plain form.

The meaning of rules is the query that they become (compile.py). Most records do not need the query:
their JSON has no backslash, no repeated name in an object, and the name of a treated field only
once. Then the value is replaced in the text, as documents.py does it in SQL. All other records go
to Spark (NeedsSparkError). So the shortcut may know less than the query, but must never differ from
it: tests/integration/test_rules_shortcut.py compares the two."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from causeway.config import TransformSettings
from causeway.transform.json_text import NeedsSparkError, plain_objects
from causeway.transform.rules.checks import must_be_there
from causeway.transform.rules.leaves import Maker, can_make, drops, maker, maker_of_bytes
from causeway.transform.rules.model import (
    DropRecord,
    FieldStep,
    Hash,
    PartName,
    TransformRule,
    is_plain_name,
)
from causeway.transform.rules.parse import parse

__all__ = ["DROPPED", "NeedsSparkError", "Shortcut", "Treat", "Treated", "shortcut_of"]

_END = re.compile(rb"[,}\]]")  # of a number or boolean
_MISSING, _NOTHING = object(), object()  # a value, or null, ends a path too early
DROPPED = (0, 0)

# New key and value; bits of the rules whose path was found, and of those whose path was missing
# (see rows.py). For a dropped record only the bits.
Treated = tuple[bytes | None, bytes | None, int, int] | tuple[int, int]
# Of key, value, `topic NUL partition NUL` and offset. Raises NeedsSparkError or another ValueError.
Treat = Callable[[bytes | None, bytes | None, bytes, int], Treated]
_TreatedPart = tuple[bytes | None, int, int, bool]  # the bool: the record is dropped
_TreatPart = Callable[[bytes | None, bytes, int], _TreatedPart]


def stays(treated: Treated) -> bool:
    """Whether the record is kept."""
    return len(treated) == 4


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The work of a shortcut; can be pickled and holds no secret. `formats`: of key and value;
    `required`: the numbers of the rules that refuse a record without their path."""

    rules: tuple[TransformRule, ...]
    formats: Mapping[str, str]
    required: frozenset[int] = frozenset()

    def open(self, secrets: Mapping[str, str]) -> Treat:
        of_key = self._part("key", secrets)
        of_value = self._part("value", secrets)
        if of_key is None:
            assert of_value is not None
            return _value_only(of_value)
        return _key_only(of_key) if of_value is None else _both(of_key, of_value)

    def _part(self, part: PartName, secrets: Mapping[str, str]) -> _TreatPart | None:
        rules = [rule for rule in self.rules if rule.path.part == part]
        if not rules:
            return None
        if rules[0].path.steps is None:
            return _whole(rules[0], self.formats[part], secrets)
        return _document(rules, secrets, self.required)


def shortcut_of(transform: TransformSettings) -> Shortcut | None:
    """None if `transform` has no rules, or rules that only the query can apply. `to_sql` must
    accept the rules."""
    if transform.rules is None:
        return None
    rules = parse(transform.rules, transform.place)
    formats = {"key": transform.key_format, "value": transform.value_format}
    if transform.key_schema is not None or transform.value_schema is not None:
        return None
    for rule in rules:
        path, others = rule.path, [other for other in rules if other is not rule]
        if path.part == "headers" or any(path.overlaps(other.path) for other in others):
            return None
        if path.steps is None:
            known = isinstance(rule.kind, Hash) and formats[path.part] in _TEXTS
        else:
            plain = all(
                isinstance(step, FieldStep) and step.name is not None and is_plain_name(step.name)
                for step in path.steps
            )
            known = plain and formats[path.part] == "json"
            known = known and (isinstance(rule.kind, DropRecord) or can_make(rule.kind))
        if not known:
            return None
    required = (rule.number for rule in rules if must_be_there(rule, transform))
    return Shortcut(rules, formats, frozenset(required))


_TEXTS = ("json", "string", "binary")


def _key_only(of_key: _TreatPart) -> Treat:
    def treat(key: bytes | None, value: bytes | None, spot: bytes, offset: int) -> Treated:
        made, seen, missing, goes = of_key(key, spot, offset)
        return (seen, missing) if goes else (made, value, seen, missing)

    return treat


def _value_only(of_value: _TreatPart) -> Treat:
    def treat(key: bytes | None, value: bytes | None, spot: bytes, offset: int) -> Treated:
        made, seen, missing, goes = of_value(value, spot, offset)
        return (seen, missing) if goes else (key, made, seen, missing)

    return treat


def _both(of_key: _TreatPart, of_value: _TreatPart) -> Treat:
    def treat(key: bytes | None, value: bytes | None, spot: bytes, offset: int) -> Treated:
        first, second = of_key(key, spot, offset), of_value(value, spot, offset)
        seen, missing = first[1] | second[1], first[2] | second[2]
        if first[3] or second[3]:
            return seen, missing
        return first[0], second[0], seen, missing

    return treat


def _whole(rule: TransformRule, format: str, secrets: Mapping[str, str]) -> _TreatPart:
    make, bit = maker_of_bytes(rule, secrets), 1 << (rule.number - 1)

    def treat(data: bytes | None, spot: bytes, offset: int) -> _TreatedPart:
        if data is None:
            return None, 0, 0, False
        if format != "binary" and not data.isascii():
            data.decode()  # the query refuses other bytes
        return make(data), bit, 0, False

    return treat


class _Spot(NamedTuple):
    """The field of a rule."""

    names: tuple[str, ...]
    token: bytes  # its name in quotes
    bit: int
    make: Maker | None  # None: only its presence counts


def _document(
    rules: list[TransformRule], secrets: Mapping[str, str], required: frozenset[int]
) -> _TreatPart:
    read = plain_objects()
    conditions, spots = [], []
    refusing = 0  # bits of the rules that are required
    for rule in rules:
        names = tuple(
            step.name or "" for step in rule.path.steps or () if isinstance(step, FieldStep)
        )
        bit, make = 1 << (rule.number - 1), None
        refusing |= bit if rule.number in required else 0
        if isinstance(rule.kind, DropRecord):
            conditions.append((names, rule.number in required, drops(rule.kind)))
        else:
            make = maker(rule, secrets)
        token = b'"%s"' % names[-1].encode()
        spots.append(_Spot(names, token, bit, make))

    def treat(text: bytes | None, spot: bytes, offset: int) -> _TreatedPart:
        if text is None:
            return None, 0, 0, False
        document = read(text)
        goes = False  # but the query may refuse the record
        for names, must, dropped in conditions:
            x = _at(document, names)
            if x is not _MISSING or not must:
                goes = dropped(None if x is _MISSING or x is _NOTHING else x) or goes
        seen = missing = 0
        for names, token, bit, make in spots:
            x = document.get(names[0], _MISSING) if len(names) == 1 else _at(document, names)
            if x is _MISSING:
                missing |= bit
            elif x is not _NOTHING:
                seen |= bit
                if make is not None and x is not None:
                    text = _put(text, token, type(x) is str, make(x, spot, offset))
        if missing & refusing and not goes:
            raise NeedsSparkError
        return text, seen, missing, goes

    return treat


def _at(document: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if type(document) is not dict:
            return _NOTHING if document is None else _MISSING
        document = document.get(name, _MISSING)
    return document


def _put(text: bytes, token: bytes, quoted: bool, new: bytes) -> bytes:
    """`text` with `new` for the value of the field with the name `token`. The field exists, so if
    the token occurs only once, it is its name. Raises NeedsSparkError."""
    at = text.find(token)
    after = at + len(token)
    if at < 0 or text.find(token, after) >= 0:
        raise NeedsSparkError
    if quoted:
        end = text.index(b'"', text.index(b'"', after) + 1) + 1
    else:
        found = _END.search(text, after)
        if found is None:
            raise NeedsSparkError
        end = found.start()
    return text[:after] + b":" + new + text[end:]
