"""Reads one mirror of a resource: the configs, states and patterns of its connectors.

With Strimzi each connector has its own config; a flow has one. So a key counts in the config of the
connector that acts on it: `topics` of the source connector, `groups` of the checkpoint connector.
Keys of several connectors must have the same value in each.
"""

from __future__ import annotations

from collections.abc import Iterator

from causeway.config.reading import ALIASES, CLUSTER_KEYS, ROLE_KEYS
from causeway.formats.causeway_yaml.document import YamlEntry
from causeway.formats.connectors import acting
from causeway.formats.strimzi.clusters import ResourceReader
from causeway.formats.strimzi.secrets import is_provider
from causeway.formats.strimzi.shape import Tree
from causeway.naming import PACKAGE

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
    """The field that stops the connector, if any; `state` wins over the older `pause`."""
    state, pause = connector.texts.get("state"), connector.texts.get("pause")
    if state is not None:
        return None if state.value == "running" else state
    return pause if pause is not None and pause.value == "true" else None


def _configs(
    reader: ResourceReader, flow: str, connectors: dict[str, Tree], *, carry: bool
) -> None:
    first: dict[str, YamlEntry] = {}  # of what more than one may say
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
                # The clients are those that copy records.
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
    """`key` in the config of connector `name`, which another connector has as well."""
    if before.value.strip() == given.value.strip():
        return
    if key.startswith(_ALIKE) and name != "heartbeatConnector":
        reader.problems.add(
            f"{given.place} and {before.place} must have the same value: a mirror has one value"
        )
    else:
        reader.ignored.append(given.path)


def _misses(reader: ResourceReader, name: str, key: str, given: YamlEntry) -> bool:
    """Whether only connector `name` has a key that the source connector lacks. Then the records of
    the source connector would get other names than with Strimzi."""
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
    """Keys with a higher precedence come later."""
    order = ("consumer.", "producer.", "admin.", "source.cluster.", "target.cluster.")
    if key.startswith(("producer.override.", "consumer.override.", "admin.override.")):
        return 3
    if key.startswith(("source.cluster.", "target.cluster.")):
        return 1
    return 2 if key.startswith(order) else 4


def _of_client(key: str, *, carry: bool) -> Iterator[str]:
    """The keys in a property file. `carry`: also for clients without a function here. Connect's own
    producer writes the records, the connector's `producer.` writes offset syncs. A flow's plain key
    would yield to the cluster's, but a connector's key never does."""
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
