"""The first lane of a bounded run: it comes, or the run ends."""

from __future__ import annotations

import time

from causeway.errors import PrerequisiteError

_FAILING_S = 60.0  # with lanes that end before they come
_SILENT_S = 600.0  # with no word of any: a cluster may have no free core for a while


class FirstLane:
    def __init__(self) -> None:
        self._since: float | None = None
        self._came = False

    def look(self, *, launched: int, connected: int, trouble: str | None) -> None:
        """To be called while the run lasts. `trouble`: why the newest lane ended. Raises
        PrerequisiteError where no lane has come for too long since one was launched."""
        self._came = self._came or connected > 0
        if self._came or not launched:
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        waited_s = now - self._since
        if waited_s > (_FAILING_S if trouble else _SILENT_S):
            raise PrerequisiteError(
                "start lanes",
                cause=f"none came in {waited_s:.0f} s: {trouble or 'Spark started no task'}",
                remedy="see the log, with --debug also Spark's",
            )
