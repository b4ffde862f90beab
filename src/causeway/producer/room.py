"""Whether there is room for another record."""

from __future__ import annotations

import time

from causeway.producer.journal import Journal

_FULL_RETRY_S = 1.0


class Room:
    """`most_messages`: records that may be unreported. `suspended`: the spool could not be written
    a moment ago, for the reason `why`."""

    def __init__(self, most_messages: int, journal: Journal) -> None:
        self.suspended = False
        self.why = ""
        self.most_messages = most_messages
        self._journal = journal
        self._until = 0.0

    def suspend(self, why: str) -> None:
        """No record is taken for a moment."""
        self.why = why
        self.suspended = True
        self._until = time.monotonic() + _FULL_RETRY_S

    def full(self) -> str:
        """Why the spool cannot be written; empty where it can."""
        if self.suspended and time.monotonic() >= self._until:
            self.suspended = False
        return self.why if self.suspended else ""

    def lacks(self, unreported: int, size: int) -> str:
        """Why not one more can be taken, with which `size` bytes wait to be written."""
        if unreported >= self.most_messages:
            return "Local: Queue full"
        if self.bytes_lack(size):
            return f"the spool is full ({self._journal.most} bytes)"
        return self.full() if self.suspended else ""

    def bytes_lack(self, size: int) -> bool:
        return self._journal.size + size > self._journal.most
