"""Says why a topic or group is mirrored or synced, or not. It uses only this process's knowledge,
so it answers at once. `causeway explain` asks the clusters, and knows more about unmirrored topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from causeway.config import LinkSettings
from causeway.http.views import LinkView
from causeway.operate.explain import (
    Code,
    Explanation,
    GroupFacts,
    TopicFacts,
    explain_group,
    explain_topic,
    read_again,
)
from causeway.status import GroupStatus, LinkStatus, Role

_ELSEWHERE: Final = (
    "this process mirrors no topic with that name; `causeway explain` asks the clusters"
)


def topic(
    link: LinkSettings,
    view: LinkView,
    name: str,
    partition: int | None,
    links: Sequence[LinkSettings],
) -> Explanation:
    """Explains a topic. `links`: all links of the file."""
    status, members = view.status, view.members(name)
    facts = TopicFacts(
        there=True if members else None,
        partitions=members,
        directives=status.directives,
        problems=tuple(each.reason for each in status.problems if each.topic == name),
        driver=_driver(status),
        unknown=() if members else (_ELSEWHERE,),
    )
    return explain_topic(link, name, facts, partition=partition, links=links)


def group(link: LinkSettings, view: LinkView, name: str) -> Explanation:
    """Explains a group, as the last run of the driver's task for groups has seen it."""
    by_file = explain_group(link, name, GroupFacts(driver=_driver(view.status)))
    found = next((each for each in view.status.groups if each.group == name), None)
    if by_file.code != Code.UNKNOWN:
        return by_file
    if found is None:
        return replace(by_file, unknown=(_ELSEWHERE,))
    code, done, answer = _judge(link, found)
    return replace(by_file, code=code, done=done, answer=answer)


def _judge(link: LinkSettings, found: GroupStatus) -> tuple[str, bool, str]:
    if not found.followed:
        return Code.NOT_YET, False, f"not followed: {found.reason}"
    if found.reason is not None:
        return Code.NOT_YET, False, f"not in the last run: {found.reason}"
    if link.control.sync_group_offsets_enabled:
        answer = f"synced, on {found.partitions} partitions"
        return Code.SYNCED, True, answer + read_again(link.target.alias, found.again)
    return Code.CHECKPOINTS_ONLY, True, f"by checkpoints only, on {found.partitions} partitions"


def _driver(status: LinkStatus) -> str:
    if status.role is Role.LEADING:
        return "this process leads"
    return f"{status.role}{f': {status.reason}' if status.reason else ''}"
