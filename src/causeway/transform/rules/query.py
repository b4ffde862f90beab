"""The query that grows rule by rule; see compile."""

from __future__ import annotations

from dataclasses import dataclass, field

from causeway.config.settings import TransformSettings
from causeway.transform import crypto
from causeway.transform.rules.model import Encrypt, Rule
from causeway.transform.rules.sql import HEADERS, literal


@dataclass(slots=True)
class Query:
    """What has been written so far. `columns`: what is projected, by name."""

    transform: TransformSettings
    columns: dict[str, str] = field(default_factory=dict)
    _pipes: list[str] = field(default_factory=list)
    _seen: dict[int, str] = field(default_factory=dict)
    _troubles: list[tuple[str, str]] = field(default_factory=list)
    _drops: list[str] = field(default_factory=list)
    _announced: list[Rule] = field(default_factory=list)

    def extend(self, **columns: str) -> None:
        """Adds columns that are made of those before."""
        lines = (f"{sql} AS {name}" for name, sql in columns.items())
        self._pipes.append("|> EXTEND " + ",\n          ".join(lines))

    def saw(self, rule: Rule, condition: str) -> None:
        """`condition`: whether the rule's path is in the record."""
        self._seen[rule.number] = condition

    def refuse(self, condition: str, reason: str) -> None:
        self._troubles.append((condition, reason))

    def refuse_untreated(self, rule: Rule, condition: str, treats: str) -> None:
        self.refuse(condition, f"rule {rule.number} ({rule.name}) treats {treats} only")

    def drop_if(self, condition: str) -> None:
        """`condition` may be NULL, which is no."""
        self._drops.append(f"coalesce({condition}, false)")

    def announce(self, rule: Rule) -> None:
        """The rule's key goes into a header of the records that have its path."""
        self._announced.append(rule)

    def secret(self, rule_key: str) -> str:
        return self.transform.secrets[rule_key].reveal()

    def key_size(self, rule_key: str) -> int:
        return len(crypto.aes_key(self.secret(rule_key)))

    def text(self, rules: tuple[Rule, ...]) -> str:
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
        bits = [f"if({self._seen[rule.number]}, {1 << (rule.number - 1)}L, 0L)" for rule in rules]
        cases = " ".join(f"WHEN {when} THEN {literal(why)}" for when, why in self._troubles)
        reason = f"CASE {cases} END" if cases else "cast(NULL AS string)"
        self.extend(_seen=" | ".join(bits), _reason=reason)
        if self._drops:
            drops = " OR ".join(self._drops)
            self._pipes.append(f"|> WHERE _reason IS NOT NULL OR NOT ({drops})")
        projected = [f"{sql} AS {name}" for name, sql in self.columns.items()]
        self._pipes.append("|> SELECT " + ",\n          ".join([*projected, "_seen", "_reason"]))
        return "\n".join(["FROM records", *self._pipes])
