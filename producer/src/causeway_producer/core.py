"""The producer behind `DualProducer`'s interface: takes records, writes them, and feeds both sides.

The calling thread does the work. In a busy program, another thread would have to wait for Python's
lock at each answer. A background thread works while the application makes no calls.
"""

from __future__ import annotations

import ctypes
import sqlite3
import threading
import time
from collections import deque
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from causeway_producer.cluster import TIMEOUT_S, SeenTopic, common_partitions, describe
from causeway_producer.errors import NO_ANSWER, code_of
from causeway_producer.hub import DualPartition, Hub, Report
from causeway_producer.options import Options
from causeway_producer.records import Callback, Chunk, Header, Record
from causeway_producer.side import Side, State
from causeway_producer.spool import Place, Spool

LINGER_S = 0.002  # the longest wait of a record for others, before it is written and sent
TURN_S = 0.001
_CHECKPOINT_S = 1.0
_TRIM_S = 0.05
_RECORDS_AT_ONCE = 512  # in one write to the spool
_BYTES_AT_ONCE = 512 << 10
_FULL_RETRY_S = 1.0
_CLIENT_PAUSE_S = 0.005

# For the background thread
_PAUSE_S = 0.005
_CALLER_S = 0.01  # without calls of the application for this time, it takes over
_BUSY_RECORDS = 8  # in one turn: an application that writes this fast will call again
_IDLE_S = 0.5


