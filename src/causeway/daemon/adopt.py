"""Where does a target end that another tool wrote? Found by its last records, or not at all.

    target  ………[r1 r2 … r8]│end
    source  ………………[r1 r2 … r8]│● go on here

The target's last records are looked for in the source, from their time on. Only one match counts:
two places would be a guess, and a guess would lose or double records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.relay import walk
from causeway.relay.walk import Content, content_of
from causeway.wire.cluster import Cluster
from causeway.wire.records import Record, records_of

_LAST = 8  # records that must agree, or all there are
_SEARCH_BYTES = 512 * 1024 * 1024  # of the source, at most
_EARLIEST, _LATEST = -2, -1


def find_place(
    source: Cluster, source_at: TopicPartition, target: Cluster, target_at: TopicPartition
) -> int | None:
    """The source offset after the record that the target ends with; None where that can't be told.

    Raises CausewayError.
    """
    last = _last_records(target, target_at)
    if not last:
        return None
    timestamps = [content[0] for content in last if content[0] is not None and content[0] >= 0]
    start = _offset(source, source_at, min(timestamps)) if timestamps else -1
    if start < 0:
        start = _offset(source, source_at, _EARLIEST)
    window: deque[Content] = deque(maxlen=len(last))
    found: int | None = None
    for offset, record in _records(source, source_at, start, _SEARCH_BYTES):
        window.append(content_of(record))
        if list(window) == last:
            if found is not None:
                return None
            found = offset + 1
    return found


def _last_records(cluster: Cluster, at: TopicPartition) -> list[Content]:
    end, first = _offset(cluster, at, _LATEST), _offset(cluster, at, _EARLIEST)
    back = _LAST
    while True:
        start = max(first, end - back)
        last: deque[Content] = deque(maxlen=_LAST)
        for _, record in _records(cluster, at, start, None):
            last.append(content_of(record))
        if len(last) == _LAST or start == first:
            return list(last)
        back *= 16  # markers and compaction leave gaps


def _records(
    cluster: Cluster, at: TopicPartition, position: int, most_bytes: int | None
) -> Iterator[tuple[int, Record]]:
    """Committed records from `position` to the log's end, with their offsets."""
    for batch in walk.relayed(cluster, at, position, most_bytes=most_bytes):
        for index, record in enumerate(records_of(batch)):
            yield batch.source_offset(index), record


def _offset(cluster: Cluster, at: TopicPartition, timestamp: int) -> int:
    found = cluster.list_offsets([at], timestamp, read_committed=True)[at]
    if isinstance(found, CausewayError):
        raise found
    return found.offset
