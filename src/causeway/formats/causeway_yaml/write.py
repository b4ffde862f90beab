"""Writes the entries of a property file as causeway.yaml. References stay references.

Keys without a place in the form go under `properties` unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from causeway import filters
from causeway.config import (
    IN_SECONDS,
    OLD_NAMES,
    TRANSFORM_FAMILY,
    TRANSFORMS,
    Entry,
    Problems,
    in_millis,
    split_transform_key,
)
from causeway.config.reading import CLUSTER_KEYS, ROLE_KEYS, split_key
from causeway.errors import ConfigError
from causeway.formats.causeway_yaml import forms, shape
from causeway.formats.causeway_yaml.shape import KafkaKeys, Leaf, Section
from causeway.formats.logins import login_parts
from causeway.formats.properties import PROVIDERS, declared_providers

Tree = dict[str, Any]
Way = tuple[str, ...]
_WIDTH = 100
_BREAKS = re.compile("[\n\r\x85\u2028\u2029\ufeff]")
# Texts that do not begin or end with blanks (except one line end) are written line by line.
_BLOCK = re.compile("[^\\s][^\r\x85\u2028\u2029\ufeff]*[^\\s]\n?")


def to_yaml(entries: Mapping[str, Entry], *, comments: Iterable[str] = ()) -> str:
    """Returns the unresolved `entries` as causeway.yaml, after `comments`. Raises ConfigError if
    the names of the clusters come from outside the file."""
    listed = entries.get("clusters")
    if listed is not None and "${" in listed.value:
        raise ConfigError(
            "convert", "clusters", "the aliases come from outside the file", remedy="write them out"
        )
    aliases = tuple(dict.fromkeys(filters.split_list(listed.value))) if listed else ()
    if not aliases:
        raise ConfigError("convert", cause="it names no clusters: set clusters = A, B")
    return _dump(_DocumentWriter(entries=entries, aliases=aliases).tree(), comments)


@dataclass(slots=True, kw_only=True)
class _DocumentWriter:
    entries: Mapping[str, Entry]
    aliases: tuple[str, ...]
    links: dict[str, Tree] = field(default_factory=dict)
    carried: Tree = field(default_factory=dict)

    def tree(self) -> Tree:
        clusters: Tree = {alias: {} for alias in self.aliases}
        defaults: Tree = {}
        run: Tree = {}
        spark: Tree = {}
        texts = said(self.entries)
        itself = {f"{alias}->{alias}" for alias in self.aliases}
        lists = self._lists(texts, itself)
        described: Tree = {}
        for key, text in texts.items():
            prefix, rest = split_key(key, self.aliases)
            name, of_transform = split_transform_key(rest)
            if rest == TRANSFORMS and prefix in lists:
                placed = True
            elif rest.startswith(TRANSFORM_FAMILY) and prefix not in clusters:
                tree = lists.get(prefix, {}).get(name) if prefix else described.setdefault(name, {})
                placed = tree is not None and _put(tree, shape.transform, of_transform, text)
            elif prefix in clusters:
                placed = _put(clusters[prefix], shape.cluster, rest, text)
            elif prefix in itself:
                placed = False  # no link
            elif prefix:
                placed = _put(self.links.setdefault(prefix, {}), shape.link, rest, text)
            elif rest.startswith("spark.") and not rest.startswith("spark.spark."):
                spark[rest.removeprefix("spark.")] = _bare(text)
                placed = True
            else:
                placed = _put(run, shape.run, rest, text) or _put(
                    defaults, shape.defaults, rest, text
                )
            if not placed:
                self.carried[key] = _bare(text)
        for cluster in clusters.values():
            _gather(cluster)
            _tell_login(cluster)
        _tell_login(defaults)
        for prefix, items in lists.items():
            tree = self.links.setdefault(prefix, {}) if prefix else defaults
            tree["transforms"] = [
                {"name": name, **_sorted(item, shape.transform())} if item else name
                for name, item in items.items()
            ]
        for path, link in self.links.items():
            self._enabled(path, link, texts)
        parts = {
            "clusters": {alias: _sorted(each, shape.cluster()) for alias, each in clusters.items()},
            "defaults": _sorted(defaults, shape.defaults()),
            "links": [self._named(path, link) for path, link in self.links.items()],
            "transforms": {
                name: _sorted(each, shape.transform()) for name, each in described.items() if each
            },
            "run": _sorted(run, shape.run()),
            "spark": spark,
            "properties": self.carried,
        }
        return {name: part for name, part in parts.items() if part}

    def _lists(self, texts: Mapping[str, str], itself: set[str]) -> dict[str, dict[str, Tree]]:
        """Returns the transforms that each flow lists ("": all flows), each with an empty tree."""
        found = {}
        for key, text in texts.items():
            prefix, rest = split_key(key, self.aliases)
            flow = "->" in prefix and prefix not in itself
            if rest == TRANSFORMS and (not prefix or flow):
                names = filters.split_list(text)
                if all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in names):
                    found[prefix] = {name: Tree() for name in names}
        return found

    def _enabled(self, path: str, link: Tree, texts: Mapping[str, str]) -> None:
        """Writes `enabled` if needed. By default a listed link is enabled, and a flow of a property
        file is not."""
        text = texts.get(f"{path}.enabled", texts.get("enabled", "false"))
        if text.strip().lower() == "true":
            link.pop("enabled", None)
            self.carried.pop(f"{path}.enabled", None)
        else:
            _put(link, shape.link, "enabled", text)

    def _named(self, path: str, link: Tree) -> Tree:
        source, target = next(
            (s, t) for s in self.aliases for t in self.aliases if f"{s}->{t}" == path
        )
        return {"from": source, "to": target, **_sorted(link, shape.link())}


def said(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Returns the texts to write, by the newest names of the keys: all except the names of clusters
    and the config providers that need no declaration."""
    kinds = declared_providers(entries, wrong := Problems(""))
    plain = not wrong.lines and all(PROVIDERS.get(n) == kind for n, kind in kinds.items())
    noise = {"config.providers", *(f"config.providers.{name}.class" for name in kinds)}
    texts = {
        key: entry.value
        for key, entry in entries.items()
        if key != "clusters" and not (plain and key in noise)
    }
    return _newest(texts)


