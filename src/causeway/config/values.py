"""Kinds of values: the texts that a key accepts, and the values that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from causeway.filters import compile_patterns, split_list

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
PARTS = ("records", "checkpoints", "heartbeats")  # of a flow, that can be paused
TransformFormat = Literal["json", "avro", "protobuf", "string", "binary"]
_TOKEN_LENGTH = 16  # characters: shorter ones can be guessed
_STRING: Mapping[str, Any] = {"type": "string"}


class Secret:
    """A value that `repr`, `str` and format strings never show; only `reveal()` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return "********"

    __repr__ = __str__


V = TypeVar("V")


class FrozenMap(Mapping[str, V], Generic[V]):
    """A mapping that cannot be changed."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def freeze(settings: Any, *names: str) -> None:
    """Replaces the mappings in these fields by maps that cannot be changed."""
    for name in names:
        object.__setattr__(settings, name, FrozenMap(getattr(settings, name)))


@dataclass(frozen=True, slots=True)
class ValueKind:
    """`parse` makes a value of a text. It raises ValueError with the expected form, or ConfigError.
    `schema`: the same values as JSON schema. `several`: the text is a list with commas. `text`
    makes a text of a value again; it does not show secrets."""

    parse: Callable[[str], Any]
    schema: Mapping[str, Any] = field(default_factory=lambda: _STRING)
    several: bool = False
    text: Callable[[Any], str] = field(default_factory=lambda: _text)

    def then(
        self, convert: Callable[[Any], Any], back: Callable[[Any], Any] = lambda value: value
    ) -> ValueKind:
        """Returns a kind that takes the same texts and converts the parsed value. `back` is the
        reverse, if the converted value has another text."""
        return replace(
            self,
            parse=lambda text: convert(self.parse(text)),
            text=lambda value: self.text(back(value)),
        )


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(each if isinstance(each, str) else each.pattern for each in value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _boolean(text: str) -> bool:
    """Parses `true` or `false` in any case, as Java does."""
    if (word := text.strip().lower()) in ("true", "false"):
        return word == "true"
    raise ValueError("true or false")


def whole(low: int, high: int, allowed: int | None = None) -> ValueKind:
    """Returns the kind for whole numbers from `low` to `high`, and the number `allowed`."""
    expected = f"a whole number of at least {low}" if high >= INT_MAX else f"{low} to {high}"
    schema: dict[str, Any] = {"maximum": high, "minimum": low, "type": "integer"}
    if allowed is not None:
        expected += f", or {allowed}"
        schema = {"anyOf": [schema, {"const": allowed, "type": "integer"}]}

    def parse(text: str) -> int:
        text = text.strip()
        digits = text.removeprefix("-").removeprefix("+")
        if digits.isascii() and digits.isdecimal() and len(digits) < 20:
            number = int(text)
            if low <= number <= high or number == allowed:
                return number
        raise ValueError(expected)

    return ValueKind(parse, schema)


def choice(*words: str) -> ValueKind:
    """Returns the kind for one of `words`, in any case."""
    quoted = [f"'{word}'" for word in words]
    expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}"

    def parse(text: str) -> str:
        if (word := text.strip().lower()) in words:
            return word
        raise ValueError(expected)

    return ValueKind(parse, {"type": "string", "enum": list(words)})


def _checked(expected: str, fits: Callable[[str], bool]) -> ValueKind:
    """Returns the kind for texts without blanks around them for which `fits` is true."""

    def parse(text: str) -> str:
        if fits(text := text.strip()):
            return text
        raise ValueError(expected)

    return ValueKind(parse)


def _is_plain(text: str, least: int = 1) -> bool:
    return len(text) >= least and text.isascii() and text.isprintable() and " " not in text


def _paused(text: str) -> str:
    found = [part.strip().lower() for part in text.split(",") if part.strip()]
    if set(found) <= set(PARTS):
        return ", ".join(part for part in PARTS if part in found)
    raise ValueError(f"of {', '.join(PARTS)}")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(known) and _is_plain(text)


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if 0 <= number <= 1:
        return number
    raise ValueError("a number from 0 to 1")


BOOL = ValueKind(_boolean, {"type": "boolean"})
COUNT = whole(1, INT_MAX)
SIZE = whole(0, INT_MAX)
MILLIS = whole(1, LONG_MAX)
SECONDS = whole(1, LONG_MAX)
SHARE = ValueKind(_share, {"maximum": 1, "minimum": 0, "type": "number"})
REPLICAS = whole(1, 32767, -1)
RAW = ValueKind(str)  # blanks may be a part of the value
TEXT = ValueKind(str.strip)
SIDE = choice("source", "target")
FORMAT = choice("json", "avro", "protobuf", "string", "binary")
PATTERNS = ValueKind(compile_patterns, several=True)
LIST = ValueKind(split_list, several=True)
PRINCIPAL = _checked("a principal such as User:causeway", lambda text: all(text.partition(":")))
TOKEN = _checked(
    f"at least {_TOKEN_LENGTH} ASCII characters without blanks",
    lambda text: _is_plain(text, _TOKEN_LENGTH),
).then(Secret)
HEADER = _checked("ASCII characters without blanks", _is_plain).then(Secret)
SECRET = ValueKind(str).then(Secret)
PAUSED = ValueKind(_paused, several=True)
ADDRESS = _checked("an address such as https://host/path", _is_address)
