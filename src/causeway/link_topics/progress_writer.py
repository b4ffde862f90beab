"""Writes to a progress topic as one driver, so that the broker refuses those who led before."""

from __future__ import annotations

import time
from collections.abc import Sequence

from causeway.link_topics import topic_log
from causeway.link_topics.progress import Entry, ProgressTopic, encode


class ProgressWriter:
    """Writes with one producer id and epoch; not thread-safe.

    After an error other than LeadershipLostError the same batches are sent again by the next call,
    first: whether they were appended is unknown, and their sequences say so to the broker.
    """

    def __init__(self, topic: ProgressTopic, producer_id: int, producer_epoch: int) -> None:
        self._topic = topic
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self._sequence = 0
        self._unanswered: list[bytes] = []

    def write(self, entries: Sequence[Entry]) -> None:
        """Returns once all of `entries` are durably in the topic."""
        self._send()
        now_ms = int(time.time() * 1000)
        for batch, count in topic_log.build(
            [encode(entry, now_ms) for entry in entries],
            now_ms=now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=self._sequence,
        ):
            self._unanswered.append(batch)
            self._sequence = (self._sequence + count) & 0x7FFFFFFF
        self._send()

    def _send(self) -> None:
        while self._unanswered:
            self._topic.append(self._unanswered[0])
            del self._unanswered[0]
