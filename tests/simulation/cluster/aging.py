"""Retention of one replica's log. Without a timer while nothing can become too old."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from tests.simulation.cluster.compaction import compact

if TYPE_CHECKING:
    from tests.simulation.cluster.replica import Replica


class Aging:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._cleans = False
        self._looks_at = inf  # when the next check is due

    def watch(self) -> None:
        """Sees to it that a check in the interval looks at the log when its oldest segment is too
        old, or the log too large."""
        replica = self._replica
        self._clean_soon()
        if not replica.leads or "delete" not in replica.topic.policies:
            return
        retention_ms = replica.topic.number("retention.ms")
        retention_bytes = replica.topic.number("retention.bytes")
        log, node = replica.log, replica.node
        waits_s = []
        if retention_ms >= 0 and log.segments[0].size:
            waits_s.append((log.segments[0].newest_timestamp + retention_ms - node.now_ms()) / 1000)
        if retention_bytes >= 0:
            rest = sum(each.size for each in log.segments[1:])
            if rest and retention_bytes <= rest:
                waits_s.append(0.0)
        if not waits_s:
            return
        interval_s = node.cluster.settings.log_retention_check_interval_ms / 1000
        wait_s, now = max(0.0, min(waits_s)), node.world.now()
        if now + wait_s + interval_s >= self._looks_at:
            return  # soon enough
        wait_s += node.world.random.uniform(0, interval_s)
        self._looks_at = looks_at = now + wait_s
        node.later(wait_s, lambda: self._look(looks_at))

    def _clean_soon(self) -> None:
        replica, seconds = self._replica, self._replica.node.cluster.settings.compaction_s
        if seconds is None or self._cleans or "compact" not in replica.topic.policies:
            return
        self._cleans = True
        replica.node.later(replica.node.chance_of(seconds), self._clean)

    def _clean(self) -> None:
        if self._replica.aging is self:
            self._cleans = False
            compact(self._replica)

    def _look(self, looks_at: float) -> None:
        if self._replica.aging is self and self._looks_at == looks_at:
            self._looks_at = inf
            self.apply()
            self.watch()

    def apply(self) -> None:
        """Deletes old segments below the high watermark."""
        replica = self._replica
        if replica.leads and "delete" in replica.topic.policies:
            found = replica.log.expired(
                replica.node.now_ms(),
                replica.topic.number("retention.ms"),
                replica.topic.number("retention.bytes"),
            )
            start = min(found, replica.high_watermark)
            if start > replica.log.start:
                replica.node.world.trace(f"{replica}: retention deletes up to {start}")
                replica.delete_records(start)
