"""What a long round trip needs: more under way at once.

    throughput = bytes under way / round trip

A broker works on the requests of a connection one after another, and a fetch session has one under
way. So a source broker is read over two connections, each with a session of its own for some of the
partitions, that it prepares an answer while another arrives. A far one is read over more, and in
larger answers; a far target is sent more requests before it has answered the first.
"""

from __future__ import annotations

from typing import Final

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
