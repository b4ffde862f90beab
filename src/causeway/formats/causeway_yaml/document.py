"""Parses YAML into texts, maps and lists, each with its place, and reads their parts.

A scalar keeps its text: `010`, `yes` and `1:30` are not converted as YAML 1.1 would convert them.
Tags are not followed, so a file can never construct an object.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from causeway.config import Entry, Problems, read_file
from causeway.errors import ConfigError

_PLAIN = "tag:yaml.org,2002:"
_MERGE = f"{_PLAIN}merge"
# Tags that YAML gives to text without a tag; `=` is `value`.
_KINDS = frozenset(
    _PLAIN + kind
    for kind in (
        *("null", "bool", "int", "float", "str", "timestamp", "value"),
        *("seq", "map", "merge"),
    )
)
_MOST_REPEATED = 100_000  # values that all aliases of a file may repeat
_MOST_LEVELS = 100
_TOO_DEEP = "it is nested too deeply"
_QUOTED = re.compile(r"'[^']{2,}'|\"[^\"]{2,}\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlPlace:
    """Line and column, 1-based."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """`empty`: no value was written, which is not the same as \"\"."""

    text: str = field(repr=False)
    place: YamlPlace
    empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    items: tuple[Value, ...]
    place: YamlPlace
    empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """`places`: the places of the keys."""

    values: dict[str, Value]
    places: dict[str, YamlPlace]
    place: YamlPlace
    empty: bool = False


Value = Scalar | ItemList | Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlEntry(Entry):
    """`path`: the path in the document, for messages."""

    path: str
    column: int

    @classmethod
    def at(cls, key: str, value: str, path: str, place: YamlPlace) -> YamlEntry:
        return cls(key=key, value=value, path=path, line=place.line, column=place.column)

    @property
    def place(self) -> str:
        return f"{self.path} (line {self.line}, column {self.column})"

    @property
    def spot(self) -> str:
        return self.place

    @property
    def remark(self) -> str:
        """Always empty: in YAML, a `#` after a blank begins a comment, unless it is in quotes."""
        return ""


@dataclass(slots=True, kw_only=True)
class ValueReader:
    """Reads the parts of values, and reports values that have another form."""

    telling: ClassVar = re.compile(r"[A-Za-z]+(-[A-Za-z]+)*")  # a key that is no secret's piece
    problems: Problems

    def fields(self, value: Value, path: str) -> Fields:
        """Returns the map; an empty one for another value."""
        if isinstance(value, Fields):
            return value
        if not value.empty:
            self.problems.add(f"{path} ({value.place}) must be a map of keys and values")
        return Fields(values={}, places={}, place=value.place)

    def items(self, value: Value, path: str) -> tuple[Value, ...]:
        """Returns the items; none if the value is no list."""
        if isinstance(value, ItemList):
            return value.items
        self.problems.add(f"{path} ({value.place}) must be a list: each item begins with '- '")
        return ()

    def text(self, value: Value | None) -> str | None:
        """Returns the text; None if the value is no text, or is empty."""
        return value.text if isinstance(value, Scalar) and not value.empty else None

    def unknown(
        self, name: str, place: YamlPlace, path: str, known: Iterable[str], meant: str = ""
    ) -> None:
        """Reports an unknown key, which may be a piece of a broken secret. So the key is shown only
        if it looks like a key, or nearly is one. `meant`: the key that `name` means."""
        words = tuple(known)
        near = difflib.get_close_matches(name, sorted(words), n=1, cutoff=0.7)
        hint = meant or (near[0] if near else "")
        shown = name if hint or self.telling.fullmatch(name) else "the hidden key"
        where = f"{path}.{shown}" if path else shown
        told = f"did you mean {hint}?" if hint else f"known are {', '.join(words)}"
        self.problems.add(f"{where} ({place}) is unknown: {told}")


def read_document(path: Path, problems: Problems) -> Fields:
    """Returns the map in `path`. Keys that are set twice and the like go to `problems`. Raises
    ConfigError, with line and column, if the file is not YAML."""
    return parse(read_file(path), str(path), problems)


