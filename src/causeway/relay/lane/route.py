"""What of a fetch answer is relayed, and the outlets that it goes to."""

from __future__ import annotations

from causeway.cluster import young_since_ms
from causeway.errors import CausewayError
from causeway.records import (
    NOTHING,
    UNPACKED_BYTES,
    Batch,
    Kept,
    Unread,
    keep,
    newest,
    records_of,
    unpacked_total,
)
from causeway.relay.lane.flow import Flow, OutletState
from causeway.relay.shares import part_of, shares
from causeway.relay.treatment import topics_of, treat_kept
from causeway.wire import Fetched


def take(flow: Flow, fetched: Fetched) -> tuple[Kept, list[OutletState]]:
    """Put what `fetched` brings to the outlets it is for: what was kept, and those outlets.

    As `keep`, it leaves what follows to the next fetch once UNPACKED_BYTES have been unpacked, and
    what cannot be treated or routed, where something before it could. Raises what `keep` does, and
    what a treatment does.
    """
    aborted = fetched.aborted if flow.assignment.read_committed else ()
    kept = keep(fetched.records, flow.position, aborted, flow.subject, _unread(flow, fetched))
    if kept.batches:
        flow.newest_kept = newest(kept.batches, flow.outlets[0].as_is_bytes)
    if flow.treatment is not None:
        kept = treat_kept(kept, flow.treatment, topics_of(flow.assignment))
    if flow.on_the_way is not None:
        return kept, []  # its transform routes
    if len(flow.outlets) == 1:
        flow.outlets[0].put_all(kept.batches)
        return kept, flow.outlets if kept.batches else []
    touched: list[OutletState] = []
    most_unpacked = unpacked_total() + UNPACKED_BYTES
    for count, batch in enumerate(kept.batches):
        try:
            touched += route(flow, batch)
        except CausewayError:
            if not count:
                raise
            return _first(kept, count), touched
        if unpacked_total() >= most_unpacked:
            return _first(kept, count + 1), touched
    return kept, touched


def _unread(flow: Flow, fetched: Fetched) -> Unread:
    """Of a flow that looks into nothing, and whose target takes what follows a batch after it only:
    a producer's sequences see to that. Of big answers alone, whose memory is accounted for."""
    outlets = flow.outlets
    if (
        fetched.records.readonly
        or len(outlets) > 1
        or flow.treatment is not None
        or flow.on_the_way is not None
        or not outlets[0].idempotent
    ):
        return NOTHING
    return Unread(outlets[0].as_is_bytes, young_since_ms(), flow.newest_kept)


def _first(kept: Kept, count: int) -> Kept:
    batches = kept.batches[:count]
    return Kept(batches[-1].next, batches, batches[-1].leader_epoch)


def route(flow: Flow, batch: Batch) -> list[OutletState]:
    """Put `batch` to those of several outlets that it is for (see `shares`): which have something
    new."""
    outlets = flow.outlets
    parts = [
        None if part is None else from_offset(part, outlet.start)
        for outlet, part in zip(outlets, shares(batch, flow.assignment), strict=True)
    ]
    touched = []
    for outlet, part in zip(outlets, parts, strict=True):
        if part is not None:
            outlet.put(part)
            touched.append(outlet)
    return touched


def from_offset(batch: Batch, start: int) -> Batch | None:
    """The records of `batch` from source offset `start` on: an outlet may be further on than the
    others."""
    if batch.first >= start:
        return batch
    kept = [
        (record, offset)
        for index, record in enumerate(records_of(batch))
        if (offset := batch.source_offset(index)) >= start
    ]
    return part_of(batch, kept) if kept else None
