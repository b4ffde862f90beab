"""Hands a side the records of the journal, in order: the one way in which records get to a client.

A record that its client or its brokers refuse is sent again alone, when nothing else is on its way,
so that its neighbours in a batch are not refused with it.

A log has no hole while the broker knows the client. A broker that does not know a producer takes
any first sequence from it: it may refuse one batch and append the next in its place. It forgets a
producer by the timestamp of the last record (after a day by default), and does not know a new one.
So old records go to a client with one request at a time, and the first record of a partition goes
alone, with a new client or after old records.
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
_OLD_MODE_S = 60.0  # so long without old records, as each change costs a client


class Fed(enum.Enum):
    """`ALL`: the client has all of the journal. `FULL`: it takes no more now. `OTHER_CLIENT`: the
    next records need a client with another number of requests at a time."""

    MORE = 1
    FULL = 2
    ALL = 3
    OTHER_CLIENT = 4


class Feed:
    """How far one side has read the journal. All methods are called with the lock."""

    def __init__(self, index: int, hub: Hub, topics: SideTopics) -> None:
        self._index = index
        self._hub = hub
        self._topics = topics
        self._journal = hub.spool.journal
        self._cursor = JournalCursor()
        self._read = 0  # the last position that was read; 0 after a step back
        self._from = 0  # all before it was given to the client, is there, or was skipped
        self._skipped = 0  # the first position that was left in the journal for its topic, or 0
        self._chunk: Chunk | None = None  # read, and not yet looked at
        self._calls: Calls = ()  # read, and not yet taken by the client
        self._positions: Sequence[int] = ()  # of these calls
        self._copies: Sequence[Copy] = ()  # of these calls
        self._suspects: set[int] = set()  # at least one of these was refused
        self._each = True  # each record gets its own answer
        self._some_unknown = False  # the broker may not know the client in a partition of the calls
        self._old_until = 0.0
        self.always_one_request = False  # brokers forget clients sooner than OLD_S allows for
        self.one_request = False  # the next records need a client that sends one request at a time
        self.alone = 0  # the suspect that is on its way, without any other record

    def below(self) -> int:
        """Every record before this position was handed over, or is on the side."""
        return min(self._from, self._skipped or self._from)

    def behind_bytes(self) -> int:
        """Bytes of the journal that hold records that the client was not given yet."""
        cursor = self._journal.cursor(self._skipped) if self._skipped else self._cursor
        return self._journal.behind(cursor)

    def has_skipped(self) -> bool:
        return self._skipped > 0

    def close(self) -> None:
        self._cursor.close()

    def start(self) -> None:
        """From the beginning of the journal, after the side's logs were read. A record may have
        been refused: so that its error is not missed, each record gets its own answer."""
        self._each = True
        self._from = self._skipped = self.alone = 0
        self._rewind(0)

    def resume(self) -> bool:
        """Goes back to the first record that was skipped; False if there is none."""
        if self._skipped:
            position, self._skipped = self._skipped, 0
            self._rewind(position)
            return True
        return False

    def suspect(self, positions: Iterable[int]) -> None:
        """These are sent one by one the next time."""
        self._suspects.update(positions)

    def step(self, client: SideClient) -> Fed:
        """Gives the client one chunk at the most. Raises TopicError."""
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
        """Reads the journal again from there. Records that were given are not sent again."""
        self._cursor.close()
        self._cursor = self._journal.cursor(position)
        self._chunk, self._calls, self._positions, self._copies = None, (), (), ()
        self._read = 0
        self._from = min(self._from, position)

    def _pass_gap(self, client: SideClient, below: int) -> bool:
        """Records that the application waits for, and that the journal does not show, were in a
        damaged place: the side does not get them. False if it has to be called again later."""
        if self._read + 1 >= below:
            return True
        for partition in self._hub.partitions.values():
            copy = partition.copies[self._index]
            for record in partition.waiting_between(max(self._read, copy.given), below):
                if self._topics.waits(partition):
                    self._skip(record[0])
                    break
                if len(client):  # those before it are to be answered first
                    return False
                error = KafkaError(KafkaError._STATE, "its place in the spool is damaged")
                message = self._hub.message(partition, record, error)
                self._hub.refuse(self._index, copy, record[0], error, message)
        return True

    def _prepare(self, client: SideClient, chunk: Chunk) -> None:
        """The calls for records that the client has not got. Each record gets its own answer if
        the application may wait for it, or if the record is old: then a later answer of the
        partition may follow an error. Else the last of each partition answers for all."""
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
        """Whether the client is to get it: it has not got it, and its topic need not wait."""
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
        """Its log has the record, and the answer may have been lost with a client."""
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
        """Leaves it in the journal: its topic has to wait."""
        self._skipped = min(position, self._skipped or position)

    def _hand_over(self, client: SideClient) -> bool:
        """Whether the client took all calls."""
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
        """Of the calls, the first ones."""
        self._calls = tuple(each[count:] for each in self._calls)
        self._positions, self._copies = self._positions[count:], self._copies[count:]

    def _how_many(self, client: SideClient) -> int:
        """Calls that the client may get at once."""
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
        """Of a partition in which the broker may not know the client, the second record waits for
        the answer to the first."""
        if not self._some_unknown:
            return len(self._positions)
        begun: set[Copy] = set()
        for at, copy in enumerate(self._copies):
            if copy.last_ms:
                continue
            # The last records given may share the answer to a record that is not given yet.
            if copy in begun or (copy.given > copy.there and len(client)):
                return at
            begun.add(copy)
        return len(self._copies)

    def _not_taken(self, error: Any) -> None:
        """The client itself refused the next call. Raises TopicError if it has to be replaced."""
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
        """The record that was sent alone was refused. That is written down before a later record is
        sent: else the next start would take it for a record that is missing."""
        position, self.alone = self.alone, 0
        self._suspects.discard(position)
        self._hub.refuse(self._index, copy, position, error, message)
        with contextlib.suppress(sqlite3.Error):  # the disk is full; the next checkpoint shows it
            side = self._hub.names[self._index]
            self._hub.spool.ledger.begin(side, {copy.partition.number: copy.place()})
