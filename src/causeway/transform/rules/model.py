"""Rules as values: where in a record, and the treatment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

PartName = Literal["value", "key", "headers"]
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class FieldStep:
    """A step into an object. `name`: None for each of its fields (`.*`)."""

    name: str | None


@dataclass(frozen=True, slots=True)
class ElementStep:
    """A step into an array. `index`: None for each of its elements (`[*]`)."""

    index: int | None


Step = FieldStep | ElementStep


@dataclass(frozen=True, slots=True)
class RulePath:
    """A place in a record. `steps`: fields within the JSON of the value, key or header; None for
    the whole. `header`: the header's name; None for all headers (`headers.*`)."""

    part: PartName
    steps: tuple[Step, ...] | None = None
    header: str | None = None

    @property
    def wild(self) -> bool:
        return any(step in (FieldStep(None), ElementStep(None)) for step in self.steps or ())

    def __str__(self) -> str:
        text: str = self.part
        if self.part == "headers":
            text += ".*" if self.header is None else _member(self.header)
        return text if self.steps is None else f"{text}.{json_path(self.steps)}"

    def overlaps(self, other: RulePath) -> bool:
        """Returns whether a record can have a place that both paths cover."""
        if self.part != other.part:
            return False
        if self.header is not None and other.header is not None and self.header != other.header:
            return False
        pairs = zip(self.steps or (), other.steps or (), strict=False)
        return all(_meet(one, two) for one, two in pairs)


def json_path(steps: tuple[Step, ...]) -> str:
    """Returns the path for Spark's `variant_get` and for people: `$.a.b[0]`."""
    text = "$"
    for step in steps:
        if isinstance(step, ElementStep):
            text += "[*]" if step.index is None else f"[{step.index}]"
        else:
            text += ".*" if step.name is None else _member(step.name)
    return text


def is_plain_name(name: str) -> bool:
    return _PLAIN.fullmatch(name) is not None


def _member(name: str) -> str:
    return f".{name}" if is_plain_name(name) else f'["{name}"]'


def _meet(one: Step, two: Step) -> bool:
    if type(one) is not type(two):
        return False
    if isinstance(one, FieldStep) and isinstance(two, FieldStep):
        return None in (one.name, two.name) or one.name == two.name
    assert isinstance(one, ElementStep)
    assert isinstance(two, ElementStep)
    return None in (one.index, two.index) or one.index == two.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Removes the field or header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRecord:
    """Drops the record if the text, number or boolean at the path has one of `values`. If `values`
    is None, if the path has a value that is not null. `negated`: drops the other records."""

    values: tuple[str | int | float | bool, ...] | None
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Replaces letters and digits by `char`, except the first and last characters, or the domain of
    an address. `only`: the characters to mask: "letters", "digits", or these characters."""

    first: int = 0
    last: int = 0
    domain: bool = False
    char: str = "*"
    only: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash:
    key: str  # the secret's name, as in Tokenise and Encrypt
    form: Literal["hex", "base64"] = "hex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenise:
    key: str
    alphabet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Encrypt:
    key: str
    id_in: Literal["field", "header"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generalise:
    """Replaces dates and timestamps by the start of their `unit`, or numbers by ranges of `size`:
    text like `30-39`, or the number that the range begins with."""

    unit: Literal["year", "month", "day", "hour"] | None = None
    size: int | None = None
    as_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    length: int  # characters; bytes if it is not text


Kind = Drop | DropRecord | Mask | Hash | Tokenise | Encrypt | Generalise | Truncate


@dataclass(frozen=True, slots=True)
class TransformRule:
    """`number` counts from 1, as in messages. `name` is its verb and path, like `mask
    value.$.card`. `required`: whether a record without the path is refused; None if the text does
    not say it (see checks.py)."""

    number: int
    position: int  # of its first character in the text, counted from 1
    path: RulePath
    kind: Kind
    required: bool | None = None

    @property
    def name(self) -> str:
        verb = type(self.kind).__name__.lower()
        if isinstance(self.kind, DropRecord):
            verb = "drop record where"
        return f"{verb} {self.path}"
