"""Quotas of a broker: it handles a request, and then reads nothing more for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

_BURST_S = 1.0  # of the rate, before anything is throttled


class Quotas:
    """Bytes a second for all clients together, as one user without client ids; None: no quota."""

    def __init__(self, node: BrokerNode) -> None:
        self.producer_byte_rate: float | None = None
        self.consumer_byte_rate: float | None = None
        self._node = node
        self._paid_until = {"produce": 0.0, "fetch": 0.0}

    def throttle_s(self, kind: str, size: int) -> float:
        """`kind`: produce or fetch. How long the broker mutes a connection after `size` bytes."""
        rate = self.producer_byte_rate if kind == "produce" else self.consumer_byte_rate
        if not rate:
            return 0.0
        now = self._node.world.now()
        paid_until = max(now, self._paid_until[kind]) + size / rate
        wait_s = paid_until - now - _BURST_S
        if wait_s <= 0 or kind == "produce":
            self._paid_until[kind] = paid_until  # a throttled fetch answers without records
        return max(0.0, wait_s)
