"""Places that the driver cannot look up: what a transform makes of a partition is walked again,
through its stage, in a helper's thread. See relay.offset_lookup."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import Span
from causeway.records import Batch
from causeway.relay import offset_lookup as lookup
from causeway.relay.lane.helpers import Helpers
from causeway.relay.messages import Assignment, LookedUp, Lookup, sayable
from causeway.relay.offset_lookup import Sought
from causeway.relay.series import Series

AT_ONCE = 2  # of those that wait for stages, which have records to treat as well

Look = Callable[[], dict[int, int]]


class LookupQueue:
    """Not thread-safe; belongs to one lane's loop. `send` takes answers to the driver."""

    def __init__(self, helpers: Helpers, send: Callable[[LookedUp], None]) -> None:
        self._helpers = helpers
        self._send = send
        self._waiting: deque[tuple[int, Look]] = deque()
        self._under_way = 0

    def add(self, number: int, look: Look) -> None:
        """Answer look-up `number` with what `look` finds, in its turn."""
        self._waiting.append((number, look))
        self._go_on()

    def refuse(self, number: int) -> None:
        self._send(LookedUp(id=number, reason="its lane does not have the partition"))

    def _go_on(self) -> None:
        while self._waiting and self._under_way < AT_ONCE:
            number, look = self._waiting.popleft()
            self._under_way += 1
            self._helpers.submit(look, partial(self._done, number), staged=True)

    def _done(self, number: int, answer: dict[int, int] | CausewayError) -> None:
        self._under_way -= 1
        if isinstance(answer, CausewayError):
            self._send(LookedUp(id=number, reason=sayable(str(answer))))
        else:
            self._send(LookedUp(id=number, places=tuple(answer.items())))
        self._go_on()


def look_for(
    message: Lookup, assignment: Assignment, series: Series, source: Cluster, target: Cluster
) -> Look | None:
    """The look-up that `message` asks for; None if `assignment` has no such outlet. It gives up
    when the driver waits no longer."""
    ids = [outlet.producer_id for outlet in assignment.outlets]
    if message.producer_id not in ids:
        return None
    which = ids.index(message.producer_id)
    sought = Sought(
        source=assignment.source_partition,
        target=assignment.outlets[which].at,
        producer_id=message.producer_id,
        read_committed=assignment.read_committed,
        span=Span(message.start, message.end),
        offsets=message.offsets,
        floor=message.floor,
    )
    until = time.monotonic() + message.patience_s

    def becomes(batches: Iterator[Batch]) -> Iterator[Batch]:
        for parts in series(assignment, batches):
            if (part := parts[which]) is not None:
                yield part

    return lambda: lookup.find(sought, source, target, lambda: time.monotonic() < until, becomes)
