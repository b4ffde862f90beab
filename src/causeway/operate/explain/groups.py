"""Explains, from the facts of a consumer group, why it is synced, or why not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from causeway.cluster import GroupListing
from causeway.config import LinkSettings
from causeway.control import Commits, LeftOutReason, groups
from causeway.errors import CausewayError
from causeway.filters import DecidingRule, Verdict, by_name
from causeway.link_topics import PartitionProgress, TaskRecord
from causeway.model import State, TopicPartition
from causeway.operate.explain import rules
from causeway.operate.explain.rules import Code, Explanation, Fact, FileRule, SubjectKind
from causeway.operate.explain.topics import stamp

CODES: Final = frozenset(
    {
        *map(str, LeftOutReason),
        Code.OFF,
        Code.NO_OFFSETS,
        Code.MISSING,
        Code.UNKNOWN,
        Code.CHECKPOINTS_ONLY,
        Code.NOT_YET,
        Code.SYNCED,
        Code.AHEAD,
    }
)

_CHECKPOINTS = "emit.checkpoints.enabled"
_SYNC = "sync.group.offsets.enabled"
_MOST_LINES: Final = 20  # of partitions
_READ_THEM: Final = (
    "nothing: after a move it continues from there; or let it read the records of the other "
    "writers, or commit a later offset for it on the target"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """`source`, `target`: the group in each cluster's list. None: it is not in the list, or
    (`asked_source`, `asked_target`) the cluster was not asked. `commits`: on the source, or why
    they cannot be read. `there`: on the target. `ended`: the partitions whose mirror was promoted
    or failed over. `task`: the driver's last round. `ahead`: the least number of records that the
    group would skip after a move, see operate/ahead.py."""

    source: GroupListing | None = None
    asked_source: bool = False
    commits: Commits | CausewayError | None = None
    target: GroupListing | None = None
    asked_target: bool = False
    there: Commits | CausewayError | None = None
    ahead: int = 0
    progress: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)
    ended: frozenset[TopicPartition] = frozenset()
    task: TaskRecord | None = None
    driver: str | None = None
    runs: bool = True  # a driver runs
    unknown: tuple[str, ...] = ()


class _GroupAnswer(NamedTuple):
    code: str
    done: bool | None
    answer: str
    to_do: tuple[str, ...] = ()
    rule: FileRule | None = None


def explain_group(link: LinkSettings, group: str, facts: GroupFacts) -> Explanation:
    """Explains why `link` carries over the offsets of `group`, or why not."""
    verdict, reason, rule = decide(link, group)
    places = list(_places(link, group, facts))
    found = _by_file(link, group, verdict, reason, rule) or _by_clusters(link, group, facts, places)
    by_file = rules.in_file(link, rule)
    return Explanation(
        link=link.name,
        kind=SubjectKind.GROUP,
        name=group,
        code=found.code,
        done=found.done,
        answer=found.answer,
        rule=found.rule or by_file,
        since_ms=facts.task.done_at if facts.task and facts.task.done_at >= 0 else None,
        facts=tuple(_facts(link, group, facts, places)),
        to_do=found.to_do,
        unknown=facts.unknown,
    )


def decide(link: LinkSettings, group: str) -> tuple[Verdict, str, DecidingRule]:
    """Returns the decision of the file's filters on `group`."""
    return by_name(group, link.control.groups, link.control.groups_exclude, "groups")


def _by_file(
    link: LinkSettings, group: str, verdict: Verdict, reason: str, rule: DecidingRule
) -> _GroupAnswer | None:
    control = link.control
    if verdict is not Verdict.MIRRORED:
        by = rules.in_file(link, rule)
        to_do = tuple(rules.change(link, group, verdict, by))
        return _GroupAnswer(verdict, False, f"left out: {reason}", to_do, by)
    if not (control.emit_checkpoints_enabled or control.sync_group_offsets_enabled):
        answer = f"not synced: {_CHECKPOINTS} and {_SYNC} are false"
        return _GroupAnswer(Code.OFF, False, answer, *_sync_on(link))
    return None


