"""Reads transforms: `causeway.transforms` and `causeway.transform.NAME.*`.

This module finds the text of a transform with its key and line; `causeway.transform` checks the
text itself. A mistake that could leave a record unprotected is a problem, never a warning.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from causeway import filters
from causeway.config.entries import Entries, Entry, Problems, note, read
from causeway.config.key_table import values_of
from causeway.config.reading.schemas import read_registry
from causeway.config.settings import LinkSettings, RegistrySettings, TransformSettings
from causeway.config.transform_keys import (
    SECRET_FIELD,
    TEXT_KEYS,
    TRANSFORM_FAMILY,
    TRANSFORMS,
    TransformKeys,
    no_references,
    split_transform_key,
)
from causeway.config.values import Secret, TransformFormat
from causeway.naming import MAX_TOPIC_LENGTH, is_topic_name

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_WITH_REGISTRY = ("avro", "protobuf")
_WITHOUT_SCHEMA = ("string", "binary")
# Quoted text and comments of SQL.
_SQL_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|/\*.*?\*/|(--)""", re.DOTALL
)
_QUOTED = re.compile(r"`[^`]*`|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")


def listed_transforms(own: Entries) -> tuple[str, ...]:
    """Returns the names in `causeway.transforms`, in their order."""
    entry = own.get(TRANSFORMS)
    if entry is not None and entry.resolved:
        return ()
    return tuple(dict.fromkeys(filters.split_list(entry.value))) if entry else ()


def read_transforms(
    own: Entries, entries: Entries, flow: str, *, slug: str, directory: Path, problems: Problems
) -> tuple[TransformSettings, ...]:
    """Returns the transforms of the flow called `slug` (`A.B`). `own` has the list. `entries` has
    the keys `causeway.transform.*`, with the prefix `flow` (`A->B`) or without a prefix. Paths of
    files are relative to `directory`."""
    made = []
    found: dict[str, Entry] = {}
    for prefix in ("", f"{flow}."):  # the flow's own values win
        for name, each in entries.items():
            if name.startswith(prefix + TRANSFORM_FAMILY):
                found[name.removeprefix(prefix)] = each
    entry = own.get(TRANSFORMS)
    if entry is not None and entry.resolved and not entry.missing:
        problems.add(
            f"{entry.place}: write the names of transforms into the file, not behind ${{...}}"
        )
    delivery = own.get("causeway.delivery")
    if (
        listed_transforms(own)
        and delivery is not None
        and delivery.value.strip().lower() == "at-least-once"
    ):
        problems.add(f"{delivery.place}: transforms are exactly-once only")
    for name in listed_transforms(own):
        assert entry is not None
        if not _NAME.fullmatch(name):
            problems.add(f"{entry.place}: {name!r} must be made of letters, digits, '_' and '-'")
            continue
        keys = {
            key: e
            for full, e in found.items()
            for own_name, key in [split_transform_key(full)]
            if own_name == name
        }
        reader = _TransformReader(
            name=name,
            listed_at=entry.place,
            entries=keys,
            slug=slug,
            directory=directory,
            problems=problems,
        )
        transform = reader.transform()
        if transform is not None:
            made.append(transform)
    return tuple(made)


def check_listed(entries: Entries, flows: Mapping[str, Iterable[str]], problems: Problems) -> None:
    """Checks that a list names every transform in `entries`. `flows` maps the flows that run
    (`A->B`; "" in a file with one flow without a name) to the names in their lists."""
    everywhere = {name for names in flows.values() for name in names}
    reported: set[tuple[str, str]] = set()
    for full, entry in entries.items():
        flow, key = _flow_of(full, flows)
        if flow is None:
            continue
        if not key.startswith(TRANSFORM_FAMILY):
            _check_spelling(entry, key, problems)
            continue
        name, _ = split_transform_key(key)
        names = flows[flow] if flow else everywhere
        if name and name not in names and (flow, name) not in reported:
            reported.add((flow, name))
            prefix = f"{flow}." if flow else ""
            problems.add(f"{entry.place}: {prefix}{TRANSFORMS} does not name {name}")


