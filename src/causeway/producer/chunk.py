"""Records that go to the journal in one write, made ready once for both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import length_hint
from typing import Any

from causeway.producer.ids import ID_HEADER, NUMBER_MASK
from causeway.producer.journal import Header, Record
from causeway.producer.lanes import Entry, Lane

Call = tuple[str, bytes | None, bytes | None, int, None, None, int, list[Header]]
"""What a client's `produce` is given, without a callback."""


class Chunk:
    """`calls`: one a record. `lasts`: the lane where a record is the last one of its lane here.
    `groups`: the entries of each lane. `heard`: somebody wants to hear of a record."""

    __slots__ = ("_ids", "calls", "entries", "groups", "heard", "lanes", "lasts", "records")

    def __init__(
        self,
        records: Sequence[Record],
        entries: Sequence[Entry],
        lanes: Mapping[int, Lane],
        ids: bytes,
        *,
        heard: bool,
    ) -> None:
        """`ids`: what the ids of these records begin with."""
        self.records = records
        self.entries = entries
        self.heard = heard
        self._ids = ids
        self.calls: list[Call] = []
        self.lanes: list[Lane] = []
        self.groups: dict[Lane, list[Entry]] = {}
        self.lasts: list[Lane | None] = [None] * len(records)
        take, note, groups = self.calls.append, self.lanes.append, self.groups
        at: dict[Lane, int] = {}
        for index, (position, number, timestamp, key, value, headers) in enumerate(records):
            lane = lanes[number]
            note(lane)
            mark = (ID_HEADER, b"%b%d" % (ids, position & NUMBER_MASK))
            marked: list[Header] = [*headers, mark] if headers else [mark]
            take((lane.topic, value, key, lane.partition, None, None, timestamp, marked))
            if lane in at:
                groups[lane].append(entries[index])
            else:
                groups[lane] = [entries[index]]
            at[lane] = index
        for lane, index in at.items():
            self.lasts[index] = lane

    def hand_to(self, produce: Any, index: int, *, each: bool) -> None:
        """All of it to a client of the side at `index`; how many it took before it raised is told
        by `Stopped`. `each`: every record is answered for by itself, else the last of a lane
        answers for those before it, which an order without gaps allows."""
        rest = iter(self.calls)  # what is left says how far it has come: a count would cost more
        try:
            if each:
                for call, entry, lane in zip(rest, self.entries, self.lanes, strict=True):
                    topic, value, key, partition, _, _, timestamp, marked = call
                    on = lane.on[index]
                    on.pending.append(entry)
                    produce(topic, value, key, partition, on.acked, None, timestamp, marked)
            else:
                for call, last in zip(rest, self.lasts, strict=True):
                    if last is None:
                        produce(*call)
                    else:
                        topic, value, key, partition, _, _, timestamp, marked = call
                        told = last.on[index].all_acked
                        produce(topic, value, key, partition, told, None, timestamp, marked)
                for lane, group in self.groups.items():
                    lane.on[index].pending.append(group)
            for lane, group in self.groups.items():
                lane.on[index].given = group[-1].position
        except Exception as error:
            done = len(self.calls) - length_hint(rest) - 1
            if each:
                self.lanes[done].on[index].pending.pop()
            self._note_taken(index, self.records[done][0], each=each)
            raise Stopped(done) from error

    def without(self, waits: Callable[[Lane], bool]) -> Chunk | None:
        """Those whose lanes need not wait; None where there are none."""
        kept = [index for index, lane in enumerate(self.lanes) if not waits(lane)]
        if not kept:
            return None
        return Chunk(
            [self.records[index] for index in kept],
            [self.entries[index] for index in kept],
            {lane.number: lane for lane in self.groups},
            self._ids,
            heard=self.heard,
        )

    def _note_taken(self, index: int, below: int, *, each: bool) -> None:
        """Those before position `below` have been; what answers for them may not have been."""
        for lane, group in self.groups.items():
            taken = [entry for entry in group if entry.position < below]
            if taken:
                lane.on[index].given = taken[-1].position
            if each:
                continue
            if len(taken) == len(group):
                lane.on[index].pending.append(taken)
            else:
                lane.on[index].loose = taken


class Stopped(Exception):  # noqa: N818  (no error of its own: the cause is)
    """A client has taken no more than `taken` records."""

    def __init__(self, taken: int) -> None:
        super().__init__(taken)
        self.taken = taken
