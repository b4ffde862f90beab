"""Tables of keys: dataclasses whose fields name the keys of a file, with type and default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from causeway.config.values import TEXT, ValueKind


class Applies(NamedTuple):
    """When a running process applies a changed value. `restart`: the reason if only a restart of
    the process applies it. Empty: the process applies it without a restart. `as_start`: the flow
    then compares it with its claims, by the same rules as when it starts."""

    restart: str = ""
    as_start: bool = False


LIVE = Applies()
AS_AT_START = Applies(as_start=True)
_BY_TABLE = Applies("as its table says")


class Key(NamedTuple):
    """One key of a file. `default`: as a file would have it; None if there is none."""

    name: str
    kind: ValueKind
    default: str | None
    meaning: str
    applies: Applies


@dataclass(frozen=True, kw_only=True)
class KeyTable:
    """A table of keys. A field without a key is set by code. `applies` is an argument of the class:
    the answer for keys without their own. A key without an answer is a TypeError on import."""

    _applies: ClassVar[Applies] = _BY_TABLE

    def __init_subclass__(cls, applies: Applies | None = None) -> None:
        cls._applies = applies or cls._applies
        for each in vars(cls).values():
            of_field = each.metadata.get("key") if isinstance(each, Field) else None
            if of_field is not None and cls._applies is of_field.applies is _BY_TABLE:
                raise TypeError(f"{of_field.name} must say when a running process applies it")

    @classmethod
    def table(cls) -> dict[str, Key]:
        """Returns the keys by the names of their fields, in the order of definition."""
        found = ((each.name, each.metadata.get("key")) for each in fields(cls))
        return {name: cls._answered(of_field) for name, of_field in found if of_field is not None}

    @classmethod
    def _answered(cls, of_field: Key) -> Key:
        by_table = of_field.applies is _BY_TABLE
        return of_field._replace(applies=cls._applies) if by_table else of_field

    @classmethod
    def all_keys(cls) -> tuple[Key, ...]:
        return tuple(cls.table().values())

    @classmethod
    def key_names(cls) -> frozenset[str]:
        return frozenset(each.name for each in cls.all_keys())


def key(
    name: str,
    kind: ValueKind,
    default: str | float | None,
    meaning: str,
    *,
    applies: Applies | None = None,
) -> Any:
    """Returns a field of a table. The default is parsed like the text of a file."""
    text = None if default is None else str(default)
    if isinstance(default, bool):
        text = str(default).lower()
    value = None if text is None else kind.parse(text)
    return field(
        default=value, metadata={"key": Key(name, kind, text, meaning, applies or _BY_TABLE)}
    )


start_key = partial(key, applies=AS_AT_START)


def texts(
    meanings: Mapping[str, str],
    kinds: Mapping[str, ValueKind] = MappingProxyType({}),
    *,
    applies: Applies,
) -> dict[str, Key]:
    """Returns keys that code reads one by one. `meanings`: their meanings by their names. `kinds`:
    the kinds of the keys that are not plain text."""
    return {
        name: Key(name, kinds.get(name, TEXT), None, meaning, applies)
        for name, meaning in meanings.items()
    }


def values_of(keys: KeyTable) -> dict[str, Any]:
    """Returns the values of the fields that have keys."""
    return {name: getattr(keys, name) for name in keys.table()}
