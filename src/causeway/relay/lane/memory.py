"""What a lane's buffer holds, and whether there is room in it for another answer.

Batches that wait are views of the answers that they came with, or copies. An answer stays in memory
as long as one view of it is left, and counts as a whole. Where that takes too much room, the few
that stay behind of an answer are copied out of it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Final

from causeway.relay.lane.flow import OutletState
from causeway.wire.buffers import KEPT_BYTES, Buffers
from causeway.wire.frames import Outbox

SPARSE: Final = 2  # an answer is copied out of where its views are less than this part of it
PATIENCE_S: Final = 0.1  # so long a full buffer may get room by itself, while there is much to send
LOOK_S: Final = 0.01  # so often a full buffer is looked through in vain, at most
# Nor is more than this part of the time spent on that, unless half of what waited has gone.
LOOK_SHARE: Final = 0.005


class Memory:
    """Not thread-safe; belongs to one lane's loop. `most_bytes`: what the buffer holds."""

    def __init__(self, most_bytes: int) -> None:
        self.buffers = Buffers()
        self.most_bytes = most_bytes
        self._full_since: float | None = None
        self._look_at = 0.0
        self._in_vain = 0  # what was pending at the last look, which found no room

    def has_room(
        self, besides: int, outlets: Collection[OutletState], outboxes: Collection[Outbox]
    ) -> bool:
        """Whether less is held than the buffer holds, `besides` bytes elsewhere included. What
        `outlets` have to send waits in them, and in `outboxes` once it is on its way."""
        most = self.most_bytes - besides
        pending = sum([outlet.pending_bytes for outlet in outlets])
        copied = sum([outlet.copied_bytes for outlet in outlets])
        held = self.buffers.held_bytes
        if not held:
            self.buffers.kept_bytes = max(KEPT_BYTES, self.most_bytes // 2)
            self.buffers.give_back()
        if held + copied < most:
            self._full_since = None
            return True
        begun = time.monotonic()
        if self._full_since is None:
            self._full_since = begun
        # With less than that some answers are sparse, and copied out they make room: what is left
        # is used to a half at least, or a copy. With more it may be that none is.
        much = SPARSE * (pending + sum([box.size for box in outboxes])) >= most
        if much and begun < self._full_since + PATIENCE_S:
            return False
        if begun < self._look_at and 2 * pending >= self._in_vain:
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
        now = time.monotonic()
        self._look_at = now + max(LOOK_S, (now - begun) / LOOK_SHARE)
        return False


def _sparse(outlets: Iterable[OutletState], outboxes: Iterable[Outbox]) -> set[int]:
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
