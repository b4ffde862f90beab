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
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from causeway.errors import ConfigError
from causeway.producer.chunk import Chunk, Stopped
from causeway.producer.damage import miss
from causeway.producer.hub import Hub, State
from causeway.producer.ids import ID_HEADER, record_id
from causeway.producer.journal import Cursor, Record
from causeway.producer.lanes import SideLane, oldest_of
from causeway.producer.look_back import check_known, look_back, owed
from causeway.producer.opening import Opening
from causeway.producer.options import SideOptions
from causeway.producer.refusals import OF_TOPICS, REFUSALS

_RETRY_S = 2.0
_IDLE_S = 0.2
_FULL_S = 0.01
_PURGE_TIMEOUT_S = 30.0


class Side:
    """`speaks`: what it says of a record is what the application may hear. `tells`: each answer is
    told of. `answered`: where answers wait to be noted."""

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
        self.answered: list[SideLane] = []
        self.topics = Opening(
            options.name, bit >> 1, options.reader, hub, self._resume, self._complain
        )
        self._options = options
        self._settle_s = settle_s
        self._cursor = Cursor()
        self._ahead: list[Record] = []  # read, and not yet handed over
        self._read = 0  # the last position of what was read
        self._from = 0  # positions before it were handed over, or are there
        self._skipped = 0  # the first position that was left in the journal; 0 is none
        self._suspects: set[int] = set()
        self._alone: int | None = None
        self._sure = False  # that nothing is on its way of a client that was given up
        self._heard = (0, time.monotonic())
        self._closing = threading.Event()
        self._wake = threading.Event()
        try:
            self.producer: Any = Producer(dict(options.producer))
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

    def hand_over(self, chunk: Chunk) -> None:
        """What was just written to the journal."""
        if self.topics.waiting():
            waits = self.topics.waits
            for record, lane in zip(chunk.records, chunk.lanes, strict=True):
                if waits(lane):
                    self._skip(record[0])
            some = chunk.without(waits)
            if some is None:
                return
            chunk = some
        each = self.tells or (self.speaks and chunk.heard)
        try:
            chunk.hand_to(self.producer.produce, self.bit >> 1, each=each)
        except Stopped as stopped:
            position, error = chunk.records[stopped.taken][0], stopped.__cause__
            self._fall_behind(position)
            if isinstance(error, KafkaException) and each:
                topic = chunk.lanes[stopped.taken].topic
                self._not_taken(position, topic, error.args[0])
            elif isinstance(error, KafkaException):  # nobody may answer for those before it
                self._break(error.args[0])
            elif not isinstance(error, BufferError):
                self._break(error)

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
        if self.producer is not None:
            self._poll(0)
        owes = self.state is not State.DIRECT or self.in_flight() or self._skipped
        if self.acked != self._heard[0] or not owes:
            self._heard = (self.acked, now)

    def failed(self, on: SideLane, positions: Sequence[int], error: Any, message: Any) -> None:
        """The client gave up on a record. It does so with all that follow (gapless guarantee),
        and whether they arrived is not known: another client looks."""
        sure = False
        if error.code() in REFUSALS:
            if sure := self._alone == positions[-1]:
                self._refuse(on, positions[-1], error, message)
            else:
                self._suspects.update(positions)
        elif error.code() in OF_TOPICS:
            self.topics.hold(message.topic(), error.str())
        self._break(error)
        # It was the only one on its way, and was answered: nothing can come late.
        self._sure = sure

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

    def _poll(self, timeout_s: float) -> None:
        """A client that gave up says so here, by raising; the answers are heard the next time."""
        if self.hub.torn:
            return
        try:
            self.producer.poll(timeout_s)
        except KafkaException as error:
            self._break(error.args[0])
        if self.answered:
            lanes, self.answered = self.answered, []
            for on in lanes:
                on.note()

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

    def _not_taken(self, position: int, topic: str, error: Any) -> None:
        """By the client; where that is for the record's own sake, it is tried alone."""
        if error.code() in REFUSALS:
            self._suspects.add(position)
            return
        if error.code() in OF_TOPICS:
            self.topics.hold(topic, error.str())
        self._break(error)

    def _refuse(self, on: SideLane, position: int, error: Any, message: Any) -> None:
        """For good. Nothing else is on its way, so all before it in the partition are there. It is
        not delivered where this side decides, or the other one will not have it either."""
        self._suspects.discard(position)
        self._alone = None
        self.refused += 1
        on.there = on.heard = position  # as good as there: it is not sent again
        self.hub.told(self, error, message)
        self.hub.refused(self, on.lane, position, error, message)

    def _found(self, record: Record, on: SideLane) -> None:
        """It is there, and its answer may have been lost with its client."""
        position, lane = record[0], on.lane
        if position <= self.hub.first or position <= on.heard:
            return
        on.heard = position
        self.acked += 1
        message = lane.message(record[3], record[4])
        if self.speaks and position > lane.reported:
            lane.said[position] = message
        self.hub.deliver(lane)
        if self.tells:
            self.hub.told(self, None, message)

    # The side's own thread

    def close(self) -> None:
        """Ends the thread and the client; what is on its way is looked for at the next start."""
        self._closing.set()
        self.wake()
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
        if not self._closing.is_set():
            self.topics.look_after(self.producer)
            self.topics.count_again(self.producer)
        return self._feed() if self.state is State.FEEDING else _IDLE_S

    def _end_client(self) -> None:
        """Its records are all accounted for after that: acknowledged, or to be looked for."""
        if self.producer is None:
            return
        self.producer.purge()
        until = time.monotonic() + _PURGE_TIMEOUT_S
        while len(self.producer) and not self.hub.torn and time.monotonic() < until:
            with self.hub.lock:
                self._poll(0.01)
        with self.hub.lock:
            ended, self.producer = self.producer, None
            for lane in self.hub.lanes.values():
                lane.on[self.bit >> 1].clear()
        del ended  # closes its connections, which takes a moment

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
        found, failed = look_back(
            self._options.reader,
            self.hub.name,
            places,
            settle_s=0 if sure else self._settle_s,
            going_on=lambda: not self._closing.is_set(),
        )
        if self._closing.is_set():
            return
        producer = self.producer
        if producer is None:  # an empty one is false
            producer = Producer(dict(self._options.producer))
        with self.hub.lock:
            check_known(self.name, found, self.hub.newest)
            for lane in map(self.hub.lanes.__getitem__, numbers):
                if (place := found.get((lane.topic, lane.partition))) is not None:
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
                records = self.hub.journal.read(self._cursor)
                below = records[0][0] if records else self.hub.newest + 1
                miss(self, self._read or self._cursor.segment - 1, below)
                if records is None:
                    if self._suspects:
                        self._suspects.clear()
                        return _FULL_S
                    self.state = State.DIRECT
                    self.reason = ""
                    return 0.0
                self._ahead = records
                self._read = records[-1][0]
            done = 0
            while done < len(self._ahead) and self._hand_one(self._ahead[done]):
                done += 1
            del self._ahead[:done]
            return _FULL_S if self._ahead else 0.0

    def _hand_one(self, record: Record) -> bool:
        """False where it has to wait."""
        position, number, timestamp, key, value, headers = record
        lane = self.hub.lanes[number]
        on = lane.on[self.bit >> 1]
        if position < self._from:
            return True
        if position <= on.there:
            self._found(record, on)
            return True
        if position <= on.given:
            return True
        if self.topics.waiting() and self.topics.waits(lane):
            self._skip(position)
            self._from = position + 1
            return True
        if self._suspects:
            if self.in_flight() and (self._alone is not None or position in self._suspects):
                return False
            if self._alone is not None:
                self._suspects.discard(self._alone)
            self._alone = position if position in self._suspects else None
        told = on.one_more(position)
        marked = [*(headers or ()), (ID_HEADER, record_id(self.hub.name, position))]
        try:
            self.producer.produce(
                lane.topic, value, key, lane.partition, told, None, timestamp, marked
            )
        except Exception as error:
            on.not_taken()
            if isinstance(error, BufferError):
                return False
            if not isinstance(error, KafkaException):
                raise
            if self._alone != position:
                self._not_taken(position, lane.topic, error.args[0])
                return False
            self._refuse(on, position, error.args[0], lane.message(key, value, error.args[0]))
            return True
        self._from = position + 1
        on.given = position
        return True
