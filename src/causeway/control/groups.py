"""Consumer groups of one link: which are followed, their checkpoints, their commits on the target.

Pure; the caller asks and writes:

    list of groups ─► choose ─► their commits ─► follow ─► translate ─┬─► checkpoints
                                                                      └─► commits, if nobody reads

Translated offsets come by group and partition of the source; checkpoints and commits name
partitions as the target does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from causeway.config.settings import LinkSettings
from causeway.control.formats import Checkpoint
from causeway.errors import CausewayError
from causeway.filters import Verdict, by_name
from causeway.model import TopicPartition
from causeway.naming import is_legal_name
from causeway.wire.cluster import Committed, GroupListing

Commits = Mapping[TopicPartition, Committed]
# By group and partition of the source: the offset on the target. Missing, or -1: not known.
Translated = Mapping[str, Mapping[TopicPartition, int]]

# Protocol types of groups that read topics; empty where no member ever joined.
_CONSUMERS = ("consumer", "streams", "")
_IDLE = ("Empty", "Dead")  # states without members


class Why(StrEnum):
    """Why a group is left out; a stable code for machines."""

    NOT_INCLUDED = "not-included"
    EXCLUDED = "excluded"
    UNDECIDED = "undecided"
    NOT_CONSUMERS = "not-consumers"
    UNREADABLE = "unreadable"
    NOTHING_MIRRORED = "nothing-mirrored"
    NOT_TRANSLATED = "not-translated"
    HAS_MEMBERS = "has-members"
    UP_TO_DATE = "up-to-date"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutGroup:
    """`reason` is for people."""

    group: str
    code: Why
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    groups: tuple[str, ...]
    left_out: tuple[LeftOutGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """`commits`: by group, those on topics of the link; `targets`: those topics' names on the
    target."""

    commits: Mapping[str, Commits]
    targets: Mapping[str, str]
    left_out: tuple[LeftOutGroup, ...]

    def target(self, at: TopicPartition) -> TopicPartition:
        return TopicPartition(self.targets[at.topic], at.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """`left_out`: followed groups that get no commit now."""

    commits: Mapping[str, Commits]
    left_out: tuple[LeftOutGroup, ...]


def choose(listing: Mapping[str, GroupListing], link: LinkSettings) -> Chosen:
    """The groups that the file asks for, sorted: those of consumers that `groups` selects and
    `groups.exclude` does not. A list leaves out what we may not see, so those that the file names
    outright are among them also where it lacks them: asking for their offsets tells why."""
    groups: list[str] = []
    left_out: list[LeftOutGroup] = []
    for name, listed in sorted((_named(link) | dict(listing)).items()):
        refusal = _refused(listed, link)
        if refusal is None:
            groups.append(name)
        else:
            left_out.append(refusal)
    return Chosen(groups=tuple(groups), left_out=tuple(left_out))


def _named(link: LinkSettings) -> dict[str, GroupListing]:
    """The groups that the file names outright, as if nothing more were known of them."""
    texts = (pattern.pattern.replace("\\.", ".") for pattern in link.control.groups)
    return {
        text: GroupListing(name=text, state="", type="", protocol_type="")
        for text in texts
        if is_legal_name(text)
    }


def _refused(listed: GroupListing, link: LinkSettings) -> LeftOutGroup | None:
    verdict, reason = by_name(
        listed.name, link.control.groups, link.control.groups_exclude, "groups"
    )
    if verdict is not Verdict.MIRRORED:
        code = Why(verdict.value)
    elif listed.protocol_type not in _CONSUMERS:
        code, reason = Why.NOT_CONSUMERS, _no_consumers(listed, link.source.alias)
    else:
        return None
    return LeftOutGroup(group=listed.name, code=code, reason=reason)


def _no_consumers(listed: GroupListing, alias: str) -> str:
    return f"on {alias} it is a group of type {listed.protocol_type}, which has no such offsets"


def follow(found: Mapping[str, Commits | CausewayError], link: LinkSettings) -> Followed:
    """Of what the chosen groups have committed on the source: all that this link has to do with,
    that is topics which it mirrors, and topics that came from its target."""
    targets: dict[str, str | None] = {}
    commits: dict[str, Commits] = {}
    left_out: list[LeftOutGroup] = []
    for group, own in sorted(found.items()):
        if isinstance(own, CausewayError):
            left_out.append(LeftOutGroup(group=group, code=Why.UNREADABLE, reason=str(own)))
            continue
        for topic in {at.topic for at in own} - targets.keys():
            targets[topic] = _target_name(topic, link)
        commits[group] = {at: offset for at, offset in own.items() if targets[at.topic]}
        if not commits[group]:
            del commits[group]
            reason = "it has committed nothing on topics that are mirrored"
            left_out.append(LeftOutGroup(group=group, code=Why.NOTHING_MIRRORED, reason=reason))
    names = {topic: name for topic, name in targets.items() if name is not None}
    return Followed(commits=commits, targets=names, left_out=tuple(left_out))


def _target_name(topic: str, link: LinkSettings) -> str | None:
    """As MirrorCheckpointTask.renameTopicPartition: B.orders on A, mirrored from B, is orders on
    B."""
    decision = link.decide_topic(topic)
    if decision.verdict is Verdict.CYCLE:
        return link.policy.cycle_source(topic, link.target.alias)
    return decision.target_name


def checkpoints(
    followed: Followed,
    translated: Translated,
    certain: Translated,
    last: Mapping[tuple[str, TopicPartition], Checkpoint],
) -> list[Checkpoint]:
    """Those to write now. `certain`: of what is `translated`, places of records that are there;
    `last`: the newest ones written, by group and partition of the target.

    MirrorMaker 2's rule: the first of a partition; then where the group went back on the source,
    or on on the target. So downstream offsets only go back if the group itself did; or where the
    last one is proven wrong, because the target was made anew, or by whoever wrote it.
    """
    wanted = []
    for group, commits in followed.commits.items():
        offsets = translated.get(group, {})
        for at, committed in commits.items():
            downstream = offsets.get(at, -1)
            if downstream < 0:
                continue
            place = followed.target(at)
            before = last.get((group, place))
            if (
                before is None
                or committed.offset < before.upstream
                or downstream > before.downstream
                or certain.get(group, {}).get(at, before.downstream) < before.downstream
            ):
                wanted.append(
                    Checkpoint(
                        group=group,
                        partition=place,
                        upstream=committed.offset,
                        downstream=downstream,
                        metadata=committed.metadata,
                    )
                )
    return wanted


def commits(
    followed: Followed,
    translated: Translated,
    listing: Mapping[str, GroupListing],
    there: Mapping[str, Commits | CausewayError],
    ends: Mapping[TopicPartition, int],
    link: LinkSettings,
) -> CommitPlan:
    """What to commit on the target, whose `listing` of groups, commits (`there`) and log ends these
    are. Only for groups without members, and only where a partition has no commit or an older one;
    never past the end of what is mirrored.
    """
    wanted: dict[str, Commits] = {}
    left_out: list[LeftOutGroup] = []
    for group in followed.commits:
        found = _commits_of(
            group, followed, translated.get(group, {}), listing, there.get(group, {}), ends, link
        )
        if isinstance(found, LeftOutGroup):
            left_out.append(found)
        else:
            wanted[group] = found
    return CommitPlan(commits=wanted, left_out=tuple(left_out))


def _commits_of(
    group: str,
    followed: Followed,
    offsets: Mapping[TopicPartition, int],
    listing: Mapping[str, GroupListing],
    there: Commits | CausewayError,
    ends: Mapping[TopicPartition, int],
    link: LinkSettings,
) -> Commits | LeftOutGroup:
    def left_out(code: Why, reason: str) -> LeftOutGroup:
        return LeftOutGroup(group=group, code=code, reason=reason)

    alias = link.target.alias
    listed = listing.get(group)
    if listed is not None and listed.protocol_type not in _CONSUMERS:
        return left_out(Why.NOT_CONSUMERS, _no_consumers(listed, alias))
    if listed is not None and listed.state not in _IDLE:
        reason = f"it has members on {alias} ({listed.state}), who commit for themselves"
        return left_out(Why.HAS_MEMBERS, reason)
    if isinstance(there, CausewayError):
        return left_out(Why.UNREADABLE, str(there))
    reachable = {
        followed.target(at): Committed(offset=offsets[at], metadata=committed.metadata)
        for at, committed in followed.commits[group].items()
        if offsets.get(at, -1) >= 0 and followed.target(at) in ends
    }
    if not reachable:
        return left_out(
            Why.NOT_TRANSLATED, "what it has committed lies outside what has been mirrored"
        )
    wanted = {}
    for place, committed in reachable.items():
        offset = min(committed.offset, ends[place])
        if place not in there or there[place].offset < offset:
            wanted[place] = Committed(offset=offset, metadata=committed.metadata)
    return wanted or left_out(
        Why.UP_TO_DATE, f"on {alias} it stands where it does on {link.source.alias}, or further on"
    )