def parse(data: bytes | str, subject: str, problems: Problems) -> Fields:
    """Does the same for a file's content."""
    try:
        # A document between two `---`, or after the last one, may be empty.
        roots = [
            root for root in yaml.compose_all(data, Loader=yaml.SafeLoader) if not _is_nothing(root)
        ]
    except yaml.YAMLError as error:
        raise ConfigError("read", subject, _told(error)) from None
    except RecursionError:
        raise ConfigError("read", subject, _TOO_DEEP) from None
    if not roots:
        raise ConfigError("read", subject, "the file is empty")
    if len(roots) > 1:
        cause = (
            f"a second document begins in line {roots[1].start_mark.line + 1}: a file holds one;"
            " write what is to be run to a file of its own"
        )
        raise ConfigError("read", subject, cause)
    value = _Builder(problems, subject).value(roots[0])
    if not isinstance(value, Fields):
        raise ConfigError(
            "read",
            subject,
            "it must be a map: causeway.yaml begins with clusters:, a resource with apiVersion:",
        )
    return value


def _told(error: yaml.YAMLError) -> str:
    """Returns the problem and its place, without text of the file, which may be a secret."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "it is not UTF-8 text that YAML allows"
    mark = error.problem_mark
    cause = _QUOTED.sub("...", error.problem or "not YAML")
    return f"line {mark.line + 1}, column {mark.column + 1}: {cause}"


def _is_nothing(root: Node) -> bool:
    return isinstance(root, ScalarNode) and root.value == "" and root.style is None


class _Builder:
    """Builds values, and bounds the number of repeated values: without a bound, a few lines with
    nested aliases could take more memory than a machine has."""

    def __init__(self, problems: Problems, subject: str) -> None:
        self._problems = problems
        self._subject = subject
        self._above: list[Node] = []
        self._met: set[Node] = set()
        self._repeated = 0

    def value(self, node: Node) -> Value:
        """Raises ConfigError for a file that its aliases make too large or too deep."""
        place = _place(node)
        self._count(node, place)
        if node in self._above:
            self._problems.add(f"{place}: an alias cannot name a value that contains the alias")
            return Scalar(text="", place=place, empty=True)
        if node.tag not in _KINDS:
            self._problems.add(f"{place}: tags (!...) have no meaning here")
        self._above.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._fields(node)
            if isinstance(node, SequenceNode):
                return ItemList(items=tuple(self.value(each) for each in node.value), place=place)
            empty = node.tag == f"{_PLAIN}null"  # never for a value in quotes
            return Scalar(text="" if empty else node.value, place=place, empty=empty)
        finally:
            self._above.pop()

    def _count(self, node: Node, place: YamlPlace) -> None:
        self._repeated += node in self._met
        self._met.add(node)
        if self._repeated > _MOST_REPEATED:
            cause = f"its aliases repeat more than {_MOST_REPEATED:,} values (those of {place})"
            raise ConfigError("read", self._subject, cause, remedy="write them out")
        if len(self._above) > _MOST_LEVELS:
            raise ConfigError("read", self._subject, _TOO_DEEP)

    def _fields(self, node: MappingNode) -> Fields:
        values: dict[str, Value] = {}
        places: dict[str, YamlPlace] = {}
        merged: list[Fields] = []
        for key, item in node.value:
            place = _place(key)
            if key.tag == _MERGE:
                merged += self._merged(item)
            elif not isinstance(key, ScalarNode):
                self._problems.add(f"{place}: a key must be text")
            elif key.value in values:
                first = places[key.value].line
                self._problems.add(f"{place}: line {first} has the same key already")
            else:
                values[key.value] = self.value(item)
                places[key.value] = place
        for each in merged:
            for name, value in each.values.items():
                values.setdefault(name, value)
                places.setdefault(name, each.places[name])
        return Fields(values=values, places=places, place=_place(node))

    def _merged(self, node: Node) -> list[Fields]:
        """`<<: *base` or `<<: [*one, *two]`."""
        value = self.value(node)
        found = list(value.items) if isinstance(value, ItemList) else [value]
        if any(not isinstance(each, Fields) for each in found):
            self._problems.add(f"{_place(node)}: << takes maps")
        return [each for each in found if isinstance(each, Fields)]


def _place(node: Node) -> YamlPlace:
    return YamlPlace(line=node.start_mark.line + 1, column=node.start_mark.column + 1)
