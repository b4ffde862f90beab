"""The words for states, and their one ranking.

mirroring            also while it waits for a lane, recovers, or is done
paused               a person has asked for this
stopped              a person must decide: going on could lose or double records
failed               tried again by itself
source unavailable   not mirrored, because no broker of the source answers
promoting, promoted, failed over                 see link_topics/directives.py

A partition's own states (model.State) are finer: `running`, `waiting`, `recovering` and `done` are
all mirroring. Metrics and JSON show those.

The state of a link or a topic is the worst state of its partitions by RANKING: in commands, the
live table, the API and the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from causeway.model import State

MIRRORING: Final = "mirroring"
SOURCE_UNAVAILABLE: Final = "source unavailable"
NO_DRIVER: Final = "no running driver"
UNKNOWN: Final = "unknown"  # of a link that could not be asked
_MIRRORING = frozenset({State.WAITING, State.RECOVERING, State.RUNNING, State.DONE})
# The state that a person must see first comes first.
RANKING: Final[tuple[str, ...]] = (
    State.STOPPED,
    State.FAILED,
    SOURCE_UNAVAILABLE,
    NO_DRIVER,
    State.RECOVERING,
    State.WAITING,
    State.PAUSED,
    State.PROMOTING,
    State.RUNNING,
    State.FAILED_OVER,
    State.PROMOTED,
    State.DONE,
)
_RANKS: Final = {state: place for place, state in enumerate(RANKING)}


def rank(state: str) -> int:
    """Returns the state's place in RANKING. A state that is not in RANKING comes first."""
    return _RANKS.get(state, -1)


def worst(states: Iterable[str]) -> str | None:
    """Returns the state that a person must see first; None if there are no states."""
    return min(states, key=rank, default=None)


def word(state: str) -> str:
    """Returns the word for a partition's state. A state that is not in model.State stays."""
    return MIRRORING if state in _MIRRORING else str(state)
