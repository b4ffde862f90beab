"""Consumer groups of one link: the followed groups, their checkpoints and commits on the target.

Pure; the caller asks and writes:

    list of groups ─► choose ─► their commits ─► follow ─► translate ─┬─► checkpoints
                                                                      └─► commits, without members

Translated offsets, checkpoints and commits name partitions as the target does: what a transform
makes of a partition may go to several, and several may feed one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from causeway.cluster import Committed, GroupListing
from causeway.config import LinkSettings
from causeway.control.mm2_topics import Checkpoint
from causeway.errors import CausewayError
from causeway.filters import Verdict, by_name
from causeway.model import TopicPartition
from causeway.naming import is_legal_name

Commits = Mapping[TopicPartition, Committed]

# Protocol types of groups that read topics; empty where no member ever joined.
_CONSUMERS = ("consumer", "streams", "")
_IDLE = ("Empty", "Dead")  # states without members
ENDED = "the mirrors of all its topics have ended, and its offsets were committed then"
HELD_BACK = "held back at"  # begins the reason of a commit that ends before an unread record


class TranslatedOffset(NamedTuple):
    """A group's offset in a target partition: `downstream`, for `upstream` on the source.
    `certain`: the record is there. `alone`: one source partition decides."""

    upstream: int
    downstream: int
    metadata: str = ""
    certain: bool = True
    alone: bool = True


class UnreadRecord(NamedTuple):
    """A record on the target that a group has not read, at `offset` or later. `by`: the record and
    its writer, for people."""

    offset: int
    by: str


# By group and partition of the target. Missing: not known.
Translated = Mapping[str, Mapping[TopicPartition, TranslatedOffset]]


class LeftOutReason(StrEnum):
    """Why a group is left out; a stable code for machines."""

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
    """Whether the group's offsets are those of a consumer."""
    return listed.protocol_type in _CONSUMERS


