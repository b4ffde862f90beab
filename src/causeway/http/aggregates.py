"""Aggregates on a target: topics that have the same name on several source clusters.

orders on C  ◄─ A.orders, by A->C      MirrorMaker 2's names: a reader of `.*orders` gets them all
             ◄─ B.orders, by B->C
orders on C  ◄─ orders, by A->C        kept names: one topic, fed by several links
             ◄─ orders, by B->C
orders on C  ◄─ sales, by A->C         renamed: the links know the source topics
             ◄─ B.orders, by B->C
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from causeway.config import LinkSettings
from causeway.http import shapes
from causeway.http.views import View
from causeway.naming import NoNameError, ReplicationPolicy


def aggregates(view: View, links: Sequence[LinkSettings]) -> list[shapes.Aggregate]:
    """Returns the aggregates by cluster and name. A topic that a link reads on the cluster is a
    part if no mirror writes to it."""
    aliases = {alias for each in links for alias in (each.source.alias, each.target.alias)}
    parts: dict[tuple[str, str], dict[tuple[str, str | None], shapes.AggregatePart]] = {}
    links = [each for each in links if each.name in view.links]
    fed = {  # by a link, from this cluster and topic
        (each.target.alias, row.target_topic): (each.source.alias, row.topic)
        for each in links
        for row in view.links[each.name].topics
    }
    for each in links:
        cluster = each.target.alias
        for row in view.links[each.name].topics:
            where = cluster, _original(each.source.alias, row.topic, each.policy, aliases, fed)
            parts.setdefault(where, {})[row.target_topic, each.name] = shapes.AggregatePart(
                topic=row.target_topic,
                link=each.name,
                source=each.source.alias,
                source_topic=row.topic,
            )
    for each in links:
        cluster = each.source.alias
        for row in view.links[each.name].topics:
            where = cluster, _original(cluster, row.topic, each.policy, aliases, fed)
            if where in parts and (cluster, row.topic) not in fed:
                parts[where][row.topic, None] = shapes.AggregatePart(
                    topic=row.topic, link=None, source=None, source_topic=None
                )
    return [
        shapes.Aggregate(
            cluster=cluster, name=name, parts=[some[key] for key in sorted(some, key=str)]
        )
        for (cluster, name), some in sorted(parts.items())
        if len(some) > 1
    ]


def _original(
    cluster: str,
    topic: str,
    policy: ReplicationPolicy,
    aliases: set[str],
    fed: Mapping[tuple[str, str], tuple[str, str]],
) -> str:
    """Removes only the names of clusters: a topic's own name may contain the separator."""
    seen = set()
    while (cluster, topic) in fed and (cluster, topic) not in seen:
        seen.add((cluster, topic))
        cluster, topic = fed[cluster, topic]
    try:
        while (hop := policy.hop(topic)) is not None and hop[0] in aliases:
            topic = hop[1]
    except NoNameError:
        pass  # the name stays as far as it is known
    return topic
