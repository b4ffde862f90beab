"""How much of a log one offset takes, told from a sample."""

from __future__ import annotations

from causeway.cluster.client import Client
from causeway.cluster.offsets import fetch
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.wire.batches import LENGTH_OVERHEAD, MAGIC_AT

SAMPLE_BYTES = 256 * 1024
_LAST_DELTA = slice(23, 27)


def bytes_an_offset(cluster: Client, tp: TopicPartition, start: int) -> float:
    """Of the first SAMPLE_BYTES from offset `start` on; 1.0 where they cannot be read."""
    try:
        data = fetch(cluster, tp, start, SAMPLE_BYTES, False, 0).records
    except CausewayError:
        return 1.0  # whoever reads there says what is wrong
    at, last, used = 0, start, 0
    while at + _LAST_DELTA.stop <= len(data):
        base = int.from_bytes(data[at : at + 8])
        stop = at + LENGTH_OVERHEAD + int.from_bytes(data[at + 8 : at + LENGTH_OVERHEAD])
        if stop > len(data):
            break
        modern = data[at + MAGIC_AT] == 2
        last = base + (int.from_bytes(data[at : at + 27][_LAST_DELTA]) if modern else 0)
        used += stop - at
        at = stop
    return used / (last + 1 - start) if used and last >= start else 1.0
