"""What is done for topics while the file pauses a link's records: nothing.

So it is with MirrorMaker 2: Connect stops the connector, which makes topics, lets them grow, and
brings their configs and ACLs over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from causeway.config import LinkSettings
from causeway.control.topics import GrowTopic, LeftOut, TopicPlan

CODE: Final = "paused"


def as_it_is(plan: TopicPlan, link: LinkSettings) -> TopicPlan:
    """`plan` without its changes where the file pauses the link: topics whose mirrors are there are
    mirrored as far as these go, others are left out."""
    if not link.records_paused:
        return plan
    before = {each.topic: each.before for each in plan.changes if isinstance(each, GrowTopic)}
    there = [topic for topic in plan.mirrored if topic.target_id is not None]
    absent = [topic for topic in plan.mirrored if topic.target_id is None]
    return replace(
        plan,
        mirrored=tuple(
            replace(
                topic,
                target_partitions=before[topic.target],
                partitions=min(topic.partitions, before[topic.target]),
            )
            if topic.target in before
            else topic
            for topic in there
        ),
        left_out=(
            *plan.left_out,
            *(LeftOut(topic=topic.source, reason=why(link), code=CODE) for topic in absent),
        ),
        changes=(),
    )


def why(link: LinkSettings) -> str:
    return f"paused by the file: {link.places.get('causeway.paused', 'its key')}"
