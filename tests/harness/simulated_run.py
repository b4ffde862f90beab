"""All that may happen to simulated lanes, at random. What must hold: see simulated_driver.py."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from causeway.link_topics import Outlet
from causeway.relay import Rate, Revoke, Throttle
from causeway.relay.lane import (
    clusters,
    limits,
    loop,
    reader,
    recovery_queue,
    relay,
    target,
    watches,
)
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.loop import DRAIN_S
from tests.harness.simulated_brokers import SOURCE
from tests.harness.simulated_cluster import SimulatedCluster
from tests.harness.simulated_driver import SimulatedDriver
from tests.harness.simulated_lane import EVENTS, Helpers, Lease, Stages
from tests.harness.simulated_logs import Clock
from tests.harness.simulated_setting import Kind, Setting

STEPS = 400


def relay_under_fire(seed: int, kind: Kind) -> None:
    """The same each time."""
    with simulated(seed, kind) as driver:
        Torment(driver).run(STEPS)
        driver.relay_the_rest()


@contextmanager
def simulated(seed: int, kind: Kind) -> Iterator[SimulatedDriver]:
    """A driver whose first lane is there, and has heard what it is to relay."""
    chance, clock = random.Random(seed), Clock()
    setting = Setting(kind, chance, clock)
    driver = SimulatedDriver(setting)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", clock.monotonic)
        patch.setattr(time, "sleep", lambda _: None)
        patch.setattr(loop, "Helpers", lambda _: Helpers(chance))
        patch.setattr(loop, "LaneStages", lambda *_: Stages(setting.refused))
        patch.setattr(loop, "LeaseGuard", Lease)
        patch.setattr(clusters, "Cluster", partial(SimulatedCluster, setting.brokers))
        for module in (reader, target):
            patch.setattr(module, "round_trip_s", lambda *_: kind.round_trip_s)
        patch.setattr(recovery_queue, "recover", driver.recover)
        patch.setattr(watches, "offsets_at", driver.ends)
        patch.setattr(watches, "LOOK_S", kind.idle_looks_s)
        patch.setattr(relay, "random", chance)
        if kind.paced:
            patch.setattr(limits, "PACE_PARTITION_S", limits.MOST_PACE_S)
        # Sets hold flows in the same order each time.
        patch.setattr(Flow, "__hash__", lambda flow: flow.assignment.partition)
        driver.start()
        try:
            yield driver
        finally:
            driver.close()


class Torment:
    """Of the lanes of `driver`, and of their brokers."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver
        self._chance, self._clock = driver.setting.chance, driver.clock
        self._brokers, self._kind = driver.brokers, driver.setting.kind

    def run(self, steps: int) -> None:
        acts, weights = zip(*self._acts(), strict=True)
        for act in self._chance.choices(acts, weights, k=steps):
            if self._driver.lane.ended:
                self._driver.succeed()
            act()

    def _acts(self) -> Iterator[tuple[Callable[[], object], float]]:
        """Each with its weight."""
        yield self._turn, 30
        yield self._advance, 15
        yield self._serve, 20
        yield self._tell_of_event, 20
        yield self._help, 15
        yield self._lose_connection, 2
        yield self._lead_source_elsewhere, 1
        yield self._change_room, 1
        yield self._wait, 0.5
        yield self._revoke_or_assign, 2
        yield self._end_or_renew_lease, 0.5
        yield self._kill, 0.2
        yield self._drain, 0.3
        yield self._end_session, 0.5
        yield self._throttle, 0.3
        yield self._serve_late, 4
        kind = self._kind
        if kind.transformed:
            yield self._transform, 5
        if not kind.bounded:
            yield self._write, 4
        if kind.old or kind.mixed:
            yield self._forget, 2 * kind.forgets
        # Of old records a broker may refuse a batch, and take the one behind it where it has
        # forgotten the producer meanwhile: then the partition stops, unless others write there too.
        if not (kind.old or kind.mixed) or kind.shared:
            yield self._lead_target_elsewhere, 1

    # -- what goes well ---------------------------------------------------------------------------

    def _turn(self) -> None:
        self._clock.now += self._chance.choice((0.001, 0.01, 0.3))
        self._driver.lane.turn()
        self._driver.hear()

    def _advance(self) -> None:
        self._driver.lane.advance()
        self._driver.hear()

    def _serve(self) -> None:
        if live := self._brokers.live:
            self._chance.choice(live).serve_next()

    def _tell_of_event(self) -> None:
        if self._brokers.connections:
            connection = self._chance.choice(self._brokers.connections)
            self._driver.lane.happens(connection, self._chance.randint(1, EVENTS))

    def _help(self) -> None:
        self._driver.lane.helpers.step()

    def _transform(self) -> None:
        self._driver.lane.stage.answer()

    def _write(self) -> None:
        log = self._chance.choice(list(self._brokers.sources.values()))
        self._driver.setting.write(log, self._chance.randint(1, 20))

    # -- brokers ----------------------------------------------------------------------------------

    def _lose_connection(self) -> None:
        if live := self._brokers.live:
            self._chance.choice(live).die()

    def _end_session(self) -> None:
        if live := self._brokers.live:
            connection = self._chance.choice(live)
            connection.session_expires_at = self._clock.now + self._chance.randint(0, 1)

    def _lead_source_elsewhere(self) -> None:
        log = self._chance.choice(list(self._brokers.sources.values()))
        node = self._chance.randrange(self._kind.brokers)
        log.lead(node, told=node == log.node or self._chance.random() < 0.5)

    def _lead_target_elsewhere(self) -> None:
        log = self._chance.choice(list(self._brokers.targets.values()))
        log.node = self._chance.randrange(self._kind.brokers)

    def _change_room(self) -> None:
        cluster = self._chance.choice((SOURCE, *self._driver.setting.targets))
        node = self._chance.randrange(self._kind.brokers)
        self._brokers.room[cluster, node] = self._chance.choice((0, 1, 2, 3, 100))

    def _serve_late(self) -> None:
        """Nothing arrives of a partition that a lane has called settled."""
        quiet = [one for one in self._driver.mirrored if one.settled and not one.assigned]
        outlets = [outlet for one in quiet for outlet in one.outlets]
        before = [self._contents(outlet) for outlet in outlets]
        self._brokers.serve_late()
        after = [self._contents(outlet) for outlet in outlets]
        assert after == before, "something arrives of what a lane has called settled"

    def _contents(self, outlet: Outlet) -> tuple[list[int], int | None]:
        """What it holds, and where its log ends if no other outlet is there."""
        log = self._brokers.targets[outlet.at]
        return self._driver.held(outlet), log.end if log.keeps is not None else None

    def _forget(self) -> None:
        for log in self._brokers.targets.values():
            log.forget()

    # -- the driver -------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._clock.now += self._chance.choice((5, 40, 70))

    def _revoke_or_assign(self) -> None:
        one = self._chance.choice(self._driver.mirrored)
        if self._driver.lane.draining:
            return
        if one.assigned:
            self._driver.lane.tell(Revoke(keys=(one.key,)))
        else:
            self._driver.assign(one)

    def _end_or_renew_lease(self) -> None:
        self._driver.lane.lease.over = not self._driver.lane.lease.over

    def _throttle(self) -> None:
        link = self._chance.choice(self._driver.mirrored).link
        rate = Rate(link=link, topic=None, bytes_per_s=20_000.0)
        self._driver.lane.tell(Throttle(rates=self._chance.choice(((), (rate,)))))

    def _kill(self) -> None:
        for connection in self._brokers.live:
            connection.die()
        self._driver.succeed()

    def _drain(self) -> None:
        """Some lanes get no answer for as long as they wait for it."""
        if not self._driver.lane.draining:
            self._driver.drain()
            self._clock.now += self._chance.choice((0.0, 0.0, DRAIN_S))
