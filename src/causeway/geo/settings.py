"""Makes the entries of a property file from origin and destinations. So they are a mirror like any
other, and each command that takes a file works with them (`causeway geo properties`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from causeway.config import ClientSettings, Entry, LinkSettings, Problems, PropertyFile, Settings
from causeway.config.reading import CLUSTER_KEYS, ROLE_KEYS, client_settings
from causeway.errors import ConfigError
from causeway.formats import load_properties, read_properties
from causeway.formats import settings_of as mm2_settings
from causeway.geo.local_file import ClusterAddress, GeoFile

# Chosen topics are copied, with the offsets of their consumer groups. Nothing is written to the
# origin.
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
# An option of a login module.
_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*("[^"]*"|'[^']*'|[^\s;]+)""")
_OPEN: Final = frozenset({"username", "clientId", "scope"})


def settings_of(
    known: GeoFile,
    *,
    more: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Returns settings with a link from the origin to each destination. `more`: a property file
    with keys for this run (`causeway.*`, `spark.*`) and for all flows. Raises ConfigError."""
    environment = os.environ if environment is None else environment
    origin = known.known_origin()
    entries = dict(_flows(known))
    for place in (origin, *known.destinations):
        entries |= _of_place(place, _read(place, environment))
    if more is not None:
        problems = Problems(str(more))
        own = load_properties(more, problems, environment).entries
        for entry in own.values():
            if entry.key == "clusters" or entry.key.endswith(".bootstrap.servers"):
                problems.add(f"{entry.place}: only `causeway geo` names clusters")
        problems.raise_if_any()
        entries |= own
    file = PropertyFile(path=more or known.path, entries=entries)
    return mm2_settings(file, Problems(str(known.path)))


def link_to(known: GeoFile, name: str) -> LinkSettings:
    """Returns the link to the destination `name`. Raises ConfigError."""
    (link,) = settings_of(known.only(name)).links
    return link


def client_of(
    place: ClusterAddress, environment: Mapping[str, str] | None = None
) -> ClientSettings:
    """Returns the client settings for one cluster. Raises ConfigError."""
    environment = os.environ if environment is None else environment
    problems = Problems(place.name if place.config is None else f"{place.name} ({place.config})")
    found = client_settings(place.name, _read(place, environment), problems)
    problems.raise_if_any()
    assert found is not None, "or there is a problem"
    return found


def as_properties(known: GeoFile) -> Mapping[str, Entry]:
    """Returns the entries for other programs. Values of client.properties files become references
    to these files, so no secret is copied. Raises ConfigError for a value that is partly a
    reference."""
    entries = dict(_flows(known))
    for place in (known.known_origin(), *known.destinations):
        own = {} if place.config is None else dict(read_properties(place.config).entries)
        referred = {
            name: Entry(key=name, value=_referring(place, entry), line=0)
            for name, entry in own.items()
        }
        entries |= _of_place(place, _with_bootstrap(place, referred))
    return entries


def _flows(known: GeoFile) -> Iterator[tuple[str, Entry]]:
    origin = known.known_origin()
    names = [origin.name, *(each.name for each in known.destinations)]
    texts = {"clusters": ", ".join(names)}
    texts |= {f"{origin.name}->{each.name}.enabled": "true" for each in known.destinations}
    for key, value in {**texts, **FLOWS}.items():
        yield key, Entry(key=key, value=value, line=0)


def _referring(place: ClusterAddress, entry: Entry) -> str:
    """Returns the value for other programs. References are resolved only once, so a reference does
    not change."""
    value = entry.value
    if "${" not in value:
        return f"${{file:{place.config}:{entry.key}}}"
    options = _OPTION.findall(value) or [("", value)]
    if entry.secret and not all(name in _OPEN or _REFERENCES.fullmatch(v) for name, v in options):
        raise ConfigError(
            "geo properties",
            f"{place.config}: {entry.place}",
            "one part is a reference, and another part may be a secret",
            remedy="make each secret of the value a reference",
        )
    return value


def _read(place: ClusterAddress, environment: Mapping[str, str]) -> dict[str, Entry]:
    """Returns the entries of the cluster's file, with names without prefixes."""
    own: Mapping[str, Entry] = {}
    if place.config is not None:
        problems = Problems(str(place.config))
        own = load_properties(place.config, problems, environment).entries
        problems.raise_if_any()
    found = _with_bootstrap(place, own)
    if "bootstrap.servers" not in found:
        raise ConfigError(
            "geo",
            place.name,
            "its address is missing",
            remedy="name some of its brokers: host:port,…",
        )
    return found


def _with_bootstrap(place: ClusterAddress, own: Mapping[str, Entry]) -> dict[str, Entry]:
    if not place.bootstrap:
        return dict(own)
    key = "bootstrap.servers"
    return {**own, key: Entry(key=key, value=place.bootstrap, line=0)}


def _of_place(place: ClusterAddress, own: Mapping[str, Entry]) -> dict[str, Entry]:
    """Returns the entries with the keys of a property file. A key that is not for the whole cluster
    is set for each of its clients."""
    found = {}
    for name, entry in own.items():
        roles = ("",) if name in CLUSTER_KEYS else tuple(f"{role}." for role in ROLE_KEYS)
        for role in roles:
            key = f"{place.name}.{role}{name}"
            found[key] = replace(entry, key=key)
    return found
