"""Sends chunks through a stage in order, and finds the record that ends the stage.

    waiting ──► under way ──► answered; results are passed on in the order of sending
       ▲            │
       └── suspects ┘  the stage died: each suspect is sent alone. A chunk that kills the stage
                       alone is cut into pieces, down to a single record

A new stage first gets a chunk without records. The other chunks follow when it has answered that.

A stage may die for many reasons. So a record is blamed only if it was alone in several stages, each
of which had just worked, and all of them ended in the same way: see BLAMED. If the query threw, or
the stage gave no answer to the record in time, the record is refused. If a process died, there may
be another cause. So the record is tried again after growing pauses, and does not become a dead
letter: see DIES.

If a stage gives no answer in time, it may also be slow because of many records. So chunks are sent
in smaller pieces from then on, until the stage is quick again.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from causeway.errors import ProtocolError
from causeway.records import Batch, cut
from causeway.transform import Chunk, ChunkOutcome, Refusal

WINDOW_BYTES = 8 * 1024 * 1024  # the most that is under way at once
WINDOW_CHUNKS = 64
PARTS = 64  # the number of pieces of a suspect
# The times without an answer after which a stage is given up:
START_S = 300.0  # if it is new: Spark compiles its query, Python loads its libraries
SLOW_S = 10.0  # if several records are under way; smaller pieces follow
ALONE_S = 30.0  # if one record is alone in the stage
_QUICK_S = 1.0  # if pieces are answered within this time, the next ones are larger …
_WHOLE = 100_000  # … and when they would have this many records, chunks are sent whole again
# How a stage ended: its query threw, one of its processes died or was killed, it gave no answer.
End = Literal["threw", "killed", "hung"]
BLAMED: dict[End, int] = {"threw": 3, "killed": 8, "hung": 2}
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)  # after "killed", before the next try of a record
THROWS = "the transform fails on it"
HANGS = f"the transform gives no answer to it in {ALONE_S:.0f} s"
DIES = "the processes of the transform die on it"  # always stops the partition
_REASONS: dict[End, str] = {"threw": THROWS, "killed": DIES, "hung": HANGS}
# How a stage was lost: "hung"; "gone" if it may not have received the chunk; otherwise "died".
Loss = Literal["died", "hung", "gone"]


class WorkResult(NamedTuple):
    """The outcome for some records of a work. All records of the work below source offset `next`
    are answered now. `size`: the share of the work's bytes. `last`: nothing of the work is left."""

    outcome: ChunkOutcome
    next: int
    batches: Sequence[Batch]
    size: int
    last: bool


@dataclass(slots=True, eq=False)
class Work:
    """Records of one partition for the stage. `take` gets the results in order; None if the work
    was cancelled. `owner`: see ChunkQueue.cancel."""

    owner: Hashable
    topic: str
    partition: int
    next: int
    batches: tuple[Batch, ...]
    take: Callable[[WorkResult], None] | None
    last: bool = True
    size: int = -1  # bytes; a piece has its share of the whole work
    records: int = field(init=False)
    ends: Counter[End] = field(init=False, default_factory=Counter)  # of stages it was alone in
    not_before: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if self.size < 0:
            self.size = sum(batch.size for batch in self.batches)
        self.records = sum(batch.records for batch in self.batches)


