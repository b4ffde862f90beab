"""One of the two clusters: what it was given, what it has, and how it catches up.

    CHECKING ──► FEEDING ──► DIRECT        a thread of its own does all but the last
        ▲           │ ▲         │
        │           │ └─────────┤ its client's queue is full: the spool's records first
        └── BROKEN ◄┴───────────┘ its client gave up on a record: another client, another look

DIRECT: what is taken is handed to its client at once, right after it was written to the journal.
FEEDING: the journal is read on from where the client's queue was full, or from its beginning.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from causeway.errors import BrokerError, ConfigError
from causeway.producer.answers import found, note
from causeway.producer.client import Client, Sending
from causeway.producer.damage import miss
from causeway.producer.hub import Hub, State
from causeway.producer.journal import Cursor, Record
from causeway.producer.lanes import SideLane, oldest_of
from causeway.producer.look_back import check_known, look_back, owed
from causeway.producer.opening import Opening
from causeway.producer.options import SideOptions
from causeway.producer.rd_client import RdClient
from causeway.producer.refusals import OF_TOPICS, REFUSALS
from causeway.producer.sender import Sender
from causeway.producer.shares import Share, batches_in, records_in
from causeway.records import Batch, split

_RETRY_S = 2.0
_IDLE_S = 0.2
_FULL_S = 0.01


class Side:
    """`speaks`: what it says of a record is what the application may hear. `tells`: each answer is
    told of."""

    def __init__(self, options: SideOptions, bit: int, hub: Hub, settle_s: float) -> None:
        self.name = options.name
        self.bit = bit
        self.hub = hub
        self.speaks = True
        self.tells = False
        self.state = State.CHECKING
        self.reason = ""
        self.acked = 0
        self.refused = 0
        self.topics = Opening(
            options.name, bit >> 1, options.reader, hub, self._resume, self._complain
        )
        self._options = options
        self._settle_s = settle_s
        self._cursor = Cursor()
        self._ahead: list[tuple[int, Batch]] = []  # read, and not yet handed over
        self._read = 0  # the last position of what was read
        self._by_librdkafka = options.wire is None
        self._from = 0  # positions before it were handed over, or are there
        self._skipped = 0  # the first position that was left in the journal; 0 is none
        self._suspects: set[int] = set()
        self._alone: int | None = None
        self._sure = False  # that nothing is on its way of a client that was given up
        self._heard = (0, time.monotonic())
        self._closing = threading.Event()
        self._wake = threading.Event()
        try:
            self.producer: Client | None = self._client()
        except KafkaException as error:
            raise ConfigError(
                "configure DualProducer:", f"side {self.name}", error.args[0].str()
            ) from None
        self._thread = threading.Thread(target=self._run, name=f"causeway-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    # With the lock held

    def hand_over(self, first: int, shares: Sequence[Share]) -> None:
        """What was just written to the journal, from position `first` on."""
        assert self.producer is not None
        waiting, index = self.topics.waiting(), self.bit >> 1
        for lane, batch, records in shares:
            if waiting and self.topics.waits(lane):
                self._skip(batch.first)
                continue
            on = lane.on[index]
            try:
                self.producer.send(on, batch, records)
            except BufferError:
                self._fall_behind(first)
                return
            except KafkaException as error:
                self._break(error.args[0])
                return
            on.given = batch.next - 1

    def _skip(self, position: int) -> None:
        """Left in the journal, for its topic has to wait."""
        self._skipped = min(position, self._skipped or position)

    def _resume(self, unseen: bool) -> None:
        """A topic need not wait any more: back to the first record that was left. `unseen`: its
        logs were not read after the last client was given up, so all are looked at again."""
        if unseen:
            self._break(KafkaError(KafkaError._STATE, "a topic can be read again"))
        elif self._skipped and self.state in (State.DIRECT, State.FEEDING):
            position, self._skipped = self._skipped, 0
            self._fall_behind(position)

    def serve(self, now: float) -> None:
        """Hear what the cluster has answered."""
        if self.producer is not None and not self.hub.torn:
            self.producer.poll()
        owes = self.state is not State.DIRECT or self.in_flight() or self._skipped
        if self.acked != self._heard[0] or not owes:
            self._heard = (self.acked, now)

    def arrived(self, sending: Sending, offsets: Sequence[int | None] | None) -> None:
        note(self, sending, offsets)

    def refused_alone(self, sending: Sending, error: Any) -> None:
        (record,) = sending.records or records_in(sending.batch, sending.on.lane.number)
        self._refuse(sending.on, record, error)

    def rejected(self, sending: Sending, index: int, error: Any) -> None:
        """The client gave up on a record. It does so with all that follow (gapless guarantee),
        and whether they arrived is not known: another client looks."""
        sure, on = False, sending.on
        assert sending.records is not None
        record = sending.records[index]
        if error.code() in REFUSALS:
            if sure := self._alone == record[0]:
                self._refuse(on, record, error)
            else:
                self._suspects.add(record[0])
        elif error.code() in OF_TOPICS:
            self.topics.hold(on.lane.topic, error.str())
        self._break(error)
        # It was the only one on its way, and was answered: nothing can come late.
        self._sure = sure

    def failed(self, topic: str | None, error: Any) -> None:
        """The client has ended: another one looks."""
        if topic is not None and error.code() in OF_TOPICS:
            self.topics.hold(topic, error.str())
        self._break(error)

    def troubled(self, error: Any) -> None:
        """What the client tries again by itself."""
        if error is not None:
            self._complain(error)
        elif self.state is State.DIRECT:
            self.reason = ""

    def below(self, newest: int) -> int:
        """Every record before this position is on this side."""
        if self.state in (State.CHECKING, State.BROKEN):
            return 0
        oldest = self._from if self.state is State.FEEDING else newest + 1
        if self._skipped:
            oldest = min(oldest, self._skipped)
        return oldest_of(self.hub.lanes, self.bit >> 1, oldest)

    def silent_s(self, now: float) -> float:
        """How long it has owed something and acknowledged nothing."""
        return now - self._heard[1]

    def behind(self) -> int:
        """Bytes of the journal that were not handed to the client yet."""
        return self.hub.journal.behind(self._cursor) if self.state is not State.DIRECT else 0

    def in_flight(self) -> int:
        producer = self.producer  # without the lock: it may be replaced meanwhile
        return 0 if producer is None else len(producer)

    def _fall_behind(self, position: int) -> None:
        self.state = State.FEEDING
        self._from = position
        self._rewind(position)
        self.wake()

    def _rewind(self, position: int) -> None:
        self._cursor.close()
        self._cursor = self.hub.journal.cursor(position)
        self._ahead = []
        self._read = 0

    def _break(self, error: Any) -> None:
        if self.state is not State.BROKEN:
            self.state = State.BROKEN
            if not self._closing.is_set():
                self._complain(error)
            self.wake()

    def _complain(self, error: Any) -> None:
        """Told once where the reason is another than before."""
        reason = error.str() if isinstance(error, KafkaError) else str(error)
        if reason != self.reason:
            self.reason = reason
            if callable(told := self._options.producer.get("error_cb")):
                if not isinstance(error, KafkaError):
                    error = KafkaError(KafkaError._STATE, reason)
                told(error)

    def _refuse(self, on: SideLane, record: Record, error: Any) -> None:
        """For good. All before it in the partition are there. It is not delivered where this side
        decides, or the other one will not have it either."""
        position = record[0]
        message = on.lane.message(record, error=error)
        self._suspects.discard(position)
        self._alone = None
        self.refused += 1
        on.there = on.heard = position  # as good as there: it is not sent again
        self.hub.told(self, error, message)
        self.hub.refused(self, on.lane, position, error, message)

    # The side's own thread

    def close(self) -> None:
        """Ends the thread and the client; what is on its way is looked for at the next start."""
        self._closing.set()
        self.wake()
        if (client := self.producer) is not None:
            client.interrupt()
        if self._thread.is_alive():
            self._thread.join()
        self._end_client()
        self._cursor.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                wait_s = self._turn()
            except Exception as error:  # it stands in the status, and is tried again
                known = error.args[0] if isinstance(error, KafkaException) else error
                with self.hub.lock:
                    self._complain(known)
                wait_s = _RETRY_S
            if wait_s:
                self._wake.wait(wait_s)
                self._wake.clear()

    def _turn(self) -> float:
        if self.state is State.BROKEN:
            self._end_client()
            with self.hub.lock:
                self.state = State.CHECKING
        if self.state is State.CHECKING:
            self._check()
        again_s = self._maintain()
        if not self._closing.is_set():
            self.topics.look_after(self.producer)
            self.topics.count_again(self.producer)
        wait_s = self._feed() if self.state is State.FEEDING else _IDLE_S
        return wait_s if again_s is None else min(wait_s, again_s)

    def _client(self) -> Client:
        if self._by_librdkafka or self._options.wire is None:
            return RdClient(self._options.producer, self.hub.name, self)
        return Sender(self._options.wire, self._options.reader, self.hub.lock, self)

    def _maintain(self) -> float | None:
        if (client := self.producer) is None or self._closing.is_set():
            return None
        try:
            return client.maintain()
        except BrokerError as error:  # its protocol is too old for us
            with self.hub.lock:
                self._by_librdkafka = True
                self._break(error)
            return 0.0

    def _end_client(self) -> None:
        """What it had and nobody has answered for is looked for."""
        if (ended := self.producer) is not None:
            ended.end()
            with self.hub.lock:
                self.producer = None

    def _check(self) -> None:
        """Which of the journal's records are there already?"""
        with self.hub.lock:
            self._from = self._skipped = 0
            self._rewind(0)
            sure, self._sure = self._sure, False
            newest = self.hub.newest
        numbers = owed(self.hub, self.bit >> 1, newest)
        with self.hub.lock:
            places = {
                (lane.topic, lane.partition): lane.on[self.bit >> 1].place()
                for lane in map(self.hub.lanes.__getitem__, numbers)
                if lane.on[self.bit >> 1].open
            }
        places, failed = look_back(
            self._options.reader,
            self.hub.name,
            places,
            settle_s=0 if sure else self._settle_s,
            going_on=lambda: not self._closing.is_set(),
        )
        if self._closing.is_set():
            return
        producer = self.producer or self._client()
        with self.hub.lock:
            check_known(self.name, places, self.hub.newest)
            for lane in map(self.hub.lanes.__getitem__, numbers):
                if (place := places.get((lane.topic, lane.partition))) is not None:
                    on = lane.on[self.bit >> 1]
                    on.there, on.offset = place.position, place.offset
            for lane in self.hub.lanes.values():
                on = lane.on[self.bit >> 1]
                on.given = on.there
            for topic, error in failed.items():  # what it has of them is not known
                self.topics.hold(topic, error.str(), unseen=True)
            self.producer = producer
            self._alone = None
            self.state = State.FEEDING

    def _feed(self) -> float:
        """Hands over what the journal has next; how long to wait before the next turn."""
        with self.hub.lock:
            if self.state is not State.FEEDING:
                return 0.0
            if not self._ahead:
                chunk = self.hub.journal.read(self._cursor)
                below = chunk.first if chunk else self.hub.newest + 1
                miss(self, self._read or self._cursor.segment - 1, below)
                if chunk is None:
                    if self._suspects:
                        self._suspects.clear()
                        return _FULL_S
                    self.state = State.DIRECT
                    self.reason = ""
                    return 0.0
                self._ahead = batches_in(chunk, self.hub.name)
                self._read = chunk.last
            done = 0
            while done < len(self._ahead) and self._hand_one(*self._ahead[done]):
                done += 1
            del self._ahead[:done]
            if self._ahead:
                return _FULL_S
            self._from = self._read + 1
            return 0.0

    def _hand_one(self, number: int, batch: Batch) -> bool:
        """False where it has to wait."""
        lane = self.hub.lanes[number]
        on = lane.on[self.bit >> 1]
        positions = batch.offsets or ()
        if positions[0] <= on.there:
            found(self, on, batch, bisect_right(positions, on.there))
        given = bisect_right(positions, on.given)
        if given == len(positions):
            return True
        if self.topics.waiting() and self.topics.waits(lane):
            self._skip(positions[given])
            return True
        if given:
            batch = split(batch, given, len(positions))
        if not self._suspects:
            return self._hand(on, batch)
        return all(
            self._hand_singly(on, split(batch, index, index + 1)) for index in range(batch.records)
        )

    def _hand_singly(self, on: SideLane, batch: Batch) -> bool:
        """One of those that may have been refused goes when nothing else is on its way."""
        position = batch.first
        if self.in_flight() and (self._alone is not None or position in self._suspects):
            return False
        if self._alone is not None:
            self._suspects.discard(self._alone)
        self._alone = position if position in self._suspects else None
        return self._hand(on, batch)

    def _hand(self, on: SideLane, batch: Batch) -> bool:
        assert self.producer is not None
        try:
            self.producer.send(on, batch, None)
        except BufferError:
            return False
        except KafkaException as error:
            self._break(error.args[0])
            return False
        on.given = batch.next - 1
        return True
