"""One of the two clusters: how it starts, notes answers, and recovers from errors.

    CHECKING ──► FEEDING ◄──► DIRECT      DIRECT: its client has all that is in the journal
        ▲           │            │        FEEDING: it lacks some, since its queue was full
        └── BROKEN ◄┴────────────┘        BROKEN: the client gave up on a record: it is replaced,
                                          and the cluster's logs are read first (CHECKING)

The application's calls feed the client while the side is DIRECT, the side's own thread else.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from causeway_producer.client import Answer, SideClient
from causeway_producer.cluster import LookBack
from causeway_producer.errors import (
    OF_TOPICS,
    REFUSALS,
    SettingsError,
    TopicError,
    as_kafka_error,
    is_answer,
)
from causeway_producer.feed import Fed, Feed
from causeway_producer.hub import Copy, Hub
from causeway_producer.journal import JournalCursor
from causeway_producer.options import SideOptions
from causeway_producer.spool import Place
from causeway_producer.topics import SideTopics

RETRY_S = 2.0
IDLE_S = 0.2
FULL_S = 0.01
# Records in a client grow old as well. The client gives up at the latest after twice this time; a
# chunk may wait as long before the client takes it. With OLD_S that is less than a day.
WAIT_S = 2 * 3600.0


class State(enum.Enum):
    CHECKING = "checking"
    FEEDING = "feeding"
    DIRECT = "direct"
    BROKEN = "broken"


class Side:
    """`reason`: of the last trouble, empty once the side keeps up. `client`: None while it is
    replaced."""

    def __init__(self, options: SideOptions, index: int, hub: Hub, settle_s: float) -> None:
        self.name = options.name
        self.state = State.CHECKING
        self.reason = ""
        self.topics = SideTopics(index, options.reader, hub, self._resume, self._complain)
        self._feed = Feed(index, hub, self.topics)
        self._index = index
        self._hub = hub
        self._options = options
        self._settle_s = settle_s
        self._nothing_late = False  # no request of the client that was given up can still arrive
        self._progress = (0, time.monotonic())
        self._failed: dict[Copy, int] = {}  # the first record of the client that a broker refused
        self._marked = time.time()
        self._marks: list[tuple[Copy, int]] = []  # what the client had then, by partition
        self._wake = hub.wake[index]
        self._closing = threading.Event()
        try:
            self.client: SideClient | None = SideClient(options.producer)
        except KafkaException as error:
            raise SettingsError(
                f"configure DualProducer: side {self.name}", error.args[0].str()
            ) from None
        self._thread = threading.Thread(target=self._run, name=f"causeway-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def below(self) -> int:
        """Every record before this position is on this side. With the lock."""
        if self.state in (State.CHECKING, State.BROKEN):
            return 0
        least = self._feed.below()
        for partition in self._hub.partitions.values():
            copy = partition.copies[self._index]
            if copy.given > copy.there:
                least = min(least, copy.there + 1)
        return least

    def silent_s(self, now: float) -> float:
        """How long it has owed answers without giving one."""
        return now - self._progress[1]

    def behind_bytes(self) -> int:
        """Bytes of the spool that its client was not given yet."""
        if self.state is State.DIRECT and not self._feed.has_skipped():
            return 0
        return self._feed.behind_bytes()

    def in_flight(self) -> int:
        client = self.client  # it may be replaced meanwhile
        return 0 if client is None else len(client)

    # With the lock

    def serve(self, now: float) -> None:
        """Notes what the cluster has answered."""
        if self.client is not None and not self._hub.torn:
            answers, given_up = self.client.poll()
            if answers:
                self._note(answers)
            if given_up is not None:
                self._break(given_up)
        acknowledged = self._hub.acknowledged[self._index]
        owes = self.state is not State.DIRECT or self.in_flight() or self._feed.has_skipped()
        if acknowledged != self._progress[0] or not owes:
            self._progress = (acknowledged, now)

    def feed(self) -> bool:
        """Whether the client may take more at once."""
        if self.state not in (State.FEEDING, State.DIRECT) or self._hub.torn:
            return False
        assert self.client is not None
        try:
            fed = self._feed.step(self.client)
        except TopicError as error:
            self._not_written(error.topic, error.args[0])
            return False
        if fed is Fed.ALL and self.state is State.FEEDING:
            self.state, self.reason = State.DIRECT, ""
        elif fed is Fed.OTHER_CLIENT and not len(self.client):
            self.state, self._nothing_late = State.BROKEN, True
            self._wake.set()
        elif fed is not Fed.ALL and self.state is State.DIRECT:
            self.state = State.FEEDING
            self._wake.set()
        return fed is Fed.MORE

    def limit_waiting(self) -> None:
        """Gives up a client whose records wait so long for their answers that the broker may forget
        the client. Called about once a second."""
        now = time.time()  # it also counts while the machine is suspended
        if all(copy.there >= position for copy, position in self._marks):
            self._marked = now
            self._marks = [
                (copy, copy.given)
                for partition in self._hub.partitions.values()
                if (copy := partition.copies[self._index]).given > copy.there
            ]
        client = self.client
        if now - self._marked > WAIT_S and client is not None and not client.one_request:
            self._break(KafkaError(KafkaError._TIMED_OUT, "records wait too long for an answer"))

    def _note(self, answers: Sequence[Answer]) -> None:
        """After an error the client sends at most one more batch of the partition. Which of the
        records that follow have arrived is not known until the logs were read."""
        noted: dict[Copy, list[Answer]] = {}
        for answer in answers:
            if answer[2] is not None:
                if is_answer(answer[2]):
                    self._failed.setdefault(answer[0], answer[1][-1])
            elif answer[0] not in self._failed:
                if (some := noted.get(answer[0])) is None:
                    some = noted[answer[0]] = []
                some.append(answer)
        for copy, some in noted.items():
            self._hub.answered(self._index, copy, some)
            self._hub.deliver(copy.partition)
        for copy, positions, error, message in answers:
            if error is None:
                continue
            if error.code() in REFUSALS and positions[-1] == self._feed.alone:
                self._feed.refuse(copy, error, message)
                del self._failed[copy]
                self._nothing_late = True
            elif error.code() in REFUSALS:
                self._feed.suspect(positions)
            self._not_written(copy.partition.topic, error)

    def _not_written(self, topic: str, error: Any) -> None:
        if error.code() in OF_TOPICS:
            self.topics.hold(topic, error.str())
        self._break(error)

    def _break(self, error: Any) -> None:
        if self.state is not State.BROKEN:
            self.state = State.BROKEN
            if not self._closing.is_set():
                self._complain(error)
            self._wake.set()

    def _resume(self, unread: bool) -> None:
        """A topic need not wait any more. `unread`: its logs were not read after the last client
        was given up, so all are read again."""
        if unread:
            self._break(KafkaError(KafkaError._STATE, "a topic can be read again"))
        elif self.state in (State.DIRECT, State.FEEDING) and self._feed.resume():
            self.state = State.FEEDING
            self._wake.set()

    def _complain(self, error: Any) -> None:
        """Calls `error_cb` if the reason is another one than before."""
        known = as_kafka_error(error)
        if known.str() != self.reason:
            self.reason = known.str()
            if callable(callback := self._options.producer.get("error_cb")):
                callback(known)

    # The side's own thread

    def close(self) -> None:
        """Ends the thread and the client. The next start finds out what is on its way."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._end_client()
        self._feed.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                wait_s = self._turn()
            except Exception as error:  # `stats` shows it, and it is tried again
                with self._hub.lock:
                    self._complain(error)
                wait_s = RETRY_S
            if wait_s:
                self._wake.wait(wait_s)
                self._wake.clear()

    def _turn(self) -> float:
        """How long to wait before the next turn, in seconds."""
        if self.state is State.BROKEN:
            self._end_client()
        if self.state is State.CHECKING:
            self._check()
        client = self.client
        if client is not None and not self._closing.is_set():
            self.topics.look_after(client)
            self.topics.count_again(client)
        if self.state is not State.FEEDING:
            return IDLE_S
        with self._hub.lock:
            return 0.0 if self.feed() else FULL_S

    def _end_client(self) -> None:
        """The logs show what has arrived of all that it had."""
        with self._hub.lock:
            self.state = State.BROKEN
            ended, self.client = self.client, None
        answers = ended.end() if ended is not None else []
        with self._hub.lock:
            if not self._hub.torn and not self._closing.is_set():
                self._note(answers)
            self.state = State.CHECKING

    def _check(self) -> None:
        """Finds out which records of the journal are on the side already."""
        hub, index = self._hub, self._index
        with hub.lock:
            self._feed.start()
            nothing_late, self._nothing_late = self._nothing_late, False
            newest = hub.newest
        numbers = self._owed(newest)
        with hub.lock:
            copies = {
                (partition.topic, partition.partition): partition.copies[index]
                for partition in map(hub.partitions.__getitem__, numbers)
                if partition.copies[index].open
            }
            places = {where: copy.place() for where, copy in copies.items()}
        found, failed = LookBack(
            self._options.reader,
            hub.spool.identity,
            places,
            settle_s=0 if nothing_late else self._settle_s,
            going_on=lambda: not self._closing.is_set(),
        ).read()
        if self._closing.is_set():
            return
        client = self.client or SideClient(
            self._options.producer, one_request=self._feed.one_request
        )
        with hub.lock:
            self._check_known(found)
            for where, (position, offset) in found.items():
                copy = copies[where]
                # A broker that had forgotten the client may have appended the batch behind it.
                refused = self._failed.pop(copy, position + 1)
                copy.there, copy.offset = min(position, refused - 1), offset
            for partition in hub.partitions.values():
                copy = partition.copies[index]
                copy.given, copy.last_ms = copy.there, 0
            self._marks = []
            for topic, error in failed.items():
                self.topics.hold(topic, error.str(), unread=True)
            self.client = client
            self.state = State.FEEDING

    def _owed(self, newest: int) -> set[int]:
        """The partitions with records in the journal, up to `newest`, that the side is not known to
        have. Without the lock: nothing is deleted that this side may lack."""
        found: set[int] = set()
        cursor = JournalCursor()
        while (chunk := self._hub.spool.journal.read(cursor)) is not None and chunk.first <= newest:
            for record in chunk.records:
                if record[0] > self._hub.partitions[record[1]].copies[self._index].there:
                    found.add(record[1])
        cursor.close()
        return found

    def _check_known(self, found: Mapping[tuple[str, int], Place]) -> None:
        """Raises SettingsError if the side has records of ours that were never in this spool."""
        for (topic, partition), place in found.items():
            if place.position > self._hub.newest:
                raise SettingsError(
                    f"produce to {topic}-{partition} on {self.name}",
                    "it has records of this producer that its spool does not know: the spool is an"
                    " old copy",
                    "start with a new spool",
                )
