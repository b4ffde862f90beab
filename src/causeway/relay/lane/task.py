"""What Spark runs on an executor: all that is pickled of Causeway is three plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaneTask:
    """One lane, told where the driver's control socket is. The key to it is in the environment."""

    lane: int
    host: str
    port: int

    def __call__(self, _: Iterator[int]) -> Iterator[int]:
        from causeway.relay.lane.loop import run_lane

        run_lane(self.lane, self.host, self.port)
        return iter(())
