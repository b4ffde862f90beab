"""Limits the memory of a lane: decides whether there is room for another response.

Waiting batches are views of the responses that they came with, or copies. A response stays in
memory as long as one view is left, and counts as a whole. If that takes too much memory, the last
few batches of a response are copied out.
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
PATIENCE_S: Final = 0.1  # while there is much to send, a full buffer may get room in this time
LOOK_S = (0.01, 0.5)  # the least and most time after a search of a full buffer that found no room
# Between these limits, searches take this part of the time. The next search comes earlier if a
# quarter of the pending bytes has gone.
LOOK_SHARE: Final = 0.005
KEPT_SHARE: Final = 2  # the buffer / KEPT_SHARE is kept for the next answers
MOST_KEPT_BYTES: Final = 160 * 1024 * 1024
KEPT_S: Final = 60.0  # after this time without an answer, less is kept


class LaneMemory:
    """Not thread-safe; belongs to one lane's loop. `most_bytes`: the size of the lane's buffer."""

    def __init__(self, most_bytes: int) -> None:
        self.buffers = Buffers()
        self.most_bytes = most_bytes
        self._full_since: float | None = None
        self._held_at = 0.0
        self._look_at = 0.0
        self._in_vain = 0  # the pending bytes at the last search, which found no room

    def has_room(
        self, besides: int, outlets: Collection[OutletState], outboxes: Collection[SendQueue]
    ) -> bool:
        """Whether the lane holds fewer bytes than its buffer has. `besides`: bytes elsewhere, which
        count too. Batches wait in `outlets`, and in `outboxes` after they are queued to be sent."""
        most = self.most_bytes - besides
        copied = sum([outlet.copied_bytes for outlet in outlets])
        now = time.monotonic()
        held = self.buffers.size
        # If this is little, it does not matter which buffers are free, and the search is saved.
        if held > KEPT_BYTES or held + copied >= most:
            held = self.buffers.held_bytes
        self._keep(held, now)
        if held + copied < most:
            self._full_since = None
            return True
        if self._full_since is None:
            self._full_since = now
        pending = sum([outlet.pending_bytes for outlet in outlets])
        # If less than a half of the buffer is to be sent, some answers are sparse, and copies of
        # their rest make room: then each answer is used by at least a half, except answers that are
        # still arriving. If more is to be sent, perhaps no answer is sparse.
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
        """Sets how much memory is kept for answers. It is much while answers come, because new
        pages are expensive then."""
        if held:
            self._held_at = now
            kept = min(MOST_KEPT_BYTES, self.most_bytes // KEPT_SHARE)
            self.buffers.kept_bytes = max(KEPT_BYTES, kept)
        elif now > self._held_at + KEPT_S:
            self.buffers.kept_bytes = KEPT_BYTES
            self.buffers.give_back()


def _sparse(outlets: Iterable[OutletState], outboxes: Iterable[SendQueue]) -> set[int]:
    """The `id` of each answer of which little is left."""
    used = Counter[int]()
    sizes: dict[int, int] = {}
    waiting = (batch.payload for outlet in outlets for batch in outlet.pending)
    on_their_way = (part for box in outboxes for part in box.waiting())
    for part in chain(waiting, on_their_way):
        if isinstance(part, memoryview):
            sizes[id(part.obj)] = len(part.obj)  # type: ignore[arg-type]
            used[id(part.obj)] += len(part)
    return {answer for answer, size in sizes.items() if SPARSE * used[answer] < size}