def has_members(listed: GroupListing) -> bool:
    """Whether the group has members, who may commit."""
    return listed.state not in _IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutGroup:
    """`reason` is for people."""

    group: str
    code: LeftOutReason
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenGroups:
    groups: tuple[str, ...]
    left_out: tuple[LeftOutGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """`commits`: by group, those on topics of the link."""

    commits: Mapping[str, Commits]
    left_out: tuple[LeftOutGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """`left_out`: followed groups that get no commit now."""

    commits: Mapping[str, Commits]
    left_out: tuple[LeftOutGroup, ...]


def choose(listing: Mapping[str, GroupListing], link: LinkSettings) -> ChosenGroups:
    """The groups that the file asks for, sorted: those of consumers that `groups` selects and
    `groups.exclude` does not. A list leaves out groups that we may not see, so a group that the
    file names outright counts even if the list lacks it: asking for its offsets shows why."""
    groups: list[str] = []
    left_out: list[LeftOutGroup] = []
    for name, listed in sorted((_named(link) | dict(listing)).items()):
        refusal = _refused(listed, link)
        if refusal is None:
            groups.append(name)
        else:
            left_out.append(refusal)
    return ChosenGroups(groups=tuple(groups), left_out=tuple(left_out))


def _named(link: LinkSettings) -> dict[str, GroupListing]:
    """The groups that the file names outright, without state and type."""
    texts = (pattern.pattern.replace("\\.", ".") for pattern in link.control.groups)
    return {
        text: GroupListing(name=text, state="", type="", protocol_type="")
        for text in texts
        if is_legal_name(text)
    }


def _refused(listed: GroupListing, link: LinkSettings) -> LeftOutGroup | None:
    verdict, reason, _ = by_name(
        listed.name, link.control.groups, link.control.groups_exclude, "groups"
    )
    if verdict is not Verdict.MIRRORED:
        code = LeftOutReason(verdict.value)
    elif not reads_topics(listed):
        code, reason = LeftOutReason.NOT_CONSUMERS, _no_consumers(listed, link.source.alias)
    else:
        return None
    return LeftOutGroup(group=listed.name, code=code, reason=reason)


def _no_consumers(listed: GroupListing, alias: str) -> str:
    return f"on {alias} it is a group of type {listed.protocol_type}, which has no such offsets"


def follow(
    found: Mapping[str, Commits | CausewayError],
    link: LinkSettings,
    ended: Collection[TopicPartition] = (),
) -> Followed:
    """The commits of the chosen groups on topics of this link: topics that it mirrors, and topics
    that came from its target. `ended`: partitions whose mirror was promoted or failed over; the
    offsets of groups were committed then."""
    ours: dict[str, bool] = {}
    commits: dict[str, Commits] = {}
    left_out: list[LeftOutGroup] = []
    for group, own in sorted(found.items()):
        if isinstance(own, CausewayError):
            left_out.append(
                LeftOutGroup(group=group, code=LeftOutReason.UNREADABLE, reason=str(own))
            )
            continue
        for topic in {at.topic for at in own} - ours.keys():
            ours[topic] = _concerns(topic, link)
        mirrored = {at: offset for at, offset in own.items() if ours[at.topic]}
        going_on = {at: offset for at, offset in mirrored.items() if at not in ended}
        if going_on:
            commits[group] = going_on
        elif mirrored:
            left_out.append(LeftOutGroup(group=group, code=LeftOutReason.ENDED, reason=ENDED))
        else:
            reason = "it has committed nothing on topics that are mirrored"
            left_out.append(
                LeftOutGroup(group=group, code=LeftOutReason.NOTHING_MIRRORED, reason=reason)
            )
    return Followed(commits=commits, left_out=tuple(left_out))


def _concerns(topic: str, link: LinkSettings) -> bool:
    """As MirrorCheckpointTask.renameTopicPartition: B.orders on A, mirrored from B, is orders on
    B."""
    decision = link.decide_topic(topic)
    if decision.verdict is Verdict.CYCLE:
        return link.cycle_source(topic) is not None
    return decision.target_name is not None


def checkpoints(
    translated: Translated, last: Mapping[tuple[str, TopicPartition], Checkpoint]
) -> list[Checkpoint]:
    """The checkpoints to write now. `last`: the newest written ones, by group and target partition.

    MirrorMaker 2's rule: the first of a partition; then where the group went back on the source,
    or forward on the target. So downstream offsets go back only if the group itself did; or if the
    last one is proven wrong, because the target was recreated, or by its writer. If several source
    partitions decide, only the target offset shows that the group went back.
    """
    wanted = []
    for group, stands in translated.items():
        for at, stand in stands.items():
            before = last.get((group, at))
            if (
                before is None
                or (stand.alone and stand.upstream < before.upstream)
                or stand.downstream > before.downstream
                or (stand.certain and stand.downstream < before.downstream)
            ):
                wanted.append(
                    Checkpoint(
                        group=group,
                        partition=at,
                        upstream=stand.upstream,
                        downstream=stand.downstream,
                        metadata=stand.metadata,
                    )
                )
    return wanted


def held_back(at: TopicPartition, unread: UnreadRecord) -> str:
    """Why no offset beyond `unread` is committed for a group in the target partition `at`."""
    return f"{HELD_BACK} offset {unread.offset} of {at}, before {unread.by}"


def commits(
    followed: Followed,
    translated: Translated,
    listing: Mapping[str, GroupListing],
    there: Mapping[str, Commits | CausewayError],
    ends: Mapping[TopicPartition, int],
    link: LinkSettings,
    unread: Mapping[str, Mapping[TopicPartition, UnreadRecord]] | None = None,
) -> CommitPlan:
    """The commits for the target, which has these groups (`listing`), commits (`there`) and log
    ends. Only for groups without members, and only if a partition has no commit or an older one;
    never past the end of the mirrored records, nor past a record that the group has not read
    (`unread`, by group).
    """
    wanted: dict[str, Commits] = {}
    left_out: list[LeftOutGroup] = []
    for group in followed.commits:
        found = _commits_of(
            group,
            translated.get(group, {}),
            listing,
            there.get(group, {}),
            ends,
            link,
            (unread or {}).get(group, {}),
        )
        if isinstance(found, LeftOutGroup):
            left_out.append(found)
        else:
            wanted[group] = found
    return CommitPlan(commits=wanted, left_out=tuple(left_out))


def _commits_of(
    group: str,
    stands: Mapping[TopicPartition, TranslatedOffset],
    listing: Mapping[str, GroupListing],
    there: Commits | CausewayError,
    ends: Mapping[TopicPartition, int],
    link: LinkSettings,
    unread: Mapping[TopicPartition, UnreadRecord],
) -> Commits | LeftOutGroup:
    def left_out(code: LeftOutReason, reason: str) -> LeftOutGroup:
        return LeftOutGroup(group=group, code=code, reason=reason)

    alias = link.target.alias
    listed = listing.get(group)
    if listed is not None and not reads_topics(listed):
        return left_out(LeftOutReason.NOT_CONSUMERS, _no_consumers(listed, alias))
    if listed is not None and has_members(listed):
        reason = f"it has members on {alias} ({listed.state}), who commit for themselves"
        return left_out(LeftOutReason.HAS_MEMBERS, reason)
    if isinstance(there, CausewayError):
        return left_out(LeftOutReason.UNREADABLE, str(there))
    reachable = {at: stand for at, stand in stands.items() if at in ends}
    if not reachable:
        return left_out(
            LeftOutReason.NOT_TRANSLATED,
            "what it has committed lies outside what has been mirrored",
        )
    wanted = {}
    for at, stand in reachable.items():
        offset = min(stand.downstream, ends[at])
        if at in unread:
            offset = min(offset, unread[at].offset)
        if at not in there or there[at].offset < offset:
            wanted[at] = Committed(offset=offset, metadata=stand.metadata)
    if not wanted and unread:
        reasons = sorted(held_back(at, held) for at, held in unread.items())
        return left_out(LeftOutReason.HELD_BACK, "; ".join(reasons))
    return wanted or left_out(
        LeftOutReason.UP_TO_DATE,
        f"on {alias} it is as far as on {link.source.alias}, or further",
    )
