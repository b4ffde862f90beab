"""The chunks that a lane sends through a stage, in order, and which of them kills it.

    waiting ──► under way ──► answered, and told in the order of sending
       ▲            │
       └── suspects ┘  the stage died: each is sent alone; the one that kills it alone is halved,
                       down to a single record

A new stage gets a chunk without records first, and all others once that has come through.

A stage dies of many things, so a record is blamed only when it has ended several stages by itself,
each of which had just worked, and in the same way: see BLAMED. If the query threw, that is the
record's doing. Where a process died, or gave no answer, it may be treated another time, when all is
well: it is tried again after growing pauses, and is no dead letter: see HANGS.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from causeway.errors import ProtocolError
from causeway.transform.channel import Chunk, Outcome, Refusal
from causeway.wire.batches import Batch
from causeway.wire.records import split

WINDOW_BYTES = 8 * 1024 * 1024  # under way at once
WINDOW_CHUNKS = 64
# How a stage ended: its query threw, one of its processes died or was ended, it gave no answer.
End = Literal["threw", "killed", "hung"]
BLAMED: dict[End, int] = {"threw": 3, "killed": 8, "hung": 3}
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)  # before a record is tried again after "killed"
THROWS = "the transform fails on it"
HANGS = "the processes of the transform die or hang on it"  # always stops the partition
_REASONS: dict[End, str] = {"threw": THROWS, "killed": HANGS, "hung": HANGS}
# Of a stage: "died" is any end but "hung"; "gone" is one that may not have had the chunk at all.
Loss = Literal["died", "hung", "gone"]


class Piece(NamedTuple):
    """What became of some of a work's records: all of them below source offset `next` have been
    answered now. `size`: its part of the work's bytes. `last`: nothing of the work is left."""

    outcome: Outcome
    next: int
    batches: Sequence[Batch]
    size: int
    last: bool


@dataclass(slots=True, eq=False)
class Work:
    """Records of one partition for the stage. `take` gets its pieces in order; None where nobody
    wants them any more. `owner`: see Chunks.cancel."""

    owner: object
    topic: str
    partition: int
    next: int
    batches: tuple[Batch, ...]
    take: Callable[[Piece], None] | None
    last: bool = True
    size: int = -1  # of a half, its share of the whole's
    records: int = field(init=False)
    ends: Counter[End] = field(init=False, default_factory=Counter)  # of stages, while alone there
    not_before: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if self.size < 0:
            self.size = sum(batch.size for batch in self.batches)
        self.records = sum(batch.records for batch in self.batches)


