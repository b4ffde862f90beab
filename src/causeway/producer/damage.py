"""What of the spool cannot be read, and so does not arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

if TYPE_CHECKING:
    from causeway.producer.side import Side


def miss(side: Side, after: int, below: int) -> None:
    """With the lock. A side has read the spool up to position `after`, and goes on with `below`:
    records between them that its client has not got it will go without."""
    if after + 1 == below:
        return
    error = KafkaError(KafkaError._STATE, "its place in the spool is damaged")
    for lane in side.hub.lanes.values():
        given = max(after, lane.on[side.bit >> 1].given)
        for position in lane.between(given, below):
            side.hub.refused(
                side,
                lane,
                position,
                error,
                lane.message((position, lane.number, 0, None, None, None), error=error),
            )
