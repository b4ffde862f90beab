"""How long brokers throttle each kind of request, by a client's quota.

Since Kafka 2.0, a broker that throttles answers at once, with `throttle_time_ms`, and then reads
nothing from that connection for that time. It carries out a request over another connection, and
throttles that one too.
"""

from __future__ import annotations

import time
from typing import Any, Final

from causeway.errors import CausewayError
from causeway.wire.codes import THROTTLING_QUOTA_EXCEEDED, broker_error
from causeway.wire.deadline import Deadline

MOST_WAIT_S: Final = 120.0  # the most that one call waits because of quotas


def throttle_s(answer: Any) -> float:
    """The throttle time of an answer in seconds; 0: none."""
    return (getattr(answer, "throttle_time_ms", 0) or 0) / 1000


def words(seconds: float) -> str:
    """The reason, for people."""
    return f"throttled by quota for {max(1, round(seconds))} s"


class QuotaWaits:
    """The throttles that one client knows. Thread-safe."""

    def __init__(self) -> None:
        self._until: dict[tuple[int, int], float] = {}  # by broker and API key, monotonic

    def note(self, node_id: int, api_key: int, answer: Any) -> None:
        """Note the throttle time of the broker's `answer` to such a request."""
        if seconds := throttle_s(answer):
            self._until[node_id, api_key] = time.monotonic() + seconds

    def left_s(self, api_key: int, node_id: int | None = None) -> float:
        """For how long such requests are throttled, at any broker if None; 0: not at all."""
        until = (
            end
            for (node, key), end in list(self._until.items())
            if key == api_key and node_id in (node, None)
        )
        return max(0.0, max(until, default=0.0) - time.monotonic())

    def wait_s(self, node_id: int, api_key: int, deadline: Deadline) -> float:
        """How long to wait before such a request; `deadline` moves by that time. Raises BrokerError
        if that would take too long."""
        left = self.left_s(api_key, node_id)
        if deadline.moved_s + left > MOST_WAIT_S:
            raise _throttled(node_id, left)
        deadline.move(left)
        return left


def _throttled(node_id: int, left: float) -> CausewayError:
    return broker_error(
        THROTTLING_QUOTA_EXCEEDED, "send a request to", f"broker {node_id}", words(left)
    )
