"""Heartbeats: a record a second that proves, by its mirrors, which clusters lie upstream."""

from __future__ import annotations

import time

from causeway.control.formats import Heartbeat
from causeway.errors import CausewayError
from causeway.link_topics.topic_log import TopicLog


class Heartbeats:
    """Those of one pair of clusters, in `topic` on the target."""

    def __init__(
        self, topic: TopicLog, *, source: str, target: str, replication_factor: int
    ) -> None:
        self._topic = topic
        self._source, self._target = source, target
        self._replication_factor = replication_factor
        self._there = False

    def beat(self) -> None:
        """Raises CausewayError."""
        if not self._there:
            self._topic.ensure(self._replication_factor)
            self._there = True
        now_ms = int(time.time() * 1000)
        beat = Heartbeat(source=self._source, target=self._target, timestamp=now_ms)
        try:
            self._topic.append([beat.encode()])
        except CausewayError:
            self._there = False  # somebody may have deleted it
            raise
