"""Two clusters that are broken on purpose, and lanes between them whose driver may forget."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil

from causeway.relay import Assignment, FlowReport, LaneConnection, LaneReport, ToDriver
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import LaneDriver, client
from tests.harness.limited import Limits
from tests.harness.mirror import Mirror
from tests.harness.proxy import Proxies
from tests.harness.waiting import await_until

SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


class ForgetfulDriver(LaneDriver):
    """Its progress may be lost: with `forgets`, a new lane is told any pair that was ever true."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, lease_s: float, patience_s: float
    ) -> None:
        self.forgets = False
        self.leader: int | None = None  # the only lane whose lease is renewed; None: every lane's
        self._random = random.Random(SEED)
        self._history: dict[tuple[str, str, int], list[FlowReport]] = {}
        patience_ms = int(patience_s * 1000)
        clients = (
            replace(client(alias, cluster.bootstrap), request_timeout_ms=patience_ms)
            for alias, cluster in (("A", source), ("B", target))
        )
        super().__init__(*clients, lease_s=lease_s)

    def _on_message(self, connection: LaneConnection, message: ToDriver) -> None:
        if isinstance(message, LaneReport):
            for report in message.partitions:
                self._history.setdefault(report.key, []).append(report)
        hello = connection.hello
        self.renew = self.leader is None or (hello is not None and hello.lane == self.leader)
        super()._on_message(connection, message)

    def _newest(self, assignment: Assignment) -> Assignment:
        ever = self._history.get(assignment.key)
        if not self.forgets or not ever:
            return super()._newest(assignment)
        if self._random.random() < 0.1:
            return assignment
        report = ever[-1] if self._random.random() < 0.5 else self._random.choice(ever)
        return assignment.replace(outlets=report.outlets, leader_epoch=report.leader_epoch)

    def forget(self) -> None:
        """All that lanes ever reported."""
        with self._lock:
            self.reports.clear()
            self._history.clear()


class Ground:
    """Two clusters of these tests' own, to be killed; the target's clients come through proxies."""

    def __init__(
        self, source: LocalCluster | None = None, *, limits: Limits | None = None, **target: Any
    ) -> None:
        """Both anew, or a new target for the `source` that is there. `limits`: APIs that the target
        hides."""
        self.proxies = Proxies(limits)
        self._owns_source = source is None
        self.source = source or LocalCluster("A")
        self.target = LocalCluster("B", advertised=self.proxies, **target)
        start_all((self.source, self.target))
        self.source_tools = KafkaTools(self.source.bootstrap)
        self.target_tools = KafkaTools(self.target.internal_bootstrap)

    def destroy(self) -> None:
        if self._owns_source:
            self.source.destroy()
        self.target.destroy()
        self.proxies.close()


@contextmanager
def ground_of(source: LocalCluster | None = None, **target: Any) -> Iterator[Ground]:
    made = Ground(source, **target)
    try:
        yield made
    finally:
        made.destroy()


# A producer of old records is forgotten within a tenth of a second.
FORGETS = {
    "producer.id.expiration.ms": "1000",
    "producer.id.expiration.check.interval.ms": "100",
}


class Battle(Mirror):
    driver: ForgetfulDriver
    ground: Ground

    def ports_of(self, lane: int) -> set[int]:
        """The client ports of a lane's connections."""
        process = psutil.Process(self.driver.lanes[lane].pid)
        return {c.laddr.port for c in process.net_connections("tcp") if c.raddr}

    def target_end(self, partition: int = 0) -> int:
        return self.target.offsets(self.name)[partition]

    def follower(self, partition: int = 0) -> int:
        """A broker that has a copy of the target partition and does not lead it."""
        known = self.target.admin.list_topics(self.name).topics[self.name].partitions[partition]
        return next(int(node) for node in known.replicas if node != known.leader)

    def leader(self, partition: int = 0) -> int:
        known = self.target.admin.list_topics(self.name).topics[self.name].partitions[partition]
        return int(known.leader)

    def await_growth(self, by: int = 1) -> None:
        """Until the target has so many records more than now."""
        wanted = sum(self.target.offsets(self.name).values()) + by
        await_until(
            lambda: sum(self.target.offsets(self.name).values()) >= wanted, 60, poll_s=0.005
        )

    def written(self, count: int, *, timestamp: int | None = None, partition: int = 0) -> None:
        """Write `count` records to the source, in batches of 50."""
        start = self.source.offsets(self.topic)[partition]
        self.source.produce(
            self.topic,
            [
                Outgoing(
                    value=b"%d" % (start + i),
                    key=b"%d" % i,
                    partition=partition,
                    timestamp=None if timestamp is None else timestamp + start + i,
                )
                for i in range(count)
            ],
            settings={"batch.num.messages": 50},
        )


@contextmanager
def battle(
    ground: Ground, prefix: str, *, lease_s: float = 3, patience_s: float = 10
) -> Iterator[Battle]:
    with ForgetfulDriver(ground.source, ground.target, lease_s, patience_s) as driver:
        begun = Battle(
            driver, ground.source_tools, ground.target_tools, prefix + "t", "A." + prefix + "t"
        )
        begun.ground = ground
        yield begun
    ground.proxies[1].release()
