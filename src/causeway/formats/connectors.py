"""MirrorMaker 2's connectors in a Connect cluster: their JSON as the entries of a property file.

Forms, as Connect's REST API takes and gives them:

    {"connector.class": …, …}                              a config
    {"name": …, "config": {…}}                             POST /connectors, GET /connectors/NAME
    [{…}, {…}]                                             several of these
    {"NAME": {"info": {"name": …, "config": {…}}}, …}      GET /connectors?expand=info

A flow needs the MirrorSourceConnector; a checkpoint and a heartbeat connector of the same aliases
join it. Each key is read from the connector that acts on it. Connect's own keys are left
out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from causeway import filters
from causeway.config import Entry
from causeway.config.reading import ALIASES, OFFSETS_TOPIC, KeyEffect, audit_key, is_worker_key
from causeway.errors import ConfigError, OtherFormError
from causeway.formats.properties import to_properties
from causeway.naming import PACKAGE, is_legal_name

_CLASS: Final = "connector.class"
_KINDS: Final = {
    "MirrorSourceConnector": "source",
    "MirrorCheckpointConnector": "checkpoint",
    "MirrorHeartbeatConnector": "heartbeat",
}
# The connector that acts on a flow's key, by the key's prefix; the source connector acts on all
# others.
_ACTS: Final = {
    "groups": "checkpoint",
    "group.filter.": "checkpoint",
    "refresh.groups.": "checkpoint",
    "emit.checkpoints.": "checkpoint",
    "checkpoints.topic.": "checkpoint",
    "sync.group.": "checkpoint",
    "emit.heartbeats.": "heartbeat",
    "heartbeats.topic.": "heartbeat",
}
_SIDES: Final = ("source", "target")
_CONNECTS_TOPIC: Final = "connect-offsets"
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
_OF_CLIENTS: Final = ("consumer.", "producer.", "admin.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConnector:
    """`name`: empty if the JSON has none."""

    name: str
    kind: str
    config: Mapping[str, str]

    def alias(self, side: str) -> str:
        return self.config.get(f"{side}.cluster.alias", "").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyText:
    """`notes`: texts for people about settings that the connectors lack, or Causeway leaves out."""

    entries: Mapping[str, Entry]
    notes: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The property file, without its secrets."""
        hidden = {
            key: Entry(key=key, value="(hidden)", line=0)
            if entry.secret and not _REFERENCE.fullmatch(entry.value.strip())
            else entry
            for key, entry in self.entries.items()
        }
        return to_properties(hidden, comments=self.notes)


def read_connectors(path: Path) -> PropertyText | None:
    """Returns a property file with the settings of the connectors at `path`; None for a file
    without connectors. Raises ConfigError for connectors of other kinds, or without a source
    connector."""
    found = _connectors(path)
    if not found:
        return None
    for each in found:
        if each.kind not in _KINDS.values():
            raise _refused(
                path, f"{each.kind} is no connector of MirrorMaker 2", "leave it out of the file"
            )
    sources = [each for each in found if each.kind == "source"]
    if not sources:
        raise _refused(
            path,
            "it has no MirrorSourceConnector, so it copies nothing",
            "write the connectors of a flow into one file, as a JSON list",
        )
    flows: dict[tuple[str, str], list[MirrorConnector]] = {}
    for each in sources:
        flows.setdefault((each.alias("source"), each.alias("target")), []).append(each)
    return _EntryWriter(path, found, flows).written()


def acting(key: str) -> str:
    """Returns the kind of the connector that acts on a flow's key."""
    return next((kind for start, kind in _ACTS.items() if key.startswith(start)), "source")


def refused(path: Path, found: PropertyText) -> OtherFormError:
    """Returns the error of all commands except `convert` for the file at `path`."""
    return OtherFormError(
        str(path),
        "it holds connectors of Kafka Connect; the property file to use instead follows",
        remedy=f"causeway convert {path} -o mm2.properties writes it, with its secrets",
        instead=found.shown,
    )


def _connectors(path: Path) -> list[MirrorConnector]:
    if path.suffix.lower() != ".json":
        return []
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []  # the reader of property files reports the error
    return list(_found(document, ""))


def _found(document: Any, name: str) -> Iterator[MirrorConnector]:
    if isinstance(document, list):
        for each in document:
            yield from _found(each, "")
    if not isinstance(document, dict):
        return
    if isinstance(document.get(_CLASS), str):
        config = {
            str(key): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in document.items()
            if value is not None
        }
        said = config[_CLASS].strip().removeprefix(PACKAGE)
        named = config.get("name", name)
        yield MirrorConnector(name=named, kind=_KINDS.get(said, said), config=config)
    elif isinstance(document.get("config"), dict):
        yield from _found(document["config"], str(document.get("name", name)))
    else:
        for key, each in document.items():
            info = each.get("info", each) if isinstance(each, dict) else None
            if isinstance(info, dict) and (_CLASS in info or "config" in info):
                yield from _found(info, key)


