"""The size limit of requests to a target broker: as configured, or as learned from the broker.

A broker closes the connection without an answer if a request is larger than its
`socket.request.max.bytes`. The connection of a broker that is killed closes in the same way. So a
limit is assumed only after two such losses, each with a request that is larger than any that the
broker has answered.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from causeway.config import ClientSettings

LEAST_BYTES: Final = 64 * 1024  # no request is made smaller because connections are lost
LOSSES: Final = 2
# Bytes of a request besides its batches: its header, and for each batch a topic's name and more.
HEADER_BYTES: Final = 1024
PART_BYTES: Final = 300


@dataclass(slots=True, eq=False)
class RequestLimit:
    """The limit of one broker, for all connections of a lane to it. `most_bytes`: of a whole
    request, unless one record takes more. `answered_bytes`: the largest request that was
    answered."""

    most_bytes: int = sys.maxsize
    answered_bytes: int = 0
    lowered: bool = False  # because the broker closed connections
    _losses: int = 0  # in a row

    @property
    def batches_bytes(self) -> int:
        """The most bytes of a request's batches, with PART_BYTES for each."""
        return self.most_bytes - HEADER_BYTES

    @property
    def batch_bytes(self) -> int:
        """The most bytes of one batch, if it can be cut."""
        return max(1, self.batches_bytes - PART_BYTES)

    def answered(self, size: int) -> None:
        """The broker has answered a request of `size` bytes, more than any before."""
        self.answered_bytes = size
        self._losses = 0

    def lost(self, size: int) -> str:
        """Call this when the broker has closed a connection. `size`: bytes of the largest
        unanswered request. Returns the end of a sentence about the loss, for people."""
        if size <= max(self.answered_bytes, LEAST_BYTES):
            return ""
        self._losses += 1
        told = f", with a request of {size} bytes unanswered"
        if self._losses < LOSSES:
            return told
        self.lowered = True
        self.most_bytes = max(self.answered_bytes, LEAST_BYTES, size // 2)
        return (
            f"{told}: requests have at most {self.most_bytes} bytes from now on (is the broker's "
            "socket.request.max.bytes low? producer.max.request.size of the target sets the limit)"
        )


class RequestLimits:
    """The limits of the brokers of some clusters. Clusters go by their keys in assignments."""

    def __init__(self, clusters: Mapping[str, ClientSettings]) -> None:
        self._clusters = clusters
        self._limits: dict[tuple[str, int], RequestLimit] = {}

    def of(self, cluster: str, node: int) -> RequestLimit:
        limit = self._limits.get((cluster, node))
        if limit is None:
            most_bytes = self._clusters[cluster].max_request_bytes
            limit = RequestLimit() if most_bytes is None else RequestLimit(most_bytes)
            self._limits[cluster, node] = limit
        return limit

    @property
    def lowered(self) -> tuple[str, ...]:
        """The brokers whose limit was lowered, each with the most bytes of a request."""
        return tuple(
            f"{self._clusters[cluster].alias} {node}: {limit.most_bytes}"
            for (cluster, node), limit in sorted(self._limits.items(), key=lambda item: item[0])
            if limit.lowered
        )
