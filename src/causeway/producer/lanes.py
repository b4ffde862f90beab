"""Partitions, and the records on their way to them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Message

from causeway.producer.ledger import Place

if TYPE_CHECKING:
    from causeway.producer.side import Side


BOTH: Final = 3  # the bits of both sides

Callback = Callable[..., Any] | None
Report = tuple[Callable[..., Any], tuple[Any, ...]]


class Group:
    """Records of one partition that were taken one after the other: their positions, and what is to
    be called for each. Its lists are never changed, as they are a client's answers' as well."""

    __slots__ = ("callbacks", "positions")

    def __init__(self, positions: list[int], callbacks: list[Callback]) -> None:
        self.positions = positions
        self.callbacks = callbacks


@dataclass(slots=True)
class Refused:
    """A record that a side will not have; `by`: a bit for each that said so."""

    callback: Callback
    by: int = 0
    error: Any = None
    message: Any = None


class Lane:
    """A partition, by the number that the spool knows it by. `waiting`: its records that are not
    reported yet, in order; all up to the position `reported` are. `said`: what sides have said of
    those that wait. `refused`: those that are not among them any more, by position."""

    __slots__ = ("number", "on", "partition", "refused", "reported", "said", "topic", "waiting")

    def __init__(
        self, number: int, topic: str, partition: int, sides: Sequence[Side], newest: int = 0
    ) -> None:
        self.number = number
        self.topic = topic
        self.partition = partition
        self.on = tuple(SideLane(side, self) for side in sides)
        self.waiting: deque[Group] = deque()
        self.reported = newest
        self.said: dict[int, Any] = {}
        self.refused: dict[int, Refused] = {}

    def message(self, key: bytes | None, value: bytes | None, error: Any = None) -> Message:
        """Of a record for which no client has answered."""
        return Message(
            topic=self.topic, partition=self.partition, key=key, value=value, error=error
        )

    def deliver(self, upto: int, reports: deque[Report]) -> int:
        """Reports those that wait up to that position; how many they were."""
        count = 0
        while self.waiting and (group := self.waiting[0]).positions[0] <= upto:
            positions, callbacks = group.positions, group.callbacks
            if positions[-1] <= upto:
                self.waiting.popleft()
            else:
                split = bisect_right(positions, upto)
                self.waiting[0] = Group(positions[split:], callbacks[split:])
                positions, callbacks = positions[:split], callbacks[:split]
            self.reported = positions[-1]
            count += len(positions)
            messages = map(self.said.pop, positions, repeat(None))
            reports.extend(
                [
                    (callback, (None, message))
                    for callback, message in zip(callbacks, messages, strict=True)
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
                left = Group(
                    group.positions[:at] + group.positions[at + 1 :],
                    group.callbacks[:at] + group.callbacks[at + 1 :],
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
    `given`: all up to this one is there or with the client;
    `open`: it is known where it begins, so that records may go to it. `pending`: for each answer
    to come the position that it is for, or those. `loose`: the client has them, and the next record
    will answer for them. `answers`: those that came for single records and are not noted yet."""

    __slots__ = (
        "acked", "all_acked", "answers", "given", "heard", "lane", "loose", "message", "offset",
        "open", "pending", "side", "stored", "there",
    )  # fmt: skip

    def __init__(self, side: Side, lane: Lane) -> None:
        self.side = side
        self.lane = lane
        self.pending: deque[Any] = deque()
        self.loose: list[int] = []
        self.answers: list[Any] = []
        self.there = self.given = self.heard = 0
        self.message: Any = None
        self.offset = 0
        self.open = False
        self.stored = -1
        self.acked = self._acked  # bound once: they are handed over with the records
        self.all_acked = self._all_acked

    def on_its_way(self) -> bool:
        """Whether the client has any of it."""
        return bool(self.pending or self.loose)

    def clear(self) -> None:
        """The client is gone; what it has answered and nobody noted is looked for as well."""
        self.answers.clear()
        self.pending.clear()
        self.loose = []

    def one_more(self, position: int) -> Callable[..., None]:
        """The client is about to get it; what is to be called with its answer."""
        if not self.loose:
            self.pending.append(position)
            return self.acked
        self.pending.append([*self.loose, position])
        self.loose = []
        return self.all_acked

    def not_taken(self) -> None:
        """The client did not want that one."""
        given = self.pending.pop()
        if isinstance(given, list):
            self.loose = given[:-1]

    def note(self) -> None:
        """What `acked` was told. Answers of a partition come in the order of its records."""
        if not self.answers:
            return
        answers, self.answers = self.answers, []
        next_one = self.pending.popleft
        positions = [next_one() for _ in answers]
        self.message = answers[-1]
        lane, side = self.lane, self.side
        if side.speaks:
            if positions[0] > lane.reported:
                lane.said.update(zip(positions, answers, strict=True))
            else:
                done = lane.reported
                lane.said.update(
                    (position, message)
                    for position, message in zip(positions, answers, strict=True)
                    if position > done
                )
        self._note(positions[-1], len(positions))
        if side.tells:
            for message in answers:
                side.hub.told(side, None, message)

    def _acked(self, error: Any, message: Any) -> None:
        if error is not None:
            self.note()
            self.side.failed(self, [self.pending.popleft()], error, message)
            return
        if not self.answers:
            self.side.answered.append(self)
        self.answers.append(message)

    def _all_acked(self, error: Any, message: Any) -> None:
        """The answer for the last one of some. None of them is there behind one that is not:
        sequences see to that, as does `enable.gapless.guarantee` in the client."""
        self.note()
        positions: list[int] = self.pending.popleft()
        if error is not None:
            self.side.failed(self, positions, error, message)
            return
        self.message = message
        self._note(positions[-1], len(positions))

    def _note(self, last: int, count: int) -> None:
        self.there = self.heard = last
        self.side.acked += count
        self.side.hub.deliver(self.lane)

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
    """A position below which nothing is on its way to that side, or `least` where that is less."""
    for lane in lanes.values():
        on = lane.on[index]
        if on.there + 1 < least and on.on_its_way():
            least = on.there + 1
    return least
