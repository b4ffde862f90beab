"""Reads a KafkaMirrorMaker2 resource as the entries of a property file.

With Strimzi each connector has its own config; a flow has one config. So a key counts in the config
of the connector that acts on it: `topics` in the source connector's, `groups` in the checkpoint
connector's. Keys of several connectors must have the same value in each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from causeway.config import Problems, PropertyFile, Settings
from causeway.config.reading import ALIASES, CLUSTER_KEYS, ROLE_KEYS
from causeway.formats import mm2
from causeway.formats.causeway_yaml.document import Fields, Scalar, YamlEntry
from causeway.formats.connectors import acting
from causeway.formats.logins import with_login_modules
from causeway.formats.properties import resolve
from causeway.formats.strimzi import shape
from causeway.formats.strimzi.clusters import ResourceReader
from causeway.formats.strimzi.secrets import VARIABLE, Secrets, is_provider, references
from causeway.formats.strimzi.shape import Checker, Tree
from causeway.naming import PACKAGE

_CONNECTS_OWN = ("group.id", "config.storage.topic", "status.storage.topic")
_POSITIONS = "offset.storage.topic"
_OLD_POSITIONS = "mirrormaker2-cluster-offsets"  # the default of v1beta2


CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
PARTS = dict(zip(CONNECTORS, ("records", "checkpoints", "heartbeats"), strict=True))
_ALIKE = ("replication.policy.", "offset-syncs.topic.location", *ALIASES)
SHARED = (*_ALIKE, "admin.timeout.ms", "topic.filter.class")
# The defaults of these keys in a connector; the default of an alias is the cluster's.
_UNSAID = {
    "replication.policy.class": "DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "replication.policy.internal.topic.separator.enabled": "true",
    "offset-syncs.topic.location": "source",
}
# The source's producer and the target's consumer do nothing here.
_ACTING = {"source": ("consumer", "admin"), "target": ("producer", "admin")}
_PATTERNS = (
    ("topicsPattern", "topics"),
    ("topicsBlacklistPattern", "topics.exclude"),
    ("topicsExcludePattern", "topics.exclude"),
    ("groupsPattern", "groups"),
    ("groupsBlacklistPattern", "groups.exclude"),
    ("groupsExcludePattern", "groups.exclude"),
)
_CLIENT = (
    *("producer.", "consumer.", "admin.", "source.cluster.", "target.cluster."),
    *(f"{side}.{role}." for side in ("source", "target") for role in ROLE_KEYS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """`entries`: with references and parts of logins. `warnings`: about fields without effect."""

    entries: Mapping[str, YamlEntry]
    warnings: tuple[str, ...]


def settings_of(
    path: Path, document: Fields, problems: Problems, *, environment: Mapping[str, str] | None
) -> Settings:
    """Returns the settings of the resource `document`. Raises one ConfigError with `problems` and
    all other problems. The variable CAUSEWAY_SECRETS names the directory of the Secrets."""
    known = os.environ if environment is None else environment
    where = known.get(VARIABLE)
    secrets = Secrets(directory=Path(where) if where else None, problems=problems)
    found = read_resource(document, problems, secrets)
    problems.raise_if_any()  # else problems that follow from these would be reported as well
    resolved = resolve(found.entries, known, problems)
    entries = with_login_modules(resolved, problems, resolved=True)
    settings = mm2.settings_of(PropertyFile(path=path, entries=entries), problems)
    return replace(settings, warnings=(*found.warnings, *settings.warnings))


def read_resource(
    document: Fields, problems: Problems, secrets: Secrets, *, carry: bool = False
) -> Resource:
    """Reads a resource. `carry`: also keys without effect, for a conversion. Raises ConfigError if
    the fields are not those of a resource. Wrong values go to `problems`."""
    version = _version(document, problems)
    checker = Checker(version=version, problems=problems)
    for name, place in document.places.items():
        if name not in shape.TOP:
            checker.unknown(name, place, "", shape.TOP)
    value = document.values.get("spec")
    if value is None:
        problems.add("it has no spec")
        problems.raise_if_any()
    assert value is not None
    spec = checker.tree(value, shape.SPEC, "spec")
    problems.raise_if_any()
    mirrors = spec.items["mirrors"]
    if not mirrors:
        problems.add("spec.mirrors names no mirror")
    target, pairs = _clusters(spec, mirrors, version, problems)
    problems.raise_if_any()
    assert target is not None
    for cluster in (target, *(source for source, _ in pairs)):
        alias = cluster.texts["alias"]
        if why := mm2.no_alias(alias.value):
            problems.add(f"{alias.place}: {alias.value!r} {why}")
    problems.raise_if_any()  # else each entry of a flow would be reported
    used = {target.path, *(source.path for source, _ in pairs)}
    checker.ignored += [
        each.path for each in spec.items.get("clusters", ()) if each.path not in used
    ]
    checker.ignored += _passed_over(spec, "target", "connectCluster")
    for mirror in mirrors:
        checker.ignored += _passed_over(mirror, "source", "sourceCluster")
    configs = [
        each.keys.get("config", {})
        for each in (
            target,
            *(part for source, mirror in pairs for part in (source, *mirror.trees.values())),
        )
    ]
    reader = ResourceReader(
        entries={},
        secrets=secrets,
        references=references(configs, secrets, problems),
        problems=problems,
        ignored=checker.ignored,
        version=version,
    )
    notes = _read(reader, target, pairs, carry=carry)
    ignored = [", ".join(reader.ignored)] if reader.ignored else []
    warnings = (*(f"without meaning here: {paths}" for paths in ignored), *notes)
    return Resource(entries=reader.entries, warnings=warnings)


def _passed_over(tree: Tree, new: str, old: str) -> list[str]:
    """Returns the path of the older one of two fields with the same meaning, if both are set."""
    return [tree.texts[old].path] if new in tree.trees and old in tree.texts else []


def _version(document: Fields, problems: Problems) -> str:
    """Returns the version. Raises ConfigError unless `document` is a KafkaMirrorMaker2 of a known
    version."""
    texts = {
        name: value.text
        for name in ("apiVersion", "kind")
        if isinstance(value := document.values.get(name), Scalar)
    }
    kind, api = texts.get("kind", ""), texts.get("apiVersion", "")
    groups = {known.partition("/")[0] for known in shape.FORMS}
    if kind in ("List", f"{shape.KIND}List"):
        problems.add(f"it is a list of resources: write each {shape.KIND} to a file of its own")
    elif kind != shape.KIND or api.partition("/")[0] not in groups:
        problems.add(
            f"it is a resource of kind {kind!r} of {api!r}, and must be a {shape.KIND} of"
            f" {' or '.join(shape.FORMS)}"
        )
    elif api not in shape.FORMS:
        problems.add(f"apiVersion {api} is not known, only {', '.join(shape.FORMS)} are")
    problems.raise_if_any()
    return shape.FORMS[api]


def _clusters(
    spec: Tree, mirrors: list[Tree], version: str, problems: Problems
) -> tuple[Tree | None, list[tuple[Tree, Tree]]]:
    """Returns the target, and each mirror with its source. v1beta2 names clusters by their aliases,
    but may also have the fields of v1."""
    by_alias: dict[str, Tree] = {}
    for each in spec.items.get("clusters", ()):
        alias = each.texts["alias"]
        if alias.value in by_alias:
            problems.add(f"{alias.place}: there is a cluster {alias.value} already")
        by_alias[alias.value] = each
    target = spec.trees.get("target")
    connect = spec.texts.get("connectCluster")
    if target is None and connect is not None:
        target = _named(connect, by_alias, problems)
    elif target is None:
        problems.add(f"{spec.place} has no {_words('target', 'connectCluster', version)}")
    pairs: list[tuple[Tree, Tree]] = []
    seen: dict[str, YamlEntry] = {}
    for mirror in mirrors:
        source = mirror.trees.get("source")
        name = mirror.texts.get("sourceCluster")
        if source is None and name is not None:
            source = _named(name, by_alias, problems)
        elif source is None:
            problems.add(f"{mirror.place} has no {_words('source', 'sourceCluster', version)}")
        to = mirror.texts.get("targetCluster")
        if target is not None and to is not None and to.value != target.texts["alias"].value:
            problems.add(
                f"{to.place} is {to.value}, and connectCluster {target.texts['alias'].value}: all"
                " mirrors of a resource have one target; write a resource for each"
            )
        if source is None or target is None:
            continue
        alias = source.texts["alias"]
        if alias.value == target.texts["alias"].value:
            problems.add(f"{alias.place}: {alias.value} is the target as well")
        elif alias.value in seen:
            problems.add(f"{mirror.place}: {seen[alias.value].path} is from {alias.value} already")
        seen[alias.value] = mirror.given
        pairs.append((source, mirror))
    return target, pairs


def _words(new: str, old: str, version: str) -> str:
    return new if version == shape.NEW else f"{old} (nor {new})"


def _named(alias: YamlEntry, by_alias: Mapping[str, Tree], problems: Problems) -> Tree | None:
    found = by_alias.get(alias.value)
    if found is None:
        there = f", which are {', '.join(by_alias)}" if by_alias else ""
        problems.add(f"{alias.place}: {alias.value} is none of spec.clusters{there}")
    return found


def _read(
    reader: ResourceReader, target: Tree, pairs: list[tuple[Tree, Tree]], *, carry: bool
) -> list[str]:
    to = target.texts["alias"].value
    aliases = [*(source.texts["alias"].value for source, _ in pairs), to]
    reader.add("clusters", target.texts["alias"], ", ".join(aliases))
    # Strimzi runs heartbeat connectors that a resource names; MirrorMaker 2 one for each pair.
    reader.add("emit.heartbeats.enabled", target.given, "false")
    for source, _ in pairs:
        reader.cluster(source, target=False)
    reader.cluster(target, target=True)
    positions = _positions(reader, target, to)
    notes = []
    for source, mirror in pairs:
        flow = f"{source.texts['alias'].value}->{to}"
        book = f"{flow}.causeway.mirror.maker"
        reader.add(f"{book}.offsets.topic", positions)
        reader.add(f"{book}.connector", positions, f"{flow}.MirrorSourceConnector")
        notes += read_mirror(reader, flow, mirror, carry=carry)
    for key, given in reader.whole.items():
        reader.add(key, given)
    return notes


def _positions(reader: ResourceReader, target: Tree, alias: str) -> YamlEntry:
    """Returns Connect's topic of offsets."""
    config = target.keys.get("config", {})
    for name in (*_CONNECTS_OWN, _POSITIONS):
        if reader.entries.pop(f"{alias}.{name}", None) is not None and name != _POSITIONS:
            reader.ignored.append(config[name].path)
    if (named := target.texts.get("offsetStorageTopic")) is not None:
        return named
    return config.get(_POSITIONS) or replace(target.given, value=_OLD_POSITIONS)


