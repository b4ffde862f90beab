"""A partition, as our own client writes to it: what waits, what is on its way, and what has to be
sent again.

                take()                       done()
    waiting ─────────────► on its way ─────────────► there
        ▲                     │ fail()
        │   again ◄───────────┘ settle(): once nothing is on its way any more, those that failed go
        │     │                 first, in their order, with the sequences that they had
        └─────┘ one was refused for good: those behind it get other sequences

A sequence is given once and kept: so a batch that is there already is known by it, whoever leads
the partition. What cannot be told for sure is not tried: `take` and `settle` raise Unsure.
"""

from __future__ import annotations

from collections import deque

from causeway.cluster import REMEMBERED_S, is_young
from causeway.producer.client import Sending
from causeway.records import SMALL_BATCH, advance, merge, split

_MERGED_BYTES = 128 << 10


class Unsure(Exception):  # noqa: N818  (what to do is another's to say)
    """Whether a batch is there, no sequence can tell: the log has to be looked at."""


class Outlet:
    """`leader`: the broker's number, None where it is not known. `topic_id`: as the leader's
    metadata had it, "" where it was not asked yet. `not_before`: a pause after a failure."""

    __slots__ = (
        "again", "failed", "failures", "leader", "not_before", "partition", "remembered_until",
        "sequence", "topic", "topic_id", "unknown_since", "waiting", "way",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.waiting: deque[Sending] = deque()
        self.again: deque[Sending] = deque()
        self.way: deque[Sending] = deque()
        self.failed: list[Sending] = []
        self.sequence = 0
        self.leader: int | None = None
        self.topic_id = ""
        self.remembered_until = 0.0
        self.not_before = 0.0
        self.unknown_since = 0.0
        self.failures = 0

    def has_more(self) -> bool:
        return bool(self.waiting or self.again)

    def may_send(self, now: float) -> bool:
        """A broker that knows nothing of a producer takes any sequence from it. So where it may be
        so, each batch waits for the answer to the one before it."""
        if self.failed or now < self.not_before:
            return False
        return not self.way or now < self.remembered_until

    def take(self) -> Sending:
        """The next one to be sent. Raises Unsure."""
        if self.again:
            sending = self.again.popleft()
            # What a broker knows of a producer is as old as the last that it has of it.
            if sending.doubtful and not all(
                is_young(each.batch.max_timestamp)
                for each in (sending, *self.again)
                if each.doubtful
            ):
                raise Unsure("its record is too old for the broker to know it again")
        else:
            sending = self._next()
            sending.sequence = self.sequence
            self.sequence = advance(self.sequence, sending.batch.records)
        if not is_young(sending.batch.max_timestamp):
            self.remembered_until = 0.0
        self.way.append(sending)
        return sending

    def done(self, now: float) -> Sending:
        """The first one on its way has arrived."""
        sending = self.way.popleft()
        self.failures = 0
        self.unknown_since = 0.0
        if self.remembered_until or (not self.way and is_young(sending.batch.max_timestamp)):
            self.remembered_until = now + REMEMBERED_S
        return sending

    def fail(self, *, doubtful: bool) -> None:
        """The first one on its way was not acknowledged; `doubtful`: it may be there."""
        sending = self.way.popleft()
        self.remembered_until = 0.0  # another broker may lead
        sending.doubtful |= doubtful
        self.failed.append(sending)

    def lost(self) -> None:
        """All that is on its way was not answered."""
        while self.way:
            self.fail(doubtful=True)

    def settle(self, not_before: float) -> Sending | None:
        """Once nothing is on its way, what failed comes first; where the first of it was refused,
        it goes in two halves, and by itself it is given up, and returned. Raises Unsure."""
        if self.way or not self.failed:
            return None
        first, given_up = self.failed[0], None
        if first.refusal is None:
            self.failures += 1
            self.not_before = not_before
        elif first.doubtful:
            raise Unsure("what may be there already was refused")
        elif first.batch.records > 1:
            self.failed[:1] = _halves(first)
        else:
            given_up = self._drop()
        for sending in self.failed:
            sending.refusal = None
        self.again.extendleft(reversed(self.failed))
        self.failed.clear()
        return given_up

    def _drop(self) -> Sending:
        """Those behind it are not there, since its sequence is missing; they get others."""
        refused = self.failed.pop(0)
        behind = [*self.failed, *self.again]
        if any(sending.doubtful for sending in behind):
            raise Unsure("a record was refused amid others of which it is not known")
        for sending in behind:
            sending.sequence = -1
            sending.refusal = None
        self.waiting.extendleft(reversed(behind))
        self.failed.clear()
        self.again.clear()
        self.sequence = refused.sequence
        return refused

    def _next(self) -> Sending:
        """Small neighbours go as one: a broker's work is by the batch."""
        first = self.waiting.popleft()
        if not self.waiting or first.batch.size > SMALL_BATCH:
            return first
        run, size = [first], first.batch.size
        while self.waiting:
            following = self.waiting[0].batch
            size += following.size
            if (
                following.size > SMALL_BATCH
                or following.codec != first.batch.codec
                or size > _MERGED_BYTES
            ):
                break
            run.append(self.waiting.popleft())
        if len(run) == 1:
            return first
        batch, taken = merge([sending.batch for sending in run])
        self.waiting.extendleft(reversed(run[taken:]))
        if taken < 2:
            return first
        known = [sending.records for sending in run[:taken]]
        records = [r for some in known if some for r in some] if all(known) else None
        return Sending(first.on, batch, records, sum(each.charged for each in run[:taken]))


def _halves(whole: Sending) -> list[Sending]:
    batch, records = whole.batch, whole.records
    middle = batch.records // 2
    halves = []
    for start, stop, charged in (
        (0, middle, whole.charged // 2),
        (middle, batch.records, whole.charged - whole.charged // 2),
    ):
        part = split(batch, start, stop)
        half = Sending(whole.on, part, records and records[start:stop], charged)
        half.sequence = advance(whole.sequence, start)
        halves.append(half)
    return halves
