"""Offsets of a simulated log are filled, whatever happens to the requests. A log that keeps offsets
refuses a marker or filler with an AssertionError if it takes the place of a record.

`fill_under_fire` with the seed that a failure names does the same again.
"""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from causeway.cluster import ClusterClient, filling, transactions
from causeway.config import ClientSettings
from causeway.errors import CausewayError, DivergedError
from causeway.model import TopicPartition
from tests.harness.examples import examples
from tests.harness.simulated_brokers import LATE_S, Brokers
from tests.harness.simulated_cluster import SimulatedCluster
from tests.harness.simulated_logs import Clock, SourceLog, TargetLog

AT = TopicPartition("t", 0)
TIMEOUT_MS = 60_000
TRIES = 500
HOW = ["filler", "markers"]


class Killed(BaseException):
    """The process ends."""


class World:
    """A source that begins at `start`, and its target, which is empty."""

    def __init__(self, seed: int, start: int) -> None:
        self.chance, self.clock = random.Random(seed), Clock()
        self.brokers = Brokers(self.chance, self.clock, refusals=0.05)
        source = SourceLog(0, start=start)
        source.add(start, [1 << 41] * 3, size=1)
        self.log = TargetLog(0, takes=self.chance.choice((None, 60, 1_000)), keeps=source)
        self.brokers.targets[AT] = self.log
        self.start = start

    def cluster(self) -> ClusterClient:
        settings = ClientSettings(alias="target", bootstrap=(("h", 1),))
        return SimulatedCluster(self.brokers, settings)

    def pass_time(self) -> None:
        """Late requests are served, and markers written."""
        for _ in range(self.chance.randint(0, 3)):
            self.clock.now += self.chance.choice((0.0, 1.0, 10.0, 70.0))
            self.brokers.serve_late()

    def attempt(self, how: str) -> None:
        """As a lane does it: takes the id, and looks where the log ends."""
        cluster = self.cluster()
        transaction = transactions.begin(cluster, "fill", TIMEOUT_MS)
        end = self.log.end
        if how == "markers":
            filling.fill_with_markers(cluster, transaction, AT, self.start - end)
        else:
            filling.fill(
                cluster,
                transaction,
                AT,
                end,
                self.start,
                keyed=False,
                delete=True,
                on_step=self.on_step,
            )

    def on_step(self, _: int) -> bool:
        if self.brokers.happens(0.1):
            raise Killed
        return not self.brokers.happens(0.1)


def fill_under_fire(seed: int, how: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        start = random.Random(seed).choice(
            (1, 2, 3, 7, 50) if how == "markers" else (1, 2, 3, 2_000)
        )
        world = World(seed, start)
        patch.setattr(time, "monotonic", world.clock.monotonic)
        patch.setattr(filling.time, "sleep", lambda _: None)
        for number in range(TRIES):
            if world.log.end == start:
                break
            world.brokers.faulty = number < TRIES // 2
            try:
                world.attempt(how)
            except DivergedError:
                raise
            except (CausewayError, Killed):
                pass
            world.pass_time()
        world.brokers.faulty = True
        for _ in range(20):
            world.clock.now += LATE_S / 10
            world.pass_time()
    assert world.log.end == start


@pytest.mark.parametrize("how", HOW)
@settings(
    max_examples=examples(300),
    phases=(Phase.explicit, Phase.generate),  # a smaller seed is no simpler run
)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_log_ends_where_the_first_record_belongs(how: str, seed: int) -> None:
    fill_under_fire(seed, how)
