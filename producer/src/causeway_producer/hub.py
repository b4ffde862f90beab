"""The state that the application's calls and both sides share; it decides about deliveries.

One lock protects all state. A *copy* is one partition on one side. `there`, `given` and `heard` are
positions: all records of the partition up to them have reached that step.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from causeway_producer.options import Options
from causeway_producer.records import Callback, Record, first_position, message_of
from causeway_producer.spool import Place, Spool

Report = tuple[Callable[..., Any], tuple[Any, ...]]


class Copy:
    """`there`: on the side (acknowledged, or found in its log), or refused for good. `heard`: also
    counted and reported. `given`: there, or in the client. `offset`: all records that are there are
    before it. `open`: records may be sent, because `offset` is known. `stored`: `there` as in the
    ledger. `last_ms`: the timestamp of the last record that the client wrote here, by which the
    broker remembers the client; 0 if the broker may not know the client."""

    __slots__ = ("given", "heard", "last_ms", "offset", "open", "partition", "stored", "there")

    def __init__(self, partition: DualPartition) -> None:
        self.partition = partition
        self.there = self.given = self.heard = self.offset = 0
        self.open = False
        self.stored = -1
        self.last_ms = 0

    def place(self) -> Place:
        return Place(self.there, self.offset)


class _Group:
    """Consecutive records of one partition that wait for their delivery."""

    __slots__ = ("callbacks", "positions", "records")

    def __init__(
        self, positions: list[int], callbacks: list[Callback], records: list[Record]
    ) -> None:
        self.positions = positions
        self.callbacks = callbacks
        self.records = records

    def cut(self, start: int, stop: int | None = None) -> _Group:
        part = slice(start, stop)
        return _Group(self.positions[part], self.callbacks[part], self.records[part])


class DualPartition:
    """`waiting`: records that are not reported yet. `reported`: all records up to this position
    are. `answers`: the messages with which sides acknowledged waiting records. `refused`: by
    position, the index of a side that refused the record, with error and message. `undecided`:
    refused by one side, while the policy waits for the other side."""

    __slots__ = (
        "answers", "copies", "number", "partition", "refused", "reported", "topic", "undecided",
        "waiting",
    )  # fmt: skip

    def __init__(self, number: int, topic: str, partition: int, newest: int) -> None:
        self.number = number
        self.topic = topic
        self.partition = partition
        self.copies = (Copy(self), Copy(self))
        self.waiting: deque[_Group] = deque()
        self.reported = newest
        self.answers: dict[int, Any] = {}
        self.refused: dict[int, dict[int, tuple[Any, Any]]] = {}
        self.undecided: dict[int, tuple[Callback, Record]] = {}

    def waits(self, position: int) -> bool:
        """Returns whether this record is not reported yet."""
        return position > self.reported or position in self.undecided

    def waiting_between(self, after: int, below: int) -> list[Record]:
        return [
            record
            for group in self.waiting
            for record in group.records
            if after < record[0] < below
        ]


class Hub:
    """`primary`: the index of the side whose answer counts with policy `primary`. `first`: all
    positions of this life are greater. `newest`: the last position in the journal. `settled`: grows
    by one with each reported record. `torn`: an exception interrupted the work between two steps,
    so it is not known which steps were done. `acknowledged`, `refused`: numbers of records of this
    life, by side. `unopened`: for each side, the topics with a partition that is not open there.
    `counts`: for each side, its partitions by topic. `client_room`: the number of records and bytes
    that a side's client may hold."""

    def __init__(self, options: Options, spool: Spool, reports: deque[Report]) -> None:
        self.lock = threading.RLock()
        self.names = tuple(side.name for side in options.sides)
        self.spool = spool
        self.first = self.newest = self.settled = first_position(spool.life)
        self.torn = False
        self.acknowledged = [0, 0]
        self.refused = [0, 0]
        self.primary = 0
        self.partitions: dict[int, DualPartition] = {}
        self.topics: dict[str, list[DualPartition]] = {}
        self.unopened: tuple[set[str], set[str]] = (set(), set())
        self.counts: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.wake = (threading.Event(), threading.Event())
        self.reports = reports
        self.reported = threading.Event()
        self.client_room = (options.max_messages, options.max_client_bytes)
        self.on_side_delivery = options.on_side_delivery
        self._policy = options.policy
        self._fails_over = options.failover_after_s is not None

    # Reports. With the lock.

    def queue(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Queues a callback. `poll` and `flush` call it, without the lock."""
        self.reports.append((callback, arguments))
        self.reported.set()

    def await_delivery(self, records: Sequence[Record], callbacks: Sequence[Callback]) -> None:
        """Lets records wait for their delivery. They are in the journal now."""
        groups: dict[int, _Group] = {}
        for record, callback in zip(records, callbacks, strict=True):
            if (group := groups.get(record[1])) is None:
                group = groups[record[1]] = _Group([], [], [])
            group.positions.append(record[0])
            group.callbacks.append(callback)
            group.records.append(record)
        for number, group in groups.items():
            self.partitions[number].waiting.append(group)

    def speaks(self, index: int) -> bool:
        """Returns whether `on_delivery` may report the answers of this side."""
        return self._policy == "any" or index == self.primary or self._fails_over

    def answered(
        self,
        index: int,
        copy: Copy,
        answers: Sequence[tuple[Copy, Sequence[int], None, Any]],
    ) -> None:
        """Notes that a side acknowledged records of a copy: positions, and the last one's
        message."""
        _, positions, _, message = answers[-1]
        copy.there = copy.heard = positions[-1]
        # None if the broker took the record for a repetition, and has forgotten its offset.
        if (offset := message.offset()) is not None:
            copy.offset = offset + 1
        copy.last_ms = message.timestamp()[1]
        self.acknowledged[index] += sum([len(answer[1]) for answer in answers])
        partition = copy.partition
        if self.speaks(index) and partition.waits(positions[-1]):
            reported, undecided = partition.reported, partition.undecided
            heard = {
                answer[1][0]: answer[3]
                for answer in answers
                if len(answer[1]) == 1 and (answer[1][0] > reported or answer[1][0] in undecided)
            }
            if index != self.primary:
                heard |= partition.answers  # of the primary side, or of the first answer
            partition.answers.update(heard)
        if self.on_side_delivery is not None:
            for answer in answers:
                self.tell_side(index, None, answer[3])

    def refuse(self, index: int, copy: Copy, position: int, error: Any, message: Any) -> None:
        """Notes that a side refused a record for good. All records before it are there."""
        partition = copy.partition
        self.refused[index] += 1
        copy.there = copy.heard = copy.given = position  # it is not sent again
        if partition.waits(position):
            partition.refused.setdefault(position, {})[index] = (error, message)
        self.tell_side(index, error, message)
        self.deliver(partition)

    def tell_side(self, index: int, error: Any, message: Any) -> None:
        if self.on_side_delivery is not None:
            self.queue(self.on_side_delivery, self.names[index], error, message)

    def deliver(self, partition: DualPartition) -> None:
        """Reports the records that the policy counts as delivered, or as failed."""
        one, other = partition.copies
        if self._policy == "both":
            upto = min(one.heard, other.heard)
        elif self._policy == "any":
            upto = max(one.heard, other.heard)
        else:
            upto = partition.copies[self.primary].heard
        waiting = partition.waiting
        while waiting and (group := waiting[0]).positions[0] <= upto:
            if group.positions[-1] <= upto:
                waiting.popleft()
            else:
                split = bisect_right(group.positions, upto)
                waiting[0] = group.cut(split)
                group = group.cut(0, split)
            self._report(partition, group)
        for position, (callback, record) in list(partition.undecided.items()):
            self._judge(partition, callback, record, position)

    def _report(self, partition: DualPartition, group: _Group) -> None:
        partition.reported = group.positions[-1]
        if partition.refused:
            for position, callback, record in zip(
                group.positions, group.callbacks, group.records, strict=True
            ):
                self._judge(partition, callback, record, position)
            return
        self.settled += len(group.positions)
        answers = map(partition.answers.pop, group.positions, repeat(None))
        for callback, answer, record in zip(group.callbacks, answers, group.records, strict=True):
            if callback is not None:
                message = self.message(partition, record) if answer is None else answer
                self.reports.append((callback, (None, message)))
        self.reported.set()

    def _judge(
        self, partition: DualPartition, callback: Callback, record: Record, position: int
    ) -> None:
        """Reports one record that a side may have refused, if the policy can decide."""
        by = partition.refused.get(position, {})
        counts = by.get(self.primary)
        if self._policy == "any" and len(by) == 1:
            (refused_by,) = by
            if partition.copies[1 - refused_by].heard < position:
                partition.undecided[position] = (callback, record)
                return
            counts = None
        elif counts is None and self._policy != "primary":
            counts = next(iter(by.values()), None)
        partition.undecided.pop(position, None)
        partition.refused.pop(position, None)
        self.settled += 1
        if callback is not None:
            error, message = counts or (None, partition.answers.get(position))
            if message is None:
                message = self.message(partition, record, error)
            self.queue(callback, error, message)
        partition.answers.pop(position, None)

    def message(self, partition: DualPartition, record: Record, error: Any = None) -> Any:
        return message_of(partition.topic, partition.partition, record, self.spool.identity, error)

    # Topics. With the lock.

    def add_topic(self, topic: str, count: int) -> list[DualPartition]:
        """Returns the topic with `count` partitions. New partitions are written down first."""
        partitions = self._load(topic, self.spool.ledger.add_topic(topic, count))
        for index, unopened in enumerate(self.unopened):
            if not all(partition.copies[index].open for partition in partitions):
                unopened.add(topic)
                self.wake[index].set()
        return partitions

    def load_topics(self) -> None:
        """Loads the topics of earlier lives."""
        for topic, numbers in self.spool.ledger.partitions().items():
            self._load(topic, numbers)
        for index, name in enumerate(self.names):
            for number, place in self.spool.ledger.places(name).items():
                copy = self.partitions[number].copies[index]
                copy.there = copy.given = copy.stored = place.position
                copy.offset, copy.open = place.offset, True
            self.unopened[index].update(
                each.topic for each in self.partitions.values() if not each.copies[index].open
            )

    def counted(self, index: int, topic: str, count: int) -> None:
        """Notes that a side has `count` partitions of the topic now. New ones are used once both
        sides have them."""
        self.counts[index][topic] = count
        least = min(counts.get(topic, 0) for counts in self.counts)
        if least > len(self.topics[topic]):
            self.add_topic(topic, least)

    def _load(self, topic: str, numbers: Sequence[int]) -> list[DualPartition]:
        for partition, number in enumerate(numbers):
            if number not in self.partitions:
                self.partitions[number] = DualPartition(number, topic, partition, self.newest)
        found = self.topics[topic] = [self.partitions[number] for number in numbers]
        return found
