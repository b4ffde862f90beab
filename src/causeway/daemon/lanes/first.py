"""The first lane of a bounded run: if it does not connect in time, the run ends."""

from __future__ import annotations

import time

from causeway.errors import PrerequisiteError

_FAILING_S = 60.0  # if lanes end before they connect
_SILENT_S = 600.0  # if no lane starts: a cluster may have no free core for a while


class FirstLane:
    def __init__(self) -> None:
        self._since: float | None = None
        self._came = False

    def look(self, *, launched: int, connected: int, trouble: str | None) -> None:
        """Call this repeatedly while the run lasts. `trouble`: why the newest lane ended. Raises
        PrerequisiteError if lanes were launched and none has connected for too long."""
        self._came = self._came or connected > 0
        if self._came or not launched:
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        waited_s = now - self._since
        if waited_s > (_FAILING_S if trouble else _SILENT_S):
            raise PrerequisiteError(
                "start lanes",
                cause=f"none connected in {waited_s:.0f} s: {trouble or 'Spark started no task'}",
                remedy="see the log, with --debug also Spark's",
            )
