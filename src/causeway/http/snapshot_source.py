"""How the server sees the run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from causeway.http.coalesced_cache import Paced
from causeway.http.view import View

if TYPE_CHECKING:
    from causeway.status.snapshot import Look, Snapshot


class NotYetError(Exception):
    """The run has not said how to look at it."""


class Sight:
    """Any thread may `take` how to look at the run. `heard_at`: when that was (monotonic)."""

    def __init__(self) -> None:
        self._look: Look | None = None
        self.heard_at = time.monotonic()
        self._view: View | None = None
        self.views = Paced(self._next_view, name="looks")

    def take(self, look: Look) -> None:
        self.heard_at = time.monotonic()
        self._look = look

    @property
    def begun(self) -> bool:
        return self._look is not None

    def _next_view(self) -> View:
        self._view = View(self.look(), self._view)
        return self._view

    def look(self) -> Snapshot:
        """Raises NotYetError."""
        if self._look is None:
            raise NotYetError
        return self._look()