def _by_clusters(
    link: LinkSettings,
    group: str,
    facts: GroupFacts,
    places: list[tuple[TopicPartition, str | None]],
) -> _GroupAnswer:
    source, target = link.source.alias, link.target.alias
    if facts.source is not None and not groups.reads_topics(facts.source):
        kind = facts.source.protocol_type
        answer = f"left out: on {source} it is a group of type {kind}, which has no such offsets"
        return _GroupAnswer(LeftOutReason.NOT_CONSUMERS, False, answer)
    if isinstance(facts.commits, CausewayError):
        answer = f"its offsets on {source} cannot be read: {facts.commits}"
        to_do = f"grant DESCRIBE on the group, and on its topics, on {source}"
        return _GroupAnswer(LeftOutReason.UNREADABLE, False, answer, (to_do,))
    if facts.commits is None:
        answer = f"by the file it is synced; {source} did not show its offsets"
        return _GroupAnswer(Code.UNKNOWN, None, answer)
    if not facts.commits:
        if facts.source is None and facts.asked_source:
            answer = f"{source} has no such group; once created, it is synced"
            return _GroupAnswer(Code.MISSING, False, answer)
        answer = f"it has committed nothing on {source}: there is nothing to carry over"
        to_do = "nothing; or let it commit its offsets to Kafka, if it stores them elsewhere"
        return _GroupAnswer(Code.NO_OFFSETS, False, answer, (to_do,))
    if not places:
        answer = "it has committed nothing on topics that are mirrored"
        to_do = "causeway explain FILE TOPIC says why they are not"
        return _GroupAnswer(LeftOutReason.NOTHING_MIRRORED, False, answer, (to_do,))
    if facts.ended.issuperset(at for at, _ in places):
        return _GroupAnswer(LeftOutReason.ENDED, True, groups.ENDED)
    has_members = facts.target is not None and groups.has_members(facts.target)
    if facts.ahead and not has_members:
        many = f"{facts.ahead:,} record{'' if facts.ahead == 1 else 's'}"
        answer = (
            f"on {target} it is at least {many} ahead of its place on {source}: a move skips them"
        )
        to_do = (
            f"`causeway cutover FILE --reset-group {group}` takes it back to that place, "
            f"`--leave-group {group}` moves without it; or nothing, if it has read them on {target}"
        )
        return _GroupAnswer(Code.AHEAD, False, answer, (to_do,))
    if not link.control.sync_group_offsets_enabled:
        answer = (
            f"followed by checkpoints alone: {_SYNC} is false, so nothing is committed on {target}"
        )
        return _GroupAnswer(Code.CHECKPOINTS_ONLY, True, answer, *_sync_on(link))
    return _synced(link, group, facts, places)


def _synced(
    link: LinkSettings,
    group: str,
    facts: GroupFacts,
    places: list[tuple[TopicPartition, str | None]],
) -> _GroupAnswer:
    target = link.target.alias
    if facts.target is not None and groups.has_members(facts.target):
        answer = (
            f"it has members on {target} ({facts.target.state}), which commit their own offsets"
        )
        to_do = f"nothing; or stop them, to have its offsets on {target} synced"
        return _GroupAnswer(LeftOutReason.HAS_MEMBERS, False, answer, (to_do,))
    if isinstance(facts.there, CausewayError):
        answer = f"its offsets on {target} cannot be read: {facts.there}"
        to_do = f"grant DESCRIBE and READ on the group on {target}"
        return _GroupAnswer(LeftOutReason.UNREADABLE, False, answer, (to_do,))
    held = [(at, why) for at, why in places if why is not None and why.startswith(groups.HELD_BACK)]
    waiting = sum(why is not None for _, why in places) - len(held)
    if held and not waiting:
        first, why = held[0]
        answer = f"synced, but for {len(held)} of {len(places)} partitions: {first} is {why}"
        return _GroupAnswer(LeftOutReason.HELD_BACK, False, answer, (_READ_THEM,))
    if waiting:
        answer = f"{waiting} of {len(places)} partitions cannot be carried over yet"
        return _GroupAnswer(Code.NOT_YET, False, answer, ("see why below",))
    if facts.there is None:
        answer = f"it is to be synced; {target} did not show its offsets"
        return _GroupAnswer(Code.UNKNOWN, None, answer)
    if facts.runs and facts.task is not None and (noted := facts.task.items.get(group)):
        return _GroupAnswer(Code.NOT_YET, False, f"not in the last round: {noted}")
    every = link.control.sync_group_offsets_interval_s
    if lacking := sorted(
        {str(link.decide_topic(at.topic).target_name) for at, _ in places}
        - {at.topic for at in facts.there}
    ):
        when = f"it is synced every {every:g} s" if facts.runs else "no driver runs"
        answer = f"it has no offsets on {target} in {lacking[0]} yet: {when}"
        return _GroupAnswer(Code.NOT_YET, False, answer)
    answer = f"synced to {target} every {every:g} s"
    if not facts.runs:
        answer = f"was synced to {target}; no driver runs to continue"
    if facts.task is not None:
        answer += read_again(target, facts.task.figures.get(group, 0))
    return _GroupAnswer(Code.SYNCED, True, answer)