def read_mirror(reader: ResourceReader, flow: str, mirror: Tree, *, carry: bool) -> list[str]:
    """Adds the keys of `flow` in `mirror`, and returns notes for the user. `carry`: also keys
    without effect, for a conversion."""
    notes = []
    connectors = {name: mirror.trees[name] for name in CONNECTORS if name in mirror.trees}
    reader.add(f"{flow}.enabled", mirror.given, "true")
    _configs(reader, flow, connectors, carry=carry)
    for field, key in _PATTERNS:
        if field in mirror.texts:
            reader.add(f"{flow}.{key}", mirror.texts[field])
    paused = {}
    for name, part in PARTS.items():
        if name in connectors and (state := _held(connectors[name])) is not None:
            paused[part] = state
    if "sourceConnector" not in connectors:
        notes.append(f"{mirror.place} has no sourceConnector, so that no record is copied")
        paused.setdefault("records", mirror.given)
    if "checkpointConnector" not in connectors:
        for key in ("emit.checkpoints.enabled", "sync.group.offsets.enabled"):
            reader.add(f"{flow}.{key}", mirror.given, "false")
    if (
        "heartbeatConnector" in connectors
        and f"{flow}.emit.heartbeats.enabled" not in reader.entries
    ):
        reader.add(
            f"{flow}.emit.heartbeats.enabled", connectors["heartbeatConnector"].given, "true"
        )
    if paused and f"{flow}.causeway.paused" not in reader.entries:
        given = next(iter(paused.values()))
        reader.add(f"{flow}.causeway.paused", given, ", ".join(paused))
    for name, connector in connectors.items():
        if (tasks := connector.texts.get("tasksMax")) is None:
            continue
        if carry and name == CONNECTORS[0]:
            reader.add(f"{flow}.tasks.max", tasks)
        elif not carry:
            reader.ignored.append(tasks.path)
    return notes