def without_dead_letters(links: Iterable[LinkSettings]) -> list[LinkSettings]:
    """Returns `links` so that none of them mirrors dead letters of another: these hold records that
    a transform should have changed."""
    links = list(links)
    topics: dict[str, set[str]] = {}
    for link in links:
        letters = filter(None, (transform.dead_letters for transform in link.transforms))
        topics.setdefault(link.source.alias, set()).update(letters)
    return [replace(link, dead_letters=frozenset(topics[link.source.alias])) for link in links]


def _flow_of(full: str, flows: Iterable[str]) -> tuple[str | None, str]:
    """Returns the flow of key `full` ("" for all flows, None for a flow that does not run), and the
    key without it."""
    if "->" not in full:
        return "", full
    for flow in flows:
        if flow and full.startswith(f"{flow}."):
            return flow, full[len(flow) + 1 :]
    return None, full


def _check_spelling(entry: Entry, key: str, problems: Problems) -> None:
    """Refuses a misspelt transform: it would be an unknown key, and would protect nothing."""
    head = ".".join(key.split(".")[:2])
    if not key.startswith("causeway.t") or head == TRANSFORMS:
        return
    meant = difflib.get_close_matches(head, [TRANSFORMS, TRANSFORM_FAMILY[:-1]], n=1, cutoff=0.85)
    if meant:
        problems.add(f"{entry.place}: there is no such key; did you mean {meant[0]}?")


