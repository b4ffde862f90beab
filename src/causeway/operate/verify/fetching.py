"""Reads a log one answer ahead: while one is compared, its broker works at the next."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from causeway.cluster import Cluster, FetchedPartition
from causeway.model import TopicPartition
from causeway.records import LENGTH_OVERHEAD, MAGIC, MAGIC_AT

_MOST_BYTES = 4 * 1024 * 1024
_LEAST_BYTES = 64 * 1024
_MORE = 1.05  # than it takes by what was read so far
_TO_LAST_DELTA = 27  # bytes of a batch
Spent = Callable[[int], None]


class Fetching:
    """Of offsets up to `end`; `offset_bytes`: about how much one takes. `spent` is called with the
    bytes of each answer. A context manager."""

    def __init__(
        self,
        cluster: Cluster,
        at: TopicPartition,
        end: int,
        offset_bytes: float,
        spent: Spent,
        *,
        read_committed: bool,
    ) -> None:
        self._cluster, self._at, self._end, self._spent = cluster, at, end, spent
        self._read_committed = read_committed
        self._each = offset_bytes
        self._offsets = self._bytes = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="fetch ahead")
        self._next: tuple[int, Future[FetchedPartition]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def get(self, position: int) -> FetchedPartition:
        """An answer from `position` on. Raises CausewayError."""
        waiting, self._next = self._next, None
        if waiting is not None and waiting[0] == position:
            fetched = waiting[1].result()
        else:
            fetched = self._fetch(position)
        self._spent(len(fetched.records))
        following = _following(memoryview(fetched.records), position)
        self._offsets += following - position
        self._bytes += len(fetched.records)
        if self._offsets:
            self._each = self._bytes / self._offsets
        if position < following < self._end:
            self._next = following, self._pool.submit(self._fetch, following)
        return fetched

    def _fetch(self, position: int) -> FetchedPartition:
        # So much that little is read that lies behind the end.
        wanted = (self._end - position) * self._each * _MORE
        return self._cluster.fetch(
            self._at,
            position,
            int(min(_MOST_BYTES, max(_LEAST_BYTES, wanted))),
            read_committed=self._read_committed,
            max_wait_ms=0,
        )


def _following(data: memoryview, position: int) -> int:
    """The offset after the last whole batch."""
    at, end = 0, len(data)
    last = -1
    while end - at >= _TO_LAST_DELTA:
        stop = at + LENGTH_OVERHEAD + int.from_bytes(data[at + 8 : at + LENGTH_OVERHEAD])
        if stop > end:
            break
        last = at
        at = stop
    if last < 0:
        return position
    base = int.from_bytes(data[last : last + 8])
    modern = data[last + MAGIC_AT] == MAGIC
    return base + 1 + (int.from_bytes(data[last + 23 : last + _TO_LAST_DELTA]) if modern else 0)
