"""The next batch that an outlet sends: a run of small neighbours as one, a large one in parts."""

from __future__ import annotations

import sys
from bisect import bisect_left
from typing import Final

from causeway.errors import ProtocolError
from causeway.records import (
    HEADER_SIZE,
    MERGED_BYTES,
    MERGED_RECORDS,
    SMALL_BATCH,
    Batch,
    cut,
    merge,
    unpacked_size,
)
from causeway.relay.lane.flow import OutletState, Sent

LEAST_BATCH_BYTES: Final = 1024  # refusals by the target make no batch smaller than this


def next_batch(outlet: OutletState, max_message_bytes: int) -> Batch:
    """The outlet's next batch. If it can be cut, it is no larger than `max_message_bytes`, and
    without compression no larger than `outlet.most_unpacked`.

    A single record that is too large is sent as it is: the broker's refusal names the reason. A
    batch that cannot be unpacked is sent as it is, too.
    """
    batch = outlet.take()
    if parts := _parts(outlet, batch, max_message_bytes):
        for part in reversed(parts):
            outlet.put_back(part)
        return next_batch(outlet, max_message_bytes)
    if batch.size > SMALL_BATCH or not outlet.pending:
        return batch
    return _merged(outlet, batch, max_message_bytes)


def send_smaller(outlet: OutletState, refused: Sent, max_message_bytes: int) -> bool:
    """The target refused a batch as too large: make `outlet` send smaller ones from now on. False
    if batches cannot be smaller.

    Either the target compresses batches again, and this one grew beyond `max_message_bytes`; or the
    target's limit is lower than that. So the limit without compression becomes `max_message_bytes`.
    Each further refusal halves it.
    """
    if refused.first == refused.last:
        return False
    if outlet.most_unpacked is not None:
        before, most = outlet.most_unpacked, outlet.most_unpacked // 2
    elif refused.codec:
        before, most = sys.maxsize, max_message_bytes
    else:
        before, most = refused.size, refused.size // 2
    most = max(most, LEAST_BATCH_BYTES)
    if most >= before:
        return False
    outlet.as_is_bytes, outlet.most_unpacked = 0, most
    return True


def _parts(outlet: OutletState, batch: Batch, max_message_bytes: int) -> list[Batch]:
    """The parts in which `batch` must be sent; none if it is sent as it is."""
    if batch.records < 2:
        return []
    count = -(-batch.size // max_message_bytes)
    try:
        if (most := outlet.most_unpacked) is not None:
            count = max(count, -(-unpacked_size(batch) // most))
        if count < 2 or not (indexes := _cuts(batch, count)):
            return []
        return cut(batch, indexes)
    except ProtocolError:
        return []


def _cuts(batch: Batch, count: int) -> list[int]:
    """The indexes at which a batch is cut into `count` parts of about as many records each.

    The records that one source record became stay together, so there may be fewer parts.
    """
    even = {batch.records * number // count for number in range(1, count)} - {0}
    offsets = batch.offsets
    if offsets is None:
        return sorted(even)
    allowed = [at for at in range(1, batch.records) if offsets[at] != offsets[at - 1]]
    if not allowed:
        return []
    last = len(allowed) - 1
    return sorted({allowed[min(bisect_left(allowed, at), last)] for at in even})


def _merged(outlet: OutletState, batch: Batch, max_message_bytes: int) -> Batch:
    """`batch` and the small neighbours behind it, as far as they make one batch."""
    room = min(MERGED_BYTES, max_message_bytes)
    if outlet.most_unpacked is not None:
        if batch.codec:  # merged they may be too large without compression, and be cut again
            return batch
        room = min(room, outlet.most_unpacked)
    room -= batch.size
    run, count = [batch], batch.records
    while outlet.pending:
        following = outlet.pending[0]
        room -= following.size - HEADER_SIZE
        count += following.records
        if (
            following.size > SMALL_BATCH
            or following.codec != batch.codec
            or room < 0
            or count > MERGED_RECORDS
        ):
            break
        run.append(outlet.take())
    if len(run) == 1:
        return batch
    merged, taken = merge(run)
    if merged.size > max_message_bytes:  # compressed again they may take more room than before
        merged, taken = batch, 1
    for one in reversed(run[taken:]):
        outlet.put_back(one)
    return merged
