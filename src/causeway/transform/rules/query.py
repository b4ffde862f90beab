"""The query of a transform by rules, extended rule by rule, and rules on a whole value, key or
header."""

from __future__ import annotations

from dataclasses import dataclass, field

from causeway.config import TransformSettings
from causeway.transform import crypto
from causeway.transform.rows import DROPPED_SQL
from causeway.transform.rules import treat
from causeway.transform.rules.checks import OPTIONAL, must_be_there
from causeway.transform.rules.model import (
    Encrypt,
    Generalise,
    Hash,
    Mask,
    Tokenise,
    TransformRule,
    Truncate,
)
from causeway.transform.rules.sql import HEADERS, let, literal


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
        """`condition` may be NULL, which means no. A required rule does not drop a record that
        lacks its path."""
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


def text_of(data: str) -> str:
    """Bytes as text, NULL if they are not UTF-8."""
    return f"if(is_valid_utf8(cast({data} AS string)), cast({data} AS string), NULL)"


def treat_whole(query: Query, rule: TransformRule, data: str, place: str, path: str) -> str:
    """The new bytes for `data`; NULL if the rule cannot treat it. `place`, `path`: SQL for the path
    with an index, and without."""
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
    """The JSON of the token of `text`, which may be NULL."""
    assert isinstance(rule.kind, Tokenise)
    args = f"{literal(rule.kind.alphabet)}, secrets.{rule.kind.key}"
    return f"causeway_tokenise(to_json(cast({text} AS variant)), {args})"
