"""Plans the internal topics that a run creates for itself and for readers of MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from causeway.cluster import Connect
from causeway.config import ClientSettings, LinkSettings, Settings
from causeway.control import mm2_offsets
from causeway.errors import AuthorizationError, CausewayError
from causeway.link_topics import TopicLog


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTopic:
    """`there`: whether the topic exists; None if its cluster did not answer, with the reason in
    `error`. `change`: the change that a run makes. `problem`: why a run cannot use the topic."""

    cluster: str  # alias
    topic: str
    purpose: str
    there: bool | None
    error: CausewayError | None = None
    change: str | None = None
    problem: CausewayError | None = None


class _Wanted(NamedTuple):
    """`made`: a run creates the topic; if False, it is checked only if it exists. `compacted`: the
    topic must be compacted, and have this number of `partitions` (None: any number)."""

    client: ClientSettings
    topic: str
    purpose: str
    made: bool = True
    compacted: bool = True
    partitions: int | None = 1


def plan(
    settings: Settings,
    connect: Connect,
    silent: Mapping[str, CausewayError] = MappingProxyType({}),
) -> tuple[OwnTopic, ...]:
    """Returns the topics by cluster and name. `silent`: why clusters do not answer, by alias; they
    are not asked. Raises no CausewayError."""
    own: dict[tuple[str, str], OwnTopic] = {}
    wanted = [each for link in settings.links for each in _of_link(link)]
    wanted += (
        _Wanted(pair.target, pair.topic, f"heartbeats of {pair.name}")
        for pair in settings.heartbeat_links
    )
    for each in wanted:
        key = each.client.alias, each.topic
        if key in own:
            own[key] = replace(own[key], purpose=f"{own[key].purpose}, {each.purpose}")
            continue
        asked = _asked(each, connect, silent.get(each.client.alias))
        if not each.made and not asked.there:
            continue
        own[key] = asked
        if asked.there is False:
            wanted += _mirrors(each, settings)  # extends this loop
    return tuple(own[key] for key in sorted(own))


def _of_link(link: LinkSettings) -> Iterator[_Wanted]:
    control = link.control
    yield _Wanted(link.target_admin, link.progress_topic, f"progress of {link.name}")
    for transform in link.transforms:
        if transform.dead_letters is not None:
            purpose = f"dead letters of {transform.name} of {link.name}, if there are any"
            yield _Wanted(link.source_admin, transform.dead_letters, purpose, compacted=False)
    if control.emit_offset_syncs_enabled:
        on_source = control.offset_syncs_topic_location == "source"
        client = link.source_admin if on_source else link.target_admin
        yield _Wanted(client, link.offset_syncs_topic, f"offset syncs of {link.name}")
    if control.emit_checkpoints_enabled:
        yield _Wanted(link.target_admin, link.checkpoints_topic, f"checkpoints of {link.name}")
    yield _Wanted(
        link.target_admin, link.directives_topic, f"directives of {link.name}", made=False
    )
    if control.mm2_offsets:
        yield _Wanted(
            link.target_admin,
            mm2_offsets.topic_of(link),
            f"MirrorMaker 2 offsets of {link.name}",
            made=False,
            partitions=None,
        )


def _mirrors(each: _Wanted, settings: Settings) -> Iterator[_Wanted]:
    """Yields the mirrors of a topic that a run creates."""
    for link in settings.links:
        mirror = link.decide_topic(each.topic).target_name
        if link.source.alias == each.client.alias and mirror is not None:
            purpose = f"{each.topic} mirrored by {link.name}"
            yield _Wanted(link.target_admin, mirror, purpose, compacted=False)


def _asked(each: _Wanted, connect: Connect, silent: CausewayError | None) -> OwnTopic:
    own = OwnTopic(cluster=each.client.alias, topic=each.topic, purpose=each.purpose, there=None)
    if silent is not None:
        return replace(own, error=silent)
    try:
        found = connect(each.client).metadata([each.topic]).topics.get(each.topic)
        if found is not None and isinstance(found.error, AuthorizationError):
            return replace(own, error=found.error)
        own = replace(own, there=found is not None and bool(found.partitions))
        if own.there and each.compacted:
            log = TopicLog(connect(each.client), each.topic)
            own = replace(own, problem=log.split(each.partitions))
            if (policy := log.wrong_policy()) is not None:
                own = replace(own, change=f"set cleanup.policy to compact, it is {policy}")
    except CausewayError as error:
        own = replace(own, error=error)
    return own
