"""Limits the bytes that a lane holds: decides whether there is room for another response.

Waiting batches are views of the responses that they came with, or copies. A response stays in
memory as long as one view is left, and counts as a whole. If that takes too much room, the last few
batches of a response are copied out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Final

from causeway.relay.lane.outlet import OutletState
from causeway.wire import KEPT_BYTES, Buffers, SendQueue

SPARSE: Final = 2  # views are copied out of an answer if they are less than 1/SPARSE of its size
PATIENCE_S: Final = 0.1  # so long a full buffer may get room by itself, while there is much to send
LOOK_S = (0.01, 0.5)  # so often a full buffer is looked through in vain, at most and at least
# Between these, this part of the time is spent on that, unless a quarter of what waited has gone.
LOOK_SHARE: Final = 0.005
KEPT_SHARE: Final = 2  # of the buffer: this part is kept for the next answers
MOST_KEPT_BYTES: Final = 160 * 1024 * 1024
KEPT_S: Final = 60.0  # after so long without any, less is kept


class LaneMemory:
    """Not thread-safe; belongs to one lane's loop. `most_bytes`: what the buffer holds."""

    def __init__(self, most_bytes: int) -> None:
        self.buffers = Buffers()
        self.most_bytes = most_bytes
        self._full_since: float | None = None
        self._held_at = 0.0
        self._look_at = 0.0
        self._in_vain = 0  # what was pending at the last look, which found no room

    def has_room(
        self, besides: int, outlets: Collection[OutletState], outboxes: Collection[SendQueue]
    ) -> bool:
        """Whether less is held than the buffer holds, `besides` bytes elsewhere included. What
        `outlets` have to send waits in them, and in `outboxes` once it is on its way."""
        most = self.most_bytes - besides
        copied = sum([outlet.copied_bytes for outlet in outlets])
        held = self.buffers.held_bytes
        now = time.monotonic()
        self._keep(held, now)
        if held + copied < most:
            self._full_since = None
            return True
        if self._full_since is None:
            self._full_since = now
        pending = sum([outlet.pending_bytes for outlet in outlets])
        # With less than that some answers are sparse, and copied out they make room, but for those
        # that are still to come whole: what is left is used to a half at least, or a copy. With
        # more it may be that none is.
        much = SPARSE * (pending + sum([box.size for box in outboxes])) >= most
        if much and now < self._full_since + PATIENCE_S:
            return False
        if now < self._look_at and 4 * pending >= 3 * self._in_vain:
            return False
        if sparse := _sparse(outlets, outboxes):
            for outlet in outlets:
                outlet.copy_out(sparse)
            for box in outboxes:
                box.copy_out(sparse)
        copied = sum([outlet.copied_bytes for outlet in outlets])
        if self.buffers.held_bytes + copied < most:
            self._full_since = None
            return True
        self._in_vain = pending
        ended = time.monotonic()
        least, most_s = LOOK_S
        self._look_at = ended + min(most_s, max(least, (ended - now) / LOOK_SHARE))
        return False

    def _keep(self, held: int, now: float) -> None:
        """Memory for answers: much while some come, in which case new pages cost most."""
        if held:
            self._held_at = now
            kept = min(MOST_KEPT_BYTES, self.most_bytes // KEPT_SHARE)
            self.buffers.kept_bytes = max(KEPT_BYTES, kept)
        elif now > self._held_at + KEPT_S:
            self.buffers.kept_bytes = KEPT_BYTES
            self.buffers.give_back()


def _sparse(outlets: Iterable[OutletState], outboxes: Iterable[SendQueue]) -> set[int]:
    """The answers, by `id`, of which there is little left."""
    used = Counter[int]()
    sizes: dict[int, int] = {}
    waiting = (batch.payload for outlet in outlets for batch in outlet.pending)
    on_their_way = (part for box in outboxes for part in box.waiting())
    for part in chain(waiting, on_their_way):
        if isinstance(part, memoryview):
            sizes[id(part.obj)] = len(part.obj)  # type: ignore[arg-type]
            used[id(part.obj)] += len(part)
    return {answer for answer, size in sizes.items() if SPARSE * used[answer] < size}
