"""What a long round trip needs: more under way at once.

    throughput = bytes under way / round trip

A broker works on the requests of a connection one after another, and a fetch session has one under
way. So a source broker is read over two connections, each with a session of its own for some of the
partitions, that it prepares an answer while another arrives. A far one is read over more, and in
larger answers; a far target is sent more requests before it has answered the first.

The size limit of requests to a target broker is as configured, or as learned from it. A broker
closes the connection without an answer if a request is larger than its `socket.request.max.bytes`.
The connection of a broker that is killed closes in the same way. So a limit is assumed only after
two such losses, each with a request that is larger than any that the broker has answered.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from causeway.config import ClientSettings

NEAR_S: Final = 0.01  # below this round trip nothing is gained by more than a near broker gets
NEAR_SESSIONS, MOST_SESSIONS = 2, 8
SHARE: Final = 2  # what a broker's answers together may hold, as a part of a buffer
# Of a partition in an answer, so that it holds several, and a request to the target a batch of
# each; of few partitions more, but of a near broker not without bound: it has the rest at once.
PARTITION_BYTES: Final = 2 * 1024 * 1024
NEAR_PARTITION_BYTES: Final = 4 * 1024 * 1024
FIRST_ANSWER_BYTES: Final = 1024 * 1024
QUICK_S, SLOW_S = 0.5, 2.0  # beyond the round trip
MOST_GROWTH: Final = 8  # from one answer to the next
NEAR_REQUESTS: Final = 16
SMALL_REQUESTS: Final = 64  # to a near broker, where they are small: work for some milliseconds
MOST_REQUESTS: Final = 1000


def sessions(round_trip_s: float) -> int:
    """How many connections of a lane read from such a broker, if there are as many partitions."""
    return max(NEAR_SESSIONS, min(MOST_SESSIONS, int(round_trip_s / NEAR_S)))


def answer_bytes(buffer_bytes: int, sessions: int) -> int:
    """The most that one answer may hold where `sessions` are read from a broker, so that all
    together have at most a part of a lane's buffer under way."""
    return max(1, buffer_bytes // SHARE // max(1, sessions))


def partition_bytes(round_trip_s: float, answer_bytes: int, partitions: int) -> int:
    """The most that an answer may hold of one of so many partitions."""
    share = answer_bytes // max(1, partitions)
    if round_trip_s < NEAR_S:
        share = min(share, NEAR_PARTITION_BYTES)
    return max(PARTITION_BYTES, share)


def requests(round_trip_s: float) -> int:
    """How many produce requests may be unanswered on a connection to such a broker."""
    return min(MOST_REQUESTS, NEAR_REQUESTS * max(1, int(round_trip_s / (NEAR_S / 2))))


def next_answer_bytes(asked: int, most: int, got: int, took_s: float, round_trip_s: float) -> int:
    """What to ask for after `asked` brought `got` bytes in `took_s`: more while that comes quickly,
    at least twice as much and as much as should come as quickly; less where the line is thin, so
    that no answer takes longer than a request may."""
    late_s = took_s - round_trip_s
    if 2 * got >= asked:  # else there was no more
        if late_s > SLOW_S:
            asked = max(min(asked, FIRST_ANSWER_BYTES), asked // 2)
        elif late_s < QUICK_S:
            asked *= max(2, int(QUICK_S / max(late_s, QUICK_S / MOST_GROWTH)))
    return min(asked, most)


# A broker reads each partition of a session for each request, also those without new records. That
# takes it up to 4 us for a partition, so a session takes at most about a tenth of a core.
PACE_PARTITION_S: Final = 40e-6
LEAST_PACE_S, MOST_PACE_S = 0.004, 0.02
BUSY_BYTES: Final = 64 * 1024  # a larger answer is part of a backlog, or worth the broker's work


def paced_until(sent_at: float, partitions: int, got: int) -> float:
    """When the next request of a session of `partitions` may follow one of `sent_at` (monotonic),
    whose answer had `got` bytes. So if many partitions get a few records each, an answer has the
    records of many partitions. If records come more rarely than that, no record waits.

    Sessions with the same pace ask at the same times. So their answers arrive together, and the
    lane produces what they hold in one request."""
    pace = partitions * PACE_PARTITION_S
    if got > BUSY_BYTES or pace < LEAST_PACE_S:
        return 0.0
    pace = LEAST_PACE_S * math.ceil(min(pace, MOST_PACE_S) / LEAST_PACE_S)
    return pace * (sent_at // pace + 1)


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
