"""Deadlines of calls, pauses between retries, and waits for quotas.

Since Kafka 2.0, a broker that throttles answers at once, with `throttle_time_ms`. Then it reads
nothing from that connection for that time. It executes a request over another connection, and
throttles that connection too.
"""

from __future__ import annotations

import math
import random
import time
from typing import Any, Final

from causeway.wire.codes import THROTTLING_QUOTA_EXCEEDED, broker_error

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class Deadline:
    """A moment on the monotonic clock. `moved_s`: the time by which it was moved."""

    __slots__ = ("_at", "moved_s", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.moved_s = 0.0
        self._at = time.monotonic() + seconds

    def move(self, seconds: float) -> None:
        """Moves the deadline by a wait that does not count."""
        self.moved_s += seconds
        self._at += seconds

    def left(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def share_s(self, most_s: float = math.inf) -> float:
        """Returns how long to wait for one broker: at most half of the time, because a frozen
        broker must leave time to ask another broker, and at most `most_s`."""
        return max(0.05, min(self.left(), self.seconds / 2, most_s))

    def passed(self) -> bool:
        return time.monotonic() >= self._at


def pause_s(attempt: int) -> float:
    """Returns the seconds to wait after failure number `attempt` (from 0). They double each time,
    and vary by a fifth."""
    longest: float = min(FIRST_PAUSE_S * 2 ** min(attempt, 16), LONGEST_PAUSE_S)
    return longest * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries, guards nothing


MOST_WAIT_S: Final = 120.0  # the most that one call waits because of quotas


def throttle_s(answer: Any) -> float:
    """Returns the throttle time of an answer in seconds; 0 if it is not throttled."""
    return (getattr(answer, "throttle_time_ms", 0) or 0) / 1000


def throttled_text(seconds: float) -> str:
    """Returns the text for people."""
    return f"throttled by quota for {max(1, round(seconds))} s"


class QuotaWaits:
    """The throttles that one client knows. Thread-safe."""

    def __init__(self) -> None:
        self._until: dict[tuple[int, int], float] = {}  # by broker and API key, monotonic

    def note(self, node_id: int, api_key: int, answer: Any) -> None:
        """Notes the throttle time of the broker's `answer` to a request of this API."""
        if seconds := throttle_s(answer):
            self._until[node_id, api_key] = time.monotonic() + seconds

    def left_s(self, api_key: int, node_id: int | None = None) -> float:
        """Returns how long requests of this API are throttled at the broker, or at any broker if
        None; 0 if they are not."""
        until = (
            end
            for (node, key), end in list(self._until.items())
            if key == api_key and node_id in (node, None)
        )
        return max(0.0, max(until, default=0.0) - time.monotonic())

    def wait_s(self, node_id: int, api_key: int, deadline: Deadline) -> float:
        """Returns how long to wait before a request of this API. `deadline` moves by that time.
        Raises BrokerError if the wait would be too long."""
        left = self.left_s(api_key, node_id)
        if deadline.moved_s + left > MOST_WAIT_S:
            operation, subject = "send a request to", f"broker {node_id}"
            code, text = THROTTLING_QUOTA_EXCEEDED, throttled_text(left)
            raise broker_error(code, operation, subject, text)
        deadline.move(left)
        return left