def _held(connector: Tree) -> YamlEntry | None:
    """Returns the field that stops the connector, if any. `state` wins over the older `pause`."""
    state, pause = connector.texts.get("state"), connector.texts.get("pause")
    if state is not None:
        return None if state.value == "running" else state
    return pause if pause is not None and pause.value == "true" else None


def _configs(
    reader: ResourceReader, flow: str, connectors: dict[str, Tree], *, carry: bool
) -> None:
    first: dict[str, YamlEntry] = {}  # the first values of keys that several connectors may have
    for at, (name, connector) in enumerate(connectors.items()):
        config = connector.keys.get("config", {})
        for key, written in sorted(config.items(), key=lambda item: _rank(item[0])):
            given = reader.references.plain(written)
            if is_provider(key):
                continue
            if key == "enabled":
                reader.problems.add(f"{given.place} has no meaning here: write state: stopped")
            elif key.startswith((*SHARED, *_CLIENT)) and key in first:
                _again(reader, name, key, given, first[key])
            elif key.startswith(SHARED):
                if at == 0 or not _misses(reader, name, key, given):
                    first[key] = given
                    reader.add(f"{flow}.{key}", given)
            elif key.startswith(_CLIENT):
                # The source connector's keys are for the clients that copy records.
                if at == 0:
                    first[key] = given
                    for place in _of_client(key, carry=carry):
                        reader.add(f"{flow}.{place}", given)
                else:
                    reader.ignored.append(given.path)
            elif name == f"{acting(key)}Connector":
                reader.add(f"{flow}.{key}", given)
            else:
                reader.ignored.append(given.path)


