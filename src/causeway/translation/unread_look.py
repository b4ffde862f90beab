"""Reads one target partition for records that groups have not read. See unread.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import Cluster, log_reader
from causeway.config import LinkSettings
from causeway.control import Checkpoint, Commits, UnreadRecord
from causeway.errors import CausewayError
from causeway.link_topics import OtherFeed, TopicLog, feeds_of_other_links
from causeway.model import TopicPartition
from causeway.records import CONTROL, HEADER, MAGIC, MAGIC_AT
from causeway.translation.course import CourseKey

_FEEDS_S = 30.0  # other links' claims are read again after this time

AloneUntil = Callable[[CourseKey, int], int]  # see OffsetMap.alone_until


class UnreadRange(NamedTuple):
    """Target offsets from a group's commit, or the log start, to its offset by the mirror."""

    start: int
    place: int


class _Batch(NamedTuple):
    base: int
    last: int
    producer_id: int  # -1: none
    control: bool = False


@dataclass(slots=True)
class GroupLook:
    """What one group has read of a target partition: all from `start` to `position`. `blocked`: the
    batch that stopped the look."""

    start: int
    position: int
    blocked: _Batch | None = None


@dataclass(slots=True, kw_only=True)
class PartitionWriters:
    """The known writers of a target partition. `ours`: source partition by producer id."""

    at: TopicPartition
    ours: Mapping[int, TopicPartition]
    keys: Collection[CourseKey]
    copied_to: int


class OtherWriters:
    """Other links that write to the target, and how far groups have read their records."""

    def __init__(self, target: Cluster, link: LinkSettings) -> None:
        self._target = target
        self._link = link
        self._feeds: Mapping[TopicPartition, Collection[OtherFeed]] | None = None
        self._feeds_at = 0.0
        self._checkpoints: dict[str, Mapping[tuple[str, TopicPartition], int]] = {}
        self.source = link.source.alias

    def refresh(self, *, feeds: bool = False) -> None:
        """Checkpoints are read again, and claims if they are old or `feeds` is set."""
        self._checkpoints.clear()
        if feeds or time.monotonic() - self._feeds_at > _FEEDS_S:
            self._feeds = None

    def raw(self, at: TopicPartition, start: int, end: int) -> Iterable[memoryview]:
        return log_reader.raw_batches(self._target, at, start, end, every_format=True)

    def link_of(self, at: TopicPartition, producer_id: int) -> str | None:
        """The alias of another link's source, if that link writes with this producer id."""
        if self._feeds is None:
            self._feeds = feeds_of_other_links(self._target, self._link.progress_topic)
            self._feeds_at = time.monotonic()
        for each in self._feeds.get(at, ()):
            if producer_id in each.producers and producer_id >= 0:
                return each.source
        return None

    def checkpoint(self, source: str, group: str, at: TopicPartition) -> int | None:
        """The target offset up to which the group has read the records from `source`."""
        if source not in self._checkpoints:
            topic = TopicLog(self._target, self._link.policy.checkpoints_topic(source))
            try:
                self._checkpoints[source] = _checkpoints(topic)
            except CausewayError:
                self._checkpoints[source] = {}  # then records from there count as unread
        return self._checkpoints[source].get((group, at))