def read_again(target: str, most: int) -> str:
    """Continues a text about a synced group, if programs write to both clusters."""
    many = f"{most:,} record{'' if most == 1 else 's'}"
    return f"; on {target} it would read at most {many} again" if most else ""


def _sync_on(link: LinkSettings) -> tuple[tuple[str], FileRule]:
    """Returns how to have offsets committed, and the rule that decided."""
    by = rules.of_key(link, _SYNC)
    return (f"for offsets to be committed on the target: {by.key} = true",), by


def _places(
    link: LinkSettings, group: str, facts: GroupFacts
) -> Iterator[tuple[TopicPartition, str | None]]:
    """Yields the mirrored partitions with a commit of the group, each with the reason if its offset
    on the target is not known."""
    if facts.commits is None or isinstance(facts.commits, CausewayError):
        return
    for at, committed in sorted(facts.commits.items()):
        if link.decide_topic(at.topic).target_name is None:
            continue
        if at in facts.ended:
            yield at, None
            continue
        noted = facts.task.items.get(f"{group} on {at}") if facts.task else None
        yield at, noted or _why_not(committed.offset, facts.progress.get(at))


def _why_not(offset: int, progress: PartitionProgress | None) -> str | None:
    if progress is None or progress.position < 0 or not progress.outlets:
        return "its mirror has not begun"
    if offset > progress.position:
        held = f"; it is {progress.state}" if progress.state is not State.RUNNING else ""
        reason = f": {progress.reason}" if held and progress.reason else ""
        return (
            f"the group is at {offset}, and records are mirrored only up to {progress.position}"
            f"{held}{reason}"
        )
    return None


def _facts(
    link: LinkSettings,
    group: str,
    facts: GroupFacts,
    places: list[tuple[TopicPartition, str | None]],
) -> Iterator[Fact]:
    for alias, listed, asked in (
        (link.source.alias, facts.source, facts.asked_source),
        (link.target.alias, facts.target, facts.asked_target),
    ):
        if listed is not None:
            yield Fact(f"on {alias}", f"{listed.state or 'no members'}, {listed.type} group")
        elif asked:
            yield Fact(f"on {alias}", "no such group")
    commits = facts.commits if isinstance(facts.commits, Mapping) else {}
    there = facts.there if isinstance(facts.there, Mapping) else {}
    for at, why in places[:_MOST_LINES]:
        mirror = TopicPartition(str(link.decide_topic(at.topic).target_name), at.partition)
        text = f"at {commits[at].offset}"
        if mirror in there:
            text += f", on {link.target.alias} {mirror} at {there[mirror].offset}"
        yield Fact(str(at), text if why is None else f"{text}; {why}")
    if len(places) > _MOST_LINES:
        yield Fact("and", f"{len(places) - _MOST_LINES} more partitions")
    mirrored = {at.topic for at, _ in places}
    others = Counter(at.topic for at in commits if at.topic not in mirrored)
    for topic in sorted(others)[:_MOST_LINES]:
        yield Fact(topic, f"not mirrored: {link.decide_topic(topic).reason}")
    if facts.task is not None:
        if facts.task.reason is not None:
            yield Fact("last round", f"failed: {facts.task.reason}")
        elif facts.task.done_at >= 0:
            yield Fact("last round", f"succeeded at {stamp(facts.task.done_at)}")
        if (noted := facts.task.items.get(group)) is not None:
            yield Fact("noted", noted)
    if facts.driver is not None:
        yield Fact("driver", facts.driver)
