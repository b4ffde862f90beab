"""The time of the first record that is not mirrored, by the batches that were fetched.

    fetched   [12:00:00][12:00:00][12:07:41][12:07:42]…      of each batch: its first timestamp
    noted      12:00:00            12:07:41 12:07:42         only where it differs by a second
    position            ▲          the first record not mirrored is of 12:00:00

A batch costs one comparison. A note for each batch would cost too much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from causeway.records import Batch

STEP_MS: Final = 1000
_UNKNOWN: Final = -1
_NEVER: Final = -(1 << 62)


class Waiting:
    """Of one flow. Not thread-safe."""

    __slots__ = ("_last", "_notes")

    def __init__(self) -> None:
        self._notes: deque[tuple[int, int]] = deque()  # source offset, ms
        self._last = _NEVER

    def note(self, batches: Sequence[Batch]) -> None:
        """Notes batches that were fetched, in order."""
        last = self._last
        for batch in batches:
            stamp = batch[2]  # base_timestamp; by number, which is quicker here
            if not -STEP_MS < stamp - last < STEP_MS:
                self._notes.append((batch[5], stamp))  # first
                last = stamp
        self._last = last

    def clear(self) -> None:
        self._notes.clear()
        self._last = _NEVER

    def first(self, position: int) -> int:
        """The timestamp of the record at source offset `position` to within STEP_MS; -1 if it was
        not fetched. If all fetched batches lie below, the last one's timestamp, because the next
        record follows it. Drops older notes."""
        notes = self._notes
        while len(notes) > 1 and notes[1][0] <= position:
            notes.popleft()
        return notes[0][1] if notes and notes[0][0] <= position else _UNKNOWN
