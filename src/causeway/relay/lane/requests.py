"""How large a request to a target broker may be: as a person says, or as the broker shows.

A broker closes the connection without an answer when a request is larger than its
`socket.request.max.bytes`. So does one that is killed. A limit is therefore assumed only if it
happens twice, each time with a request that is larger than any that the broker has answered.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from causeway.config.settings import ClientSettings

LEAST_BYTES: Final = 64 * 1024  # no request is made smaller because connections are lost
LOSSES: Final = 2
# Of a request besides its batches: for its header, and for each batch (a topic's name and more).
HEADER_BYTES: Final = 1024
PART_BYTES: Final = 300


@dataclass(slots=True, eq=False)
class RequestLimit:
    """Of one broker, for all connections of a lane to it. `most_bytes`: of a whole request, unless
    one record takes more. `answered_bytes`: the largest that the broker has answered."""

    most_bytes: int = sys.maxsize
    answered_bytes: int = 0
    lowered: bool = False  # by what the broker showed
    _losses: int = 0  # in a row

    @property
    def batches_bytes(self) -> int:
        """What the batches of a request may have, each with PART_BYTES."""
        return self.most_bytes - HEADER_BYTES

    @property
    def batch_bytes(self) -> int:
        """What one batch may have, if it can be cut."""
        return max(1, self.batches_bytes - PART_BYTES)

    def answered(self, size: int) -> None:
        """The broker has answered a request of `size` bytes, more than any before."""
        self.answered_bytes = size
        self._losses = 0

    def lost(self, size: int) -> str:
        """The broker has closed a connection; of the unanswered requests the largest had `size`
        bytes. The end of a sentence about it, for people."""
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
    """Of the brokers of some clusters, by their keys in assignments."""

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
        """The brokers that get smaller requests than they might, with the most bytes of one."""
        return tuple(
            f"{self._clusters[cluster].alias} {node}: {limit.most_bytes}"
            for (cluster, node), limit in sorted(self._limits.items(), key=lambda item: item[0])
            if limit.lowered
        )
