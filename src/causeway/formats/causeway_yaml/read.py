"""Reads causeway.yaml as the entries of a property file, each with its place in the YAML file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from causeway.config import TRANSFORM_FAMILY, TRANSFORMS, Entry, Problems, PropertyFile, Settings
from causeway.config.reading import CLUSTER_KEYS, ROLE_KEYS
from causeway.formats import mm2
from causeway.formats.causeway_yaml import forms, shape
from causeway.formats.causeway_yaml.document import (
    Fields,
    ItemList,
    Scalar,
    Value,
    ValueReader,
    YamlEntry,
    YamlPlace,
)
from causeway.formats.causeway_yaml.shape import KafkaKeys, Leaf, Section, TransformList
from causeway.formats.logins import USER, name_module, with_login_modules
from causeway.formats.properties import resolve

TOP = ("clusters", "defaults", "links", "transforms", "run", "spark", "properties")


def settings_of(
    path: Path, document: Fields, problems: Problems, *, environment: Mapping[str, str] | None
) -> Settings:
    """Returns the settings of `document`, the content of `path`. Raises one ConfigError with all
    problems. `Settings.warnings` names keys without effect. `environment` replaces os.environ."""
    entries = read_entries(document, problems)
    if "clusters" not in entries or not any(_enables(name) for name in entries):
        if not problems.lines:
            problems.add("it names no links: write links: with from: and to: of each")
        problems.raise_if_any()  # nothing else can be judged
    resolved = resolve(entries, os.environ if environment is None else environment, problems)
    settled = with_login_modules(resolved, problems, resolved=True)
    return mm2.settings_of(PropertyFile(path=path, entries=settled), problems)


def read_entries(document: Fields, problems: Problems) -> dict[str, Entry]:
    """Returns the entries of `document`, by the keys of a property file. References are not
    resolved, and logins still consist of parts (see logins.py)."""
    return _DocumentReader(problems=problems).document(document)


def _enables(key: str) -> bool:
    return key == "enabled" or ("->" in key and key.endswith(".enabled"))


@dataclass(slots=True, kw_only=True)
class _DocumentReader(ValueReader):
    entries: dict[str, Entry] = field(default_factory=dict)

    def document(self, document: Fields) -> dict[str, Entry]:
        parts = document.values
        for name in parts:
            if name not in TOP:
                self.unknown(name, document.places[name], "", TOP)
        aliases = self._clusters(parts.get("clusters"))
        if (value := parts.get("defaults")) is not None:
            self._section(shape.defaults(), value, "defaults", "")
        self._links(parts.get("links"), aliases)
        self._described(parts.get("transforms"))
        if (value := parts.get("run")) is not None:
            self._section(shape.run(), value, "run", "")
        if (value := parts.get("spark")) is not None:
            self._map(value, "spark", "spark.")
        if (value := parts.get("properties")) is not None:
            self._map(value, "properties", "")
        if isinstance(clusters := parts.get("clusters"), Fields):
            self._addresses(clusters.places)
        return self.entries

    # -- clusters and links

    def _clusters(self, value: Value | None) -> tuple[str, ...]:
        found = None if value is None else self.fields(value, "clusters")
        if found is None or not found.values:
            if value is None or value.empty or isinstance(value, Fields):
                self.problems.add("it names no clusters: write clusters: with an alias of each")
            return ()
        for alias, cluster in found.values.items():
            self._section(shape.cluster(), cluster, f"clusters.{alias}", f"{alias}.")
        self._add("clusters", ", ".join(found.values), "clusters", found.place)
        return tuple(found.values)

    def _addresses(self, aliases: Mapping[str, YamlPlace]) -> None:
        """Checks that each cluster has an address. If only some of its clients or links have one,
        mm2.py checks that."""
        said = [name for name in self.entries if name.endswith("bootstrap.servers")]
        for alias, place in aliases.items():
            path = f"clusters.{alias}"
            if not any(
                name == "bootstrap.servers" or name.startswith(f"{alias}.") or "->" in name
                for name in said
            ):
                self.problems.add(
                    f"{path} ({place}) has no bootstrap: write bootstrap: [host:port]"
                )
                self._add(f"{alias}.bootstrap.servers", "", path, place, missing=True)

    def _links(self, value: Value | None, aliases: tuple[str, ...]) -> None:
        links = () if value is None else self.items(value, "links")
        seen: dict[tuple[str, str], YamlPlace] = {}
        for number, item in enumerate(links, 1):
            fields = self.fields(item, f"link {number}")
            if not isinstance(item, Fields) and not item.empty:
                continue
            ends = [self._end(fields, name, number, aliases) for name in ("from", "to")]
            if not all(ends):
                continue
            source, target = ends
            path = f"{source}->{target}"
            if source == target:
                self.problems.add(f"link {number} ({fields.place}): from and to are the same")
            elif (source, target) in seen:
                first = seen[source, target].line
                self.problems.add(f"{path} ({fields.place}): line {first} has that link already")
            else:
                seen[source, target] = fields.place
                self._link(fields, path)

    def _link(self, fields: Fields, path: str) -> None:
        rest = {name: part for name, part in fields.values.items() if name not in ("from", "to")}
        if "enabled" not in rest:
            self._add(f"{path}.enabled", "true", path, fields.place)
        self._section(shape.link(), replace(fields, values=rest), path, f"{path}.")

    def _end(self, fields: Fields, name: str, number: int, aliases: tuple[str, ...]) -> str:
        value = fields.values.get(name)
        if value is None:
            self.problems.add(f"link {number} ({fields.place}) has no {name}: name a cluster")
            return ""
        alias = self.text(value)
        if alias is None:
            self.problems.add(f"link {number} ({value.place}): {name} must name one cluster")
            return ""
        if alias not in aliases:
            shown = "what it names" if "${" in alias else repr(alias)
            known_ones = f", which are {', '.join(aliases)}" if aliases else ""
            self.problems.add(
                f"link {number}, {name} ({value.place}): {shown} is none of the"
                f" clusters{known_ones}"
            )
            return ""
        return alias

    # -- parts

    def _section(self, section: Section, value: Value, path: str, prefix: str) -> None:
        fields = self.fields(value, path)
        for name, each in fields.values.items():
            here = f"{path}.{name}"
            match section.parts.get(name):
                case None:
                    meant = {leaf.key: ".".join(way) for way, leaf in section.leaves()}
                    place = fields.places[name]
                    self.unknown(name, place, path, section.parts, meant.get(name, ""))
                case Section() as part:
                    self._section(part, each, here, prefix)
                case KafkaKeys(spread=True) as part:
                    self._spread(part, each, here, prefix)
                case KafkaKeys() as part:
                    self._map(each, here, prefix + part.prefix)
                case TransformList():
                    self._transforms(each, here, prefix)
                case Leaf() as leaf:
                    self._leaf(leaf, each, here, prefix)
        if any(isinstance(part, Leaf) and part.key == USER for part in section.parts.values()):
            name_module(self.entries, prefix, path, self.problems)

    def _leaf(self, leaf: Leaf, value: Value, path: str, prefix: str) -> None:
        given: str | list[str]
        if isinstance(value, ItemList) and leaf.kind in ("list", "lines"):
            if any(not isinstance(each, Scalar) or each.empty for each in value.items):
                self.problems.add(f"{path} ({value.place}) must be a list of texts")
                return
            given = [each.text for each in value.items if isinstance(each, Scalar)]
        elif not isinstance(value, Scalar):
            what = "text or a list of texts" if leaf.kind in ("list", "lines") else "one value"
            self.problems.add(f"{path} ({value.place}) must be {what}")
            return
        elif value.empty:
            self.problems.add(f"{path} ({value.place}) has no value: write one, or leave it out")
            return
        else:
            given = value.text
        try:
            text = forms.to_text(leaf, given)
        except ValueError as error:
            self.problems.add(f"{path} ({value.place}) must be {error}")
            return
        self._add(prefix + leaf.key, text, path, value.place)

    def _transforms(self, value: Value, path: str, prefix: str) -> None:
        names: list[str] = []
        for item in self.items(value, path):
            if (named := self.text(item)) is not None:
                names.append(named)
                self._is_name(named, path, item.place)
                continue
            fields = self.fields(item, path)
            rest = dict(fields.values)
            place = rest["name"].place if "name" in rest else item.place
            if (name := self.text(rest.pop("name", None))) is None:
                self.problems.add(f"{path} ({item.place}): a transform without a name")
                continue
            if name in names:
                self.problems.add(f"{path}.{name} ({place}) is in the list already")
                continue
            names.append(name)
            self._transform(name, replace(fields, values=rest), f"{path}.{name}", place, prefix)
        self._add(prefix + TRANSFORMS, ", ".join(names), path, value.place)

    def _described(self, value: Value | None) -> None:
        """Reads the transforms at the top, which all links may name."""
        if value is not None:
            fields = self.fields(value, "transforms")
            for name, each in fields.values.items():
                self._transform(name, each, f"transforms.{name}", fields.places[name], "")

    def _transform(self, name: str, value: Value, path: str, place: YamlPlace, prefix: str) -> None:
        if self._is_name(name, path, place):
            family = f"{prefix}{TRANSFORM_FAMILY}{name}."
            self._section(shape.transform(), value, path, family)

    def _is_name(self, name: str, path: str, place: YamlPlace) -> bool:
        """Returns whether `name` can be a part of a key."""
        if re.fullmatch(r"[A-Za-z0-9_-]+", name):
            return True
        self.problems.add(f"{path} ({place}): a name is made of letters, digits, '_' and '-'")
        return False

    def _map(self, value: Value, path: str, prefix: str) -> None:
        """Adds keys that do not change, with `prefix` or without."""
        for name, text, place in self._texts(value, path):
            self._add(prefix + name.removeprefix(prefix), text, f"{path}.{name}", place)

    def _spread(self, part: KafkaKeys, value: Value, path: str, prefix: str) -> None:
        for name, text, place in self._texts(value, path):
            each: tuple[str, ...] = (prefix,)
            if name not in CLUSTER_KEYS and name in part.words:
                each = tuple(f"{prefix}{role}." for role in ROLE_KEYS)
            for before in each:
                self._add(before + name, text, f"{path}.{name}", place)

    def _texts(self, value: Value, path: str) -> Iterable[tuple[str, str, YamlPlace]]:
        fields = self.fields(value, path)
        for name, each in fields.values.items():
            if (text := self.text(each)) is not None:
                yield name, text, each.place
            else:
                self.problems.add(
                    f"{path}.{name} ({fields.places[name]}) must be text, in quotes if it is empty"
                )

    # -- what all share

    def _add(
        self, key: str, text: str, path: str, place: YamlPlace, *, missing: bool = False
    ) -> None:
        entry = replace(YamlEntry.at(key, text, path, place), missing=missing)
        if key in self.entries:
            self.problems.add(f"{entry.place} and {self.entries[key].place} say the same twice")
        self.entries[key] = entry
