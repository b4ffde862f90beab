"""One vocabulary for how a link or a topic stands, for people.

mirroring            also while it waits for a lane, finds its place, or has copied its share
paused               a person wants it so
stopped              a person decides: going on could lose or double records
failed               tried again by itself
source unavailable   of what is not mirrored, as no broker of the source answers
promoting, promoted, failed over                 see control/directives.py

A partition's own states (model.State) are finer: `running`, `waiting`, `recovering` and `done` are
all mirroring. Metrics and JSON have had those from the first, and go on having them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from causeway.model import State

MIRRORING: Final = "mirroring"
SOURCE_UNAVAILABLE: Final = "source unavailable"
_MIRRORING = frozenset({State.WAITING, State.RECOVERING, State.RUNNING, State.DONE})


def word(state: str) -> str:
    """A partition's state in this vocabulary; what is none of model.State stays as it is."""
    return MIRRORING if state in _MIRRORING else str(state)


def of_partitions(states: Iterable[str]) -> str:
    """Of a link or a topic: what all its partitions are; mirroring where any is, or where there
    are none."""
    words = {word(state) for state in states}
    return words.pop() if len(words) == 1 else MIRRORING
