"""Limits how fast a lane reads throttled topics and links, by token buckets.

A bucket is used once for each partition of a fetch request, never for a record. A request pays in
advance for the bytes that it asks for, and its answer gives the rest back. So requests to several
brokers together ask for no more than the buckets have. An answer can be larger than the request
asked for, because it has at least one whole batch. Then the bucket owes the difference, and nothing
is read until it is paid. So the rate is kept over any time that is long compared with one answer.

Answers may be slow because they have many other records, or come from far away. Then one request
asks for more bytes of a flow, and the flow still reads at its rate:

    rate × 0.25 s               if each answer takes less time than that
    half of the bucket's level  if answers take longer; the level then grows up to rate × 2 s
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from causeway.model import State
from causeway.records import LENGTH_OVERHEAD
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.outlet import UNKNOWN
from causeway.relay.lane.reader import SourceConnection
from causeway.relay.lane.target import TargetConnection
from causeway.relay.messages import Rate
from causeway.wire import throttled_text

BURST_S: Final = 0.5  # a bucket has at most rate × BURST_S; no turn of a lane takes longer
LAGGING_S: Final = 2.0  # the same for partitions that lag: two slow answers take as long
SHARE_S: Final = 0.25  # a request asks for at least rate × SHARE_S of a partition
LEAST_BYTES: Final = 64 * 1024  # a request asks for at least this of a partition


class TokenBucket:
    """Bytes that may be read. A `level` below 0 is a debt. Times are monotonic seconds."""

    __slots__ = ("_at", "_level", "_wanted_until", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._level = 0.0
        self._at = now
        self._wanted_until = now

    def level(self, now: float) -> float:
        if now > self._at:
            most_s = LAGGING_S if now <= self._wanted_until else BURST_S
            self._level = min(self._level + self.rate * (now - self._at), self.rate * most_s)
            self._at = now
        return self._level

    def wanted(self, now: float) -> None:
        """There are records to read: the level may grow up to LAGGING_S until the next answer."""
        self._wanted_until = now + LAGGING_S

    def take(self, size: float) -> None:
        """Takes `size` bytes; gives bytes back if `size` is negative."""
        self._level -= size

    def change(self, rate: float, now: float) -> None:
        """Changes the rate from now on. If the new rate is much lower, the level is limited to
        BURST_S at the new rate: neither a debt nor bytes of the old rate last long."""
        level = self.level(now)
        if rate < self.rate / 2:
            self._level = min(max(level, -rate * BURST_S), rate * BURST_S)
        self.rate = rate

    def ready_in(self, now: float) -> float:
        """Seconds until something may be read."""
        level = self.level(now)
        return 0.0 if level > 0 else -level / self.rate


_Scope = tuple[str, str | None]


class Throttles:
    """The throttles of one lane. Not thread-safe."""

    def __init__(self) -> None:
        self._buckets: dict[_Scope, TokenBucket] = {}
        self._paid: dict[Flow, int] = {}  # paid in advance for requests without an answer

    def __bool__(self) -> bool:
        """Whether anything is throttled."""
        return bool(self._buckets)

    def set(self, rates: Iterable[Rate], now: float) -> None:
        """Sets all rates from now on."""
        known, self._buckets = self._buckets, {}
        for rate in rates:
            scope = rate.link, rate.topic
            bucket = known.get(scope)
            if bucket is None:
                bucket = TokenBucket(rate.bytes_per_s, now)
            else:
                bucket.change(rate.bytes_per_s, now)
            self._buckets[scope] = bucket
        if not self._buckets:
            self._paid.clear()

    def ask(self, flow: Flow, now: float) -> int:
        """How many bytes of `flow` may be asked for now, perhaps 0."""
        most = flow.answer_bytes
        buckets = self._of(flow)
        if not buckets:
            return most
        self.forget(flow)
        left = min(bucket.level(now) for bucket in buckets)
        lags = flow.source_end == UNKNOWN or flow.position < flow.source_end
        if lags:
            for bucket in buckets:
                bucket.wanted(now)
        if left <= 0:
            return 0
        share = SHARE_S * min(bucket.rate for bucket in buckets)
        asked = min(most, max(LEAST_BYTES, int(share), int(left / 2)))
        # A flow with nothing to read pays nothing in advance, so others can read instead.
        if lags:
            self._paid[flow] = asked
            for bucket in buckets:
                bucket.take(asked)
        return asked

    def took(self, flow: Flow, size: int) -> None:
        """Accounts for an answer with `size` bytes of whole batches."""
        self.forget(flow)
        for bucket in self._of(flow):
            bucket.take(size)

    def forget(self, flow: Flow) -> None:
        """Gives back the bytes that `flow` paid in advance."""
        if paid := self._paid.pop(flow, 0):
            for bucket in self._of(flow):
                bucket.take(-paid)

    def ready_in(self, now: float) -> float | None:
        """Seconds until a bucket that is empty now has bytes; None if no bucket is empty."""
        waits = [wait for b in self._buckets.values() if (wait := b.ready_in(now)) > 0]
        return min(waits) if waits else None

    def _of(self, flow: Flow) -> list[TokenBucket]:
        if not self._buckets:
            return []
        link, topic = flow.assignment.link, flow.assignment.topic
        found = (self._buckets.get((link, None)), self._buckets.get((link, topic)))
        return [bucket for bucket in found if bucket is not None]


def whole(records: memoryview) -> int:
    """How many bytes of an answer are whole batches. A partial batch is read again."""
    at, end = 0, len(records)
    while end - at >= LENGTH_OVERHEAD:
        stop = at + LENGTH_OVERHEAD + int.from_bytes(records[at + 8 : at + LENGTH_OVERHEAD], "big")
        if stop > end:
            break
        at = stop
    return at


LEAST_S: Final = 1.0  # near a quota, brokers often throttle for milliseconds; that is not shown
LOOK_S: Final = 0.5
SHOWN_S: Final = 2.0  # after the end of a throttle: the next answer shows whether it goes on


class _Shown(NamedTuple):
    reason: str
    until: float  # monotonic


class Quotas:
    """Shows throttles by quotas as the reasons of flows. Not thread-safe; belongs to one lane's
    loop. Flows whose reason changes are put in `touched`."""

    def __init__(self, touched: dict[Flow, None]) -> None:
        self._touched = touched
        self._shown: dict[Flow, _Shown] = {}
        self._look_at = 0.0

    def look(self, connections: Iterable[SourceConnection | TargetConnection], now: float) -> None:
        """Once in LOOK_S, sets the reason of flows that `connections` hold up, and clears old
        reasons."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        for connection in connections:
            if connection.throttled_until >= now + LEAST_S:
                self._note(connection, now)
        for flow, shown in list(self._shown.items()):
            if now >= shown.until:
                del self._shown[flow]
                if flow.reason == shown.reason:
                    self._say(flow, None)

    def _note(self, held_by: SourceConnection | TargetConnection, now: float) -> None:
        until = held_by.throttled_until + SHOWN_S
        reason = f"{throttled_text(held_by.throttled_until - now)}, by {held_by.connection}"
        for flow in held_by.held_up():
            shown = self._shown.get(flow)
            known = shown is not None and shown.until >= until
            if isinstance(held_by, TargetConnection):
                flow.throttled_until = max(flow.throttled_until, held_by.read_by)
            if flow.state is State.RUNNING and not flow.leaving and not known:
                self._shown[flow] = _Shown(reason, until)
                self._say(flow, reason)

    def _say(self, flow: Flow, reason: str | None) -> None:
        flow.reason = reason
        flow.changed = True
        self._touched[flow] = None
