"""What is told of refused calls: all that differ, and no more of the others than one a minute."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

_log = logging.getLogger("causeway.http")
_AGAIN_S: Final = 60.0
_MOST: Final = 1000  # that are remembered


@dataclass(slots=True)
class _Told:
    at: float  # monotonic
    unsaid: int = 0  # calls since then


class Refusals:
    """Who is refused again and again fills neither the log nor the events that are kept. Used by
    one event loop."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], _Told] = {}

    def __len__(self) -> int:
        return len(self._told)

    def note(self, client: str, method: str, path: str, status: int, reason: str) -> None:
        """Logs the call, with how many of the client's before it were refused alike and not told
        of, or counts it."""
        now = time.monotonic()
        key = client, reason
        told = self._told.get(key)
        if told is not None and now < told.at + _AGAIN_S:
            told.unsaid += 1
            return
        if len(self._told) >= _MOST:
            self._told.clear()
        self._told[key] = _Told(now)
        extra = {
            "client": client,
            "method": method,
            "path": path[:200],
            "status": status,
            "reason": reason,
            "unsaid": 0 if told is None else told.unsaid,
        }
        _log.warning("call refused", extra=extra)
