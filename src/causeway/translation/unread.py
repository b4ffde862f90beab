"""Records on the target that a group has not read, before its translated offset there.

    target  [local][ours 0…9][C's][ours 10…19]│        the group has read 15 records of ours: by the
             ▲                ▲         ▲              mirror alone it goes on at 15, and would skip
             1                2         place          1 and 2, which others wrote

A commit must not pass such a record. The group has read all before its own commit on the target,
our records up to its place, and another link's records up to its checkpoint by that link. All other
records are unread: records of programs, records of a source on which the group has committed
nothing, and our records of topics on which it has committed nothing.

If the offset map shows that each offset is one of our records, the log is not read. Other
stretches are read once for all groups, and each group goes on from the end of its last look.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import EARLIEST, Cluster, OffsetAt
from causeway.config import LinkSettings
from causeway.control import Checkpoint, Commits, Translated, UnreadRecord, groups
from causeway.daemon.partitions.mirrored import Feed, Mirrored
from causeway.daemon.partitions.others import OtherFeed, feeds
from causeway.errors import CausewayError
from causeway.link_topics.topic_log import TopicLog
from causeway.model import TopicPartition
from causeway.records import CONTROL, HEADER, MAGIC, MAGIC_AT
from causeway.relay import log_reader

_LOOK_S = 10.0  # a round reads for this long; the next round reads the rest
_FEEDS_S = 30.0  # other links' claims are read again after this time

Straight = Callable[[Feed, int], int]  # see OffsetMap.alone_until


class Stretch(NamedTuple):
    """Target offsets from a group's commit, or the log start, to its place by the mirror."""

    start: int
    place: int


class _Batch(NamedTuple):
    base: int
    last: int
    producer_id: int  # -1: none
    control: bool = False


@dataclass(slots=True)
class _Known:
    """What one group has read of a target partition: all from `start` to `position`. `blocked`: the
    batch that stopped the look."""

    start: int
    position: int
    blocked: _Batch | None = None


@dataclass(slots=True, kw_only=True)
class _Partition:
    """Who writes to a target partition, as far as is known."""

    at: TopicPartition
    ours: Mapping[int, TopicPartition]  # source partition by producer id
    feeds: Collection[Feed]
    copied_to: int


