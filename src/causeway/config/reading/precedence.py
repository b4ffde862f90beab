"""Which value of a key counts, and the names that a file gives to MirrorMaker 2's own topics.

A flow's own keys:      A->B.x  >  x
A client of the flow:   A->B.source.consumer.x  >  A.consumer.x  >  A.x*  >  x*
                        >  A->B.consumer.x  >  A->B.source.cluster.x*     (* bootstrap, TLS, SASL)
The writer of records:  A->B.producer.override.x  >  producer.override.x  >  as above

The order of the second line is MirrorMaker 2's: a cluster's key reaches its clients as
`source.consumer.x` and wins over a flow's plain `consumer.x`. The third line is Connect's: its
worker writes the records of a connector, with the connector's `producer.override.`.

Connect's positions, as MirrorMaker 2 keeps them:

    topic     offset.storage.topic  >  B.offset.storage.topic  >  mm2-offsets.A.internal
    cluster   A->B.source.cluster.alias  >  source.cluster.alias  >  A

The first line is Connect's worker, whose default has the alias in `clusters`. The second line is
the connector, which may have another alias. Source: MirrorMakerConfig of Apache Kafka.

Before Kafka 3.0 had the identity policy, people kept names by an empty alias and an empty
separator. That recipe is still in use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from causeway.config.entries import Entries, Entry
from causeway.config.keys import ControlSettings
from causeway.config.reading.known import CLUSTER_KEYS, ROLE_KEYS
from causeway.naming import KAFKAS, PACKAGE

Role = Literal["consumer", "producer", "admin"]
Side = Literal["source", "target"]
OVERRIDE = "producer.override."


def flow_entries(entries: Entries, source: str, target: str, names: frozenset[str]) -> Entries:
    """Returns the keys `names` of the flow `source->target`: the flow's own values, else the plain
    ones."""
    merged = {name: entry for name, entry in entries.items() if name in names}
    merged.update(_under(entries, f"{source}->{target}."))
    return {name: entry for name, entry in merged.items() if name in names}


def client_entries(
    entries: Entries, source: str, target: str, side: Side, role: Role
) -> dict[str, Entry]:
    """Returns the keys of one client of the flow `source->target`, without any prefix."""
    connector: dict[str, Entry] = {}
    alias = source if side == "source" else target
    for name, entry in _cluster_entries(entries, alias).items():
        is_client = name.partition(".")[0] in ROLE_KEYS
        connector[f"{side}.{'' if is_client else 'cluster.'}{name}"] = entry
    connector.update(_under(entries, f"{source}->{target}."))
    found = _under(connector, f"{side}.cluster.")
    result = {name: entry for name, entry in found.items() if name in CLUSTER_KEYS}
    result.update(_under(connector, f"{role}."))
    result.update(_under(connector, f"{side}.{role}."))
    if (side, role) == ("target", "producer"):
        result.update(_under(entries, OVERRIDE))
        result.update(_under(entries, f"{source}->{target}.{OVERRIDE}"))
    return result


def _cluster_entries(entries: Entries, alias: str) -> dict[str, Entry]:
    """Returns `alias.x` for each role, and plain `x` if the cluster does not set it."""
    found = _under(entries, f"{alias}.")
    for level in (dict(found), entries):
        for name in CLUSTER_KEYS & level.keys():
            for role in ROLE_KEYS:
                found.setdefault(f"{role}.{name}", level[name])
            found.setdefault(name, level[name])
    return found


def _under(entries: Entries, prefix: str) -> dict[str, Entry]:
    return {
        name[len(prefix) :]: entry for name, entry in entries.items() if name.startswith(prefix)
    }


OFFSETS_TOPIC = "offset.storage.topic"
SEPARATOR = "replication.policy.separator"
ALIASES = ("source.cluster.alias", "target.cluster.alias")
_POLICY = "replication.policy.class"


def with_offsets(
    control: ControlSettings, entries: Entries, own: Entries, source: str, target: str
) -> ControlSettings:
    """Returns `control` with the topic and the aliases of MirrorMaker 2's positions, unless they
    are the usual ones. `entries`: all entries of the file. `own`: the flow's keys. `source` and
    `target`: the flow's aliases in `clusters`."""
    topic = control.mm2_offsets_topic or offsets_topic(entries, source, target)
    alias = _text_of(own, ALIASES[0])
    if topic == usual_offsets_topic(source) and alias in (None, source):
        return control
    return replace(control, mm2_offsets_topic=topic, mm2_aliases=aliases_in_offsets(alias, source))


def offsets_topic(entries: Entries, source: str, target: str) -> str:
    """Returns the topic of MirrorMaker 2's positions of the flow between these aliases of
    `clusters`."""
    for key in (OFFSETS_TOPIC, f"{target}.{OFFSETS_TOPIC}"):
        if (named := _text_of(entries, key)) is not None and named:
            return named
    return usual_offsets_topic(source)


def usual_offsets_topic(source: str) -> str:
    """Returns MirrorMaker 2's default."""
    return f"mm2-offsets.{source}.internal"


def aliases_in_offsets(said: str | None, alias: str) -> tuple[str, ...]:
    """Returns the aliases that the source may have in the positions, the likeliest first. `said`:
    the flow's own alias. `alias`: the alias in `clusters`. The empty alias is included: the file
    may have had it before."""
    return tuple(dict.fromkeys((alias if said is None else said, alias, "")))


def with_identity_policy(own: Entries) -> Entries:
    """Replaces the older recipe in `own`, an empty source alias and an empty separator, by the
    identity policy. The aliases and the separator of Causeway's own topics are then the usual
    ones."""
    by_recipe = is_recipe(own)
    if not by_recipe and _policy_kind(own) != "identity":
        return own
    kept = {
        name: entry
        for name, entry in own.items()
        if name not in (*ALIASES, SEPARATOR) or entry.missing or entry.value.strip()
    }
    if by_recipe:
        place = own[SEPARATOR]
        kept[_POLICY] = Entry(key=place.key, value="IdentityReplicationPolicy", line=place.line)
    return kept


def is_recipe(own: Entries) -> bool:
    """Returns whether an empty source alias and an empty separator keep the names of topics."""
    return (
        _policy_kind(own) == "default"
        and _text_of(own, ALIASES[0]) == ""
        and _text_of(own, SEPARATOR) == ""
    )


def recipe_note(flow: str) -> str:
    """Returns the note for people about a flow that has the recipe."""
    return (
        f"{flow} keeps the names of topics, as with IdentityReplicationPolicy: its source alias and"
        " its separator are empty. The names of Causeway's own topics have the alias in clusters"
    )


def _policy_kind(own: Entries) -> str | None:
    policy = _text_of(own, _POLICY)
    return "default" if policy is None else KAFKAS.get(policy.removeprefix(PACKAGE))


def _text_of(entries: Entries, name: str) -> str | None:
    entry = entries.get(name)
    return None if entry is None or entry.missing else entry.value.strip()
