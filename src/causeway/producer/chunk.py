"""Records that go to the journal in one write, made ready once for both clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from operator import length_hint
from typing import Any

from causeway.producer.ids import ID_HEADER, NUMBER_MASK
from causeway.producer.journal import Header, Record
from causeway.producer.lanes import Callback, Group, Lane

Call = tuple[str, bytes | None, bytes | None, int, Any, None, int, list[Header]]
"""What a client's `produce` is given; the fifth is whom it tells."""


class Chunk:
    """`calls`: one a record, telling nobody. `lanes`: of each record. `groups`: positions, by lane.
    `heard`: somebody wants to hear of a record."""

    __slots__ = ("calls", "groups", "heard", "lanes", "records")

    def __init__(
        self,
        records: Sequence[Record],
        calls: list[Call],
        lanes: list[Lane],
        groups: dict[Lane, list[int]],
        *,
        heard: bool,
    ) -> None:
        self.records = records
        self.calls = calls
        self.lanes = lanes
        self.groups = groups
        self.heard = heard

    def hand_to(self, produce: Any, index: int, *, each: bool) -> None:
        """All of it to a client of the side at `index`; how many it took before it raised is told
        by `Stopped`. `each`: every record is answered for by itself, else the last of a lane
        answers for those before it, which an order without gaps allows."""
        calls: list[Call]
        if each:
            calls = [
                (topic, value, key, partition, lane.on[index].acked, None, timestamp, marked)
                for (topic, value, key, partition, _, _, timestamp, marked), lane in zip(
                    self.calls, self.lanes, strict=True
                )
            ]
        else:
            calls = self.calls.copy()
            for lane, at in {lane: at for at, lane in enumerate(self.lanes)}.items():
                topic, value, key, partition, _, _, timestamp, marked = calls[at]
                told = lane.on[index].all_acked
                calls[at] = (topic, value, key, partition, told, None, timestamp, marked)
        rest = iter(calls)  # what is left says how far it has come: a count would cost more
        try:
            deque(starmap(produce, rest), maxlen=0)
        except Exception as error:
            done = len(calls) - length_hint(rest) - 1
            self._note_taken(index, self.records[done][0], each=each)
            raise Stopped(done) from error
        for lane, positions in self.groups.items():
            on = lane.on[index]
            on.given = positions[-1]
            if each:
                on.pending.extend(positions)
            else:
                on.pending.append(positions)

    def without(self, waits: Callable[[Lane], bool]) -> Chunk | None:
        """Those whose lanes need not wait; None where there are none."""
        groups = {lane: group for lane, group in self.groups.items() if not waits(lane)}
        kept = [index for index, lane in enumerate(self.lanes) if lane in groups]
        if not kept:
            return None
        return Chunk(
            [self.records[index] for index in kept],
            [self.calls[index] for index in kept],
            [self.lanes[index] for index in kept],
            groups,
            heard=self.heard,
        )

    def _note_taken(self, index: int, below: int, *, each: bool) -> None:
        """Those before position `below` have been; what answers for them may not have been."""
        for lane, group in self.groups.items():
            taken = [position for position in group if position < below]
            on = lane.on[index]
            if taken:
                on.given = taken[-1]
            if each:
                on.pending.extend(taken)
            elif len(taken) == len(group):
                on.pending.append(taken)
            else:
                on.loose = taken


def made_ready(
    records: Sequence[Record],
    callbacks: Sequence[Callback],
    lanes: Mapping[int, Lane],
    prefix: bytes,
    *,
    heard: bool,
) -> Chunk:
    """Of what is in the journal; each lane has its share of it among those that wait. `prefix`:
    what the ids of these records begin with."""
    calls: list[Call] = []
    of_each: list[Lane] = []
    take, note = calls.append, of_each.append
    shares: dict[int, tuple[Lane, list[int], list[Callback]]] = {}
    for record, callback in zip(records, callbacks, strict=True):
        position, number, timestamp, key, value, headers = record
        if (share := shares.get(number)) is None:
            share = shares[number] = lanes[number], [], []
        lane, positions, told = share
        positions.append(position)
        told.append(callback)
        note(lane)
        mark = (ID_HEADER, prefix + b"%d" % (position & NUMBER_MASK))
        marked: list[Header] = [*headers, mark] if headers else [mark]
        take((lane.topic, value, key, lane.partition, None, None, timestamp, marked))
    for lane, positions, told in shares.values():
        lane.waiting.append(Group(positions, told))
    groups = {lane: positions for lane, positions, _ in shares.values()}
    return Chunk(records, calls, of_each, groups, heard=heard)


class Stopped(Exception):  # noqa: N818  (no error of its own: the cause is)
    """A client has taken no more than `taken` records."""

    def __init__(self, taken: int) -> None:
        super().__init__(taken)
        self.taken = taken