class UnreadRecords:
    """The unread records of one link's groups. Not thread-safe. `unfinished`: the last look ran out
    of time, and the next one finds more."""

    def __init__(
        self,
        target: Cluster,
        link: LinkSettings,
        fed: Callable[[], Iterable[Mirrored]],
        straight: Straight,
    ) -> None:
        self._target = target
        self._link = link
        self._fed = fed
        self._straight = straight
        self._now: Collection[Mirrored] = ()
        self._shared: set[TopicPartition] = set()  # by all looks
        self._known: dict[tuple[str, TopicPartition], _Known] = {}
        self._feeds: Mapping[TopicPartition, Collection[OtherFeed]] | None = None
        self._feeds_at = 0.0
        self._checkpoints: dict[str, Mapping[tuple[str, TopicPartition], int]] = {}
        self.unfinished = False

    def take(self) -> set[TopicPartition]:
        """Take the mirrored partitions as they are now, for `stretches` and `look`. Returns the
        target partitions that others may write to, and whose source partitions a restart is
        just taking up again. No commit may be made there."""
        self._now = list(self._fed())
        self._shared |= self.shared()
        return self._shared - {each.target for each in self._now}

    def shared(self) -> set[TopicPartition]:
        """Target partitions that may hold records of others."""
        return {each.target for each in self._now if not each.outlet.exclusive}

    def forget(self) -> None:
        """Another driver may have led since."""
        self._known.clear()
        self._shared.clear()
        self._feeds = None

    def stretches(
        self,
        places: Translated,
        there: Mapping[str, Commits | CausewayError],
        ends: Mapping[TopicPartition, int],
    ) -> dict[str, dict[TopicPartition, Stretch]]:
        """The stretches to look at. `there`: the groups' commits on the target; `ends`: the ends of
        the target's logs. Raises CausewayError."""
        shared = self.shared() & ends.keys()
        asked = {at for stands in places.values() for at in stands} & shared
        found = self._target.list_offsets(sorted(asked), EARLIEST) if asked else {}
        starts = {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}
        stretches: dict[str, dict[TopicPartition, Stretch]] = {}
        for group, stands in places.items():
            own = there.get(group, {})
            if isinstance(own, CausewayError):
                continue
            stretches[group] = {
                at: Stretch(
                    start=max(own[at].offset if at in own else 0, starts.get(at, 0)),
                    place=min(stand.downstream, ends[at]),
                )
                for at, stand in stands.items()
                if at in asked
            }
        return stretches

    def reasons(
        self,
        unread: Mapping[str, Mapping[TopicPartition, UnreadRecord]],
        followed: Mapping[str, Commits],
    ) -> dict[str, str]:
        """Why groups are held back, by group and partition of the source."""
        feeding: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
        for each in self._now:
            feeding[each.target].append(each.source)
        return {
            f"{group} on {source}": groups.held_back(at, held)
            for group, found in unread.items()
            for at, held in found.items()
            for source in feeding[at]
            if source in followed[group]
        }

    def look(
        self,
        wanted: Mapping[str, Mapping[TopicPartition, Stretch]],
        commits: Mapping[str, Commits] | None,
    ) -> dict[str, dict[TopicPartition, UnreadRecord]]:
        """The first unread record before each place, or else how far a look has come; nothing
        if all is read. `commits`: of the groups on the source; None: each group has read all
        that the link brought before its place. Raises CausewayError."""
        self.unfinished = False
        self._checkpoints.clear()
        now = time.monotonic()
        if self._feeds is not None and now - self._feeds_at > _FEEDS_S:
            self._feeds = None
        asked = {(group, at) for group, stretches in wanted.items() for at in stretches}
        self._known = {key: known for key, known in self._known.items() if key in asked}
        by_partition: dict[TopicPartition, dict[str, Stretch]] = defaultdict(dict)
        for group, stretches in wanted.items():
            for at, stretch in stretches.items():
                by_partition[at][group] = stretch
        partitions = self._partitions(by_partition)
        found: dict[str, dict[TopicPartition, UnreadRecord]] = defaultdict(dict)
        for at, committing in by_partition.items():
            if at not in partitions:
                continue
            look = _Look(self, partitions[at], committing, commits)
            for group, unread in look.run(now + _LOOK_S).items():
                found[group][at] = unread
        return found

    def known(self, group: str, at: TopicPartition, start: int) -> _Known:
        """The earlier result for the group, if it holds from `start` on; else a new one."""
        known = self._known.get((group, at))
        if known is None or not known.start <= start <= known.position:
            known = self._known[group, at] = _Known(start, start)
        return known

    def raw(self, at: TopicPartition, start: int, end: int) -> Iterable[memoryview]:
        return log_reader.raw_batches(self._target, at, start, end, every_format=True)

    def other_of(self, partition: _Partition, producer_id: int) -> str | None:
        """The alias of another link's source, if that link writes with this producer id."""
        if self._feeds is None:
            self._feeds = feeds(self._target, self._link.progress_topic)
            self._feeds_at = time.monotonic()
        for each in self._feeds.get(partition.at, ()):
            if producer_id in each.producers and producer_id >= 0:
                return each.source
        return None

    def checkpoint(self, source: str, group: str, at: TopicPartition) -> int | None:
        """The target offset up to which the group has read the records from `source`."""
        if source not in self._checkpoints:
            topic = TopicLog(self._target, self._link.policy.checkpoints_topic(source))
            try:
                self._checkpoints[source] = _places(topic)
            except CausewayError:
                self._checkpoints[source] = {}  # then records from there count as unread
        return self._checkpoints[source].get((group, at))

    def straight(self, partition: _Partition, offset: int) -> int:
        """The end of a run of offsets from `offset` on, each a record of the only source partition
        that feeds `partition`; `offset` if that is not known."""
        if len(partition.feeds) != 1:
            return offset
        (feed,) = partition.feeds
        return max(offset, self._straight(feed, offset))

    @property
    def source(self) -> str:
        return self._link.source.alias

    def _partitions(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, _Partition]:
        feeding: dict[TopicPartition, list[Mirrored]] = defaultdict(list)
        for each in self._now:
            if each.target in wanted:
                feeding[each.target].append(each)
        return {
            at: _Partition(
                at=at,
                ours={
                    number: each.source
                    for each in together
                    for number in (*each.outlet.earlier, each.outlet.producer_id)
                    if number >= 0
                },
                feeds=[each.feed for each in together],
                copied_to=max(each.outlet.copied_to for each in together),
            )
            for at, together in feeding.items()
        }


