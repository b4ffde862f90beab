"""Which configs of topics a cluster knows, and what those are that nobody sets.

Versions of Kafka differ in them, and none makes a topic with one that it does not know. No request
asks for their names; but each topic that is there has them all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from causeway.cluster.admin import ConfigEntry
from causeway.cluster.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import topic_limits
from causeway.errors import CausewayError

_OTHERS = 10  # who may not describe so many will hardly describe the next


def known(
    target: Cluster, link: LinkSettings, there: Collection[str], mirrors: Sequence[str]
) -> frozenset[str] | None:
    """Those that a new topic on the target may have; None where nobody can say. `there`: topics of
    the target; `mirrors`: those of them that we surely may describe, for others have to do.

    Raises a CausewayError only where the cluster as a whole cannot be asked."""
    others = [name for name in (link.progress_topic, *sorted(there)[:_OTHERS]) if name in there]
    for asked in filter(None, (mirrors[:1], others)):
        for answer in target.describe_configs(asked).values():
            if isinstance(answer, Mapping):
                return frozenset(answer)
    return None


def defaults(target: Cluster, broker: int) -> dict[str, str]:
    """What a new topic has of the configs that limits are computed from."""
    try:
        return topic_limits.topic_defaults(target.broker_configs(broker))
    except CausewayError as error:
        if error.retriable:
            raise
        return {}  # not ours to see: every limit is then set on the topic itself


def left_out(
    configs: Mapping[str, str],
    source: Mapping[str, ConfigEntry],
    names: Collection[str] | None,
    alias: str,
) -> dict[str, str]:
    """Those of `configs` that are none of the `names` which cluster `alias` knows (None: nobody can
    say), each with what to tell a person: nothing of a mere default of the source's."""
    if names is None:
        return {}
    return {
        name: ""
        if name in source and source[name].default
        else f"{name}={value} of the source is left out: {alias} has no such config"
        for name, value in configs.items()
        if name not in names
    }