def _newest(texts: Mapping[str, str]) -> dict[str, str]:
    """Replaces old names of keys by new names that the file does not have."""
    old_names = [
        old
        for old, new in OLD_NAMES.items()
        if not any(key == new or key.endswith(f".{new}") for key in texts)
    ]
    found = {}
    for key, text in texts.items():
        of_flow = "->" in key
        old = next((o for o in old_names if key == o or (of_flow and key.endswith(f".{o}"))), "")
        found[key.removesuffix(old) + OLD_NAMES[old] if old else key] = text
    for seconds, millis in IN_SECONDS.items():
        ms = in_millis(found.get(seconds, ""))
        if ms and millis not in found:
            del found[seconds]
            found[millis] = ms
    return found


# -- one value into its place


@cache
def _places(of: Callable[[], Section]) -> tuple[dict[str, tuple[Way, Leaf]], list[tuple[Way, str]]]:
    section = of()
    leaves = {leaf.key: (way, leaf) for way, leaf in section.leaves()}
    maps = ((way, part.prefix) for way, part in section.walk() if isinstance(part, KafkaKeys))
    return leaves, [(way, prefix) for way, prefix in maps if prefix]


def _put(tree: Tree, of: Callable[[], Section], name: str, text: str) -> bool:
    """Sets key `name` in `tree`. Returns False if the form has no place for it."""
    leaves, maps = _places(of)
    if name in leaves:
        way, leaf = leaves[name]
        value = forms.to_value(leaf, text)
        if value is None:
            return False
        _set(tree, way, value)
        return True
    for way, prefix in maps:
        if name.startswith(prefix) and name != prefix and not name.startswith(prefix * 2):
            _set(tree, (*way, name.removeprefix(prefix)), _bare(text))
            return True
    if of is shape.cluster and name in CLUSTER_KEYS:
        _set(tree, ("client", name), _bare(text))
        return True
    return False


def _set(tree: Tree, way: Way, value: Any) -> None:
    for name in way[:-1]:
        tree = tree.setdefault(name, {})
    tree[way[-1]] = value


def _bare(text: str) -> Any:
    """Returns a value that YAML writes without quotes, and that is read as the same text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if forms.NUMBER.fullmatch(text) else text


def _gather(cluster: Tree) -> None:
    """Moves keys with the same value in all clients of a cluster to `client`."""
    clients = [cluster.get(role, {}) for role in ROLE_KEYS]
    shared = frozenset.intersection(*ROLE_KEYS.values()) - CLUSTER_KEYS
    for name in [name for name in clients[0] if name in shared]:
        if all(name in each and each[name] == clients[0][name] for each in clients):
            _set(cluster, ("client", name), clients[0][name])
            for each in clients:
                del each[name]
    for role in ROLE_KEYS:
        if not cluster.get(role, True):
            del cluster[role]


def _tell_login(tree: Tree) -> None:
    """Replaces a login module that has only a user name and a password by these two. A module with
    references stays, because a value from outside is escaped as the module needs it."""
    sasl = tree.get("security", {}).get("sasl", {})
    text, mechanism = sasl.get("jaas-config"), sasl.get("mechanism")
    if not isinstance(text, str) or not isinstance(mechanism, str) or "${" in text:
        return
    if (found := login_parts(text, mechanism)) is not None:
        del sasl["jaas-config"]
        sasl["username"], sasl["password"] = found


def _sorted(tree: Tree, section: Section) -> Tree:
    """Returns the tree in the order of the form."""
    found: Tree = {}
    for name, part in section.parts.items():
        if name in tree:
            found[name] = _sorted(tree[name], part) if isinstance(part, Section) else tree[name]
    return found


# -- text


class _Dumper(yaml.SafeDumper):
    """Indents maps and lists alike. Writes texts of several lines as blocks, and short lists on one
    line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text and _BLOCK.fullmatch(text):
        style = "|"
    elif _BREAKS.search(text):
        style = '"'  # otherwise the breaks would be read as \n, or not at all
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    short = all(isinstance(each, str) for each in items) and sum(map(len, items)) < _WIDTH // 2
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)


def _dump(tree: Tree, comments: Iterable[str]) -> str:
    head = "".join(f"# {line}".rstrip() + "\n" for line in comments)
    parts = [
        yaml.dump(
            {name: part},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=10_000,
            default_flow_style=False,
        )
        for name, part in tree.items()
    ]
    return head + "\n".join(parts)
