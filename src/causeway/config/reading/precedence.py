"""Which value counts where a key is set in several places: MirrorMaker 2's rules, step by step.

A flow's own keys:      A->B.x  >  x
A client of the flow:   A->B.source.consumer.x  >  A.consumer.x  >  A.x*  >  x*
                        >  A->B.consumer.x  >  A->B.source.cluster.x*     (* bootstrap, TLS, SASL)
The writer of records:  A->B.producer.override.x  >  producer.override.x  >  as above

The second line's order surprises, yet it is how MirrorMaker 2 merges its maps: what a cluster says
reaches its clients as `source.consumer.x` and beats a flow's plain `consumer.x`. The third line is
Connect's: its worker writes the records of a connector, with the connector's `producer.override.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from causeway.config.entries import Entry
from causeway.config.reading.known import CLUSTER_KEYS, ROLE_KEYS

Entries = Mapping[str, Entry]
Role = Literal["consumer", "producer", "admin"]
Side = Literal["source", "target"]
OVERRIDE = "producer.override."


def flow_entries(entries: Entries, source: str, target: str, names: frozenset[str]) -> Entries:
    """What the flow `source->target` says of its keys `names`: its own values, else plain ones."""
    merged = {name: entry for name, entry in entries.items() if name in names}
    merged.update(_under(entries, f"{source}->{target}."))
    return {name: entry for name, entry in merged.items() if name in names}


def client_entries(
    entries: Entries, source: str, target: str, side: Side, role: Role
) -> dict[str, Entry]:
    """The keys of one client of the flow `source->target`, without any prefix."""
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
    """`alias.x`, spread to each role, with plain `x` where the cluster says nothing."""
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
