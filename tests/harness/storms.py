"""Lanes that die one after the other, and brokers that die meanwhile, while offsets are kept."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.harness.battle import SEED, Battle
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.waiting import await_until

LEASE_S = 1.0
PATIENT_S = 2.0  # so long a lane waits for late requests


def keeps(gaps: str, **more: Any) -> dict[str, Any]:
    """The settings of a claim that keeps offsets."""
    return {"gaps": gaps, "transactional_id": f"causeway.{SEED}", **more}


class Storm:
    """Lanes one after the other: each is killed, or frozen until its lease has run out."""

    def __init__(self, it: Battle, *, brokers: bool = False) -> None:
        """`brokers`: the one broker of each side is restarted between two lanes."""
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


@dataclass(frozen=True, slots=True)
class Side:
    """A cluster of several brokers, one of which at a time suffers one of `acts`."""

    cluster: LocalCluster
    acts: Sequence[str] = ("kill", "restart", "freeze", "nap")


FREEZE_S: Mapping[str, tuple[float, float]] = {
    "freeze": (3.5, 7),  # beyond the session of 3 s: leaders move, and it thaws as one that led
    "nap": (0.2, 2.5),
}


@contextmanager
def brokers_suffer(*sides: Side) -> Iterator[list[str]]:
    """While the block runs: of each side one broker at a time is killed, restarted or frozen.
    Yields what was done, to be shown."""
    ended = threading.Event()
    done: list[str] = []
    failures: list[BaseException] = []

    def suffer(side: Side, chance: random.Random) -> None:
        cluster = side.cluster
        while not ended.wait(chance.uniform(0, 1)):
            act, node = chance.choice(side.acts), chance.choice(list(cluster.brokers))
            done.append(f"{cluster.name}{node}:{act}")
            try:
                if act in FREEZE_S:
                    cluster.pause(node)
                    ended.wait(chance.uniform(*FREEZE_S[act]))
                    cluster.resume(node)
                else:
                    if act == "kill":
                        cluster.kill(node)
                        ended.wait(chance.uniform(0, 4))
                    cluster.restart(node)
            except BaseException as error:
                failures.append(error)
                return

    threads = [
        threading.Thread(target=suffer, args=(side, random.Random(SEED + number)), daemon=True)
        for number, side in enumerate(sides)
    ]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        print(f"seed {SEED}: {' '.join(done)}")
    if failures:
        raise failures[0]
