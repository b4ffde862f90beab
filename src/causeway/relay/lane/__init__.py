"""A lane: one Spark task that relays many partitions.

Only a lane imports the modules of this package. The door imports only the clock, because a driver
needs nothing but the task and should not load the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from causeway.relay.lane.lease import clock


@dataclass(frozen=True, slots=True)
class LaneTask:
    """The task of one lane. Spark pickles three plain values. `host` and `port` are those of the
    driver's control socket. The secret for the socket is in the environment."""

    lane: int
    host: str
    port: int

    def __call__(self, _: Iterator[int]) -> Iterator[int]:
        from causeway.relay.lane.loop import run_lane

        run_lane(self.lane, self.host, self.port)
        return iter(())


def preload() -> None:
    """Loads all that a lane needs, before its process is forked."""
    import causeway.relay.lane.loop