class Chunks:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()
        self._under_way: dict[int, Work | None] = {}  # None: the chunk that shows that it works
        self._early: dict[int, Outcome] = {}  # answers that came before those to earlier chunks
        self._suspects: set[Work] = set()
        self._works = False  # this stage, as far as we have seen
        self._accused: Work | None = None  # the one that was alone in a stage that died
        self._number = 0
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that wait or are under way."""
        return self._size

    @property
    def busy(self) -> bool:
        """Whether an answer is due."""
        return bool(self._under_way)

    @property
    def works(self) -> bool:
        """Whether this stage has answered something."""
        return self._works

    @property
    def suspicious(self) -> bool:
        """Whether some chunk is under suspicion."""
        return bool(self._suspects) or self._accused is not None

    def submit(self, work: Work) -> None:
        self._waiting.append(work)
        self._size += work.size

    def cancel(self, owner: object) -> None:
        """Forget the works of `owner`; what of them is under way comes for nobody."""
        for work in (*self._waiting, *self._under_way.values()):
            if work is not None and work.owner is owner:
                work.take = None
        gone = {work for work in self._waiting if work.take is None}
        self._suspects -= gone
        self._size -= sum(work.size for work in gone)
        self._waiting = deque(work for work in self._waiting if work not in gone)

    def to_send(self) -> Iterator[Chunk]:
        """What may be sent now; it counts as sent."""
        if not self._works:
            if not self._under_way:
                yield self._sent(None)
            return
        under_way = sum(work.size for work in self._under_way.values() if work is not None)
        while self._waiting:
            if self._suspects:
                if self._under_way:
                    return
            elif under_way >= WINDOW_BYTES or len(self._under_way) >= WINDOW_CHUNKS:
                return
            if self._waiting[0].not_before > time.monotonic():
                return
            work = self._waiting.popleft()
            under_way += work.size
            yield self._sent(work)

    def _sent(self, work: Work | None) -> Chunk:
        self._number += 1
        self._under_way[self._number] = work
        if work is None:
            return Chunk(self._number, "", 0, 0, ())
        return Chunk(self._number, work.topic, work.partition, work.next, work.batches)

    def answered(self, outcome: Outcome) -> None:
        """Whoever submitted the works hears of them in their order, however answers come. Raises
        ValueError for an answer to what is not under way."""
        if outcome.number not in self._under_way or outcome.number in self._early:
            raise ValueError(f"chunk {outcome.number} was answered, which is not under way")
        self._early[outcome.number] = outcome
        while (number := next(iter(self._under_way), None)) in self._early:
            assert number is not None
            self._works = True
            outcome = self._early.pop(number)
            work = self._under_way.pop(number)
            if work is not None:
                self._finish(work, outcome)

    def lost(self, how: Loss = "died") -> None:
        """The stage is gone, and what was under way with it. Of what it died, `judged` is to say
        before anything is sent again."""
        alone = len(self._under_way) == 1 and None not in self._under_way.values()
        alone = alone and bool(self._suspects) and self._works and how != "gone"
        self._works = False
        under_way = self._take_back()
        if alone and under_way:
            if how == "hung":
                self._blame(under_way[0], "hung")
                return
            self._accused = under_way[0]
        self._suspects.update(under_way)
        self._waiting.extendleft(reversed(under_way))

    def proven(self) -> None:
        """Whoever treats them has shown that it works."""
        self._works = True

    def elsewhere(self, *, works: bool) -> None:
        """Others treat them from now on, also what is under way: nobody is to blame. `works`: these
        have shown that they do."""
        self._waiting.extendleft(reversed(self._take_back()))
        self._works = works

    def _take_back(self) -> list[Work]:
        """What is under way no more, as far as anybody wants it."""
        works = [work for work in self._under_way.values() if work is not None]
        self._under_way.clear()
        self._early.clear()
        for work in works:
            if work.take is None:
                self._suspects.discard(work)
                self._size -= work.size
        return [work for work in works if work.take is not None]

    def judged(self, *, threw: bool) -> None:
        """The stage that died last threw; else nobody knows, or it died of something else."""
        work, self._accused = self._accused, None
        if work is not None and work.take is not None:
            self._waiting.remove(work)
            self._blame(work, "threw" if threw else "killed")

    def _blame(self, work: Work, end: End) -> None:
        self._suspects.discard(work)
        if work.records > 1 and (halves := _halves(work)):
            self._suspects.update(halves)
            self._waiting.extendleft(reversed(halves))
            return
        work.ends[end] += 1
        if work.ends[end] < BLAMED[end]:
            if end == "killed":
                work.not_before = time.monotonic() + PAUSES_S[work.ends[end] - 1]
            self._suspects.add(work)
            self._waiting.appendleft(work)
            return
        refused = tuple(
            Refusal(batch.source_offset(at), _REASONS[end])
            for batch in work.batches
            for at in range(batch.records)
        )
        self._finish(work, Outcome(0, (), refused, work.records))

    def _finish(self, work: Work, outcome: Outcome) -> None:
        self._suspects.discard(work)
        self._size -= work.size
        if work.take is not None:
            work.take(Piece(outcome, work.next, work.batches, work.size, work.last))


def _halves(work: Work) -> list[Work]:
    """None of what cannot be unpacked."""
    batches = work.batches
    if len(batches) > 1:
        middle = len(batches) // 2
        first, second = batches[:middle], batches[middle:]
    else:
        (batch,) = batches
        middle = batch.records // 2
        try:
            first = (split(batch, 0, middle),)
            second = (split(batch, middle, batch.records),)
        except ProtocolError:
            return []
    share = work.size // 2
    return [
        replace(work, next=second[0].first, batches=first, size=share, last=False),
        replace(work, batches=second, size=work.size - share),
    ]
