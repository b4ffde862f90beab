"""Checks a resource's values against the form. Each value has a path and a place, for errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from causeway.config import Problems
from causeway.formats.causeway_yaml.document import Fields, ItemList, Scalar, Value, YamlPlace
from causeway.formats.causeway_yaml.read import YamlEntry
from causeway.formats.strimzi import shape

_TELLING = re.compile(r"[A-Za-z]+([.-][A-Za-z]+)*")
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One value, as it was written."""

    text: str = field(repr=False)
    path: str
    place: YamlPlace

    @property
    def where(self) -> str:
        return f"{self.path} ({self.place})"

    def entry(self, key: str, value: str | None = None) -> YamlEntry:
        """It, or `value` for it, as what a property file says of `key`."""
        return YamlEntry(
            key=key,
            value=self.text if value is None else value,
            line=self.place.line,
            column=self.place.column,
            path=self.path,
        )


@dataclass(slots=True, kw_only=True)
class Tree:
    """The values of an object. As in Kubernetes, a field without a value is absent."""

    path: str
    place: YamlPlace
    texts: dict[str, Given] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    items: dict[str, list[Tree]] = field(default_factory=dict)
    keys: dict[str, dict[str, Given]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.path} ({self.place})"

    @property
    def given(self) -> Given:
        """A value for entries that follow from the presence of the object."""
        return Given(text="", path=self.path, place=self.place)


@dataclass(slots=True, kw_only=True)
class Checker:
    """`ignored`: paths of fields that have no meaning here."""

    version: str
    problems: Problems
    ignored: list[str] = field(default_factory=list)

    def tree(self, value: Value, form: shape.ObjectField, path: str) -> Tree:
        """The values of `form` in `value`; values that do not fit go to `problems`."""
        fields = self._fields(value, path)
        tree = Tree(path=path, place=value.place)
        for name, each in fields.values.items():
            part = form.parts.get(name)
            if part is None:
                self._unknown(name, fields.places[name], path, form)
            elif part.only not in (None, self.version):
                self.problems.add(
                    f"{path}.{name} ({fields.places[name]}) is of {part.only}; by its apiVersion"
                    f" the resource has the form of {self.version}"
                )
            elif not _is_empty(each):
                self._part(tree, name, part, each)
        for name, part in form.parts.items():
            if part.required and name not in fields.values:
                self.problems.add(f"{path} ({value.place}) has no {name}")
            elif part.required and _is_empty(fields.values[name]):
                self.problems.add(f"{path}.{name} ({fields.places[name]}) has no value")
        return tree

    def unknown(self, names: Mapping[str, YamlPlace], words: Iterable[str], path: str) -> None:
        """Reports the `names` at `path` that are not in `words`."""
        known = tuple(words)
        for name, place in names.items():
            if name not in known:
                self._tell(name, place, path, known)

    def _part(self, tree: Tree, name: str, part: shape.Part, value: Value) -> None:
        path = f"{tree.path}.{name}"
        match part:
            case shape.ObjectField():
                tree.trees[name] = self.tree(value, part, path)
            case shape.ListField():
                tree.items[name] = self._items(value, part, path)
            case shape.MapField():
                tree.keys[name] = dict(self._keys(value, path))
            case shape.IgnoredField():
                self.ignored.append(path)
            case shape.TextField() | shape.NumberField() | shape.FlagField():
                given = self._scalar(value, path)
                if given is not None and (expected := _expected(part, given.text)):
                    self.problems.add(f"{given.where} must be {expected}, not {given.text!r}")
                elif given is not None:
                    tree.texts[name] = given

    def _items(self, value: Value, part: shape.ListField, path: str) -> list[Tree]:
        if not isinstance(value, ItemList):
            self.problems.add(f"{path} ({value.place}) must be a list: each item begins with '- '")
            return []
        return [self.tree(each, part.of, f"{path}[{at}]") for at, each in enumerate(value.items)]

    def _keys(self, value: Value, path: str) -> Iterator[tuple[str, Given]]:
        for name, each in self._fields(value, path).values.items():
            given = self._scalar(each, f"{path}.{name}")
            if given is not None:
                yield name, given

    def _scalar(self, value: Value, path: str) -> Given | None:
        if isinstance(value, Scalar) and not value.empty:
            return Given(text=value.text, path=path, place=value.place)
        self.problems.add(f"{path} ({value.place}) must be one value")
        return None

    def _fields(self, value: Value, path: str) -> Fields:
        if isinstance(value, Fields):
            return value
        if not _is_empty(value):
            self.problems.add(f"{path} ({value.place}) must be a map of fields")
        return Fields(values={}, places={}, place=value.place)

    def _unknown(self, name: str, place: YamlPlace, path: str, form: shape.ObjectField) -> None:
        words = [word for word, part in form.parts.items() if part.only in (None, self.version)]
        self._tell(name, place, path, words)

    def _tell(self, name: str, place: YamlPlace, path: str, words: Iterable[str]) -> None:
        """Text that may be a piece of a broken secret is not quoted."""
        known = tuple(words)
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
        shown = name if near or _TELLING.fullmatch(name) else "the hidden key"
        where = f"{path}.{shown}" if path else shown
        told = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        self.problems.add(f"{where} ({place}) is unknown: {told}")


def _is_empty(value: Value) -> bool:
    return isinstance(value, Scalar) and value.empty


def _expected(part: shape.TextField | shape.NumberField | shape.FlagField, text: str) -> str:
    """The expected form of `text`; empty if `text` fits."""
    match part:
        case shape.TextField(choices=choices) if choices and text not in choices:
            return f"one of {', '.join(choices)}"
        case shape.FlagField() if text not in ("true", "false"):
            return "true or false"
        case shape.NumberField(least=least):
            if not _NUMBER.fullmatch(text) or int(text) < least:
                return f"a whole number of at least {least}"
    return ""
