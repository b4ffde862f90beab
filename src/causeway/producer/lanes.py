"""Partitions, and the records on their way to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Message

from causeway.producer.ledger import Place

if TYPE_CHECKING:
    from causeway.producer.side import Side


BOTH: Final = 3  # the bits of both sides


class Entry:
    """A record on its way. `acks`: a bit for each side that has it; `refused`: for each that will
    not. `error`, `message`: what a side has said of it that did not count so far."""

    __slots__ = ("acks", "callback", "error", "message", "position", "refused")

    def __init__(self, position: int, callback: Callable[..., Any] | None) -> None:
        self.position = position
        self.callback = callback
        self.acks = 0
        self.refused = 0
        self.error: Any = None
        self.message: Any = None


class Lane:
    """A partition, by the number that the spool knows it by."""

    __slots__ = ("number", "on", "partition", "topic")

    def __init__(self, number: int, topic: str, partition: int, sides: Sequence[Side]) -> None:
        self.number = number
        self.topic = topic
        self.partition = partition
        self.on = tuple(SideLane(side) for side in sides)

    def message(self, key: bytes | None, value: bytes | None, error: Any = None) -> Message:
        """Of a record for which no client has answered."""
        return Message(
            topic=self.topic, partition=self.partition, key=key, value=value, error=error
        )


class SideLane:
    """A partition on one side. `there`: all up to this position is on it, acknowledged or found;
    `given`: all up to this one is there or with the client;
    `open`: it is known where it begins, so that records may go to it. `pending`: for each answer
    to come the record that it is for, or those. `loose`: the client has them, and the next record
    will answer for them."""

    __slots__ = (
        "acked", "all_acked", "given", "loose", "message", "offset", "open", "pending", "side",
        "stored", "there",
    )  # fmt: skip

    def __init__(self, side: Side) -> None:
        self.side = side
        self.pending: deque[Any] = deque()
        self.loose: list[Entry] = []
        self.there = self.given = 0
        self.message: Any = None
        self.offset = 0
        self.open = False
        self.stored = -1
        self.acked = self._acked  # bound once: they are handed over with the records
        self.all_acked = self._all_acked

    def oldest(self) -> int | None:
        """The position of the first one that is on its way."""
        first = (self.pending[0] if self.pending else self.loose) or None
        if isinstance(first, list):
            first = first[0]
        return first.position if first is not None else None

    def clear(self) -> None:
        self.pending.clear()
        self.loose = []

    def one_more(self, entry: Entry) -> Callable[..., None]:
        """The client is about to get it; what is to be called with its answer."""
        if not self.loose:
            self.pending.append(entry)
            return self.acked
        self.pending.append([*self.loose, entry])
        self.loose = []
        return self.all_acked

    def not_taken(self) -> None:
        """The client did not want that one."""
        given = self.pending.pop()
        if isinstance(given, list):
            self.loose = given[:-1]

    def _acked(self, error: Any, message: Any) -> None:
        """Answers of a partition come in the order of its records."""
        entry = self.pending.popleft()
        side = self.side
        if error is not None:
            side.failed(self, [entry], error, message)
            return
        self.there = entry.position
        self.message = message
        side.acked += 1
        acks = entry.acks = entry.acks | side.bit
        if acks in side.decides:
            side.hub.report(entry, None, entry.message or message)
        elif side.keeps:
            entry.message = message
        if side.tells:
            side.hub.told(side, None, message)

    def _all_acked(self, error: Any, message: Any) -> None:
        """The answer for the last one of some. None of them is there behind one that is not:
        sequences see to that, as does `enable.gapless.guarantee` in the client."""
        entries: list[Entry] = self.pending.popleft()
        side = self.side
        if error is not None:
            side.failed(self, entries, error, message)
            return
        self.there = entries[-1].position
        self.message = message
        side.acked += len(entries)
        bit, decides, report = side.bit, side.decides, side.hub.report
        for entry in entries:
            acks = entry.acks = entry.acks | bit
            if acks in decides:
                report(entry, None, entry.message)

    def place(self) -> Place:
        if self.message is not None:
            # None where the broker took it for a repeated one that it has forgotten the place of.
            if (offset := self.message.offset()) is not None:
                self.offset = offset + 1
            self.message = None
        return Place(position=self.there, offset=self.offset)


def moved(lanes: Mapping[int, Lane], index: int) -> list[tuple[int, Place]]:
    """How far those have come on that side that have moved since they were `stored`."""
    return [
        (lane.number, on.place())
        for lane in lanes.values()
        if (on := lane.on[index]).open and on.there != on.stored
    ]


def stored(lanes: Mapping[int, Lane], index: int, places: Iterable[tuple[int, Place]]) -> None:
    for number, place in places:
        lanes[number].on[index].stored = place.position


def oldest_of(lanes: Mapping[int, Lane], index: int, least: int) -> int:
    """The first position that is on its way to that side, or `least` where that is less."""
    for lane in lanes.values():
        pending = lane.on[index].oldest()
        if pending is not None and pending < least:
            least = pending
    return least
