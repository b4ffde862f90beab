"""Where a topic came from, by its name and what flows of the file make of names.

What has been mirrored already, the progress topic knows better: its claims name both sides.
"""

from __future__ import annotations

from causeway import filters
from causeway.config.settings import LinkSettings
from causeway.naming import PolicyFailedError


def cycle_source(link: LinkSettings, topic: str) -> str | None:
    """What the target of `link` called `topic` of its source, where that came from there; else
    None. Raises NoNameError."""
    return filters.cycle_source(
        topic,
        source_alias=link.source.alias,
        target_alias=link.target.alias,
        policy=link.policy,
        renaming=link.renaming,
    )


def upstream(link: LinkSettings, name: str) -> str | None:
    """What the source calls the topic that `link` would mirror to `name` of the target, as far as
    names tell; None where they don't, or it would not."""
    by_rules = [
        flow.origin(name)
        for flow in link.renaming
        if (flow.source, flow.target) == (link.source.alias, link.target.alias)
    ]
    for found in (*by_rules, upstream_by_policy(link, name)):
        if found is not None and link.decide_topic(found).target_name == name:
            return found
    return None


def upstream_by_policy(link: LinkSettings, name: str) -> str | None:
    """What the source calls the topic that the target calls `name`, as the policy reads it; whether
    it is mirrored is another matter."""
    try:
        if link.policy.topic_source(name) != link.source.alias:
            return None
        return link.policy.upstream_topic(name)
    except PolicyFailedError:
        return None
