"""Plans of a link."""

from __future__ import annotations

from typing import Any

from causeway.control import AclPlan, ConfigPlan, TopicPlan
from causeway.operate.plan import LinkPlan, Starts
from tests.builders.settings import link


def planned(**changes: Any) -> LinkPlan:
    topics: dict[str, Any] = {"mirrored": (), "left_out": (), "changes": (), "problems": ()}
    return LinkPlan(
        link=link(),
        topics=TopicPlan(**{**topics, **changes}),
        starts=Starts(),
        configs=ConfigPlan(changes=(), problems=()),
        acls=AclPlan(),
        new_progress_topic=None,
    )
