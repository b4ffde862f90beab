"""Python's full looks for cycles that nobody holds, kept short in a process that knows much.

Each goes through all that is alive: half a second for 50,000 partitions, in which no thread of the
driver does anything, and there is one every few seconds where much moves.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WHOLE_S = 3600.0


@contextmanager
def short_looks(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """While the block lasts, what a full look has left alive is passed over by the next ones, but
    for one an hour: a cycle of it that is let go of is freed then. What is in no cycle is freed at
    once, as ever."""
    whole_at = clock()

    def told(phase: str, info: dict[str, int]) -> None:
        nonlocal whole_at
        if info["generation"] < 2:
            return
        if phase == "stop":
            gc.freeze()
        elif clock() - whole_at >= _WHOLE_S:
            whole_at = clock()
            gc.unfreeze()

    gc.callbacks.append(told)
    try:
        yield
    finally:
        gc.callbacks.remove(told)
        gc.unfreeze()