class _Look:
    """A look through one target partition, for all groups that have a place there."""

    def __init__(
        self,
        records: UnreadRecords,
        partition: _Partition,
        stretches: Mapping[str, Stretch],
        commits: Mapping[str, Commits] | None,
    ) -> None:
        self._records = records
        self._partition = partition
        self._stretches = stretches
        self._read = {} if commits is None else {g: commits.get(g, {}) for g in stretches}
        self._known = {
            group: records.known(
                group, partition.at, max(stretch.start, min(partition.copied_to, stretch.place))
            )
            for group, stretch in stretches.items()
        }

    def run(self, until: float) -> dict[str, UnreadRecord]:
        """The unread records, by group."""
        why: dict[str, str] = {}
        going: set[str] = set()
        for group, known in self._known.items():
            if known.blocked is not None and known.position < self._stretches[group].place:
                batch, known.blocked = known.blocked, None
                self._take(group, batch, why)
            if known.blocked is None:
                going.add(group)
        slow, reason = going, "records that are still to be checked"
        try:
            slow = self._go(going, why, until)
            self._records.unfinished |= bool(slow)
        except CausewayError as error:  # an error of one partition does not hold up the others
            reason = f"records that cannot be checked now: {error}"
            self._records.unfinished |= error.retriable
        found = {}
        for group, known in self._known.items():
            if known.position < self._stretches[group].place:
                found[group] = UnreadRecord(known.position, why.get(group, reason))
        return found

    def _go(self, going: set[str], why: dict[str, str], until: float) -> set[str]:
        """Reads on for groups that are not blocked. Returns the groups for which the time was not
        enough. Raises CausewayError."""
        while going := {g for g in going if self._known[g].blocked is None and self._left(g)}:
            start = min(self._known[group].position for group in going)
            straight = self._records.straight(self._partition, start)
            if straight > start:
                self._pass(going, start, straight, why)
                continue
            if time.monotonic() > until:
                return going
            end = max(self._stretches[group].place for group in going)
            self._walk(going, start, end, why, until)
        return set()

    def _left(self, group: str) -> bool:
        return self._known[group].position < self._stretches[group].place

    def _pass(self, going: Collection[str], start: int, end: int, why: dict[str, str]) -> None:
        """Passes over a stretch of our records for the groups whose look is in it."""
        (feed,) = self._partition.feeds
        number = next(n for n, source in self._partition.ours.items() if source == feed.source)
        for group in going:
            if start <= self._known[group].position < end:
                self._take(group, _Batch(start, end - 1, number), why)

    def _walk(
        self, going: Collection[str], start: int, end: int, why: dict[str, str], until: float
    ) -> None:
        reached = start
        for batch in self._batches(start, end):
            if batch.base > reached and self._records.straight(self._partition, reached) > reached:
                return  # the map knows the records that follow
            for group in going:
                known = self._known[group]
                if known.blocked is None and known.position <= batch.last:
                    self._take(group, batch, why)
            reached = batch.last + 1
            if time.monotonic() > until:
                return
            if all(self._known[g].blocked is not None or not self._left(g) for g in going):
                return
            if self._records.straight(self._partition, reached) > reached:
                return
        for group in going:  # nothing more lies before the end: compaction may have taken it
            known = self._known[group]
            if known.blocked is None:
                known.position = max(known.position, end)

    def _batches(self, start: int, end: int) -> Iterable[_Batch]:
        for raw in self._records.raw(self._partition.at, start, end):
            fields = HEADER.unpack_from(raw)
            if raw[MAGIC_AT] < MAGIC:
                # The header of such a set of messages has its last offset only.
                yield _Batch(start, fields[0], -1)
            else:
                control = bool(fields[5] & CONTROL)
                yield _Batch(fields[0], fields[0] + fields[6], fields[9], control)

    def _take(self, group: str, batch: _Batch, why: dict[str, str]) -> None:
        """Passes over `batch` as far as the group has read it."""
        known = self._known[group]
        read_to, owner = self._read_to(group, batch)
        known.position = max(known.position, min(read_to, batch.last + 1))
        if read_to <= batch.last and self._left(group):
            known.position = max(known.position, batch.base)
            known.blocked = batch
            why[group] = owner

    def _read_to(self, group: str, batch: _Batch) -> tuple[int, str]:
        """The offset up to which the group has read `batch`, and a text about the rest."""
        all_of_it = batch.last + 1
        if batch.control:
            return all_of_it, ""
        source = self._partition.ours.get(batch.producer_id)
        if source is not None:
            commits = self._read.get(group)
            if commits is None or any(at.topic == source.topic for at in commits):
                return all_of_it, ""
            return (
                batch.base,
                f"a record of {source.topic}, on which the group has committed nothing",
            )
        other = self._records.other_of(self._partition, batch.producer_id)
        if other is None:
            return batch.base, f"a record that did not come from {self._records.source}"
        place = self._records.checkpoint(other, group, self._partition.at)
        return (
            (batch.base if place is None else place),
            f"a record from {other} that the group has not read there",
        )


def _places(topic: TopicLog) -> dict[tuple[str, TopicPartition], int]:
    found = {}
    for key, value in topic.newest().items():
        try:
            one = Checkpoint.decode(key, value)
        except CausewayError:
            continue  # not a checkpoint
        found[one.group, one.partition] = one.downstream
    return found
