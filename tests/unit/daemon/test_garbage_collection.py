"""Full looks for cycles: what they have seen is passed over, for an hour."""

from __future__ import annotations

import gc
import weakref

from causeway.daemon import short_collections


class _Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_is_alive_is_looked_at_once_an_hour() -> None:
    now = 0.0
    with short_collections(lambda: now):
        gc.collect()
        cycle = _Cycle()
        gc.collect()  # alive, so it is passed over from now on
        gone = weakref.ref(cycle)
        del cycle
        gc.collect()
        assert gone() is not None
        now = 3600.0
        gc.collect()
        assert gone() is None


def test_a_new_cycle_is_freed_by_the_next_look() -> None:
    with short_collections():
        gc.collect()
        gone = weakref.ref(_Cycle())
        gc.collect()
        assert gone() is None


def test_nothing_stays_behind() -> None:
    before = list(gc.callbacks), gc.get_freeze_count()
    with short_collections():
        gc.collect()
        assert gc.get_freeze_count() > before[1]
    assert (gc.callbacks, gc.get_freeze_count()) == (before[0], 0)
