"""Finds and commits the offsets of consumer groups on the target when a mirror ends.

promote    by the source's commits, translated exactly once no record and no commit moves any more
failover   by the newest checkpoints, which the driver wrote every few seconds
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from causeway.cluster import EARLIEST, LATEST, Cluster, Committed, offsets_at
from causeway.config import LinkSettings
from causeway.control import (
    GroupCommits,
    MirroredTopic,
    TranslatedOffset,
    UnreadRecord,
    groups,
    read_checkpoints,
)
from causeway.daemon.partitions import Registry, Row
from causeway.daemon.tasks import Groups
from causeway.errors import CausewayError
from causeway.link_topics import (
    PartitionProgress,
    ProgressTopic,
    TopicLog,
    offset_maps_of,
)
from causeway.model import State, TopicPartition
from causeway.operate import ahead
from causeway.operate.failover.ending import Ending
from causeway.relay import Sought
from causeway.status import GroupStatus
from causeway.translation import BeforeFailback, OffsetTranslator, UnreadRecords

_PAUSE_S = 0.5
_LOOK_S = 120.0  # for a failover's search for records that groups have not read


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """The offset from which a group goes on, in a partition of the target: `offset`, by its newest
    checkpoint, or `there`, its commit on the target, if that is further on. `behind`: the records
    from there to the end; the group reads them, some perhaps again. `reason`: why it gets no
    commit; None if it gets one, or has it already."""

    group: str
    partition: TopicPartition
    offset: int
    there: int | None
    behind: int | None
    reason: str | None = None


def sync(
    ending: Ending, topics: Mapping[str, MirroredTopic], wait_s: float
) -> tuple[GroupStatus, ...]:
    """Brings checkpoints, and commits on the target, up to the groups' present commits on the
    source, even if the file does not have the running mirror do this. Raises CausewayError."""
    link, sides, contents = ending.link, ending.sides, ending.contents
    registry = Registry(link.name)
    registry.chosen = link.chosen
    registry.add(
        Row(
            topic=topics[at.topic],
            progress=each.replace(state=State.RUNNING, reason=None),
            first=each.position,
            maps=offset_maps_of(each, contents.maps.get(at, {})),
            placed=True,
        )
        for at, each in ending.progress().items()
        if at.topic in topics
    )
    control = replace(link.control, sync_group_offsets_enabled=True)
    link = replace(link, control=control)
    translator = OffsetTranslator(
        sides.source,
        sides.target,
        registry,
        read_committed=link.fetch.read_committed,
        term=lambda: 1,
        lane=_no_lane,
        before=BeforeFailback(sides.source, sides.target_admin, link),
    )
    task = Groups(link, sides, translator, lambda: 1, registry)
    deadline = time.monotonic() + wait_s
    while True:
        task.hurry()
        outcome = task.work()
        if not outcome.unfinished or time.monotonic() > deadline:
            return task.statuses
        time.sleep(_PAUSE_S)


def _no_lane(sought: Sought) -> dict[int, int]:
    cause = "no lane has the partition now"
    raise CausewayError("look up offsets in", str(sought.source), cause, retriable=True)


def ahead_of(ending: Ending, groups_there: Collection[GroupStatus]) -> dict[str, int]:
    """Returns the groups without members on the target that would skip records there, with the
    number of records. Raises CausewayError."""
    names = [each.group for each in groups_there if each.followed]
    if not names:
        return {}
    target = ending.target
    listing = target.list_groups()
    idle = [n for n in names if n in listing and not groups.has_members(listing[n])]
    commits = ending.sides.source_admin.committed_offsets_of(idle)
    return ahead.of_all(ending.contents, commits, target.committed_offsets_of(idle))


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedGroups:
    """The target's knowledge of groups without the source. `plan`: the commits to make."""

    places: tuple[GroupPlace, ...]
    plan: GroupCommits

    def left(self, failures: Mapping[str, str]) -> set[str]:
        """Returns the groups that still have to be committed: those of `failures`, and those whose
        commits on the target could not be read."""
        unread = {
            each.group
            for each in self.plan.left_out
            if each.code is groups.LeftOutReason.UNREADABLE
        }
        return unread | failures.keys()


def remembered(
    link: LinkSettings,
    target: Cluster,
    progress: Collection[PartitionProgress],
    only: Collection[str] | None = None,
) -> RememberedGroups:
    """Returns the places by the newest checkpoints, for the target partitions of `progress`.
    `only`: leaves out all other groups. Raises CausewayError."""
    mirrors = {outlet.at for each in progress for outlet in each.outlets}
    topic = TopicLog(target, link.policy.checkpoints_topic(link.source.alias))
    by_group: dict[str, dict[TopicPartition, TranslatedOffset]] = {}
    for one in read_checkpoints(topic):
        if one.partition in mirrors and (only is None or one.group in only):
            place = TranslatedOffset(one.upstream, one.downstream, one.metadata)
            by_group.setdefault(one.group, {})[one.partition] = place
    there = target.committed_offsets_of(sorted(by_group))
    ends, starts = (
        {
            at: each
            for at, each in offsets_at(target, mirrors, when).items()
            if isinstance(each, int)
        }
        for when in (LATEST, EARLIEST)
    )
    followed = GroupCommits(commits={group: {} for group in by_group}, left_out=())
    unread: Mapping[str, Mapping[TopicPartition, UnreadRecord]] = {}
    if by_group and not all(outlet.exclusive for each in progress for outlet in each.outlets):
        maps = ProgressTopic(target, link.progress_topic).read().maps
        records = UnreadRecords(target, link)
        unread = records.look_by_progress(progress, maps, by_group, there, None, wait_s=_LOOK_S)
    plan = groups.commits(followed, by_group, target.list_groups(), there, ends, link, unread)
    why = {
        each.group: each.reason
        for each in plan.left_out
        if each.code is not groups.LeftOutReason.UP_TO_DATE
    }
    places = []
    for group, parts in sorted(by_group.items()):
        known = there[group]
        for at, place in sorted(parts.items()):
            committed = None if isinstance(known, CausewayError) else known.get(at)
            there_at = None if committed is None else committed.offset
            goes_on = max(place.downstream, starts.get(at, 0), -1 if there_at is None else there_at)
            places.append(
                GroupPlace(
                    group=group,
                    partition=at,
                    offset=place.downstream,
                    there=there_at,
                    behind=max(0, ends[at] - goes_on) if at in ends else None,
                    reason=why.get(group),
                )
            )
    return RememberedGroups(places=tuple(places), plan=plan)


def commit(target: Cluster, plan: GroupCommits) -> dict[str, str]:
    """Makes the commits of `plan`. Returns the reason of each group that could not be committed.
    Raises CausewayError."""
    wanted: Mapping[str, Mapping[TopicPartition, Committed]] = plan.commits
    failed = {}
    for group, answer in target.commit_offsets(wanted).items():
        if isinstance(answer, CausewayError):
            failed[group] = str(answer)
            continue
        for at, error in answer.items():
            failed[group] = f"{at}: {error}"
    return failed