class PartitionLook:
    """One look through a target partition, for all groups that have an offset there.
    `unfinished`: the time was too short, or the log could not be read now."""

    def __init__(
        self,
        others: OtherWriters,
        partition: PartitionWriters,
        ranges: Mapping[str, UnreadRange],
        known: Mapping[str, GroupLook],
        commits: Mapping[str, Commits] | None,
        alone_until: AloneUntil,
    ) -> None:
        """`known`: by group, of earlier looks; updated. `commits`: see UnreadRecords.look."""
        self._others = others
        self._partition = partition
        self._ranges = ranges
        self._read = {} if commits is None else {g: commits.get(g, {}) for g in ranges}
        self._alone_until = alone_until
        self.unfinished = False
        self._known = known

    def run(self, until: float) -> dict[str, UnreadRecord]:
        """The unread records, by group."""
        why: dict[str, str] = {}
        going: set[str] = set()
        for group, known in self._known.items():
            if known.blocked is not None and known.position < self._ranges[group].place:
                batch, known.blocked = known.blocked, None
                self._take(group, batch, why)
            if known.blocked is None:
                going.add(group)
        slow, reason = going, "records that are still to be checked"
        try:
            slow = self._go(going, why, until)
            self.unfinished |= bool(slow)
        except CausewayError as error:  # an error of one partition does not hold up the others
            reason = f"records that cannot be checked now: {error}"
            self.unfinished |= error.retriable
        found = {}
        for group, known in self._known.items():
            if known.position < self._ranges[group].place:
                found[group] = UnreadRecord(known.position, why.get(group, reason))
        return found

    def _straight(self, offset: int) -> int:
        """The end of a run of offsets from `offset` on, each a record of the only source partition
        that feeds the partition; `offset` if that is not known."""
        if len(self._partition.keys) != 1:
            return offset
        (key,) = self._partition.keys
        return max(offset, self._alone_until(key, offset))

    def _go(self, going: set[str], why: dict[str, str], until: float) -> set[str]:
        """Reads for the groups that are not blocked. Returns the groups for which the time was too
        short. Raises CausewayError."""
        while going := {g for g in going if self._known[g].blocked is None and self._left(g)}:
            start = min(self._known[group].position for group in going)
            straight = self._straight(start)
            if straight > start:
                self._pass(going, start, straight, why)
                continue
            if time.monotonic() > until:
                return going
            end = max(self._ranges[group].place for group in going)
            self._walk(going, start, end, why, until)
        return set()

    def _left(self, group: str) -> bool:
        return self._known[group].position < self._ranges[group].place

    def _pass(self, going: Collection[str], start: int, end: int, why: dict[str, str]) -> None:
        """Passes over a stretch of our records for the groups whose look is in it."""
        (key,) = self._partition.keys
        number = next(n for n, source in self._partition.ours.items() if source == key.source)
        for group in going:
            if start <= self._known[group].position < end:
                self._take(group, _Batch(start, end - 1, number), why)

    def _walk(
        self, going: Collection[str], start: int, end: int, why: dict[str, str], until: float
    ) -> None:
        reached = start
        for batch in self._batches(start, end):
            if batch.base > reached and self._straight(reached) > reached:
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
            if self._straight(reached) > reached:
                return
        for group in going:  # nothing more lies before the end: compaction may have taken it
            known = self._known[group]
            if known.blocked is None:
                known.position = max(known.position, end)

    def _batches(self, start: int, end: int) -> Iterable[_Batch]:
        for raw in self._others.raw(self._partition.at, start, end):
            fields = HEADER.unpack_from(raw)
            if raw[MAGIC_AT] < MAGIC:
                # The header of such a set of messages has its last offset only.
                yield _Batch(start, fields[0], -1)
            else:
                control = bool(fields[5] & CONTROL)
                yield _Batch(fields[0], fields[0] + fields[6], fields[9], control)

    def _take(self, group: str, batch: _Batch, why: dict[str, str]) -> None:
        """Passes over the records of `batch` that the group has read."""
        known = self._known[group]
        read_to, owner = self._read_to(group, batch)
        known.position = max(known.position, min(read_to, batch.last + 1))
        if read_to <= batch.last and self._left(group):
            known.position = max(known.position, batch.base)
            known.blocked = batch
            why[group] = owner

    def _read_to(self, group: str, batch: _Batch) -> tuple[int, str]:
        """The offset up to which the group has read `batch`, and a text about the rest."""
        batch_end = batch.last + 1
        if batch.control:
            return batch_end, ""
        source = self._partition.ours.get(batch.producer_id)
        if source is not None:
            commits = self._read.get(group)
            if commits is None or any(at.topic == source.topic for at in commits):
                return batch_end, ""
            return (
                batch.base,
                f"a record of {source.topic}, on which the group has committed nothing",
            )
        other = self._others.link_of(self._partition.at, batch.producer_id)
        if other is None:
            return batch.base, f"a record that did not come from {self._others.source}"
        place = self._others.checkpoint(other, group, self._partition.at)
        return (
            (batch.base if place is None else place),
            f"a record from {other} that the group has not read there",
        )


def _checkpoints(topic: TopicLog) -> dict[tuple[str, TopicPartition], int]:
    found = {}
    for key, value in topic.newest().items():
        try:
            one = Checkpoint.decode(key, value)
        except CausewayError:
            continue  # not a checkpoint
        found[one.group, one.partition] = one.downstream
    return found
