"""Offset syncs, by which readers made for MirrorMaker 2 translate offsets.

One record is known to lie at (upstream, downstream) on the two sides. MirrorMaker 2 writes such a
sync for a partition's first record, when the downstream offset has moved on by `offset.lag.max`,
when the difference of both has changed, and when downstream went back; what is newer than the last
one is written at each commit. Its readers translate an offset beyond a sync to one past it, so a
sync must name a record that is there on both sides, never a gap.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from causeway.control.formats import OffsetSync
from causeway.errors import CausewayError
from causeway.link_topics.topic_log import TopicLog
from causeway.model import TopicPartition

FLUSH_S = 60.0  # Connect's offset.flush.interval.ms

Newest = tuple[int, int]  # source and target offset of one record


class OffsetSyncs:
    """Writes those of one link. Not thread-safe."""

    def __init__(self, topic: TopicLog, *, replication_factor: int, lag_max: int) -> None:
        self._topic = topic
        self._replication_factor = replication_factor
        self._lag_max = lag_max
        self._there = False
        self._written: dict[TopicPartition, Newest] = {}
        self._flushed_at = 0.0

    @property
    def wants_all(self) -> bool:
        """Whether the next `write` is to know of all partitions, not just of those that moved."""
        return not self._there or time.monotonic() - self._flushed_at >= FLUSH_S

    def write(self, newest: Mapping[TopicPartition, Newest], *, flush: bool) -> None:
        """`newest`: of each source partition that has mirrored any, where all are to be written
        that have anything new (`flush`); else of those that moved since the last call. Raises
        CausewayError."""
        if not self._there:
            self._topic.ensure(self._replication_factor)
            self._there = True
        due = {
            at: pair
            for at, pair in newest.items()
            if self._written.get(at) != pair and (flush or self._is_due(at, pair))
        }
        if due:
            try:
                self._topic.append(
                    [
                        OffsetSync(partition=at, upstream=upstream, downstream=downstream).encode()
                        for at, (upstream, downstream) in due.items()
                    ]
                )
            except CausewayError:
                self.forget()
                raise
            self._written.update(due)
        if flush:
            self._flushed_at = time.monotonic()

    def forget(self) -> None:
        """The topic may be gone, or another driver may have written to it."""
        self._there = False
        self._written.clear()

    def flush(self) -> None:
        """The next `write` leaves nothing for later."""
        self._flushed_at = -FLUSH_S

    def _is_due(self, at: TopicPartition, pair: Newest) -> bool:
        last = self._written.get(at)
        if last is None:
            return True
        upstream, downstream = pair[0] - last[0], pair[1] - last[1]
        return downstream >= self._lag_max or upstream != downstream or downstream < 0
