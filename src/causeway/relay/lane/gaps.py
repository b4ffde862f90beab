"""The gaps of an outlet that keeps the source's offsets, and the batches that wait behind them.

    pending        queue                       a gap is filled when all data before it is
    [batch][batch] │ gap [batch] gap [batch]   acknowledged; the batches behind it are sent then

A batch has a sequence, a marker does not. If the broker refused a batch before a marker, the marker
would take the offset of the batch, and no request can remove it. So markers are sent only when the
batches before them are acknowledged, and batches only when the markers before them are, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from causeway.cluster import Transaction
from causeway.link_topics import Filled
from causeway.records import Batch, Gap
from causeway.relay.messages import Preserve

Way = Literal["beginning", "markers", "transactions", "filler"]


@dataclass(slots=True, eq=False)
class Gaps:
    """`queue` begins with a gap, or is empty. `size`: the bytes of its batches. `doubtful`:
    requests were given up without a response and may still arrive; no batch was acknowledged since,
    and nothing fences them. `transaction` is set for the way `transactions` after it has begun."""

    settings: Preserve
    queue: deque[Batch | Gap] = field(default_factory=deque)
    size: int = 0
    doubtful: bool = False
    transaction: Transaction | None = None
    filled: Filled = field(default_factory=Filled)

    def put(self, run: Batch | Gap) -> None:
        if isinstance(run, Gap):
            last, begin = self.queue[-1] if self.queue else None, self.settings.begin
            if run.start < begin < run.stop:
                self.put(run._replace(stop=begin))
                self.put(run._replace(start=begin))
                return
            # The beginning is filled in another way than the gaps behind it.
            if isinstance(last, Gap) and last.stop != begin:
                self.queue[-1] = last._replace(stop=run.stop)
                return
        else:
            self.size += run.size
            if isinstance(run.payload, memoryview):
                # The batch may wait long. A copy frees the memory of the fetch response.
                run = run._replace(payload=bytes(run.payload))
        self.queue.append(run)

    def clear(self) -> None:
        self.queue.clear()
        self.size = 0

    def reset(self, *, doubtful: bool) -> None:
        """Call this after a recovery. The doubt lasts until a fence or an acknowledged batch."""
        self.clear()
        self.doubtful |= doubtful
        self.transaction = None

    @property
    def first(self) -> Gap | None:
        """The gap to fill next."""
        first = self.queue[0] if self.queue else None
        return first if isinstance(first, Gap) else None

    def way(self, gap: Gap) -> Way | None:
        """How `gap` is filled; None if it must not be filled."""
        settings = self.settings
        if gap.stop <= settings.begin:
            return "beginning"
        if settings.filler_from is not None and gap.stop - gap.start >= settings.filler_from:
            return None if settings.stops else "filler"
        return settings.gaps

    def note(self, way: Way, offsets: int, *, whole: bool) -> None:
        """Counts `offsets`, the number that was filled. `whole`: a gap is complete now."""
        filled = self.filled
        if whole and way != "beginning":
            filled = filled.replace(gaps=filled.gaps + 1)
        self.filled = filled.replace(**{way: getattr(filled, way) + offsets})

    def epoch_of_next(self, pending: Iterable[Batch], otherwise: int) -> int:
        """The leader epoch of the batch behind the gap; `otherwise` if there is none. That batch
        may be `pending`. No batch in the gap has a later epoch."""
        waiting = chain(pending, self.queue)
        epochs = (run.leader_epoch for run in waiting if isinstance(run, Batch))
        return next((epoch for epoch in epochs if epoch >= 0), otherwise)

    def filled_to(self, end: int) -> list[Batch]:
        """Notes that the first gap is filled up to `end`. Returns the batches to send now."""
        gap = self.first
        if gap is None:  # the queue was cleared meanwhile
            return []
        if end < gap.stop:
            self.queue[0] = gap._replace(start=end)
            return []
        self.queue.popleft()
        due: list[Batch] = []
        while self.queue and isinstance(batch := self.queue[0], Batch):
            due.append(batch)
            self.size -= batch.size
            self.queue.popleft()
        return due
