"""Lanes and brokers that die while offsets are filled: each record must keep its offset.

One lane at a time holds the lease. A marker has no sequence, so a late one of a dead lane is the
danger: it would take the offset of a record. CAUSEWAY_FIRE_SECONDS lengthens the random tests,
CAUSEWAY_FIRE_SEED repeats one.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from causeway.cluster import filling, transactions
from causeway.model import TopicPartition
from tests.harness import writers
from tests.harness.battle import SEED, Battle, Ground, battle, ground_of
from tests.harness.mirror import FOREVER
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "8"))
LEASE_S = 1.0
PATIENT_S = 2.0  # so long a lane waits for late requests
WAYS = pytest.mark.parametrize("gaps", ["markers", "transactions"])


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with ground_of() as made:
        yield made


class Storm:
    """Lanes one after the other: each is killed, or frozen until its lease has run out."""

    def __init__(self, it: Battle, *, brokers: bool) -> None:
        self._it, self._brokers = it, brokers
        self._chance = random.Random(SEED)
        self._pause = threading.Event()
        self.lane = 0

    def rage(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._turn()
        self.start()

    def start(self) -> None:
        self._it.driver.leader = self.lane
        self._it.driver.start_lane(self.lane)

    def _turn(self) -> None:
        it, chance = self._it, self._chance
        self.start()
        await_until(lambda: it.driver.is_up(self.lane), what=f"lane {self.lane} is up")
        self._pause.wait(chance.uniform(0, 1.5))
        if self._brokers and chance.random() < 0.4:
            cluster = chance.choice([it.ground.source, it.ground.target])
            if chance.random() < 0.5:
                cluster.kill()
            cluster.restart()
            self._pause.wait(chance.uniform(0, 1))
        if chance.random() < 0.6:
            it.driver.kill(self.lane)
        else:
            it.driver.signal(self.lane, signal.SIGSTOP)
            self._pause.wait(LEASE_S + 0.1)
            if self.lane - 1 in it.driver.lanes:
                it.driver.signal(self.lane - 1, signal.SIGCONT)
        self.lane += 1


def keeps(gaps: str, **more: Any) -> dict[str, Any]:
    return {"gaps": gaps, "transactional_id": f"causeway.{SEED}", **more}


@WAYS
@pytest.mark.parametrize("brokers", [False, True], ids=["lanes", "brokers"])
def test_lanes_killed_and_frozen_amid_transactions(
    ground: Ground, prefix: str, gaps: str, brokers: bool
) -> None:
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create(2)
        it.claim(keeps=keeps(gaps))
        it.driver.forgets = True
        with writers.writing(it.source, it.topic, 2, seed=SEED, pause_s=0.2):
            Storm(it, brokers=brokers).rage(FIRE_S)
        it.await_mirrored(timeout=180)
        assert it.assert_same_offsets(why=f"seed {SEED}")


def test_lanes_killed_while_the_beginning_is_filled(ground: Ground, prefix: str) -> None:
    start = 40_000_003
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create()
        fill = transactions.begin(it.driver.source, it.topic, 60_000)
        filling.fill(
            it.driver.source,
            fill,
            TopicPartition(it.topic, 0),
            0,
            start,
            keyed=False,
            delete=True,
            on_step=lambda _: True,
        )
        it.written(100)
        it.claim(keeps=keeps("markers"))
        Storm(it, brokers=False).rage(FIRE_S)
        it.await_mirrored(timeout=180)
        assert it.assert_same_offsets(why=f"seed {SEED}") == 100
        assert it.target.offsets(it.name) == {0: start + 100}


@pytest.mark.parametrize("late", ["after-the-successors-marker", "before-it"])
def test_a_marker_of_a_dead_lane_arrives_late(ground: Ground, prefix: str, late: str) -> None:
    proxy = ground.proxies[1]
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create(config=FOREVER)
        it.claim(keeps=keeps("markers"))
        it.driver.leader = 0
        it.driver.start_lane(0)
        with it.source.transactional(it.topic) as one:
            one.begin()
            one.send(it.topic, b"first")
            one.commit()
            it.source.await_transactions(it.topic)
            await_until(lambda: it.target_end() == 2, what="the first marker")
            ports = it.ports_of(0)
            one.begin()
            one.send(it.topic, b"aborted")
            one.flush()
            proxy.stall("up", client_ports=ports)
            one.abort()
            it.source.await_transactions(it.topic)
        await_until(lambda: proxy.held, what="the lane's request is held")
        it.driver.kill(0)
        it.driver.leader = 1
        it.driver.start_lane(1)
        if late == "before-it":
            proxy.release(ports)
        it.await_mirrored(timeout=60)
        proxy.release(ports)
        it.written(3)
        it.await_mirrored()
        it.assert_same_offsets()
