"""How old records are, by the timestamps of the batches that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.wire import batches
from causeway.wire.cluster import Cluster

_PROBES: Final = 16  # fetches at once, each of one batch
_PROBE_BYTES: Final = 4096  # a broker sends the first batch whole, however big


def timestamps_at(
    source: Cluster, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp (ms) of the batch at each position; a partition that fails is left out."""
    if not positions:
        return {}
    with ThreadPoolExecutor(max_workers=_PROBES) as pool:
        found = pool.map(partial(_timestamp_at, source), positions.keys(), positions.values())
        return {tp: stamp for tp, stamp in zip(positions, found, strict=True) if stamp is not None}


def _timestamp_at(source: Cluster, tp: TopicPartition, position: int) -> int | None:
    try:
        fetched = source.fetch(tp, position, _PROBE_BYTES)
    except CausewayError:
        return None  # the end's own error says why, in the partition's reason
    return first_timestamp(fetched.records)


def first_timestamp(records: bytes) -> int | None:
    """Of the first batch in a Fetch response: its base timestamp, or its append time."""
    if len(records) < batches.HEADER_SIZE:
        return None
    fields = batches.HEADER.unpack_from(records)
    attributes, base_timestamp, max_timestamp = fields[5], fields[7], fields[8]
    stamp: int = max_timestamp if attributes & batches.LOG_APPEND_TIME else base_timestamp
    return stamp
