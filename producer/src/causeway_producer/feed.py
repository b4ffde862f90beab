"""Gives the records of the journal to a side's client, in order. Clients get no other records.

If its client or its brokers refuse a record, it is sent again alone, when nothing else is in
flight, so that the other records of its batch are not refused with it.

A log has no hole while the broker knows the client. If a broker does not know a producer, it takes
any first sequence: it may refuse one batch and append the next in its place. It forgets a producer
by the timestamp of the last record (after a day by default), and does not know a new one. So a
client with one request at a time gets old records. The first record of a partition goes alone if
the client is new, or after old records.
"""

from __future__ import annotations

import contextlib
import enum
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count, repeat
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, Message

from causeway_producer.client import Calls, SideClient
from causeway_producer.errors import REFUSALS, TopicError
from causeway_producer.hub import Copy, Hub
from causeway_producer.journal import JournalCursor
from causeway_producer.records import Chunk, Record
from causeway_producer.topics import SideTopics

OLD_S = 12 * 3600.0  # a record is old at this age
_OLD_MODE_S = 60.0  # the mode ends after this time without old records: each change costs a client


class Fed(enum.Enum):
    """`ALL`: the client has the whole journal. `FULL`: it takes no more now. `OTHER_CLIENT`: the
    next records need a client with another number of requests at a time."""

    MORE = 1
    FULL = 2
    ALL = 3
    OTHER_CLIENT = 4