@dataclass(slots=True)
class _EntryWriter:
    _path: Path
    _found: Sequence[MirrorConnector]
    _flows: Mapping[tuple[str, str], list[MirrorConnector]]
    _entries: dict[str, Entry] = field(default_factory=dict)
    _left_out: dict[str, None] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)

    def written(self) -> PropertyText:
        pairs = [zip(_SIDES, pair, strict=True) for pair in self._flows]
        aliases = list(dict.fromkeys(alias or side for pair in pairs for side, alias in pair))
        for alias in aliases:
            if not is_legal_name(alias):
                raise _refused(
                    self._path, f"the alias {alias!r} has characters that topic names cannot have"
                )
        self._add("clusters", ", ".join(aliases))
        # In Connect a connector writes heartbeats; MirrorMaker 2 writes them for each pair.
        self._add("emit.heartbeats.enabled", "false")
        for pair, sources in self._flows.items():
            self._flow(pair, sources)
        if self._left_out:
            self._notes.append(
                f"Left out, as they have no effect in Causeway: {', '.join(self._left_out)}"
            )
        return PropertyText(entries=self._entries, notes=tuple(self._notes))

    def _flow(self, pair: tuple[str, str], sources: Sequence[MirrorConnector]) -> None:
        source, target = (alias or side for side, alias in zip(_SIDES, pair, strict=True))
        flow = f"{source}->{target}"
        together = {
            each.kind: each
            for each in self._found
            if (each.alias("source"), each.alias("target")) == pair
        }
        config = self._one(flow, sources)
        for side, alias in zip(_SIDES, (source, target), strict=True):
            self._cluster(flow, side, alias, config)
        self._add(f"{flow}.enabled", "true")
        for key, said in zip(ALIASES, pair, strict=True):
            if not said:
                self._add(f"{flow}.{key}", "")
        self._keys(flow, "source", config)
        for kind in ("checkpoint", "heartbeat"):
            if kind in together:
                self._keys(flow, kind, together[kind].config)
        if "checkpoint" not in together:
            self._notes.append(f"{flow} has no MirrorCheckpointConnector in this file")
            self._add(f"{flow}.emit.checkpoints.enabled", "false")
            self._add(f"{flow}.sync.group.offsets.enabled", "false")
        if "heartbeat" in together:
            beats = f"{flow}.emit.heartbeats.enabled"
            self._entries.setdefault(beats, Entry(key=beats, value="true", line=0))
        self._positions(flow, target, sources, config)

    def _one(self, flow: str, sources: Sequence[MirrorConnector]) -> dict[str, str]:
        """Returns the config of the connectors that copy records and may share a flow's topics."""
        own = ("name", "topics", "tasks.max")
        first, *others = ({k: v for k, v in e.config.items() if k not in own} for e in sources)
        if any(other != first for other in others):
            names = ", ".join(each.name or "one without a name" for each in sources)
            raise _refused(
                self._path,
                f"{names} are source connectors of {flow} with different settings",
                "convert each from its own file, and give each its own aliases",
            )
        topics = [t for e in sources for t in filters.split_list(e.config.get("topics", ".*"))]
        tasks = {"tasks.max": "1"} if any("tasks.max" in e.config for e in sources) else {}
        return {**first, **tasks, "topics": ", ".join(dict.fromkeys(topics))}

    def _cluster(self, flow: str, side: str, alias: str, config: Mapping[str, str]) -> None:
        """The keys of one cluster: `A.x` for all of its clients, unless one client has its own."""
        start = f"{side}.cluster."
        names = {key.removeprefix(start) for key in config if key.startswith(start)} - {"alias"}
        roles = {
            key.rpartition(f"{role}")[2]
            for key in config
            for role in _OF_CLIENTS
            if key.removeprefix(f"{side}.").startswith(role)
        }
        for name in sorted(names, key=lambda each: (each != "bootstrap.servers", each)):
            key = f"{flow}.{start}{name}" if name in roles else f"{alias}.{name}"
            said = self._entries.get(key)
            if said is not None and said.value != config[start + name]:
                key = f"{flow}.{start}{name}"
            self._add(key, config[start + name])

    def _keys(self, flow: str, kind: str, config: Mapping[str, str]) -> None:
        for key, value in config.items():
            if key in ("name", _CLASS, *ALIASES):
                continue
            if key.startswith(("source.cluster.", "target.cluster.")):
                continue
            if acting(key) != kind:
                continue
            effect = audit_key(f"{flow}.{key}", flow.split("->")).effect
            if effect is KeyEffect.MEANINGLESS or (
                is_worker_key(key) and not key.startswith(_OF_CLIENTS)
            ):
                self._left_out[key] = None
            else:
                self._add(f"{flow}.{key}", value)

    def _positions(
        self, flow: str, target: str, sources: Sequence[MirrorConnector], config: Mapping[str, str]
    ) -> None:
        """Adds the topic of Connect's positions of the connectors."""
        if len(sources) == 1 and sources[0].name:
            self._add(f"{flow}.causeway.mirror.maker.connector", sources[0].name)
        if own := config.get("offsets.storage.topic"):
            self._add(f"{flow}.causeway.mirror.maker.offsets.topic", own)
            return
        self._add(f"{target}.{OFFSETS_TOPIC}", _CONNECTS_TOPIC)
        self._notes.append(
            f"{target}.{OFFSETS_TOPIC}: set it to {OFFSETS_TOPIC} of the Connect workers, if it is"
            f" not {_CONNECTS_TOPIC}. The mirror goes on from the positions in that topic"
        )

    def _add(self, key: str, value: str) -> None:
        self._entries[key] = Entry(key=key, value=value, line=0)


def _refused(path: Path, cause: str, remedy: str = "") -> ConfigError:
    return ConfigError("read connectors of", str(path), cause, remedy=remedy)
