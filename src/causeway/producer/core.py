"""What sides, spool and application share; see `dual.py` for the drawing.

Whoever calls does the work: a thread of our own would have to wait for Python's lock at each answer
of a busy program. The clerk, a thread, does it where nobody calls.
"""

from __future__ import annotations

import ctypes
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from causeway.producer import ids
from causeway.producer.clerk import Clerk
from causeway.producer.hub import State
from causeway.producer.journal import Record
from causeway.producer.lanes import Callback, Lane, Report, moved, stored
from causeway.producer.opening import client_of
from causeway.producer.options import Options
from causeway.producer.roles import Roles
from causeway.producer.room import Room
from causeway.producer.shares import await_answers, marshalled, share_out
from causeway.producer.side import Side
from causeway.producer.spool import open_spool
from causeway.producer.topics import NOBODY, Seen, agree, look

TURN_S = 0.001
_CHECKPOINT_S = 1.0
_TRIM_S = 0.05
_AT_ONCE = 512  # records of a commit
_BYTES_AT_ONCE = 512 << 10


class Core:
    """One lock holds it together. What the application gave to be called waits in `reports`."""

    def __init__(
        self,
        options: Options,
        reports: deque[Report],
        on_side_delivery: Callable[..., Any] | None,
        on_failover: Callable[..., Any] | None,
    ) -> None:
        self.options = options
        self.reports = reports
        self.reported = threading.Event()
        self.lock = threading.RLock()
        self.lanes: dict[int, Lane] = {}
        self.lanes_of: dict[str, list[Lane]] = {}
        self.turned = 0.0
        self.closed = self.torn = False
        self._amid = False  # something that must not be begun a second time before it is done
        self.why_closed = "the producer was closed"
        self._on_side_delivery = on_side_delivery
        self.fresh: list[Record] = []
        self._callbacks: list[Callback] = []
        self._fresh_bytes = 0
        self.fresh_since = 0.0
        self._checkpointed = self._trimmed = time.monotonic()
        self.damage: list[str] = []
        self._spool = open_spool(options, self._damaged)
        self.name, self.given_name = self._spool.identity, self._spool.name
        self.journal, self.ledger = self._spool.journal, self._spool.ledger
        self._room = Room(options.max_messages, self.journal)
        self._prefix = ids.prefix(self.name, self._spool.life)
        self.first = self.newest = ids.first_position(self._spool.life)
        self._next = self.first + 1
        self._settled = self.first  # grows by one with each record that is reported
        try:
            self.sides = (
                Side(options.sides[0], 1, self, options.settle_s),
                Side(options.sides[1], 2, self, options.settle_s),
            )
        except Exception:
            self._spool.close()
            raise
        self.roles = Roles(self.sides, options, self.deliver, on_failover, self.queue)
        for side in self.sides:
            side.tells = on_side_delivery is not None
        self._load_lanes()
        for side in self.sides:
            side.start()
        self._clerk = Clerk(self)
        self._clerk.start()

    # Records in; with the lock

    def take(
        self,
        lane: Lane,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]] | None,
        size: int,
        told: Callable[..., Any] | None,
    ) -> None:
        """Raises BufferError where there is no room; `told` hears of it where that is the wish."""
        if self.closed or self.torn or self._amid:
            raise self._why_not()
        journal = self.journal
        if (  # as `Room` has it, at once: this is asked for each record
            self._next - self._settled > self._room.most_messages
            or journal.size + self._fresh_bytes + size > journal.most
            or self._room.suspended
        ) and (why := self._lacks(size)):
            if self.options.when_full == "refuse" and told is not None:
                record = (self._next, lane.number, timestamp, key, value, headers)
                self._refuse(told, lane, record, why)
                return
            raise BufferError(why)
        try:
            self._amid = True
            position = self._next
            self._next = position + 1
            self.fresh.append((position, lane.number, timestamp, key, value, headers))
            self._callbacks.append(told)
            if not self._fresh_bytes:
                self.fresh_since = time.monotonic()
                self._clerk.wake()
            self._fresh_bytes += size
            self._amid = False
            if len(self.fresh) >= _AT_ONCE or self._fresh_bytes >= _BYTES_AT_ONCE:
                self.turn()
        except BaseException as error:
            self._tear(error)
            raise

    def turn(self) -> None:
        """All that is to be done now and does not block."""
        if self.torn:
            return
        if self._amid:
            raise self._why_not()
        try:
            self.turned = now = time.monotonic()
            if self.fresh:
                self._commit(now)
            for side in self.sides:
                side.serve(now)
            if now - self._checkpointed > _CHECKPOINT_S:
                self.checkpoint()
        except BaseException as error:
            self._tear(error)
            raise

    def _why_not(self) -> RuntimeError:
        """The lock lets a thread in twice: so a signal's handler can come here amid another call,
        and what it did now would go ahead of what that has begun."""
        if self._amid:
            self._tear(KeyboardInterrupt())
        return RuntimeError(self.why_closed)

    def _tear(self, error: BaseException) -> None:
        """Where it was an exception of a signal's, such as Ctrl-C's, which can come between any two
        steps: then nobody knows what the clients were given. The next start looks, as after a
        crash."""
        if not isinstance(error, Exception):
            self.torn = True
            self.why_closed = "it was interrupted amid its work: open it again on its spool"

    def checkpoint(self) -> bool:
        """Write down how far the sides have come, and delete what both have; whether that is all
        that was ever taken."""
        self._checkpointed = self._trimmed = time.monotonic()
        below = min(side.below(self.newest) for side in self.sides)
        places = {side: moved(self.lanes, side.bit >> 1) for side in self.sides}
        try:
            if any(places.values()):
                self.ledger.move({side.name: some for side, some in places.items()})
            for side, some in places.items():
                stored(self.lanes, side.bit >> 1, some)
            whole = self.whole()
            self.journal.trim(below, all_of_it=whole)
        except (sqlite3.Error, OSError) as error:  # what stands there is old, and true
            self._room.suspend(f"the spool cannot be written: {error}")
            return False
        return whole

    def whole(self) -> bool:
        """Whether both sides have all that was ever taken."""
        with self.lock:
            return not self.fresh and all(
                side.below(self.newest) > self.newest for side in self.sides
            )

    def in_motion(self) -> bool:
        """Whether an answer may come at any moment."""
        return self.unreported() > 0 or any(side.in_flight() for side in self.sides)

    def unreported(self) -> int:
        """Records that were taken and not yet reported."""
        return self._next - 1 - self._settled

    def spooled(self) -> int:
        """Bytes, with those that are about to be written."""
        return self.journal.size + self._fresh_bytes

    def taken(self) -> int:
        """The position of the next record."""
        return self._next

    def suspend(self, why: str) -> None:
        """No record is taken for a moment."""
        self._room.suspend(why)

    def full(self) -> str:
        """Why the spool cannot be written; empty where it can."""
        return self._room.full()

    def close(self) -> bool:
        """Whether both sides have all. By a signal's handler amid another call it is not done yet:
        our threads, to be waited for, may wait for that call's lock."""
        if self.entered():
            self._tear(KeyboardInterrupt())
            return False
        with self.lock:
            self.turn()
            self.closed = True
        self._clerk.join()
        for side in self.sides:
            side.close()
        with self.lock:
            whole = not self.torn and self.checkpoint()
            self._spool.close()
        return whole

    def entered(self) -> bool:
        """Whether this very thread is amid a call."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def disown(self) -> None:
        """In a process that was forked: spool and connections are its parent's, whose threads are
        not here. What would end them with this process stays as it is."""
        self.closed, self.lock = True, threading.RLock()
        self.why_closed = "the producer belongs to the process that made it, not to one forked off"
        for kept in (self.ledger.database, *(side.producer for side in self.sides)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    # What the sides call, with the lock

    def deliver(self, lane: Lane) -> None:
        """What of it is decided is reported."""
        upto = self.roles.upto(lane)
        if lane.waiting and lane.waiting[0].positions[0] <= upto:
            self._settled += lane.deliver(upto, self.reports)
            if not self.reported.is_set():
                self.reported.set()
        if lane.refused:
            self._settled += self.roles.judge(lane)

    def refused(self, side: Side, lane: Lane, position: int, error: Any, message: Any) -> None:
        """By that side, for good."""
        if (kept := lane.set_aside(position)) is not None:
            kept.by |= side.bit
            kept.error, kept.message = error, message
        self.deliver(lane)

    def told(self, side: Side, error: Any, message: Any) -> None:
        if self._on_side_delivery is not None:
            self.queue(self._on_side_delivery, side.name, error, message)

    def queue(self, callback: Callable[..., Any], *arguments: Any) -> None:
        self.reports.append((callback, arguments))
        if not self.reported.is_set():
            self.reported.set()

    def grown(self, topic: str) -> None:
        """A side has counted a topic's partitions anew. New ones are used once both have them."""
        count = min(side.topics.counts.get(topic, 0) for side in self.sides)
        if count > len(self.lanes_of[topic]):
            self._add_topic(topic, count)

    # Topics

    def open_topic(self, topic: str) -> list[Lane]:
        """Its partitions, as the sides tell that answer."""
        if self.closed or self.torn:
            raise RuntimeError(self.why_closed)
        seen: dict[str, Seen] = {}
        failed = KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        for side in self.sides:
            client = client_of(side)
            try:
                if client is not None:
                    seen[side.name] = look(client, topic)
            except KafkaException as error:
                if error.args[0].code() not in NOBODY:
                    raise
                failed = error
        if not seen:
            raise failed
        count = agree(topic, seen, least=self.options.partition_counts == "least")
        with self.lock:
            try:
                return self._add_topic(topic, count)
            except sqlite3.Error as error:
                raise BufferError(f"the spool cannot be written: {error}") from error
            except BaseException as error:
                self._tear(error)
                raise

    def _add_topic(self, topic: str, count: int) -> list[Lane]:
        lanes = self._add_lanes(topic, self.ledger.add_topic(topic, count))
        for side in self.sides:
            if not all(lane.on[side.bit >> 1].open for lane in lanes):
                side.topics.unopened.add(topic)
                side.wake()
        return lanes

    def _add_lanes(self, topic: str, numbers: Sequence[int]) -> list[Lane]:
        lanes = []
        for partition, number in enumerate(numbers):
            if number not in self.lanes:
                self.lanes[number] = Lane(
                    number, topic, partition, self.sides, self.newest, self.name
                )
            lanes.append(self.lanes[number])
        self.lanes_of[topic] = lanes
        return lanes

    def _load_lanes(self) -> None:
        for topic, numbers in self.ledger.lanes().items():
            self._add_lanes(topic, numbers)
        for side in self.sides:
            for number, place in self.ledger.places(side.name).items():
                on = self.lanes[number].on[side.bit >> 1]
                on.there = on.given = on.stored = place.position
                on.offset, on.open = place.offset, True
            side.topics.unopened.update(
                lane.topic for lane in self.lanes.values() if not lane.on[side.bit >> 1].open
            )

    # Inside

    def _commit(self, now: float) -> None:
        """What was taken goes to the journal, and from there to the sides."""
        self._amid = True
        try:
            self._write(self.fresh, self._callbacks)
        finally:
            self._amid = False

    def _write(self, fresh: list[Record], callbacks: list[Callback]) -> None:
        self.fresh, self._callbacks, self._fresh_bytes = [], [], 0
        first, last = fresh[0][0], fresh[-1][0]
        shares = share_out(fresh, self.lanes, self._prefix, self.options.packer)
        try:
            self.journal.append(first, last, marshalled(shares))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self._room.suspend(f"the spool cannot be written: {why}")
            self._settled += len(fresh)
            for record, callback in zip(fresh, callbacks, strict=True):
                if callback is not None:
                    self._refuse(callback, self.lanes[record[1]], record, self._room.why)
            if (many := callbacks.count(None)) and callable(
                told := self.options.sides[0].producer.get("error_cb")
            ):
                why = f"{many} records without on_delivery are lost: {self._room.why}"
                told(KafkaError(KafkaError._QUEUE_FULL, why))
            return
        self.newest = last
        await_answers(shares, fresh, callbacks)
        for side in self.sides:
            if side.state is State.DIRECT:
                side.hand_over(first, shares)

    def _damaged(self, why: str) -> None:
        """Without the lock: a side reads the journal."""
        self.damage.append(why)
        if callable(told := self.options.sides[0].producer.get("error_cb")):
            told(KafkaError(KafkaError._STATE, why))

    def _lacks(self, size: int) -> str:
        """Why not one more can be taken. A full spool may hold what both sides have meanwhile."""
        why = self._room.lacks(self.unreported(), self._fresh_bytes + size)
        if self._room.bytes_lack(self._fresh_bytes + size) and (
            time.monotonic() - self._trimmed >= _TRIM_S
        ):
            self.turn()
            self.checkpoint()
            why = self._room.lacks(self.unreported(), self._fresh_bytes + size)
        return why

    def _refuse(self, told: Callable[..., Any], lane: Lane, record: Record, why: str) -> None:
        error = KafkaError(KafkaError._QUEUE_FULL, why)
        self.queue(told, error, lane.message(record, error=error))
