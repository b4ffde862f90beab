"""The part of a flow that is with its transform's stage."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from causeway.link_topics import Transformed
from causeway.relay.lane.chunks import Piece
from causeway.relay.lane.stage import Stage

SAID_S = 5.0  # a partition that waits for its transform longer than this says so


@dataclass(slots=True, eq=False)
class OnTheWay:
    """The records of a flow that are in its stage, or came from there and are not with its outlets
    yet. `size`: the bytes that were fetched for them. `halt`: why the flow stops once all records
    before are relayed. `writing`: dead letters are being written. `since`: when the oldest chunk
    without an answer was sent, in seconds of the epoch."""

    stage: Stage
    chunks: int = 0
    size: int = 0
    pieces: deque[Piece] = field(default_factory=deque)
    halt: str | None = None
    writing: bool = False
    since: float = 0.0
    counts: Transformed = field(default_factory=Transformed)

    @property
    def idle(self) -> bool:
        return not self.chunks and not self.pieces

    def waits(self, now: float) -> str | None:
        """The reason to show if the stage takes long to answer; `now` as `since`."""
        if not self.chunks or now - self.since < SAID_S:
            return None
        since = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"waiting for its transform since {since}"

    def take(self) -> Piece:
        """Takes the first piece, which goes to the outlets and counts there."""
        piece = self.pieces.popleft()
        self.size -= piece.size
        return piece

    def forget(self) -> None:
        self.chunks = self.size = 0
        self.pieces.clear()
        self.halt, self.writing = None, False