def _again(
    reader: ResourceReader, name: str, key: str, given: YamlEntry, before: YamlEntry
) -> None:
    """Handles `key` in the config of connector `name` if another connector also has it."""
    if before.value.strip() == given.value.strip():
        return
    if key.startswith(_ALIKE) and name != "heartbeatConnector":
        reader.problems.add(
            f"{given.place} and {before.place} must have the same value: a mirror has one value"
        )
    else:
        reader.ignored.append(given.path)


def _misses(reader: ResourceReader, name: str, key: str, given: YamlEntry) -> bool:
    """Returns whether connector `name` has a key that the source connector lacks. Then the source
    connector's topics would get other names than with Strimzi."""
    if name == "heartbeatConnector":
        reader.ignored.append(given.path)
        return True
    if not key.startswith(_ALIKE):
        return False
    said = given.value.strip().removeprefix(PACKAGE)
    if said != _UNSAID.get(key):
        reader.problems.add(
            f"{given.place} is missing in sourceConnector.config: write it there as well, or remove"
            " it, because a mirror has one value"
        )
    return True


def _rank(key: str) -> int:
    """Returns the rank of a key: keys with a higher precedence come later."""
    order = ("consumer.", "producer.", "admin.", "source.cluster.", "target.cluster.")
    if key.startswith(("producer.override.", "consumer.override.", "admin.override.")):
        return 3
    if key.startswith(("source.cluster.", "target.cluster.")):
        return 1
    return 2 if key.startswith(order) else 4


def _of_client(key: str, *, carry: bool) -> Iterator[str]:
    """Yields the keys of a property file. `carry`: also those for clients without a function here.
    Connect's own producer writes the records, and the connector's `producer.` writes offset syncs.
    A flow's plain key would lose against the cluster's key, but a connector's key never does."""
    side, _, rest = key.partition(".")
    if side in ("source", "target"):
        role, _, name = rest.partition(".")
        if role == "cluster" and name in CLUSTER_KEYS:
            roles = ROLE_KEYS if carry else _ACTING[side]
            yield from (f"{side}.{each}.{name}" for each in roles)
        else:
            yield key
    elif rest.startswith("override."):
        sides = {"producer": ("target",), "consumer": ("source",), "admin": ("target",)}[side]
        yield from (f"{each}.{side}.{rest.removeprefix('override.')}" for each in sides)
    elif side == "admin":
        yield from (f"source.{key}", f"target.{key}")
    else:
        yield f"source.{key}"
