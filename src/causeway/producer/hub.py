"""What the sides share, and how each of them stands."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from causeway.producer.journal import Journal
from causeway.producer.lanes import Lane
from causeway.producer.ledger import Ledger

if TYPE_CHECKING:
    from causeway.producer.side import Side


class State(enum.Enum):
    CHECKING = "checking"
    FEEDING = "feeding"
    DIRECT = "direct"
    BROKEN = "broken"


class Hub(Protocol):
    """What the sides share."""

    lock: threading.RLock
    name: str
    journal: Journal
    ledger: Ledger
    lanes: dict[int, Lane]
    lanes_of: dict[str, list[Lane]]
    first: int
    """All positions of this life are behind it."""
    newest: int
    """The last position that is in the journal."""
    torn: bool
    """It was interrupted amid its work: no answer can be told from another any more."""

    def deliver(self, lane: Lane) -> None: ...
    def refused(self, side: Side, lane: Lane, position: int, error: Any, message: Any) -> None: ...
    def told(self, side: Side, error: Any, message: Any) -> None: ...
    def grown(self, topic: str) -> None: ...
    def queue(self, callback: Callable[..., Any], *arguments: Any) -> None: ...
