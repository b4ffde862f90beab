"""Finds the end of damage in a source's log: its disk or its producer damaged a batch.

──[good]──[damaged]──[good]──►     start: the first offset that cannot be mirrored
          start      to            to: the first one after that which can
"""

from __future__ import annotations

from typing import NamedTuple

from causeway.cluster import LATEST, Cluster, offsets_at, value_of
from causeway.errors import BrokerError, TooLargeError
from causeway.model import Loss, TopicPartition
from causeway.records import HEADER_SIZE, LENGTH_OVERHEAD, keep, records_of
from causeway.wire import codes

# The number of offsets that are tried one by one if the broker itself cannot read a batch.
MOST_SINGLE_STEPS = 4096


class Damage(NamedTuple):
    """Damage that a lane met again and again at offset `start`. `to`: its end, if the target
    refused the batch; -1: the source's log shows the end. `why`: the last error."""

    start: int
    why: str
    to: int = -1


def loss_by(damage: Damage, cluster: Cluster, at: TopicPartition, position: int) -> Loss | None:
    """The loss if a flow at `position` passes over `damage`. None if the damage is repaired, or if
    records before it are still to be mirrored. Raises CausewayError."""
    if position != damage.start:
        return None
    to = damage.to if damage.to >= 0 else readable_from(cluster, at, damage.start)
    return Loss(damage.start, to, "damaged") if to > position else None


def readable_from(cluster: Cluster, at: TopicPartition, start: int) -> int:
    """The first offset from `start` on at which the log can be read, or else the log's end.

    Trusts no field of a damaged batch: the broker itself says which offsets it finds in that batch.
    Raises CausewayError.
    """
    end = value_of(offsets_at(cluster, [at], LATEST)[at])
    position = start
    while position < end:
        head, readable = _look(cluster, at, position)
        if readable:
            break
        position = _end_of_batch(cluster, at, position, end, head)
    return min(position, end)


def _end_of_batch(
    cluster: Cluster, at: TopicPartition, position: int, end: int, head: bytes
) -> int:
    """The first offset for which the broker finds another batch than that with `head`."""
    same, other, step = position, end, 1
    if not head:  # nothing tells one batch that the broker does not find from another one
        for offset in range(position + 1, min(position + MOST_SINGLE_STEPS, end)):
            if _look(cluster, at, offset)[0]:
                return offset
            same = offset
    while same + step < end:
        if _look(cluster, at, same + step)[0] != head:
            other = same + step
            break
        same += step
        step *= 2
    while other - same > 1:
        middle = (same + other) // 2
        if _look(cluster, at, middle)[0] == head:
            same = middle
        else:
            other = middle
    return other


def _look(cluster: Cluster, at: TopicPartition, offset: int) -> tuple[bytes, bool]:
    """The header of the batch that the broker finds for `offset` (empty if it finds none, or cannot
    read its log there), and whether the batch can be mirrored."""
    try:
        records = cluster.fetch(at, offset, 1, max_wait_ms=0).records
    except BrokerError as error:
        if error.code != codes.CORRUPT_MESSAGE:
            raise
        return b"", False
    return records[:HEADER_SIZE], _is_readable(records, offset)


def _is_readable(records: bytes, offset: int) -> bool:
    stop = LENGTH_OVERHEAD + int.from_bytes(records[8:LENGTH_OVERHEAD], signed=True)
    try:
        kept = keep(memoryview(records)[:stop], offset, ())
        for batch in kept.batches:
            records_of(batch)
    except TooLargeError:
        return True  # it is relayed without being unpacked, or stops the partition for that
    except Exception:  # no codec foresees all damage
        return False
    return kept.position > offset
