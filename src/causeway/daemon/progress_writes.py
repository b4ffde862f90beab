"""Writes all that a link keeps in its progress topic, in one batch."""

from __future__ import annotations

import logging
import time
from typing import Final

from causeway.daemon.directive_executor import DirectiveExecutor
from causeway.daemon.leadership import Leadership
from causeway.daemon.link_parts import LinkParts
from causeway.daemon.partitions import Registry
from causeway.daemon.staging import Staging
from causeway.errors import CausewayError
from causeway.link_topics import LeadershipLostError

_log = logging.getLogger("causeway.link")
FINAL_S: Final = 5.0  # the last write is retried for this time


class ProgressWrites:
    """Belongs to the thread that leads the link. `count`, `failures`: number of writes in this run,
    and of failed writes."""

    def __init__(self, registry: Registry, leadership: Leadership, staging: Staging) -> None:
        self._registry = registry
        self._leadership = leadership
        self._staging = staging
        self._losses = 0  # losses of the progress topic, after which everything was written again
        self.count = self.failures = 0

    def begin(self) -> None:
        """Begins a term of leading."""
        self._losses = self._leadership.losses

    def write_last(self, parts: LinkParts, directing: DirectiveExecutor) -> bool:
        """Returns whether the last progress could be written."""
        deadline = time.monotonic() + FINAL_S
        while True:
            try:
                self.write(parts, directing, final=True)
                if self._losses == self._leadership.losses:
                    return True
            except LeadershipLostError:
                return False
            except CausewayError as error:
                if time.monotonic() > deadline:
                    about = {"link": parts.work.link.name, "reason": str(error)}
                    _log.warning("last progress not written", extra=about)
                    return False
                time.sleep(0.2)

    def write(self, parts: LinkParts, directing: DirectiveExecutor, *, final: bool = False) -> None:
        """Writes all that has changed. Raises LeadershipLostError. After any other CausewayError
        the next call writes the same again."""
        registry, tally = self._registry, parts.tally
        with registry.writing:
            losses = self._leadership.losses
            if losses != self._losses:
                registry.mark_all_dirty()  # this process knows the whole contents of the topic
                tally.mark_all_dirty()
                directing.mark_all_dirty()
            rows, entries = registry.take_dirty(final=final)
            records = parts.tasks.take_dirty()
            troubles = self._staging.troubles()
            counts = tally.take_dirty(registry.counted, troubles, final=final)
            acted = directing.take_dirty()
            if entries or records or counts or acted:
                try:
                    self._leadership.write([*entries, *records, *counts, *acted])
                except CausewayError:
                    if acted:
                        directing.mark_all_dirty()
                    self.failures += 1
                    registry.give_back(rows)
                    parts.tasks.give_back(records)
                    tally.give_back(counts)
                    raise
                self.count += 1
            self._losses = losses