class ChunkQueue:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()
        self._under_way: dict[int, Work | None] = {}  # None: the first chunk, without records
        self._early: dict[int, ChunkOutcome] = {}  # outcomes that overtook earlier chunks
        self._suspects: set[Work] = set()
        self.works = False  # this stage has answered something
        self._accused: Work | None = None  # the work that was alone in a stage that died
        self._most_records: int | None = None  # the limit of a chunk, after the stage was slow
        self._quiet_since = 0.0  # monotonic: the last answer, or the first chunk after a rest
        self._number = 0
        self.size = 0  # bytes that wait or are under way

    @property
    def alone(self) -> bool:
        """Whether only one chunk is under way."""
        return len(self._under_way) == 1

    @property
    def patience_s(self) -> float:
        """How long the answer to the chunks under way may take."""
        works = [work for work in self._under_way.values() if work is not None]
        if len(works) < len(self._under_way):
            return START_S
        return ALONE_S if sum(work.records for work in works) <= 1 else SLOW_S

    def overdue(self, now: float) -> bool:
        return bool(self._under_way) and now - self._quiet_since > self.patience_s

    def excuse(self, seconds: float) -> None:
        """Adds a time in which the lane could not receive an answer."""
        self._quiet_since += seconds

    def lives(self) -> None:
        """Notes a sign of life of the stage that is not an answer."""
        self._quiet_since = time.monotonic()

    @property
    def owner(self) -> object | None:
        """The owner of the first chunk without an answer."""
        return next((work.owner for work in self._under_way.values() if work is not None), None)

    def has(self, owner: object) -> bool:
        """Whether a work of `owner` waits or is under way."""
        return any(
            work is not None and work.owner is owner and work.take is not None
            for work in (*self._waiting, *self._under_way.values())
        )

    @property
    def suspicious(self) -> bool:
        """Whether a chunk is a suspect."""
        return bool(self._suspects) or self._accused is not None

    def submit(self, work: Work) -> None:
        self._waiting.append(work)
        self.size += work.size

    def cancel(self, owner: object) -> None:
        """Forgets the works of `owner`. Their results are dropped if they still arrive."""
        for work in (*self._waiting, *self._under_way.values()):
            if work is not None and work.owner is owner:
                work.take = None
        gone = {work for work in self._waiting if work.take is None}
        self._suspects -= gone
        self.size -= sum(work.size for work in gone)
        self._waiting = deque(work for work in self._waiting if work not in gone)

    def to_send(self) -> Iterator[Chunk]:
        """Yields the chunks that may be sent now. They count as sent."""
        if not self.works:
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
            if (work := self._next()) is None:
                return
            if pieces := self._cut_to_size(work):
                self._waiting.extendleft(reversed(pieces))
                continue
            under_way += work.size
            yield self._sent(work)

    def _next(self) -> Work | None:
        """Takes the first work that may be sent now. A paused record holds up only its own
        owner."""
        now, paused = time.monotonic(), set[object]()
        for at, work in enumerate(self._waiting):
            if work.not_before > now:
                paused.add(work.owner)
            elif work.owner not in paused:
                del self._waiting[at]
                return work
        return None

    def _cut_to_size(self, work: Work) -> list[Work]:
        """The pieces to send instead of `work`; an empty list if it may be sent whole."""
        most = self._most_records
        if most is None or work.records <= most:
            return []
        pieces = _pieces(work, min(PARTS, -(-work.records // most)))
        if pieces and work in self._suspects:
            self._suspects.discard(work)
            self._suspects.update(pieces)
        return pieces

    def _sent(self, work: Work | None) -> Chunk:
        if not self._under_way:
            self._quiet_since = time.monotonic()
        self._number += 1
        self._under_way[self._number] = work
        if work is None:
            return Chunk(self._number, "", 0, 0, ())
        return Chunk(self._number, work.topic, work.partition, work.next, work.batches)

    def answered(self, outcome: ChunkOutcome) -> None:
        """Passes results on in the order of sending, also if they arrive in another order. Raises
        ValueError for the result of a chunk that is not under way."""
        if outcome.number not in self._under_way or outcome.number in self._early:
            raise ValueError(f"chunk {outcome.number} was answered, which is not under way")
        self._early[outcome.number] = outcome
        while (number := next(iter(self._under_way), None)) in self._early:
            assert number is not None
            self.works = True
            outcome = self._early.pop(number)
            work = self._under_way.pop(number)
            if work is not None:
                self._grow(work)
                self._finish(work, outcome)
            self._quiet_since = time.monotonic()

    def _grow(self, answered: Work) -> None:
        most = self._most_records
        if most is None or 2 * answered.records < most:
            return
        if time.monotonic() - self._quiet_since < _QUICK_S:
            self._most_records = 2 * most if 2 * most < _WHOLE else None

    def lost(self, how: Loss = "died") -> None:
        """The stage is gone, and the chunks that were under way come back. `judged` must be called
        with the cause before anything is sent again."""
        alone = self.alone and None not in self._under_way.values()
        alone = alone and bool(self._suspects) and self.works and how != "gone"
        self.works = False
        under_way = self._take_back()
        if how == "hung" and under_way:
            self._most_records = max(1, max(work.records for work in under_way) // PARTS)
        if alone and under_way:
            if how == "hung":
                self._blame(under_way[0], "hung")
                return
            self._accused = under_way[0]
        self._suspects.update(under_way)
        self._waiting.extendleft(reversed(under_way))

    def give_up(self) -> list[Work]:
        """Does the same as `lost("hung")`, but returns the chunks of the first owner, in order, for
        another stage. The stage most likely hangs on the first chunk without an answer."""
        self.works = False
        under_way = self._take_back()
        self._waiting.extendleft(reversed(under_way))
        if not under_way:
            return []
        owner = under_way[0].owner
        given = [work for work in self._waiting if work.owner is owner]
        self._waiting = deque(work for work in self._waiting if work.owner is not owner)
        self._suspects.update(work for work in under_way if work.owner is not owner)
        self._suspects -= set(given)
        self.size -= sum(work.size for work in given)
        return given

    def suspect(self, works: Sequence[Work]) -> None:
        """Adds these chunks. Another stage hung on the first chunk."""
        first, *others = works
        pieces = _pieces(first, PARTS) if first.records > 1 else []
        for work in (*(pieces or [first]), *others):
            self.submit(work)
        self._suspects.update(pieces or [first])

    def take_over(self, other: ChunkQueue) -> None:
        """Takes all works of `other`, whose stage ends."""
        works = [*other._take_back(), *other._waiting]
        for work in works:
            self.submit(work)
        self._suspects.update(work for work in works if work in other._suspects)
        other._waiting.clear()
        other._suspects.clear()
        other._accused, other.size = None, 0

    def elsewhere(self, *, works: bool) -> None:
        """Another stage treats all chunks from now on, also those under way. None is blamed.
        `works`: that stage has already shown that it works."""
        self._waiting.extendleft(reversed(self._take_back()))
        self.works = works

    def _take_back(self) -> list[Work]:
        """Takes back all chunks under way. Returns the works that were not cancelled."""
        works = [work for work in self._under_way.values() if work is not None]
        self._under_way.clear()
        self._early.clear()
        for work in works:
            if work.take is None:
                self._suspects.discard(work)
                self.size -= work.size
        return [work for work in works if work.take is not None]

    def judged(self, *, threw: bool) -> None:
        """Gives the cause of the last death. `threw`: the query raised an error; otherwise the
        cause is unknown."""
        work, self._accused = self._accused, None
        if work is not None and work.take is not None:
            self._waiting.remove(work)
            self._blame(work, "threw" if threw else "killed")

    def _blame(self, work: Work, end: End) -> None:
        self._suspects.discard(work)
        if work.records > 1 and (pieces := _pieces(work, PARTS)):
            self._try_again(pieces)
            return
        work.ends[end] += 1
        if work.ends[end] < BLAMED[end]:
            if end == "killed":
                work.not_before = time.monotonic() + PAUSES_S[work.ends[end] - 1]
            self._try_again([work])
            return
        refused = tuple(
            Refusal(batch.source_offset(at), _REASONS[end])
            for batch in work.batches
            for at in range(batch.records)
        )
        self._finish(work, ChunkOutcome(0, (), refused, work.records))

    def _try_again(self, suspects: Sequence[Work]) -> None:
        """Puts `suspects` behind the chunks of other owners, which then do not wait longer."""
        self._suspects.update(suspects)
        owner = suspects[0].owner
        others = [work for work in self._waiting if work.owner is not owner]
        own = [work for work in self._waiting if work.owner is owner]
        self._waiting = deque([*others, *suspects, *own])

    def _finish(self, work: Work, outcome: ChunkOutcome) -> None:
        self._suspects.discard(work)
        self.size -= work.size
        if work.take is not None:
            work.take(WorkResult(outcome, work.next, work.batches, work.size, work.last))


def _pieces(work: Work, parts: int) -> list[Work]:
    """Cuts `work` into about `parts` pieces with the same number of records. Returns an empty list
    if it cannot be cut, for example because it cannot be unpacked."""
    step = -(-work.records // parts)
    groups: list[list[Batch]] = [[]]
    room = step
    for batch in work.batches:
        for part in _cut(batch, room or step, step):
            if not room:
                groups.append([])
                room = step
            groups[-1].append(part)
            room = max(0, room - part.records)
    if len(groups) < 2:
        return []
    pieces, left = [], work.size
    for number, batches in enumerate(groups, 1):
        is_last = number == len(groups)
        size = left if is_last else work.size // len(groups)
        left -= size
        following = work.next if is_last else groups[number][0].first
        last = work.last and is_last
        pieces.append(replace(work, next=following, batches=tuple(batches), size=size, last=last))
    return pieces


def _cut(batch: Batch, first: int, step: int) -> list[Batch]:
    """Cuts `batch` into a part of `first` records and parts of `step` records. Returns it whole if
    it cannot be unpacked."""
    if batch.records <= first:
        return [batch]
    try:
        return cut(batch, range(first, batch.records, step))
    except ProtocolError:
        return [batch]
