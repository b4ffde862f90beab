"""One form of a file of settings into the other, without loss.

No reference is followed and nothing is judged but the form: what a file says, the other says too.
Of comments only those before the first line that says something come along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from causeway import filters
from causeway.config import audit, jaas, transform_keys
from causeway.config.causeway_yaml import forms, login, shape
from causeway.config.causeway_yaml.document import Fields, parse, read_document
from causeway.config.causeway_yaml.read import read_entries
from causeway.config.causeway_yaml.to_properties import to_properties
from causeway.config.causeway_yaml.write import said, to_yaml
from causeway.config.load import is_yaml
from causeway.config.problems import Problems
from causeway.config.properties import Entry, parse_properties, read_properties
from causeway.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """`carried`: keys that causeway.yaml has no place for, so that they stand under `properties`
    there as they are. `files`: keys whose value is a path from the file's own directory."""

    text: str
    carried: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def convert(path: Path) -> Converted:
    """The file at `path` in the other form. Raises ConfigError where it cannot be read, and where
    the other form would not say the same."""
    problems = Problems(str(path))
    if is_yaml(path):
        entries = login.settle(read_entries(read_document(path, problems), problems), problems)
        problems.raise_if_any()
        text = to_properties(entries, comments=_comments(path))
        back: Mapping[str, Entry] = parse_properties(path, text.encode()).entries
        carried: tuple[str, ...] = ()
    else:
        entries = dict(read_properties(path).entries)
        text = to_yaml(entries, comments=_comments(path))
        document = parse(text, str(path), problems)
        back = login.settle(read_entries(document, problems), problems)
        beside = document.values.get("properties")
        carried = tuple(beside.values) if isinstance(beside, Fields) else ()
        problems.raise_if_any()
    _check(path, entries, back)
    named = (key for key in entries if key.endswith((".sql.file", ".rules.file")))
    files = tuple(key for key in named if not Path(entries[key].value.strip()).is_absolute())
    return Converted(text=text, carried=carried, files=files)


def _comments(path: Path) -> Iterator[str]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        lines = path.read_text("latin-1").splitlines()
    head = takewhile(lambda line: not line or line[0] in "#!", map(str.strip, lines))
    return (line.lstrip("#!").strip() for line in head if line)


def _check(path: Path, entries: Mapping[str, Entry], back: Mapping[str, Entry]) -> None:
    """That `back`, read from the other form, says what `entries` say."""
    aliases = filters.split_list(entries["clusters"].value)
    one, other = said(entries), said(back)
    lost = [
        key
        for key, text in one.items()
        if key not in other or not _same(audit.split_key(key, aliases)[1], text, other[key])
    ]
    if lost:
        raise ConfigError("convert", str(path), f"the other form cannot say {', '.join(lost)}")


def _same(name: str, text: str, other: str) -> bool:
    if text == other:
        return True
    if name == login.JAAS:
        return jaas.parse_jaas(text) == jaas.parse_jaas(other)
    if transform_keys.of_transform(name):
        parts: tuple[shape.Section, ...] = (shape.transform(),)
        name = transform_keys.within(name)
    else:
        parts = (shape.cluster(), shape.link(), shape.run())
    if name == transform_keys.LIST:
        return filters.split_list(text) == filters.split_list(other)
    leaves = [leaf for part in parts for _, leaf in part.leaves() if leaf.key == name]
    return any(forms.same(leaf, text, other) for leaf in leaves)
