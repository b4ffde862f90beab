"""Converts a file of settings into another form, without loss.

References stay references, and values are not checked: both files have the same settings. Only the
comments before the first key are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from causeway import filters
from causeway.config import TRANSFORMS, Entry, Problems, is_transform_key, key_in_transform
from causeway.config.reading import parse_jaas, split_key
from causeway.errors import ConfigError
from causeway.formats.causeway_yaml import forms, shape
from causeway.formats.causeway_yaml.document import Fields, parse
from causeway.formats.causeway_yaml.read import read_entries as yaml_entries
from causeway.formats.causeway_yaml.write import said, to_yaml
from causeway.formats.loading import Form, default_form, read_entries
from causeway.formats.logins import JAAS, with_login_modules
from causeway.formats.properties import parse_properties, to_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """`carried`: keys without a place in causeway.yaml; they are under `properties`. `files`: keys
    whose value is a path from the file's own directory. `notes`: for the user, about settings that
    the new file does not have, or that it needs in addition."""

    text: str
    carried: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def convert(path: Path, to: Form | None = None) -> Converted:
    """Returns the file at `path` in form `to`. Raises ConfigError if the file cannot be read, or if
    the new file would not have the same settings."""
    problems = Problems(str(path))
    found = read_entries(path, problems)
    problems.raise_if_any()
    to = to or default_form(path)
    if to is found.form:
        raise ConfigError("convert", str(path), "it has that form already")
    entries = found.entries
    comments = () if path.suffix.lower() == ".json" else _comments(path)
    carried: tuple[str, ...] = ()
    if to is Form.PROPERTIES:
        text = to_properties(entries, comments=comments)
        _check(path, entries, parse_properties(path, text.encode()).entries)
    else:
        text = to_yaml(entries, comments=comments)
        document = parse(text, str(path), problems)
        back = with_login_modules(yaml_entries(document, problems), problems, resolved=False)
        beside = document.values.get("properties")
        carried = tuple(beside.values) if isinstance(beside, Fields) else ()
        problems.raise_if_any()
        _check(path, entries, back)
    named = (key for key in entries if key.endswith((".sql.file", ".rules.file")))
    files = tuple(key for key in named if not Path(entries[key].value.strip()).is_absolute())
    return Converted(text=text, carried=carried, files=files, notes=found.notes)


def _comments(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        lines = path.read_text("latin-1").splitlines()
    head = takewhile(lambda line: not line or line[0] in "#!", map(str.strip, lines))
    return tuple(line.lstrip("#!").strip() for line in head if line)


def _check(path: Path, entries: Mapping[str, Entry], back: Mapping[str, Entry]) -> None:
    """Checks that `back`, read from the new file, has the settings of `entries`."""
    aliases = filters.split_list(entries["clusters"].value)
    one, other = said(entries), said(back)
    lost = [
        key
        for key, text in one.items()
        if key not in other or not same_text(split_key(key, aliases)[1], text, other[key])
    ]
    if lost:
        raise ConfigError("convert", str(path), f"the other form cannot say {', '.join(lost)}")


def same_text(name: str, text: str, other: str) -> bool:
    """Returns whether two texts of the key `name` mean the same."""
    if text == other:
        return True
    if name == JAAS:
        return parse_jaas(text) == parse_jaas(other)
    if is_transform_key(name):
        parts: tuple[shape.Section, ...] = (shape.transform(),)
        name = key_in_transform(name)
    else:
        parts = (shape.cluster(), shape.link(), shape.run())
    if name == TRANSFORMS:
        return filters.split_list(text) == filters.split_list(other)
    leaves = [leaf for part in parts for _, leaf in part.leaves() if leaf.key == name]
    return any(forms.same(leaf, text, other) for leaf in leaves)
