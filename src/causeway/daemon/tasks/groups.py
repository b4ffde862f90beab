"""Consumer groups of one link: writes checkpoints for failovers, and commits offsets on the target
for groups that are idle there."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from causeway.cluster import LATEST, CommitResults, GroupListing, OffsetAt
from causeway.config import LinkSettings
from causeway.control import (
    ChosenGroups,
    GroupCommits,
    LeftOutGroup,
    LeftOutReason,
    Translated,
    TranslatedOffset,
    checkpoint_records,
    groups,
    read_checkpoints,
)
from causeway.daemon.clients import Sides
from causeway.daemon.partitions import Readings, Recent
from causeway.daemon.tasks.schedule import Outcome
from causeway.errors import CausewayError
from causeway.link_topics import TopicLog
from causeway.model import Spread, TopicPartition
from causeway.status import CheckpointTiming, GroupStatus
from causeway.translation import (
    GroupsBothWays,
    OffsetTranslator,
    UnreadRecords,
    group_offsets,
    inexact,
    offsets_to_translate,
)

# The reasons that a person should know. All other reasons follow from the file.
_WORTH_KNOWING = frozenset(
    {
        LeftOutReason.UNDECIDED,
        LeftOutReason.UNREADABLE,
        LeftOutReason.HAS_MEMBERS,
        LeftOutReason.NOT_TRANSLATED,
    }
)
# The longest time between our read of a group and our commit: a consumer may join the group on the
# target and leave it between the two.
_FRESH_S = 30.0
_TOGETHER = 500  # groups in one read and one commit, so that no group waits for all other groups
_PATIENCE_S = 3.0  # how long to wait for partitions without a leader
# The number of checkpoints, by group and partition, whose time is kept. Each makes four series of
# metrics, and all checkpoints of one round take the same time.
_MOST_TIMED = 1_000
_EARLY_S = 0.5  # a task that runs so much too early does its work, and does not wait


@dataclass(slots=True)
class Groups:
    """The group task of one link. Not thread-safe. `term`: see Leadership.term. `registry` knows
    the target partitions to which others may write, and the partitions whose mirror has ended.
    `untimed` counts the checkpoints whose time is not kept, because there are too many. `statuses`
    is from the last round; any thread may read it."""

    link: LinkSettings
    sides: Sides
    translator: OffsetTranslator
    term: Callable[[], int | None]
    registry: Readings
    untimed: int = 0
    statuses: tuple[GroupStatus, ...] = ()
    _unread: UnreadRecords = field(init=False)
    _both_ways: GroupsBothWays | None = field(init=False)  # if programs write to both clusters
    _topic: TopicLog = field(init=False)
    _begun_in: int | None = None  # the term of the current run
    # By group, the places of the newest written checkpoints.
    _last: dict[str, dict[TopicPartition, TranslatedOffset]] | None = None
    _latencies: Mapping[tuple[str, TopicPartition], Recent] = field(default_factory=dict)
    _listing: dict[str, GroupListing] | None = None
    _checkpoints_due: float = 0.0
    _commits_due: float = 0.0
    # By group, of the last commits: why a group was left out, and why a commit failed.
    _not_committed: Mapping[str, str] = field(default_factory=dict)
    _commit_failures: Mapping[str, str] = field(default_factory=dict)
    _slow: frozenset[str] = frozenset()  # groups whose target did not answer in time

    def __post_init__(self) -> None:
        link, target, admin = self.link, self.sides.target, self.sides.target_admin
        self._unread = UnreadRecords(target, link, self.translator.brought_to)
        self._both_ways = None
        if link.reverse is not None:
            read_again, source = self.registry.read_again, self.sides.source
            self._both_ways = GroupsBothWays(source, target, link, link.reverse, read_again)
        name = link.policy.checkpoints_topic(link.source.alias)
        self._topic = TopicLog(target, name, admin=admin)

    @property
    def interval_s(self) -> float | None:
        """The time between two runs. None if the task never runs."""
        control = self.link.control
        intervals = (
            (control.emit_checkpoints_enabled, control.emit_checkpoints_interval_s),
            (control.sync_group_offsets_enabled, control.sync_group_offsets_interval_s),
        )
        return min((interval for enabled, interval in intervals if enabled), default=None)

    def work(self) -> Outcome:
        """Writes the checkpoints and commits that are due. Raises CausewayError."""
        control, now = self.link.control, time.monotonic() + _EARLY_S
        self._begun_in = self.term()
        self._take_courses()
        chosen = groups.choose(self._source_groups(), self.link)
        read_at = time.monotonic()
        found = self.sides.source_admin.committed_offsets_of(chosen.groups)
        link = self.registry.with_chosen(self.link)
        followed = groups.follow(found, link, self.registry.ended())
        places = self.translator.translate(offsets_to_translate(followed, self.translator.shared()))
        translated: Translated = group_offsets(followed, places)
        notes = inexact(followed, places)
        # An offset that is unknown now may be known soon: the work is still due then.
        unfinished = self.translator.unfinished or any(map(_may_answer_soon, found.values()))
        again: Mapping[str, int] = {}
        if self._both_ways is not None:
            translated, unknown = self._both_ways.bound(followed, translated)
            notes |= unknown
            unfinished |= self._both_ways.unfinished
            again = {g: each.most for g, each in self._both_ways.again.items() if each.most}
        failure: CausewayError | None = None
        if control.emit_checkpoints_enabled and now >= self._checkpoints_due:
            try:
                certain = translated
                if self._both_ways is not None:
                    certain = self._both_ways.from_the_beginning(translated)
                self._write_checkpoints(followed, certain, read_at)
                if not unfinished:
                    self._checkpoints_due = now + control.emit_checkpoints_interval_s - 2 * _EARLY_S
            except CausewayError as error:
                failure = error  # the commits follow nevertheless
        if control.sync_group_offsets_enabled and now >= self._commits_due:
            self._not_committed, self._commit_failures = self._commit(followed, translated)
            unfinished |= bool(self._slow or self._commit_failures) or self._unread.unfinished
            if not unfinished:
                self._commits_due = now + control.sync_group_offsets_interval_s - 2 * _EARLY_S
        self.statuses = _statuses(
            chosen, followed, {**self._commit_failures, **notes, **self._not_committed}, again
        )
        if failure is not None:
            raise failure
        return Outcome(
            items={
                **self._commit_failures,
                **_reasons(chosen.left_out),
                **_reasons(followed.left_out),
                **notes,
                **self._not_committed,
            },
            figures=again,
            unfinished=unfinished,
        )

    def hurry(self) -> None:
        """Makes the next `work` write everything, also if it is not due."""
        self._checkpoints_due = self._commits_due = 0.0

    def forget(self) -> None:
        """Makes the next `work` read checkpoints again: another driver may have written some."""
        self._last = None
        self.statuses = ()
        self._unread.forget()

    def _still_leading(self, operation: str) -> None:
        """Raises CausewayError if another driver may lead: after a pause of this process, its
        results may be out of date."""
        if self._begun_in is None or self.term() != self._begun_in:
            raise CausewayError(
                operation, self.link.name, "another driver may lead by now", retriable=True
            )

    def _source_groups(self) -> dict[str, GroupListing]:
        if self._listing is None or self.link.control.refresh_groups_enabled:
            self._listing = self.sides.source_admin.list_groups()
        return self._listing

    def timings(self) -> tuple[CheckpointTiming, ...]:
        """Returns how long the checkpoints of this run took. Any thread may call it."""
        now = time.monotonic()
        return tuple(
            CheckpointTiming(
                group=group, topic=at.topic, partition=at.partition, latency=latency.timing(now)
            )
            for (group, at), latency in self._latencies.items()
        )

    def _write_checkpoints(
        self, followed: GroupCommits, translated: Translated, read_at: float
    ) -> None:
        if self._last is None:
            self._topic.ensure(self.link.control.checkpoints_replication_factor)
            self._last = defaultdict(dict)
            # Reads the checkpoints that an earlier driver or MirrorMaker 2 has written.
            for each in read_checkpoints(self._topic):
                place = TranslatedOffset(each.upstream, each.downstream, each.metadata)
                self._last[each.group][each.partition] = place
        due = groups.checkpoints(translated, self._last)
        if due:
            self._still_leading("write checkpoints")
            try:
                self._topic.append(list(checkpoint_records(due)))
            except CausewayError:
                self._last = None  # the topic may be gone, or contain only some of the new ones
                raise
            for group, places in due.items():
                self._last[group].update(places)
        self._note_latencies(followed, due, read_at)

    def _note_latencies(self, followed: GroupCommits, written: Translated, read_at: float) -> None:
        """Keeps the times of the checkpoints `written`, and drops the times of groups that are no
        longer followed."""
        now = time.monotonic()
        took = Spread.of(round((now - read_at) * 1000))
        kept = {key: known for key, known in self._latencies.items() if key[0] in followed.commits}
        timed = {group for group, _ in kept}
        for group, places in written.items():
            if group not in timed and len(kept) >= _MOST_TIMED:
                self.untimed += len(places)
                continue
            for key in ((group, at) for at in places):
                known = kept.get(key)
                if known is None and len(kept) >= _MOST_TIMED:
                    self.untimed += 1
                    continue
                kept[key] = Recent.of(took, now) if known is None else known.plus(took, now)
        self._latencies = kept  # replaced as a whole: another thread may read it

    def _commit(
        self, followed: GroupCommits, translated: Translated
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Commits the offsets. Returns why groups were left out, and why commits failed."""
        target = self.sides.target_admin
        places = set[TopicPartition]().union(*translated.values())
        # The ends are read first. A log's end only grows, so these offsets exist at the commit.
        found = target.list_offsets(list(places), LATEST, patience_s=_PATIENCE_S)
        ends = {at: end.offset for at, end in found.items() if isinstance(end, OffsetAt)}
        listing = target.list_groups()
        left_out: dict[str, str] = {}
        failed: dict[str, str] = {}
        slow: set[str] = set()
        # Groups that were slow in the last round come last: they delay only each other.
        quick = [group for group in followed.commits if group not in self._slow]
        held_up = [group for group in followed.commits if group in self._slow]
        turns = (
            (names, at) for names in (quick, held_up) for at in range(0, len(names), _TOGETHER)
        )
        for names in (names[at : at + _TOGETHER] for names, at in turns):
            some = {group: followed.commits[group] for group in names}
            asked_at = time.monotonic()
            there = target.committed_offsets_of(list(some))
            unknown = self._take_courses()
            known = {at: end for at, end in ends.items() if at not in unknown}
            own = {group: translated.get(group, {}) for group in some}
            ranges = self._unread.ranges(own, there, known)
            if self._both_ways is not None:
                ranges = self._both_ways.before_the_beginning(ranges)
            unread = self._unread.look(ranges, some)
            chosen = replace(followed, commits=some)
            planned = groups.commits(chosen, translated, listing, there, known, self.link, unread)
            left_out |= _reasons(planned.left_out)
            left_out |= self._unread.reasons(unread, some)
            answers: Mapping[str, CommitResults | CausewayError] = {}
            self._still_leading("commit offsets")
            if time.monotonic() - asked_at > _FRESH_S:
                failed |= dict.fromkeys(
                    planned.commits, "the target's answer about the group is too old"
                )
            else:
                answers = target.commit_offsets(planned.commits)
            for group, answer in answers.items():
                if isinstance(answer, CausewayError):
                    failed[group] = str(answer)
                    continue
                failed |= {f"{group} on {at}": str(error) for at, error in answer.items()}
            asked_of = [*there.items(), *answers.items()]
            slow |= {group for group, each in asked_of if _may_answer_soon(each)}
        self._slow = frozenset(slow)
        return left_out, failed

    def _take_courses(self) -> set[TopicPartition]:
        """See UnreadRecords.take."""
        return self._unread.take(self.registry.courses(), self.registry.alone_until)


def _statuses(
    chosen: ChosenGroups,
    followed: GroupCommits,
    undone: Mapping[str, str],
    again: Mapping[str, int],
) -> tuple[GroupStatus, ...]:
    """Returns the status of all groups of the source, by name. `undone`: why something was not
    done, by group or by `group on partition`. `again`: see GroupStatus."""
    found = {
        each.group: GroupStatus(group=each.group, followed=False, partitions=0, reason=each.reason)
        for each in (*chosen.left_out, *followed.left_out)
    }
    for group, commits in followed.commits.items():
        found[group] = GroupStatus(
            group=group,
            followed=True,
            partitions=len(commits),
            reason=undone.get(group),
            again=again.get(group, 0),
        )
    for item, why in undone.items():
        group, _, at = item.rpartition(" on ")
        if group in followed.commits and found[group].reason is None:
            found[group] = found[group].replace(reason=f"{at}: {why}")
    return tuple(found[group] for group in sorted(found))


def _may_answer_soon(answer: object) -> bool:
    return isinstance(answer, CausewayError) and answer.retriable


def _reasons(left_out: tuple[LeftOutGroup, ...]) -> dict[str, str]:
    return {each.group: each.reason for each in left_out if each.code in _WORTH_KNOWING}
