"""Sets how much is in flight on a connection: a long round trip needs more.

    throughput = bytes in flight / round trip

A broker works on the requests of a connection one after another, and a fetch session has one
request in flight. So a source broker is read over two connections. Each has its own session for
some of the partitions, and the broker prepares an answer while another answer arrives. A far source
broker is read over more connections, and in larger answers. A far target broker gets more requests
before it has answered the first request.

The size limit of requests to a target broker is configured, or learned from the broker. A broker
closes the connection without an answer if a request is larger than its `socket.request.max.bytes`.
The connection also closes if a broker is killed. So a limit is assumed only after two losses of
that kind, each with a request that is larger than all answered requests.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from causeway.config import ClientSettings

NEAR_S: Final = 0.01  # a broker with a shorter round trip is near: more in flight gains nothing
NEAR_SESSIONS, MOST_SESSIONS = 2, 8
SHARE: Final = 2  # all answers of a broker together have at most the lane's buffer / SHARE
# The bytes of one partition in an answer. Then an answer has several partitions, and a request to
# the target has a batch of each. With few partitions it is more. For a near broker that is bounded,
# because its next answer comes quickly.
PARTITION_BYTES: Final = 2 * 1024 * 1024
NEAR_PARTITION_BYTES: Final = 4 * 1024 * 1024
FIRST_ANSWER_BYTES: Final = 1024 * 1024
QUICK_S, SLOW_S = 0.5, 2.0  # of an answer, besides the round trip
MOST_GROWTH: Final = 8  # from one answer to the next
NEAR_REQUESTS: Final = 16
SMALL_REQUESTS: Final = 64  # small requests to a near broker: work for some milliseconds
MOST_REQUESTS: Final = 1000


def sessions(round_trip_s: float) -> int:
    """How many connections of a lane read from a broker with this round trip, if it leads enough
    partitions."""
    return max(NEAR_SESSIONS, min(MOST_SESSIONS, int(round_trip_s / NEAR_S)))


def answer_bytes(buffer_bytes: int, sessions: int) -> int:
    """The most bytes of one answer, if a broker is read in `sessions` sessions. All its answers
    together take at most a part of the lane's buffer."""
    return max(1, buffer_bytes // SHARE // max(1, sessions))


def partition_bytes(round_trip_s: float, answer_bytes: int, partitions: int) -> int:
    """The most bytes of one partition in an answer, if the session has `partitions` partitions."""
    share = answer_bytes // max(1, partitions)
    if round_trip_s < NEAR_S:
        share = min(share, NEAR_PARTITION_BYTES)
    return max(PARTITION_BYTES, share)


def requests(round_trip_s: float) -> int:
    """How many produce requests may be unanswered on a connection with this round trip."""
    return min(MOST_REQUESTS, NEAR_REQUESTS * max(1, int(round_trip_s / (NEAR_S / 2))))


def next_answer_bytes(asked: int, most: int, got: int, took_s: float, round_trip_s: float) -> int:
    """How many bytes to ask for next, after a request for `asked` bytes brought `got` bytes in
    `took_s`.

    If the answer came quickly, it is more: at least twice as many, and as many as should arrive in
    QUICK_S. If the connection is slow, it is less, so no answer takes longer than the request
    timeout."""
    late_s = took_s - round_trip_s
    if 2 * got >= asked:  # otherwise the broker had no more records
        if late_s > SLOW_S:
            asked = max(min(asked, FIRST_ANSWER_BYTES), asked // 2)
        elif late_s < QUICK_S:
            asked *= max(2, int(QUICK_S / max(late_s, QUICK_S / MOST_GROWTH)))
    return min(asked, most)


# For each request, a broker reads each partition of the session, also those without new records.
# That takes up to 4 us for a partition, so a session takes at most about a tenth of a broker's
# core.
PACE_PARTITION_S: Final = 40e-6
LEAST_PACE_S, MOST_PACE_S = 0.004, 0.04
BUSY_BYTES: Final = 64 * 1024  # a larger answer is part of a backlog, or worth the broker's work


def paced_until(sent_at: float, partitions: int, got: int) -> float:
    """When (monotonic) a session with `partitions` partitions may send its next request. The last
    request was sent at `sent_at`, and its answer had `got` bytes. 0 if there is no pace.

    If many partitions get a few records each, an answer then has the records of many partitions. If
    records come more rarely than that, no record waits. Sessions with the same pace ask at the same
    times. So their answers arrive together, and the lane produces their records in one request."""
    pace = partitions * PACE_PARTITION_S
    if got > BUSY_BYTES or pace < LEAST_PACE_S:
        return 0.0
    pace = LEAST_PACE_S * math.ceil(min(pace, MOST_PACE_S) / LEAST_PACE_S)
    return pace * (sent_at // pace + 1)


LEAST_BYTES: Final = 64 * 1024  # lost connections never lower the limit below this
LOSSES: Final = 2
# The bytes of a request besides its batches: its header, and for each batch a topic name and more.
HEADER_BYTES: Final = 1024
PART_BYTES: Final = 300


@dataclass(slots=True, eq=False)
class RequestLimit:
    """The limit of one broker, for all connections of a lane to it. `most_bytes`: the limit of a
    whole request, unless a single record takes more. `answered_bytes`: the largest request that
    the broker has answered."""

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
        """The broker has answered a request of `size` bytes, the largest so far."""
        self.answered_bytes = size
        self._losses = 0

    def lost(self, size: int) -> str:
        """Call this when the broker has closed a connection. `size`: the bytes of the largest
        unanswered request. Returns the end of a message about the loss."""
        if size <= max(self.answered_bytes, LEAST_BYTES):
            return ""
        self._losses += 1
        loss = f", with a request of {size} bytes unanswered"
        if self._losses < LOSSES:
            return loss
        self.lowered = True
        self.most_bytes = max(self.answered_bytes, LEAST_BYTES, size // 2)
        return (
            f"{loss}: requests have at most {self.most_bytes} bytes from now on (is the broker's "
            "socket.request.max.bytes low? producer.max.request.size of the target sets the limit)"
        )


class RequestLimits:
    """The limits of brokers. A cluster has its key in assignments here."""

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
