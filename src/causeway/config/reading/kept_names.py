"""Where a file places MirrorMaker 2's positions, and how it keeps the names of topics.

Connect's positions, as MirrorMaker 2 keeps them:

    topic     offset.storage.topic  >  B.offset.storage.topic  >  mm2-offsets.A.internal
    cluster   A->B.source.cluster.alias  >  source.cluster.alias  >  A

The first line is Connect's worker, whose default names the alias in `clusters`; the second line is
the connector, which may have another alias. Source: MirrorMakerConfig of Apache Kafka.

Before Kafka 3.0 had the identity policy, people kept names by an empty alias and an empty
separator. That recipe is still in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from causeway.config.control_settings import ControlSettings
from causeway.config.entries import Entry
from causeway.naming import KAFKAS, PACKAGE

OFFSETS_TOPIC = "offset.storage.topic"
SEPARATOR = "replication.policy.separator"
ALIASES = ("source.cluster.alias", "target.cluster.alias")
_POLICY = "replication.policy.class"
_DEFAULT_SEPARATOR = "."

Entries = Mapping[str, Entry]


def with_offsets(
    control: ControlSettings, entries: Entries, own: Entries, source: str, target: str
) -> ControlSettings:
    """`control` with the topic and aliases of MirrorMaker 2's positions, unless they are the usual
    ones. `entries`: all entries of the file; `own`: the flow's keys; `source` and `target`: the
    flow's aliases in `clusters`."""
    topic = control.mm2_offsets_topic or offsets_topic(entries, source, target)
    alias = _said(own, ALIASES[0])
    if topic == usual_offsets_topic(source) and alias in (None, source):
        return control
    return replace(control, mm2_offsets_topic=topic, mm2_aliases=aliases_in_offsets(alias, source))


def offsets_topic(entries: Entries, source: str, target: str) -> str:
    """Where MirrorMaker 2 keeps the positions of the flow between these aliases of `clusters`."""
    for key in (OFFSETS_TOPIC, f"{target}.{OFFSETS_TOPIC}"):
        if (named := _said(entries, key)) is not None and named:
            return named
    return usual_offsets_topic(source)


def usual_offsets_topic(source: str) -> str:
    """MirrorMaker 2's default."""
    return f"mm2-offsets.{source}.internal"


def aliases_in_offsets(said: str | None, alias: str) -> tuple[str, ...]:
    """The aliases that the source may have in the positions, likeliest first. `said`: the flow's
    own alias; `alias`: the one in `clusters`. The empty alias is one of them: the file may have had
    it before."""
    return tuple(dict.fromkeys((alias if said is None else said, alias, "")))


def settled(own: Entries) -> Entries:
    """`own` with the identity policy in place of the older recipe: an empty source alias and an
    empty separator. The aliases and the separator of Causeway's own topics are the usual ones
    then."""
    by_recipe = is_recipe(own)
    if not by_recipe and _kind(own) != "identity":
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
    """Whether an empty source alias and an empty separator keep the names of topics."""
    return _kind(own) == "default" and _said(own, ALIASES[0]) == "" and _said(own, SEPARATOR) == ""


def note(flow: str) -> str:
    """The note for people about a flow that has the recipe."""
    return (
        f"{flow} keeps the names of topics, as with IdentityReplicationPolicy: its source alias and"
        " its separator are empty. The names of Causeway's own topics have the alias in clusters"
    )


def _kind(own: Entries) -> str | None:
    policy = _said(own, _POLICY)
    return "default" if policy is None else KAFKAS.get(policy.removeprefix(PACKAGE))


def _said(entries: Entries, name: str) -> str | None:
    entry = entries.get(name)
    return None if entry is None or entry.missing else entry.value.strip()
