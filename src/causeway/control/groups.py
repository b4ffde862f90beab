"""Consumer groups of one link: the followed groups, their checkpoints and commits on the target.

The functions are pure. The caller reads from the clusters and writes to them:

    list of groups ─► choose ─► their commits ─► follow ─► translate ─┬─► checkpoints
                                                                      └─► commits, without members

Translated offsets, checkpoints and commits have the partitions of the target. With a transform,
one source partition may feed several target partitions, and several may feed one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from causeway.cluster import Committed, GroupListing
from causeway.config import LinkSettings
from causeway.errors import CausewayError
from causeway.filters import Verdict, by_name, plain_names
from causeway.model import TopicPartition

Commits = Mapping[TopicPartition, Committed]

# Protocol types of groups that read topics. The type is empty if no member has ever joined.
_CONSUMERS = ("consumer", "streams", "")
_IDLE = ("Empty", "Dead")  # states without members
ENDED = "the mirrors of all its topics have ended, and its offsets were committed then"
HELD_BACK = "held back at"  # begins the reason of a commit that ends before an unread record


class TranslatedOffset(Struct, frozen=True, gc=False):
    """A group's offset in a target partition. `downstream` is the translation of `upstream`, the
    offset on the source. `certain`: the target has the record. `alone`: only one source partition
    feeds the target partition."""

    upstream: int
    downstream: int
    metadata: str = ""
    certain: bool = True
    alone: bool = True


class UnreadRecord(NamedTuple):
    """A record on the target that a group has not read. It is at `offset` or later. `by` is a text
    about the record and its writer."""

    offset: int
    by: str


# By group and partition of the target. Unknown offsets are missing.
Translated = Mapping[str, Mapping[TopicPartition, TranslatedOffset]]


class LeftOutReason(StrEnum):
    """Why a group is left out. Programs may rely on these codes."""

    NOT_INCLUDED = "not-included"
    EXCLUDED = "excluded"
    UNDECIDED = "undecided"
    NOT_CONSUMERS = "not-consumers"
    UNREADABLE = "unreadable"
    NOTHING_MIRRORED = "nothing-mirrored"
    ENDED = "ended"
    NOT_TRANSLATED = "not-translated"
    HAS_MEMBERS = "has-members"
    HELD_BACK = "held-back"
    UP_TO_DATE = "up-to-date"


def reads_topics(listed: GroupListing) -> bool:
    """Returns whether the group's offsets belong to a consumer."""
    return listed.protocol_type in _CONSUMERS


def has_members(listed: GroupListing) -> bool:
    """Returns whether the group has members, which may commit."""
    return listed.state not in _IDLE


class LeftOutGroup(NamedTuple):
    """A group that is left out, with a code for programs and a reason for people."""

    group: str
    code: LeftOutReason
    reason: str


