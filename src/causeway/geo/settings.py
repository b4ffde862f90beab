"""Origin and destinations as the entries of a property file: what they settle is a mirror like any
other, so every command that takes a file works on it (`causeway geo properties`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from causeway.config import ClientSettings, Entry, LinkSettings, Problems, PropertyFile, Settings
from causeway.config.reading import CLUSTER_KEYS, ROLE_KEYS, client_settings
from causeway.errors import ConfigError
from causeway.formats import load_properties, read_properties, settings_of
from causeway.geo.local_file import Place, Remembered

# What is copied is the topics that people choose, with their consumer groups' offsets; nothing is
# written to the origin.
FLOWS: Final = {
    "causeway.geo": "true",
    "topics": "",
    "topics.exclude": "",
    "replication.factor": "-1",
    "checkpoints.topic.replication.factor": "-1",
    "refresh.topics.interval.seconds": "30",
    "sync.topic.configs.interval.seconds": "60",
    "refresh.groups.interval.seconds": "60",
    "sync.group.offsets.enabled": "true",
    "sync.topic.acls.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "causeway.mirror.maker.offsets": "false",
}

_REFERENCES: Final = re.compile(r"""["']?(\$\{[^}]*\})+["']?""")
_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*("[^"]*"|'[^']*'|[^\s;]+)""")  # of a login module
_OPEN: Final = frozenset({"username", "clientId", "scope"})


def settings(
    remembered: Remembered,
    *,
    more: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """One link from the origin to each destination. `more`: a property file with keys of the run
    (`causeway.*`, `spark.*`) and of all flows. Raises ConfigError."""
    environment = os.environ if environment is None else environment
    origin = remembered.known_origin()
    entries = dict(_flows(remembered))
    for place in (origin, *remembered.destinations):
        entries |= _of_place(place, _read(place, environment))
    if more is not None:
        problems = Problems(str(more))
        own = load_properties(more, problems, environment).entries
        for entry in own.values():
            if entry.key == "clusters" or entry.key.endswith(".bootstrap.servers"):
                problems.add(f"{entry.place}: clusters are named by `causeway geo` alone")
        problems.raise_if_any()
        entries |= own
    file = PropertyFile(path=more or remembered.path, entries=entries)
    return settings_of(file, Problems(str(remembered.path)))


def link_to(remembered: Remembered, name: str) -> LinkSettings:
    """The link to the destination of that name. Raises ConfigError."""
    (link,) = settings(remembered.only(name)).links
    return link


def client_of(place: Place, environment: Mapping[str, str] | None = None) -> ClientSettings:
    """How one cluster is reached. Raises ConfigError."""
    environment = os.environ if environment is None else environment
    problems = Problems(_subject(place))
    found = client_settings(place.name, _read(place, environment), problems)
    problems.raise_if_any()
    assert found is not None, "or there is a problem"
    return found


def as_properties(remembered: Remembered) -> Mapping[str, Entry]:
    """The same for others to read: what the files of clients say stands as references to them, so
    no secret is copied. Raises ConfigError where one of them is only in part a reference."""
    entries = dict(_flows(remembered))
    for place in (remembered.known_origin(), *remembered.destinations):
        own = {} if place.config is None else dict(read_properties(place.config).entries)
        referred = {
            name: Entry(key=name, value=_referring(place, entry), line=0)
            for name, entry in own.items()
        }
        entries |= _of_place(place, _with_bootstrap(place, referred))
    return entries


def _flows(remembered: Remembered) -> Iterator[tuple[str, Entry]]:
    origin = remembered.known_origin()
    names = [origin.name, *(each.name for each in remembered.destinations)]
    texts = {"clusters": ", ".join(names)}
    texts |= {f"{origin.name}->{each.name}.enabled": "true" for each in remembered.destinations}
    for key, value in {**texts, **FLOWS}.items():
        yield key, Entry(key=key, value=value, line=0)


def _referring(place: Place, entry: Entry) -> str:
    """References are followed once: what is one itself stands as it is."""
    value = entry.value
    if "${" not in value:
        return f"${{file:{place.config}:{entry.key}}}"
    options = _OPTION.findall(value) or [("", value)]
    if entry.secret and not all(name in _OPEN or _REFERENCES.fullmatch(v) for name, v in options):
        raise ConfigError(
            "geo properties",
            f"{place.config}: {entry.place}",
            "it is a reference in one part, and a secret may be in another",
            remedy="have all of its secrets be references",
        )
    return value


def _read(place: Place, environment: Mapping[str, str]) -> dict[str, Entry]:
    """What its file says, names without any prefix."""
    own: Mapping[str, Entry] = {}
    if place.config is not None:
        problems = Problems(str(place.config))
        own = load_properties(place.config, problems, environment).entries
        problems.raise_if_any()
    found = _with_bootstrap(place, own)
    if "bootstrap.servers" not in found:
        raise ConfigError(
            "geo", place.name, "where is it?", remedy="name some of its brokers: host:port,…"
        )
    return found


def _with_bootstrap(place: Place, own: Mapping[str, Entry]) -> dict[str, Entry]:
    if not place.bootstrap:
        return dict(own)
    key = "bootstrap.servers"
    return {**own, key: Entry(key=key, value=place.bootstrap, line=0)}


def _of_place(place: Place, own: Mapping[str, Entry]) -> dict[str, Entry]:
    """By the keys of a property file; what is no cluster's is each of its clients'."""
    found = {}
    for name, entry in own.items():
        roles = ("",) if name in CLUSTER_KEYS else tuple(f"{role}." for role in ROLE_KEYS)
        for role in roles:
            key = f"{place.name}.{role}{name}"
            found[key] = Entry(
                key=key,
                value=entry.value,
                line=entry.line,
                resolved=entry.resolved,
                missing=entry.missing,
            )
    return found


def _subject(place: Place) -> str:
    return place.name if place.config is None else f"{place.name} ({place.config})"