class Core:
    """`closed`: no more records are taken, for the reason `why_closed`. `turned`: the time of the
    last call of `turn`. `damage`: the places of the spool that cannot be read."""

    def __init__(self, options: Options, reports: deque[Report]) -> None:
        self.options = options
        self.turned = 0.0
        self.closed = False
        self.why_closed = "the producer was closed"
        self.failovers = 0
        self.damage: list[str] = []
        self.spool = Spool(options, self._damaged)
        self.hub = Hub(options, self.spool, reports)
        self._amid = False  # in a step that must end before it begins again
        self._next = self.hub.first + 1
        self._fresh: list[Record] = []  # taken, but not yet written
        self._callbacks: list[Callback] = []
        self._fresh_bytes = 0
        self._fresh_since = 0.0
        self._checkpointed = self._trimmed = time.monotonic()
        self._full_until = 0.0
        self._full_reason = ""
        try:
            self.sides = tuple(
                Side(side, index, self.hub, options.settle_s)
                for index, side in enumerate(options.sides)
            )
            self.hub.load_topics()
        except Exception:
            self.spool.close()
            raise
        self._wake = threading.Event()
        self._background = threading.Thread(
            target=self._run, name="causeway-background", daemon=True
        )
        for side in self.sides:
            side.start()
        self._background.start()

    # Records. With the lock.

    def take(
        self,
        partition: DualPartition,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        size: int,
        callback: Callback,
    ) -> None:
        """Takes a record. Raises BufferError if there is no room; with `when_full="refuse"` the
        callback gets the error instead."""
        if self.closed or self.hub.torn or self._amid:
            raise self._not_now()
        journal = self.spool.journal
        if (
            self._next - self.hub.settled > self.options.max_messages
            or journal.size + self._fresh_bytes + size > journal.max_bytes
            or self._full_reason
        ) and (why := self._no_room(size)):
            if self.options.when_full == "refuse" and callback is not None:
                record = (self._next, partition.number, timestamp, key, value, headers)
                self._refuse(record, callback, why)
                return
            raise BufferError(why)
        try:
            self._amid = True
            position = self._next
            self._next = position + 1
            self._fresh.append((position, partition.number, timestamp, key, value, headers))
            self._callbacks.append(callback)
            if not self._fresh_bytes:
                self._fresh_since = time.monotonic()
                self._wake.set()
            self._fresh_bytes += size
            self._amid = False
            if len(self._fresh) >= _RECORDS_AT_ONCE or self._fresh_bytes >= _BYTES_AT_ONCE:
                self.turn()
        except BaseException as error:
            self._tear(error)
            raise

    def turn(self) -> None:
        """Does all work that is due, and does not block."""
        if self.hub.torn:
            return
        if self._amid:
            raise self._not_now()
        try:
            self.turned = now = time.monotonic()
            self._amid = True
            try:
                if self._fresh:
                    self._write()
                for side in self.sides:
                    if side.state is State.DIRECT:
                        side.feed()
                    side.serve(now)
            finally:
                self._amid = False
            if now - self._checkpointed > _CHECKPOINT_S:
                self.checkpoint()
                for side in self.sides:
                    side.limit_waiting()
        except BaseException as error:
            self._tear(error)
            raise

    def _write(self) -> None:
        """Writes all taken records to the journal."""
        fresh, callbacks = self._fresh, self._callbacks
        self._fresh, self._callbacks, self._fresh_bytes = [], [], 0
        wanted = any(callback is not None for callback in callbacks)
        try:
            self.spool.journal.append(Chunk(fresh, wanted=wanted))
        except (OSError, ValueError) as error:
            self._suspend(getattr(error, "strerror", None) or error)
            self.hub.settled += len(fresh)
            for record, callback in zip(fresh, callbacks, strict=True):
                if callback is not None:
                    self._refuse(record, callback, self._full_reason)
            if count := callbacks.count(None):
                why = f"{count} records without on_delivery are lost: {self._full_reason}"
                self._call_error_cb(KafkaError(KafkaError._QUEUE_FULL, why))
            return
        self.hub.newest = fresh[-1][0]
        self.hub.await_delivery(fresh, callbacks)

    def _not_now(self) -> RuntimeError:
        """Returns the error for a call that comes at the wrong time. The lock lets its own thread
        in again, so a signal's handler can make a call during another call. Its records would come
        before those of the other call."""
        if self._amid:
            self._tear(KeyboardInterrupt())
        return RuntimeError(self.why_closed)

    def _tear(self, error: BaseException) -> None:
        """Handles a signal's exception, such as Ctrl-C's. It can come between any two steps, so it
        is not known which records the clients have. The next start finds out, as after a crash."""
        if not isinstance(error, Exception):
            self.hub.torn = True
            self.why_closed = "it was interrupted within a call: open it again on its spool"

    # Room

    def full(self) -> str:
        """Returns why the spool cannot be written; empty if it can."""
        if self._full_reason and time.monotonic() >= self._full_until:
            self._full_reason = ""
        return self._full_reason

    def _suspend(self, why: object) -> None:
        """Takes no record for a moment."""
        self._full_until = time.monotonic() + _FULL_RETRY_S
        self._full_reason = f"the spool cannot be written: {why}"

    def _no_room(self, size: int) -> str:
        """Returns why no record of that size can be taken; '' if it can. Before that, a full spool
        drops the records that both sides have."""
        journal, size = self.spool.journal, size + self._fresh_bytes
        if journal.size + size > journal.max_bytes and (
            time.monotonic() - self._trimmed >= _TRIM_S
        ):
            self.turn()
            self.checkpoint()
        if self.unreported() >= self.options.max_messages:
            return "Local: Queue full"
        if journal.size + size > journal.max_bytes:
            return f"the spool is full ({journal.max_bytes} bytes)"
        return self.full()

    def _refuse(self, record: Record, callback: Any, why: str) -> None:
        error = KafkaError(KafkaError._QUEUE_FULL, why)
        partition = self.hub.partitions[record[1]]
        self.hub.queue(callback, error, self.hub.message(partition, record, error))

    # Figures

    def unreported(self) -> int:
        """Records that were taken and not yet reported."""
        return self._next - 1 - self.hub.settled

    def spooled_bytes(self) -> int:
        """Includes the records that are about to be written."""
        return self.spool.journal.size + self._fresh_bytes

    def in_motion(self) -> bool:
        """Returns whether an answer may come at any moment."""
        return self.unreported() > 0 or any(side.in_flight() for side in self.sides)

    def all_there(self) -> bool:
        """Returns whether both sides have all records that were ever taken."""
        with self.hub.lock:
            newest = self.hub.newest
            return not self._fresh and all(side.below() > newest for side in self.sides)

    def within_call(self) -> bool:
        """Returns whether this thread holds the lock, as in a signal's handler."""
        return bool(self.hub.lock._is_owned())  # type: ignore[attr-defined]

    # Topics

    def open_topic(self, topic: str) -> list[DualPartition]:
        """Returns the topic's partitions, as the sides that answer have them."""
        if self.closed or self.hub.torn:
            raise RuntimeError(self.why_closed)
        seen: dict[str, SeenTopic] = {}
        failed = KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        for side in self.sides:
            try:
                if (client := self.client_of(side)) is not None:
                    seen[side.name] = describe(client, topic)
            except KafkaException as error:
                if code_of(error) not in NO_ANSWER:
                    raise
                failed = error
        if not seen:
            raise failed
        least = self.options.partition_counts == "least"
        count = common_partitions(topic, seen, least=least)
        with self.hub.lock:
            try:
                return self.hub.add_topic(topic, count)
            except sqlite3.Error as error:
                raise BufferError(f"the spool cannot be written: {error}") from error
            except BaseException as error:
                self._tear(error)
                raise

    def client_of(self, side: Side) -> Any:
        """Waits while the client is replaced, as the side has a say. None if that takes long."""
        until = time.monotonic() + TIMEOUT_S
        while (client := side.client) is None and time.monotonic() < until:
            time.sleep(_CLIENT_PAUSE_S)
        return client

    # In the background, and at the end

    def checkpoint(self) -> None:
        """Writes down how far the sides have come, and deletes what both have. With the lock."""
        self._checkpointed = self._trimmed = time.monotonic()
        below = min(side.below() for side in self.sides)
        moved: dict[str, dict[int, Place]] = {
            side.name: {
                partition.number: copy.place()
                for partition in self.hub.partitions.values()
                if (copy := partition.copies[index]).open and copy.there != copy.stored
            }
            for index, side in enumerate(self.sides)
        }
        try:
            if any(moved.values()):
                self.spool.ledger.move(moved)
            for index, side in enumerate(self.sides):
                for number, place in moved[side.name].items():
                    self.hub.partitions[number].copies[index].stored = place.position
            self.spool.journal.trim(below, everything=self.all_there())
        except (sqlite3.Error, OSError) as error:  # what is written is old, and still true
            self._suspend(error)

    def close(self) -> bool:
        """Returns whether both sides have all. A signal's handler within another call cannot close:
        the threads to wait for may wait for that call's lock."""
        if self.within_call():
            self._tear(KeyboardInterrupt())
            return False
        with self.hub.lock:
            self.turn()
            self.closed = True
        self._wake.set()
        self._background.join()
        with self.hub.lock:
            complete = not self.hub.torn and self.all_there()
            if not self.hub.torn:
                self.checkpoint()
        for side in self.sides:
            side.close()
        with self.hub.lock:
            self.spool.close()
        return complete

    def disown(self) -> None:
        """In a forked process: spool and connections belong to its parent, whose threads do not
        exist here. Destructors would end them, so they never run."""
        self.closed, self.hub.lock = True, threading.RLock()
        self.why_closed = "the producer belongs to the process that made it, not to a forked one"
        for kept in (self.spool.ledger.database, *(side.client for side in self.sides)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def _run(self) -> None:
        seen = self._next
        while not self.closed:
            if not self.in_motion():
                self._wake.wait(_IDLE_S)
            self._wake.clear()
            time.sleep(LINGER_S if self._fresh else _PAUSE_S)
            busy, seen = self._next - seen >= _BUSY_RECORDS, self._next
            try:
                self._look_after(time.monotonic(), busy=busy)
            except Exception as error:  # else nothing would be done in the background any more
                self._suspend(f"internal error: {error!r}")

    def _look_after(self, now: float, *, busy: bool) -> None:
        """Takes the lock only if something is due: a busy caller would wait for it."""
        lingered = self._fresh and not busy and now - self._fresh_since >= LINGER_S
        alone = now - self.turned >= _CALLER_S
        watches = self.options.failover_after_s is not None
        if lingered or alone or watches:
            with self.hub.lock:
                if not self.closed and (lingered or alone):
                    self.turn()
                if watches:
                    self._fail_over(now)

    def _fail_over(self, now: float) -> None:
        """Makes the other side the primary one if that is due, or the first one again. No record
        moves: both sides get all of them. It changes whose answer counts."""
        after_s = self.options.failover_after_s
        assert after_s is not None
        hub, first = self.hub, self.sides[0]
        silent = [side.silent_s(now) for side in self.sides]
        other = 1 - hub.primary
        over = silent[hub.primary] > after_s and silent[other] < after_s / 2
        back = (
            self.options.failback
            and hub.primary == 1
            and first.state is State.DIRECT
            and silent[0] < after_s / 2
        )
        if over or back:
            before, hub.primary = hub.primary, other
            self.failovers += 1
            for partition in hub.partitions.values():
                hub.deliver(partition)
            if self.options.on_failover is not None:
                hub.queue(self.options.on_failover, hub.names[before], hub.names[other])

    def _damaged(self, why: str) -> None:
        """A side calls this while it reads the journal, perhaps without the lock."""
        self.damage.append(why)
        self._call_error_cb(KafkaError(KafkaError._STATE, why))

    def _call_error_cb(self, error: KafkaError) -> None:
        if callable(callback := self.options.sides[0].producer.get("error_cb")):
            callback(error)
