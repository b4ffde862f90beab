"""One of the two clusters: how it starts, notes answers, and recovers from errors.

    CHECKING ──► FEEDING ◄──► DIRECT      DIRECT: its client has all records of the journal
        ▲           │            │        FEEDING: the client lacks some, because its queue was full
        └── BROKEN ◄┴────────────┘        BROKEN: the client gave up on a record. It is replaced,
                                          and the cluster's logs are read first (CHECKING)

While the side is DIRECT, the application's calls feed the client; otherwise the side's own thread.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from causeway_producer.client import Answer, SideClient
from causeway_producer.cluster import LookBack, Reading, TopicPartitionKey, forgets_after_ms
from causeway_producer.errors import (
    OF_TOPICS,
    REFUSALS,
    SettingsError,
    TopicError,
    as_kafka_error,
    code_of,
)
from causeway_producer.feed import Fed, Feed
from causeway_producer.hub import Copy, Hub
from causeway_producer.journal import JournalCursor
from causeway_producer.logins import remedy_of, token_login
from causeway_producer.options import IN_FLIGHT, SideOptions
from causeway_producer.topics import SideTopics

_RETRY_S = 0.5
_IDLE_S = 0.2
_FULL_S = 0.01
_ASK_AGAIN_S = 600.0
_DAY_MS = 24 * 3600 * 1000
# Records in a client grow old as well. The client gives up after twice this time at the latest. A
# chunk may also wait this long before the client takes it. With OLD_S that is less than a day.
_WAIT_S = 2 * 3600.0


class State(enum.Enum):
    CHECKING = "checking"
    FEEDING = "feeding"
    DIRECT = "direct"
    BROKEN = "broken"


class Side:
    """`reason`: the reason of the last trouble; empty once the side keeps up. `client`: None while
    it is replaced, or before the first token for its login. `forgets_after_ms`: the time after
    which the brokers forget a client; None if the brokers do not say."""

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
        self._one_request = str(options.producer.get(IN_FLIGHT)) == "1"
        self._nothing_late = False  # no request of the client that was given up can still arrive
        self._progress = (0, time.monotonic())
        self.forgets_after_ms: int | None = None
        self._asked: float | None = None
        self._failed: set[Copy] = set()  # the client failed on a record of these
        self._marked = time.time()
        self._marks: list[tuple[Copy, int]] = []  # each partition's `given` at that time
        self._wake = hub.wake[index]
        self._closing = threading.Event()
        self.client: SideClient | None = None
        try:
            self.client = SideClient(options.producer)
        except KafkaException as error:
            if code_of(error) != KafkaError.SASL_AUTHENTICATION_FAILED:
                raise SettingsError(
                    f"configure DualProducer: side {self.name}",
                    error.args[0].str(),
                    remedy_of(options.producer),
                ) from None
            self._complain(error)  # the side's thread asks for the token again
        self._thread = threading.Thread(target=self._run, name=f"causeway-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def below(self) -> int:
        """Returns a position: all records before it are on this side. Call it with the lock."""
        if self.state in (State.CHECKING, State.BROKEN):
            return 0
        least = self._feed.below()
        for partition in self._hub.partitions.values():
            copy = partition.copies[self._index]
            if copy.given > copy.there:
                least = min(least, copy.there + 1)
        return least

    def trouble(self) -> str:
        """Returns why the side has no new token, else the reason of its last trouble."""
        login = token_login(self._options.producer)
        return (login.failed if login is not None else "") or self.reason

    def silent_s(self, now: float) -> float:
        """Returns how long the side has owed an answer without giving one."""
        return now - self._progress[1]

    def behind_bytes(self) -> int:
        """Returns the bytes of the spool that the side's client has not got yet."""
        if self.state is State.DIRECT and not self._feed.has_skipped():
            return 0
        return self._feed.behind_bytes()

    def in_flight(self) -> int:
        client = self.client  # it may be replaced meanwhile
        return 0 if client is None else len(client)

    # With the lock

    def serve(self, now: float) -> None:
        """Notes the answers of the cluster."""
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
        """Feeds the client. Returns whether the client may take more at once."""
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
        if now - self._marked > _WAIT_S and client is not None and not client.one_request:
            self._break(KafkaError(KafkaError._TIMED_OUT, "records wait too long for an answer"))

    def _note(self, answers: Sequence[Answer]) -> None:
        """Notes answers. After an error, only the logs show which of the partition's later records
        have arrived."""
        noted: dict[Copy, list[Answer]] = {}
        for answer in answers:
            if answer[2] is not None:
                self._failed.add(answer[0])
            elif answer[0] not in self._failed:
                if (some := noted.get(answer[0])) is None:
                    some = noted[answer[0]] = []
                some.append(answer)
        for copy, some in noted.items():
            if _fit(copy, some):
                self._hub.answered(self._index, copy, some)
                self._hub.deliver(copy.partition)
            else:
                self._failed.add(copy)
                self._break(KafkaError(KafkaError._STATE, "its log lacks acknowledged records"))
        for copy, positions, error, message in answers:
            if error is None:
                continue
            if error.code() in REFUSALS and positions[-1] == self._feed.alone:
                self._feed.refuse(copy, error, message)
                self._failed.discard(copy)
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
        """Called when a topic need not wait any more. `unread`: the topic's logs were not read
        after the last client was given up, so all logs are read again."""
        if unread:
            self._break(KafkaError(KafkaError._STATE, "a topic can be read again"))
        elif self.state in (State.DIRECT, State.FEEDING) and self._feed.resume():
            self.state = State.FEEDING
            self._wake.set()

    def _complain(self, error: Any) -> None:
        """Calls `error_cb` if the reason has changed."""
        known = as_kafka_error(error)
        if known.str() != self.reason:
            self.reason = known.str()
            if callable(callback := self._options.producer.get("error_cb")):
                callback(known)

    # The side's own thread

    def close(self) -> None:
        """Ends the thread and the client. The next start finds out which records have arrived."""
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
            except Exception as error:  # `stats` shows it, and the next turn tries again
                with self._hub.lock:
                    self._complain(error)
                wait_s = _RETRY_S
            if wait_s:
                self._wake.wait(wait_s)
                self._wake.clear()

    def _turn(self) -> float:
        """Does what is due. Returns how long to wait before the next turn, in seconds."""
        if self.state is State.BROKEN:
            self._end_client()
        if self._asked is None or time.monotonic() - self._asked > _ASK_AGAIN_S:
            self._ask()
        if self.state is State.CHECKING:
            self._check()
        client = self.client
        if client is not None and not self._closing.is_set():
            self.topics.look_after(client)
            self.topics.count_again(client)
        if self.state is not State.FEEDING:
            return _IDLE_S
        with self._hub.lock:
            return 0.0 if self.feed() else _FULL_S

    def _end_client(self) -> None:
        """Ends the client. The logs show which of its records have arrived."""
        with self._hub.lock:
            self.state = State.BROKEN
            ended, self.client = self.client, None
        answers = ended.end() if ended is not None else []
        with self._hub.lock:
            if not self._hub.torn and not self._closing.is_set():
                self._note(answers)
            self.state = State.CHECKING

    def _check(self) -> None:
        """Finds out which records of the journal the side has."""
        hub, index = self._hub, self._index
        with hub.lock:
            self._feed.start()
            nothing_late, self._nothing_late = self._nothing_late, False
            newest = hub.newest
        numbers = {number for _, number in self._owed(newest)}
        with hub.lock:
            copies = {
                (partition.topic, partition.partition): partition.copies[index]
                for partition in map(hub.partitions.__getitem__, numbers)
                if partition.copies[index].open
            }
            places = {where: copy.place() for where, copy in copies.items()}
        look_back = LookBack(
            self._options.reader,
            hub.spool.identity,
            places,
            settle_s=0 if nothing_late else self._settle_s,
            going_on=lambda: not self._closing.is_set(),
        )
        found, failed = look_back.read()
        if self._closing.is_set():
            return
        self._check_known(found)
        reached = self._reached(look_back, found, copies)
        client = self.client or SideClient(
            self._options.producer, one_request=self._feed.one_request
        )
        with hub.lock:
            for where, reading in found.items():
                copies[where].there, copies[where].offset = reached[where], reading.end
            for partition in hub.partitions.values():
                copy = partition.copies[index]
                copy.given, copy.last_ms = copy.there, 0
            self._marks = []
            self._failed.clear()
            for topic, error in failed.items():
                self.topics.hold(topic, error.str(), unread=True)
            self.client = client
            self.state = State.FEEDING

    def _reached(
        self,
        look_back: LookBack,
        found: Mapping[TopicPartitionKey, Reading],
        copies: Mapping[TopicPartitionKey, Copy],
    ) -> dict[TopicPartitionKey, int]:
        """Returns, for each partition, the last record before which no record is missing."""
        newest = {copies[where].partition.number: each.newest() for where, each in found.items()}
        expected: defaultdict[int, list[int]] = defaultdict(list)
        for position, number in self._owed(max(newest.values(), default=0)):
            if position <= newest.get(number, 0):  # a topic may have many more, which wait
                expected[number].append(position)
        return {
            where: reading.reached(
                expected[copies[where].partition.number], cache(partial(look_back.removed, where))
            )
            for where, reading in found.items()
        }

    def _ask(self) -> None:
        """Asks whether the brokers remember a client long enough to get several batches at once."""
        try:
            self.forgets_after_ms = forgets_after_ms(self._options.reader)
        except KafkaException:
            if self._asked is None:  # nothing was sent yet
                raise
        self._asked = time.monotonic()
        with self._hub.lock:
            self._feed.always_one_request = (
                self._one_request or (self.forgets_after_ms or _DAY_MS) < _DAY_MS
            )

    def _owed(self, upto: int) -> Iterator[tuple[int, int]]:
        """Returns position and partition of the journal's records up to a position that the side
        is not known to have. Needs no lock: no record that this side may lack is deleted."""
        cursor = JournalCursor()
        while (chunk := self._hub.spool.journal.read(cursor)) is not None and chunk.first <= upto:
            for record in chunk.records:
                if record[0] > self._hub.partitions[record[1]].copies[self._index].there:
                    yield record[:2]
        cursor.close()

    def _check_known(self, found: Mapping[TopicPartitionKey, Reading]) -> None:
        """Raises SettingsError if the side has records of ours that were never in this spool."""
        for (topic, partition), reading in found.items():
            if reading.newest() > self._hub.newest:
                raise SettingsError(
                    f"produce to {topic}-{partition} on {self.name}",
                    "it has records of this producer that its spool does not know: the spool is an"
                    " old copy",
                    "start with a new spool",
                )


def _fit(copy: Copy, answers: Sequence[Answer]) -> bool:
    """Returns whether the offset of the last record leaves room for all records before it. It does
    not if the topic was recreated, or if records failed in the client without an answer."""
    offset = answers[-1][3].offset()
    return offset is None or offset - copy.offset >= sum(len(each[1]) for each in answers) - 1
