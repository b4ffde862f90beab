"""One of the two clusters: what it was given, what it has, and how it catches up.

    CHECKING ──► FEEDING ──► DIRECT        a thread of its own does all but the last
        ▲           │ ▲         │
        │           │ └─────────┤ its queue is full: the spool's records first
        └── BROKEN ◄┴───────────┘ its client gave up on a record: another client, another look

DIRECT: what is taken is handed to its client at once, right after it was written to the journal.
FEEDING: the journal is read on from where the client's queue was full, or the check began.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from causeway.errors import CausewayError, ConfigError
from causeway.producer.ids import ID_HEADER, NUMBER_MASK, record_id
from causeway.producer.journal import Cursor, Journal, Record
from causeway.producer.ledger import Ledger, Place
from causeway.producer.look_back import look_back
from causeway.producer.options import SideOptions
from causeway.producer.topics import ends, partition_count

_RETRY_S = 2.0
_IDLE_S = 0.2
_FULL_S = 0.01
_PURGE_TIMEOUT_S = 30.0
_TOPIC_TIMEOUT_S = 10.0

# What a broker says of a record itself: it will say so again.
_REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
}


class State(enum.Enum):
    CHECKING = "checking"
    FEEDING = "feeding"
    DIRECT = "direct"
    BROKEN = "broken"


class Entry:
    """A record on its way. `acks`: a bit for each side that has it."""

    __slots__ = ("acks", "callback", "position")

    def __init__(self, position: int, callback: Callable[..., Any] | None) -> None:
        self.position = position
        self.callback = callback
        self.acks = 0


class Hub(Protocol):
    """What the sides share."""

    lock: threading.RLock
    name: str
    journal: Journal
    ledger: Ledger
    lanes: dict[int, Lane]
    unreported: dict[int, Entry]
    newest: int
    """The last position that is in the journal."""

    def report(self, entry: Entry, error: Any, message: Any) -> None: ...
    def told(self, side: Side, error: Any, message: Any) -> None: ...


class Lane:
    """A partition, by the number that the spool knows it by."""

    __slots__ = ("number", "on", "partition", "topic")

    def __init__(self, number: int, topic: str, partition: int, sides: Sequence[Side]) -> None:
        self.number = number
        self.topic = topic
        self.partition = partition
        self.on = tuple(SideLane(side, self) for side in sides)


class SideLane:
    """A partition on one side. `there`: all up to this position is on it, acknowledged or found;
    `open`: it is known where it begins, so that records may go to it."""

    __slots__ = ("acked", "lane", "message", "offset", "open", "pending", "side", "stored", "there")

    def __init__(self, side: Side, lane: Lane) -> None:
        self.side = side
        self.lane = lane
        self.pending: deque[Entry] = deque()
        self.there = 0
        self.message: Any = None
        self.offset = 0
        self.open = False
        self.stored = -1
        self.acked = self._acked

    def _acked(self, error: Any, message: Any) -> None:
        """Answers of a partition come in the order of its records."""
        entry = self.pending.popleft()
        side = self.side
        if error is not None:
            side.failed(self, entry, error, message)
            return
        self.there = entry.position
        self.message = message
        side.acked += 1
        acks = entry.acks = entry.acks | side.bit
        if acks in side.decides:
            side.hub.report(entry, None, message)
        if side.tells:
            side.hub.told(side, None, message)

    def place(self) -> Place:
        if self.message is not None:
            self.offset = self.message.offset() + 1
            self.message = None
        return Place(position=self.there, offset=self.offset)


class Side:
    """`decides`: the acks of a record with which, once this side has it, it is delivered."""

    def __init__(self, options: SideOptions, bit: int, hub: Hub, settle_s: float) -> None:
        self.name = options.name
        self.bit = bit
        self.hub = hub
        self.decides: frozenset[int] = frozenset()
        self.tells = False
        self.state = State.CHECKING
        self.reason = ""
        self.acked = 0
        self.refused = 0
        self.topics: set[str] = set()  # to be opened before they are written to
        self.progress = time.monotonic()
        self.cluster_id = ""
        self._options = options
        self._settle_s = settle_s
        self._cursor = Cursor()
        self._ahead: list[Record] = []  # read, and not yet handed over
        self._from = 0  # positions before it were handed over, or are there
        self._suspects: set[int] = set()
        self._alone: int | None = None
        self._seen = 0
        self._closing = threading.Event()
        self._wake = threading.Event()
        self.producer: Any = Producer(dict(options.producer))
        self._thread = threading.Thread(target=self._run, name=f"causeway-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    # With the lock held

    def hand_over(self, records: Sequence[Record], entries: Sequence[Entry], ids: bytes) -> None:
        """What was just written to the journal. `ids`: the start of their ids."""
        lanes, bit = self.hub.lanes, self.bit >> 1
        produce = self.producer.produce
        number = 0
        try:
            for number, (position, lane_number, timestamp, key, value, headers) in enumerate(
                records
            ):
                lane = lanes[lane_number]
                on = lane.on[bit]
                on.pending.append(entries[number])
                mark = (ID_HEADER, b"%b%d" % (ids, position & NUMBER_MASK))
                produce(
                    lane.topic,
                    value,
                    key,
                    lane.partition,
                    on.acked,
                    None,
                    timestamp,
                    [*headers, mark] if headers else [mark],
                )
        except (BufferError, KafkaException) as error:
            lanes[records[number][1]].on[bit].pending.pop()
            self._fall_behind(records[number][0])
            if not isinstance(error, BufferError):
                self._break(error.args[0])

    def missed(self, position: int) -> None:
        """A topic that is not open here yet: it goes on from the journal at `position`."""
        if self.state is State.DIRECT:
            self._fall_behind(position)

    def serve(self) -> None:
        """Hear what the cluster has answered."""
        if self.producer is not None:
            self.producer.poll(0)

    def failed(self, lane: SideLane, entry: Entry, error: Any, message: Any) -> None:
        """The client gave up on a record. It does so with all that follow (gapless guarantee),
        and whether they arrived is not known: another client looks."""
        code = error.code()
        if code in _REFUSALS:
            if self._alone == entry.position:
                self._refuse(lane, entry, error, message)
            else:
                self._suspects.add(entry.position)
        self._break(error)

    def places(self) -> list[tuple[int, Place]]:
        """Those that have moved since the last time."""
        moved = []
        for lane in self.hub.lanes.values():
            on = lane.on[self.bit >> 1]
            if on.open and on.there != on.stored:
                moved.append((lane.number, on.place()))
        return moved

    def stored(self, places: Sequence[tuple[int, Place]]) -> None:
        for number, place in places:
            self.hub.lanes[number].on[self.bit >> 1].stored = place.position

    def below(self, last: int) -> int:
        """Every record before this position is on this side; `last` is the newest one taken."""
        if self.state in (State.CHECKING, State.BROKEN):
            return 0
        oldest = self._from if self.state is State.FEEDING else last + 1
        for lane in self.hub.lanes.values():
            pending = lane.on[self.bit >> 1].pending
            if pending and pending[0].position < oldest:
                oldest = pending[0].position
        return oldest

    def silent_s(self, now: float) -> float:
        """How long it has owed something and acknowledged nothing."""
        if self.acked != self._seen or (self.state is State.DIRECT and not len(self.producer)):
            self._seen = self.acked
            self.progress = now
        return now - self.progress

    def behind(self) -> int:
        """Bytes of the journal that were not handed to the client yet."""
        return self.hub.journal.behind(self._cursor) if self.state is not State.DIRECT else 0

    def in_flight(self) -> int:
        return len(self.producer) if self.producer is not None else 0

    def _fall_behind(self, position: int) -> None:
        self.state = State.FEEDING
        self._from = position
        self._rewind()
        self.wake()

    def _rewind(self) -> None:
        self._cursor.close()
        self._cursor = Cursor()
        self._ahead = []

    def _break(self, error: Any) -> None:
        if self.state is not State.BROKEN:
            self.state = State.BROKEN
            self.reason = error.str()
            self.wake()

    def _refuse(self, lane: SideLane, entry: Entry, error: Any, message: Any) -> None:
        self._suspects.discard(entry.position)
        self._alone = None
        self.refused += 1
        lane.there = entry.position  # as good as there: it is not sent again
        self.hub.told(self, error, message)
        if entry.position in self.hub.unreported:
            self.hub.report(entry, error, message)

    # The side's own thread

    def close(self) -> None:
        """Ends the thread and the client; what is on its way is looked for at the next start."""
        self._closing.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._end_client()
        self._rewind()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                wait_s = self._turn()
            except (KafkaException, CausewayError, OSError) as error:
                self.reason = _words(error)
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
        self._open_topics()
        if self.state is State.FEEDING:
            return self._feed()
        return _IDLE_S

    def _end_client(self) -> None:
        """Its records are all accounted for after that: acknowledged, or to be looked for."""
        if self.producer is None:
            return
        self.producer.purge()
        until = time.monotonic() + _PURGE_TIMEOUT_S
        while len(self.producer) and time.monotonic() < until:
            with self.hub.lock:
                self.producer.poll(0.01)
        with self.hub.lock:
            ended, self.producer = self.producer, None
            for lane in self.hub.lanes.values():
                lane.on[self.bit >> 1].pending.clear()
        del ended  # closes its connections, which takes a moment

    def _check(self) -> None:
        """Which of the journal's records are there already?"""
        with self.hub.lock:
            self._from = 0
            self._rewind()
            newest = self.hub.newest
        numbers = self._owed(newest)
        with self.hub.lock:
            places = {
                (lane.topic, lane.partition): lane.on[self.bit >> 1].place()
                for lane in map(self.hub.lanes.__getitem__, numbers)
                if lane.on[self.bit >> 1].open
            }
        found = look_back(
            self._options.reader,
            self.hub.name,
            places,
            settle_s=self._settle_s,
            going_on=lambda: not self._closing.is_set(),
        )
        if self._closing.is_set():
            return
        producer = self.producer or Producer(dict(self._options.producer))
        with self.hub.lock:
            for number in numbers:
                lane = self.hub.lanes[number]
                if (place := found.get((lane.topic, lane.partition))) is not None:
                    on = lane.on[self.bit >> 1]
                    on.there, on.offset = place.position, place.offset
            self.producer = producer
            self._alone = None
            self.state = State.FEEDING

    def _owed(self, newest: int) -> set[int]:
        """The lanes of the journal's records that are not known to be there. Without the lock: the
        journal is only added to meanwhile, as nothing is deleted that this side may lack."""
        owed: set[int] = set()
        cursor = Cursor()
        while (records := self.hub.journal.read(cursor)) is not None and records[0][0] <= newest:
            for position, lane, *_ in records:
                if position > self.hub.lanes[lane].on[self.bit >> 1].there:
                    owed.add(lane)
        cursor.close()
        return owed

    def _open_topics(self) -> None:
        """Where do its partitions end? So far a look back need not go."""
        with self.hub.lock:
            wanted = sorted(self.topics)
        for topic in wanted:
            with self.hub.lock:
                lanes = [lane for lane in self.hub.lanes.values() if lane.topic == topic]
            count = partition_count(self.producer, topic, _TOPIC_TIMEOUT_S)
            if count < len(lanes):
                raise ConfigError(
                    "produce to",
                    f"{topic} on {self.name}",
                    f"it has {count} partitions there, and {len(lanes)} are written to",
                    remedy="add partitions there",
                )
            found = ends(self._options.reader, topic, len(lanes), _TOPIC_TIMEOUT_S)
            with self.hub.lock:
                places = [
                    (lane.number, Place(position=0, offset=found[lane.partition]))
                    for lane in lanes
                    if not lane.on[self.bit >> 1].open
                ]
                self.hub.ledger.store({self.name: places})
                for number, place in places:
                    on = self.hub.lanes[number].on[self.bit >> 1]
                    on.offset, on.open = place.offset, True
                self.topics.discard(topic)

    def _feed(self) -> float:
        """Hands over what the journal has next; how long to wait before the next turn."""
        with self.hub.lock:
            if self.state is not State.FEEDING:
                return 0.0
            if not self._ahead:
                records = self.hub.journal.read(self._cursor)
                if records is None:
                    if self.topics:
                        return _FULL_S
                    self.state = State.DIRECT
                    self.reason = ""
                    return 0.0
                self._ahead = records
            done = 0
            try:
                while done < len(self._ahead) and self._hand_one(self._ahead[done]):
                    done += 1
            except KafkaException as error:
                self._break(error.args[0])
                return 0.0
            del self._ahead[:done]
            return _FULL_S if self._ahead else 0.0

    def _hand_one(self, record: Record) -> bool:
        """False where it has to wait."""
        position, number, timestamp, key, value, headers = record
        lane = self.hub.lanes[number]
        on = lane.on[self.bit >> 1]
        if position < self._from or position <= on.there:
            return True
        if not on.open:
            return False
        if self._suspects:
            if self.in_flight() and (self._alone is not None or position in self._suspects):
                return False
            if self._alone is not None:
                self._suspects.discard(self._alone)
            self._alone = position if position in self._suspects else None
        entry = self.hub.unreported.get(position) or Entry(position, None)
        on.pending.append(entry)
        mark = (ID_HEADER, record_id(self.hub.name, position))
        try:
            self.producer.produce(
                lane.topic,
                value,
                key,
                lane.partition,
                on.acked,
                None,
                timestamp,
                [*(headers or ()), mark],
            )
        except BufferError:
            on.pending.pop()
            return False
        except KafkaException:
            on.pending.pop()
            raise
        self._from = position + 1
        return True


def _words(error: Exception) -> str:
    return str(error.args[0].str() if isinstance(error, KafkaException) else error)