@dataclass(slots=True, kw_only=True)
class _TransformReader:
    name: str
    listed_at: str
    entries: Entries
    slug: str
    directory: Path
    problems: Problems

    def transform(self) -> TransformSettings | None:
        before = len(self.problems.lines)
        if not self.entries:
            self.problems.add(
                f"{self.listed_at} names {self.name}, and {TRANSFORM_FAMILY}{self.name}.topics and"
                " .sql, .python or .rules are missing"
            )
            return None
        keys = read(TransformKeys, self.entries, self.problems)
        if not keys.topics and not self._is_reported("topics"):
            self._add(self._place("topics"), "it names no topics")
        kind, text, place = self._text()
        value_format: TransformFormat = keys.value_format or (
            "json" if kind == "rules" else "binary"
        )
        self._check_schema("value", value_format, keys.value_schema)
        self._check_schema("key", keys.key_format, keys.key_schema)
        registry = self._registry(keys, {"value": value_format, "key": keys.key_format})
        secrets = self._secrets()
        dead_letters = self._dead_letters(keys)
        missing = any(entry.missing for entry in self.entries.values())
        if len(self.problems.lines) > before or missing or text is None:
            return None
        texts = {**dict.fromkeys(("sql", "sql_file", "python", "rules", "rules_file")), kind: text}
        return TransformSettings(
            **values_of(keys) | texts | {"value_format": value_format},
            name=self.name,
            place=place,
            registry=registry,
            secrets=secrets,
            dead_letters=dead_letters,
        )

    def _add(self, place: str, cause: str) -> None:
        self.problems.add(f"{place}: {cause}")

    def _place(self, key: str) -> str:
        entry = self.entries.get(key)
        return entry.place if entry else f"{TRANSFORM_FAMILY}{self.name}.{key}"

    def _is_reported(self, key: str) -> bool:
        """Returns whether `key` has a value, whose problems are reported already."""
        entry = self.entries.get(key)
        return entry is not None and (entry.missing or bool(entry.value.strip()))

    # -- the text

    def _text(self) -> tuple[str, str | None, str]:
        """Returns the kind of the text, the text and its place. The text is None if it cannot be
        read."""
        given = [self.entries[name] for name in TEXT_KEYS if name in self.entries]
        if len(given) != 1:
            places = " and ".join(entry.place for entry in given)
            self._add(
                places or f"{self.listed_at} names {self.name}",
                f"set exactly one of .sql, .sql.file, .python, .rules and .rules.file,"
                f" {'not several' if given else 'and none is set'}",
            )
            return "", None, ""
        (entry,) = given
        key = next(name for name in TEXT_KEYS if self.entries.get(name) is entry)
        kind = key.removesuffix(".file")
        if entry.missing:
            return kind, None, entry.place
        text: str | None = entry.value
        place = entry.place
        if key.endswith(".file"):
            text, place = self._from_file(entry)
        elif (
            kind == "sql"
            and "\n" not in entry.value.strip()
            and any(match[1] for match in _SQL_TOKEN.finditer(entry.value))
        ):
            self._add(
                place,
                "a comment that begins with -- has no end, because the text is one line: write"
                " /* ... */, or use .sql.file",
            )
        elif kind == "python" and not _FUNCTION.fullmatch(entry.value.strip()):
            self._add(place, f"must be module:function, not {entry.shown}")
        if text is None:
            return kind, None, place
        if not text.strip():
            self._add(place, "it is empty")
        return kind, text.strip() if kind == "python" else text, place

    def _from_file(self, entry: Entry) -> tuple[str | None, str]:
        path = self.directory / entry.value.strip()
        shown = "the file" if entry.secret else str(path)
        place = f"{entry.place}, {shown}"
        note(path)
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            self._add(place, "it is not UTF-8 text")
        except FileNotFoundError:
            self._add(place, "there is no such file")
        except OSError as error:
            self._add(place, (error.strerror or "it cannot be read").lower())
        else:
            if "${" not in text:
                return text, place
            number = text[: text.index("${")].count("\n") + 1
            self._add(f"{place}, line {number}", no_references(entry.key))
        return None, place

    # -- formats

    def _check_schema(self, part: str, its_format: str, schema: str | None) -> None:
        """Finds the mistakes that can be found without Spark. Spark parses the schema later."""
        place = self._place(f"{part}.schema")
        if schema is None:
            return
        if its_format in _WITHOUT_SCHEMA:
            self._add(place, f"has no meaning for {part}.format = {its_format}")
        elif not _is_balanced(schema):
            self._add(place, "is not a schema such as `id BIGINT, names ARRAY<STRING>`")

    def _registry(self, keys: TransformKeys, formats: Mapping[str, str]) -> RegistrySettings | None:
        needed = [f"{part}.format" for part, name in formats.items() if name in _WITH_REGISTRY]
        given = [key for key in self.entries if key.startswith("registry.")]
        if not keys.registry_url:
            if (needed or given) and not self._is_reported("registry.url"):
                why = self._place(needed[0] if needed else given[0])
                self._add(why, f"needs {TRANSFORM_FAMILY}{self.name}.registry.url")
            return None
        own = {f"causeway.{key}": self.entries[key] for key in given if key != "registry.token"}
        shown = f"{TRANSFORM_FAMILY}{self.name}.registry."
        return read_registry(own, "the registry", shown, self.problems)

    # -- the rest

    def _secrets(self) -> dict[str, Secret]:
        found: dict[str, Secret] = {}
        seen: set[str] = set()
        for key, entry in self.entries.items():
            if not key.startswith(SECRET_FIELD) or entry.missing:
                continue
            field = key.removeprefix(SECRET_FIELD)
            if not _FIELD.fullmatch(field):
                self._add(entry.place, "the name of a secret is made of letters, digits and '_'")
            elif field.lower() in seen:
                self._add(entry.place, "differs from another secret in the case of letters only")
            elif not entry.value:
                self._add(entry.place, "it is empty")
            else:
                seen.add(field.lower())
                found[field] = Secret(entry.value)
        return found

    def _dead_letters(self, keys: TransformKeys) -> str | None:
        place = self._place("dead.letter.topic")
        if keys.on_error == "stop":
            if keys.dead_letter_topic:
                self._add(place, f"needs {TRANSFORM_FAMILY}{self.name}.on.error = dead-letter")
            return None
        topic = keys.dead_letter_topic or f"__causeway.{self.slug}.{self.name}.dead-letters"
        if not is_topic_name(topic):
            self._add(place, f"must be the name of a topic, of at most {MAX_TOPIC_LENGTH} letters")
        return topic


def _is_balanced(schema: str) -> bool:
    depth: list[str] = []
    closes = {">": "<", ")": "("}
    text = _QUOTED.sub("q", schema)
    for letter in text:
        if letter in "<(":
            depth.append(letter)
        elif letter in closes and (not depth or depth.pop() != closes[letter]):
            return False
    return not depth and bool(re.match(r"\s*\w", text))