class Feed:
    """The part of the journal that one side has read. All methods are called with the lock."""

    def __init__(self, index: int, hub: Hub, topics: SideTopics) -> None:
        self._index = index
        self._hub = hub
        self._topics = topics
        self._journal = hub.spool.journal
        self._cursor = JournalCursor()
        self._read = 0  # the last read position; 0 after a step back
        self._from = 0  # all before it is given, there, or skipped
        self._skipped = 0  # the first position that waits for its topic, or 0
        self._chunk: Chunk | None = None  # read, but not yet prepared
        self._calls: Calls = ()  # prepared, but not yet taken by the client
        self._positions: Sequence[int] = ()  # of these calls
        self._copies: Sequence[Copy] = ()  # of these calls
        self._suspects: set[int] = set()  # at least one of these records was refused
        self._each = True  # each record gets its own answer
        self._some_unknown = False  # a broker may not know the client in a partition of the calls
        self._old_until = 0.0
        self.always_one_request = False  # brokers forget clients too soon for OLD_S
        self.one_request = False  # the next records need a client that sends one request at a time
        self.alone = 0  # the suspect that is in flight, without other records

    def below(self) -> int:
        """Returns a position: all records before it were given to the client, or are there."""
        return min(self._from, self._skipped or self._from)

    def behind_bytes(self) -> int:
        """Returns the bytes of the journal whose records the client has not got yet."""
        cursor = self._journal.cursor(self._skipped) if self._skipped else self._cursor
        return self._journal.behind(cursor)

    def has_skipped(self) -> bool:
        return self._skipped > 0

    def close(self) -> None:
        self._cursor.close()

    def start(self) -> None:
        """Begins at the start of the journal, after the side's logs were read. A record may have
        been refused. Each record gets its own answer, so that its error is not missed."""
        self._each = True
        self._from = self._skipped = self.alone = 0
        self._rewind(0)

    def resume(self) -> bool:
        """Goes back to the first skipped record. Returns False if there is none."""
        if self._skipped:
            position, self._skipped = self._skipped, 0
            self._rewind(position)
            return True
        return False

    def suspect(self, positions: Iterable[int]) -> None:
        """Sends these records one by one the next time."""
        self._suspects.update(positions)

    def step(self, client: SideClient) -> Fed:
        """Gives the client at most one chunk. Raises TopicError."""
        if not self._positions:
            newest = self._hub.newest
            if self._read == newest:
                return self._end(newest)
            if not client.has_room(*self._hub.client_room):
                return Fed.FULL
            self._chunk = chunk = self._chunk or self._journal.read(self._cursor)
            if not self._pass_gap(client, chunk.first if chunk else newest + 1):
                return Fed.FULL
            self._chunk = None
            self._read = chunk.last if chunk else newest
            if chunk is None:
                return self._end(newest)
            self._prepare(client, chunk)
        if self._positions and self.one_request != client.one_request:
            return Fed.OTHER_CLIENT
        if not self._hand_over(client):
            return Fed.FULL
        self._from = max(self._from, self._read + 1)
        return Fed.MORE if self._read != self._hub.newest else self._end(self._read)

    def _end(self, newest: int) -> Fed:
        self._suspects.clear()
        self._each = False
        self._from = newest + 1
        return Fed.ALL

    def _rewind(self, position: int) -> None:
        """Reads the journal again from `position` on. Given records are not sent again."""
        self._cursor.close()
        self._cursor = self._journal.cursor(position)
        self._chunk, self._calls, self._positions, self._copies = None, (), (), ()
        self._read = 0
        self._from = min(self._from, position)

    def _pass_gap(self, client: SideClient, below: int) -> bool:
        """Reports records that the application waits for but that the journal does not show. They
        were in a damaged place, so the side does not get them. Returns False if it has to be called
        again later."""
        if self._read + 1 >= below:
            return True
        for partition in self._hub.partitions.values():
            copy = partition.copies[self._index]
            for record in partition.waiting_between(max(self._read, copy.given), below):
                if self._topics.waits(partition):
                    self._skip(record[0])
                    break
                if len(client):  # earlier records need their answers first
                    return False
                error = KafkaError(KafkaError._STATE, "its place in the spool is damaged")
                message = self._hub.message(partition, record, error)
                self._hub.refuse(self._index, copy, record[0], error, message)
        return True

    def _prepare(self, client: SideClient, chunk: Chunk) -> None:
        """Prepares the calls for records that the client has not got. A record gets its own answer
        if the application may wait for it, or if the record is old: then a later answer of the
        partition may follow an error. Otherwise the last record of each partition answers for
        all."""
        hub, index, size = self._hub, self._index, chunk.size
        each = self._each or client.one_request or hub.on_side_delivery is not None
        each |= chunk.wanted and chunk.first > hub.first and hub.speaks(index)
        partitions = {n: hub.partitions[n] for n in {record[1] for record in chunk.records}}
        copies = {number: partition.copies[index] for number, partition in partitions.items()}
        if self._topics.any_wait() or any(copy.given >= chunk.first for copy in copies.values()):
            chunk = Chunk([record for record in chunk.records if self._is_due(record)])
            if not chunk.records:
                return
        now = time.time()
        old_ms = (now - OLD_S) * 1000
        self._some_unknown = False
        for copy in copies.values():
            if not copy.last_ms or (copy.last_ms <= old_ms and not client.one_request):
                copy.last_ms = 0
                self._some_unknown = each = True
        columns = chunk.columns(hub.spool.identity)
        numbers = columns.numbers
        self._positions = columns.positions
        self._copies = list(map(copies.__getitem__, numbers))
        callbacks: list[Any]
        if each:
            callbacks = list(
                map(partial, repeat(client.answered), self._copies, zip(columns.positions))
            )
        else:
            callbacks = [None] * len(numbers)
            positions: defaultdict[int, list[int]] = defaultdict(list)
            for number, position in zip(numbers, columns.positions, strict=True):
                positions[number].append(position)
            for number, at in dict(zip(numbers, count())).items():
                callbacks[at] = partial(client.answered, copies[number], positions[number])
        self._calls = (
            [partitions[number].topic for number in numbers],
            columns.values,
            columns.keys,
            [partitions[number].partition for number in numbers],
            callbacks,
            [None] * len(numbers),
            columns.timestamps,
            columns.headers,
        )
        if min(columns.timestamps) <= old_ms:
            self._old_until = now + _OLD_MODE_S
        self.one_request = self.always_one_request or now < self._old_until
        client.expect(len(numbers), size)

    def _is_due(self, record: Record) -> bool:
        """Returns whether the client is to get the record: it has not got it, and the topic does
        not wait."""
        position = record[0]
        partition = self._hub.partitions[record[1]]
        copy = partition.copies[self._index]
        if position <= copy.given:
            if copy.heard < position <= copy.there:
                self._found(copy, record)
            return False
        if self._topics.waits(partition):
            self._skip(position)
            return False
        return True

    def _found(self, copy: Copy, record: Record) -> None:
        """Counts and reports a record that its log has: its answer may be lost with a client."""
        position = record[0]
        copy.heard = position
        if position <= self._hub.first:
            return
        self._hub.acknowledged[self._index] += 1
        if self._hub.on_side_delivery is not None:
            message = self._hub.message(copy.partition, record)
            self._hub.tell_side(self._index, None, message)
        self._hub.deliver(copy.partition)

    def _skip(self, position: int) -> None:
        """Leaves the record in the journal, because its topic has to wait."""
        self._skipped = min(position, self._skipped or position)

    def _hand_over(self, client: SideClient) -> bool:
        """Makes the prepared calls. Returns whether the client took all of them."""
        while upto := self._how_many(client):
            some = upto < len(self._positions)
            calls = tuple(each[:upto] for each in self._calls) if some else self._calls
            taken, error = client.hand(calls)
            given = dict(zip(self._copies[:taken], self._positions[:taken], strict=True))
            for copy, position in given.items():
                copy.given = position
            self._drop(taken)
            if error is not None:
                self._not_taken(error)
        return not self._positions

    def _drop(self, count: int) -> None:
        """Drops the first `count` calls."""
        self._calls = tuple(each[count:] for each in self._calls)
        self._positions, self._copies = self._positions[count:], self._copies[count:]

    def _how_many(self, client: SideClient) -> int:
        """Returns the number of calls that the client may get at once."""
        if not self._positions:
            return 0
        if not (self._suspects or self.alone):
            return self._known_calls(client)
        position = self._positions[0]
        if position != self.alone:
            if len(client) and (self.alone or position in self._suspects):
                return 0
            self._suspects.discard(self.alone)  # the side has it
            self.alone = position if position in self._suspects else 0
        return min(1, self._known_calls(client))

    def _known_calls(self, client: SideClient) -> int:
        """Returns how many calls may be made. If a broker may not know the client in a partition,
        the second record of the partition waits for the answer to the first."""
        if not self._some_unknown:
            return len(self._positions)
        begun: set[Copy] = set()
        for at, copy in enumerate(self._copies):
            if copy.last_ms:
                continue
            # The last given records may share the answer to a record that is not given yet.
            if copy in begun or (copy.given > copy.there and len(client)):
                return at
            begun.add(copy)
        return len(self._copies)

    def _not_taken(self, error: Any) -> None:
        """Handles a call that the client itself refused. Raises TopicError if the client has to be
        replaced."""
        topic, value, key, number, _, _, timestamp, headers = (each[0] for each in self._calls)
        copy, position = self._copies[0], self._positions[0]
        if error.code() not in REFUSALS or position != self.alone:
            if error.code() in REFUSALS:
                self.suspect([position])
            raise TopicError(topic, error)
        message = Message(
            topic=topic, partition=number, key=key, value=value, headers=headers,
            timestamp=(TIMESTAMP_CREATE_TIME, timestamp), error=error,
        )  # fmt: skip
        self._drop(1)
        self.refuse(copy, error, message)

    def refuse(self, copy: Copy, error: Any, message: Any) -> None:
        """Notes that the record that was sent alone was refused. This is on disk before a later
        record is sent: otherwise the next start would take the record for a missing one."""
        position, self.alone = self.alone, 0
        self._suspects.discard(position)
        self._hub.refuse(self._index, copy, position, error, message)
        with contextlib.suppress(sqlite3.Error):  # the disk is full; the next checkpoint shows it
            side = self._hub.names[self._index]
            self._hub.spool.ledger.begin(side, {copy.partition.number: copy.place()})
