"""Tables of keys: dataclasses whose fields name the keys of a file, with type and default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from causeway.config.values import TEXT, ValueKind


class Key(NamedTuple):
    """One key of a file. `default`: as a file would have it; None if there is none."""

    name: str
    kind: ValueKind
    default: str | None
    meaning: str


@dataclass(frozen=True, kw_only=True)
class KeyTable:
    """A table of keys. A field without a key is set by code."""

    @classmethod
    def table(cls) -> dict[str, Key]:
        """The keys by the names of their fields, in the order of definition."""
        found = ((each.name, each.metadata.get("key")) for each in fields(cls))
        return {name: of_field for name, of_field in found if of_field is not None}

    @classmethod
    def all_keys(cls) -> tuple[Key, ...]:
        return tuple(cls.table().values())

    @classmethod
    def key_names(cls) -> frozenset[str]:
        return frozenset(each.name for each in cls.all_keys())


def key(name: str, kind: ValueKind, default: str | float | None, meaning: str) -> Any:
    """A field of a table. The default is parsed as a file's text would be."""
    text = None if default is None else str(default)
    if isinstance(default, bool):
        text = str(default).lower()
    value = None if text is None else kind.parse(text)
    return field(default=value, metadata={"key": Key(name, kind, text, meaning)})


def texts(
    meanings: Mapping[str, str], kinds: Mapping[str, ValueKind] = MappingProxyType({})
) -> dict[str, Key]:
    """Keys that code reads one by one: their meanings by their names, and the kinds of those that
    are no plain text."""
    return {name: Key(name, kinds.get(name, TEXT), None, told) for name, told in meanings.items()}


def values_of(keys: KeyTable) -> dict[str, Any]:
    """The values of the fields that have keys."""
    return {name: getattr(keys, name) for name in keys.table()}