class ChosenGroups(NamedTuple):
    groups: tuple[str, ...]
    left_out: tuple[LeftOutGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommits:
    """`commits`, by group, are either on the topics of the link, or to be written to the target
    now. `left_out`: the groups without commits."""

    commits: Mapping[str, Commits]
    left_out: tuple[LeftOutGroup, ...]


def choose(listing: Mapping[str, GroupListing], link: LinkSettings) -> ChosenGroups:
    """Returns the consumer groups that `groups` selects and `groups.exclude` does not, sorted. A
    cluster's list leaves out groups that we may not see. So a group whose full name is in the file
    counts even if it is not in the list: the request for its offsets shows why."""
    found = [_refused(listed, link) for _, listed in sorted((_named(link) | dict(listing)).items())]
    return ChosenGroups(
        groups=tuple(each for each in found if isinstance(each, str)),
        left_out=tuple(each for each in found if isinstance(each, LeftOutGroup)),
    )


def _named(link: LinkSettings) -> dict[str, GroupListing]:
    """Returns the groups whose full names are in the file, without state and type."""
    return {
        name: GroupListing(name=name, state="", type="", protocol_type="")
        for name in plain_names(link.control.groups)
    }


def _refused(listed: GroupListing, link: LinkSettings) -> str | LeftOutGroup:
    """Returns the group's name if it is chosen, else why it is left out."""
    verdict, reason, _ = by_name(
        listed.name, link.control.groups, link.control.groups_exclude, "groups"
    )
    if verdict is not Verdict.MIRRORED:
        return LeftOutGroup(listed.name, LeftOutReason(verdict.value), reason)
    if not reads_topics(listed):
        reason = _no_consumers(listed, link.source.alias)
        return LeftOutGroup(listed.name, LeftOutReason.NOT_CONSUMERS, reason)
    return listed.name


def _no_consumers(listed: GroupListing, alias: str) -> str:
    return f"on {alias} it is a group of type {listed.protocol_type}, which has no such offsets"


def follow(
    found: Mapping[str, Commits | CausewayError],
    link: LinkSettings,
    ended: Collection[TopicPartition] = (),
) -> GroupCommits:
    """Returns the commits of the chosen groups on topics that this link mirrors, and on topics
    that came from its target. `ended`: the partitions whose mirror was promoted or failed over.
    Their groups got their last commits at that time."""
    ours: dict[str, bool] = {}
    commits: dict[str, Commits] = {}
    left_out: list[LeftOutGroup] = []
    for group, own in sorted(found.items()):
        if isinstance(own, CausewayError):
            left_out.append(LeftOutGroup(group, LeftOutReason.UNREADABLE, str(own)))
            continue
        topics = {at.topic for at in own}
        for topic in topics - ours.keys():
            ours[topic] = _concerns(topic, link)
        mirrored = going_on = own
        if not all(ours[topic] for topic in topics):
            mirrored = going_on = {at: offset for at, offset in own.items() if ours[at.topic]}
        if ended:
            going_on = {at: offset for at, offset in mirrored.items() if at not in ended}
        if going_on:
            commits[group] = going_on
        elif mirrored:
            left_out.append(LeftOutGroup(group, LeftOutReason.ENDED, ENDED))
        else:
            reason = "it has committed nothing on topics that are mirrored"
            left_out.append(LeftOutGroup(group, LeftOutReason.NOTHING_MIRRORED, reason))
    return GroupCommits(commits=commits, left_out=tuple(left_out))


def _concerns(topic: str, link: LinkSettings) -> bool:
    """Returns whether the target has the topic. It decides like
    MirrorCheckpointTask.renameTopicPartition: B.orders on A, mirrored from B, is orders on B."""
    decision = link.decide_topic(topic)
    if decision.verdict is Verdict.CYCLE:
        return link.rules.cycle_source(topic) is not None
    return decision.target_name is not None


def checkpoints(translated: Translated, last: Translated) -> Translated:
    """Returns the places whose checkpoints have to be written now. `last`: the places of the newest
    written checkpoints.

    The rule is MirrorMaker 2's: a checkpoint is written if it is the first of its partition, or if
    the group went back on the source or forward on the target. So a downstream offset goes back
    only if the group went back, or if the last checkpoint is proven wrong, because the target was
    recreated or the checkpoint's writer made an error. If several source partitions feed a target
    partition, only the target offset shows that the group went back.
    """
    due = {
        group: {
            at: place
            for at, place in places.items()
            if (before := written.get(at)) is None
            or place.downstream > before.downstream
            or (place.alone and place.upstream < before.upstream)
            or (place.certain and place.downstream < before.downstream)
        }
        for group, places in translated.items()
        for written in (last.get(group, {}),)
    }
    return {group: places for group, places in due.items() if places}


def held_back(at: TopicPartition, unread: UnreadRecord) -> str:
    """Returns why no offset after `unread` is committed for a group in the target partition
    `at`."""
    return f"{HELD_BACK} offset {unread.offset} of {at}, before {unread.by}"


def commits(
    followed: GroupCommits,
    translated: Translated,
    listing: Mapping[str, GroupListing],
    there: Mapping[str, Commits | CausewayError],
    ends: Mapping[TopicPartition, int],
    link: LinkSettings,
    unread: Mapping[str, Mapping[TopicPartition, UnreadRecord]],
) -> GroupCommits:
    """Returns the commits to write to the target. `listing`, `there` and `ends` are the target's
    groups, commits and log ends. `unread`: records that a group has not read, by group.

    A group gets commits only if it has no members, and only in partitions without a commit or with
    an older commit. No commit is after the end of the mirrored records or after an unread record.
    """
    found = {
        group: _commits_of(
            group,
            translated.get(group, {}),
            listing.get(group),
            there.get(group, {}),
            ends,
            link,
            unread.get(group, {}),
        )
        for group in followed.commits
    }
    return GroupCommits(
        commits={g: each for g, each in found.items() if not isinstance(each, LeftOutGroup)},
        left_out=tuple(each for each in found.values() if isinstance(each, LeftOutGroup)),
    )


def _commits_of(
    group: str,
    translated: Mapping[TopicPartition, TranslatedOffset],
    listed: GroupListing | None,
    there: Commits | CausewayError,
    ends: Mapping[TopicPartition, int],
    link: LinkSettings,
    unread: Mapping[TopicPartition, UnreadRecord],
) -> Commits | LeftOutGroup:
    alias = link.target.alias
    if listed is not None and not reads_topics(listed):
        reason = _no_consumers(listed, alias)
        return LeftOutGroup(group, LeftOutReason.NOT_CONSUMERS, reason)
    if listed is not None and has_members(listed):
        reason = f"it has members on {alias} ({listed.state}), who commit for themselves"
        return LeftOutGroup(group, LeftOutReason.HAS_MEMBERS, reason)
    if isinstance(there, CausewayError):
        return LeftOutGroup(group, LeftOutReason.UNREADABLE, str(there))
    if ends.keys().isdisjoint(translated):
        reason = "what it has committed lies outside what has been mirrored"
        return LeftOutGroup(group, LeftOutReason.NOT_TRANSLATED, reason)
    wanted = {}
    for at, place in translated.items():
        end = ends.get(at)
        if end is None:
            continue
        offset = place.downstream if place.downstream < end else end
        if at in unread:
            offset = min(offset, unread[at].offset)
        known = there.get(at)
        if known is None or known.offset < offset:
            wanted[at] = Committed(offset=offset, metadata=place.metadata)
    if not wanted and unread:
        reasons = sorted(held_back(at, held) for at, held in unread.items())
        return LeftOutGroup(group, LeftOutReason.HELD_BACK, "; ".join(reasons))
    reason = f"on {alias} it is as far as on {link.source.alias}, or further"
    return wanted or LeftOutGroup(group, LeftOutReason.UP_TO_DATE, reason)
