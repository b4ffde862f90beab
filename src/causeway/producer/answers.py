"""What a side has said of records, noted, and told to whoever wishes to hear."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from causeway.producer.client import Sending
from causeway.producer.journal import Record
from causeway.producer.lanes import Lane, SideLane
from causeway.producer.shares import records_in
from causeway.records import Batch

if TYPE_CHECKING:
    from causeway.producer.side import Side


def note(side: Side, sending: Sending, offsets: Sequence[int | None] | None) -> None:
    """A batch is there, and with it all before it in its partition; None where it is not known at
    which offsets."""
    on, batch = sending.on, sending.batch
    lane, positions = on.lane, batch.offsets
    assert positions is not None
    if offsets is not None:
        if (last := offsets[-1]) is not None:
            on.offset = last + 1
        if side.speaks and positions[-1] > lane.reported:
            done = bisect_right(positions, lane.reported)
            lane.said.update(zip(positions[done:], offsets[done:], strict=True))
    on.there = on.heard = positions[-1]
    side.acked += len(positions)
    side.hub.deliver(lane)
    if side.tells:
        records = sending.records or records_in(batch, lane.number)
        _tell(side, lane, records, offsets or [None] * len(records))


def found(side: Side, on: SideLane, batch: Batch, count: int) -> None:
    """The first so many of it are there, and their answers may have been lost with a client."""
    lane, positions = on.lane, (batch.offsets or ())[:count]
    start = bisect_right(positions, max(side.hub.first, on.heard))
    if start == count:
        return
    on.heard = positions[-1]
    side.acked += count - start
    side.hub.deliver(lane)
    if side.tells:
        records = records_in(batch, lane.number)[start:count]
        _tell(side, lane, records, [None] * len(records))


def _tell(side: Side, lane: Lane, records: Sequence[Record], offsets: Sequence[int | None]) -> None:
    for message in lane.messages(records, offsets):
        side.hub.told(side, None, message)
