"""Partitions, and the records on their way to them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from causeway.producer.journal import Record
from causeway.producer.ledger import Place
from causeway.producer.message import Message, messages

if TYPE_CHECKING:
    from causeway.producer.side import Side


BOTH: Final = 3  # the bits of both sides

Callback = Callable[..., Any] | None
Report = tuple[Callable[..., Any], tuple[Any, ...]]


class Group:
    """Records of one partition that were taken one after the other: their positions, and what is to
    be called for each. Its lists are never changed, as they are a client's as well."""

    __slots__ = ("callbacks", "positions", "records")

    def __init__(
        self, positions: list[int], callbacks: list[Callback], records: list[Record]
    ) -> None:
        self.positions = positions
        self.callbacks = callbacks
        self.records = records

    def cut(self, start: int, stop: int | None = None) -> Group:
        return Group(
            self.positions[start:stop], self.callbacks[start:stop], self.records[start:stop]
        )


@dataclass(slots=True)
class Refused:
    """A record that a side will not have; `by`: a bit for each that said so."""

    callback: Callback
    by: int = 0
    error: Any = None
    message: Any = None


class Lane:
    """A partition, by the number that the spool knows it by. `waiting`: its records that are not
    reported yet, in order; all up to the position `reported` are. `said`: the offsets that sides
    have told of those that wait. `refused`: those that are not among them any more, by position."""

    __slots__ = (
        "name", "number", "on", "partition", "refused", "reported", "said", "topic", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        topic: str,
        partition: int,
        sides: Sequence[Side],
        newest: int = 0,
        name: str = "",
    ) -> None:
        self.number = number
        self.name = name
        self.topic = topic
        self.partition = partition
        self.on = tuple(SideLane(side, self) for side in sides)
        self.waiting: deque[Group] = deque()
        self.reported = newest
        self.said: dict[int, int | None] = {}
        self.refused: dict[int, Refused] = {}

    def message(self, record: Record, offset: int | None = None, error: Any = None) -> Message:
        return next(self.messages([record], [offset], error))

    def messages(
        self, records: Iterable[Record], offsets: Iterable[int | None], error: Any = None
    ) -> Iterator[Message]:
        return messages(self.topic, self.partition, offsets, records, self.name, error)

    def deliver(self, upto: int, reports: deque[Report]) -> int:
        """Reports those that wait up to that position; how many they were."""
        count = 0
        while self.waiting and (group := self.waiting[0]).positions[0] <= upto:
            if group.positions[-1] <= upto:
                self.waiting.popleft()
            else:
                split = bisect_right(group.positions, upto)
                self.waiting[0] = group.cut(split)
                group = group.cut(0, split)
            positions = group.positions
            self.reported = positions[-1]
            count += len(positions)
            offsets = map(self.said.pop, positions, repeat(None))
            reports.extend(
                [
                    (callback, (None, message))
                    for callback, message in zip(
                        group.callbacks, self.messages(group.records, offsets), strict=True
                    )
                    if callback is not None
                ]
            )
        return count

    def between(self, after: int, below: int) -> list[int]:
        """The positions of those that wait."""
        return [
            position
            for group in self.waiting
            for position in group.positions
            if after < position < below
        ]

    def set_aside(self, position: int) -> Refused | None:
        """One that waits, or was set aside already; None where it is reported."""
        for index, group in enumerate(self.waiting):
            if group.positions[-1] < position:
                continue
            at = bisect_left(group.positions, position)
            if group.positions[at] == position:
                kept = self.refused[position] = Refused(group.callbacks[at])
                before, after = group.cut(0, at), group.cut(at + 1)
                left = Group(
                    before.positions + after.positions,
                    before.callbacks + after.callbacks,
                    before.records + after.records,
                )
                if left.positions:
                    self.waiting[index] = left
                else:
                    del self.waiting[index]
                return kept
            break
        return self.refused.get(position)


class SideLane:
    """A partition on one side. `there`: all up to this position is on it, acknowledged or found;
    `heard`: of all up to this one it is noted that they are, or were refused;
    `given`: all up to this one is there or with the client; `offset`: all that is there lies before
    it; `open`: it is known where it begins, so that records may go to it."""

    __slots__ = ("given", "heard", "lane", "offset", "open", "side", "stored", "there")

    def __init__(self, side: Side, lane: Lane) -> None:
        self.side = side
        self.lane = lane
        self.there = self.given = self.heard = 0
        self.offset = 0
        self.open = False
        self.stored = -1

    def on_its_way(self) -> bool:
        """Whether the client has any of it."""
        return self.given > self.there

    def place(self) -> Place:
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
    """A position below which nothing is on its way to that side, or `least` where that is less."""
    for lane in lanes.values():
        on = lane.on[index]
        if on.there + 1 < least and on.on_its_way():
            least = on.there + 1
    return least
