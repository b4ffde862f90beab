"""Applications: producers and consumer groups of the source cluster, and other producers of the
target.

Each record's value is its own name, so that a checker knows where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.simulation import transforms
from tests.simulation.cluster import ClusterProducer, KafkaCluster, Refused
from tests.simulation.kernel import Kernel
from tests.simulation.scenario import TRANSACTIONAL, Content, TopicPlan

OTHERS: Final = b"other "  # the values of records that only the target has begin so
_KEYS: Final = 5  # of a compacted partition
_DAY_MS: Final = 86_400_000
_CODECS: Final = (0, 0, 0, 0, 1, 2, 3, 4)  # as in a batch's attributes


class Application:
    """Writes to one partition, now and then, until `stop`."""

    def __init__(
        self,
        kernel: Kernel,
        cluster: KafkaCluster,
        plan: TopicPlan,
        partition: int,
        pace: int = 1,
    ) -> None:
        self.kernel, self.cluster = kernel, cluster
        self.plan, self.partition = plan, partition
        self.stopped = False
        self._chance = kernel.random
        self._number = 0
        self._transactional = plan.content in TRANSACTIONAL
        self._codec = self._chance.choice(_CODECS)
        self._producer: ClusterProducer | None = None
        self._pause_s = self._chance.choice((0.05, 0.3, 2.0)) * pace
        self._open = False
        self._lives = 0

    def start(self) -> None:
        self.kernel.later(self._chance.random() * self._pause_s, self._step)

    def stop(self) -> None:
        self.stopped = True

    @property
    def idle(self) -> bool:
        """Whether it has stopped, and no transaction is open."""
        return self.stopped and not self._open

    def _step(self) -> None:
        try:
            self._act()
        except (Refused, LookupError):
            # A broker is down. A real producer tries again; this one begins another life, in which
            # it says nothing of records whose answer it did not get.
            self._producer = None
        if not self.idle:
            self.kernel.later(self._chance.random() * 2 * self._pause_s, self._step)

    def _act(self) -> None:
        if self._producer is None:
            name = f"{self.plan.name}-{self.partition}" if self._transactional else None
            self._producer = ClusterProducer(self.cluster, name)
            self._open = False
        if self._open and (self.stopped or self._chance.random() < 0.4):
            if self._chance.random() < 0.7:
                self._producer.commit()
            else:
                self._producer.abort()
            self._open = False
        elif not self.stopped:
            count = self._chance.choice((1, 1, 3, 10, 40))
            self._producer.write(
                self.plan.name, self.partition, self._records(count), self._time_ms(), self._codec
            )
            self._open = self._transactional

    def _time_ms(self) -> int:
        now_ms = int(self.kernel.now() * 1000)
        if self.plan.content is Content.OLD and self._chance.random() < 0.7:
            return now_ms - self._chance.randrange(3 * _DAY_MS)
        return now_ms

    def _records(self, count: int) -> list[tuple[bytes | None, bytes | None]]:
        made: list[tuple[bytes | None, bytes | None]] = []
        for _ in range(count):
            self._number += 1
            size = self._chance.choice((0, 0, 20, 300))
            value = b"%s-%d %d " % (self.plan.name.encode(), self.partition, self._number)
            if self.plan.content is Content.TRANSFORMED:
                value = transforms.made_of(value, drops=self._chance.random() < 0.3)
            else:
                value += bytes(size)
            made.append((b"%d" % (self._number % _KEYS), value))
        return made


class OtherWriter:
    """Writes to the mirror's topic on the target, next to the mirror."""

    def __init__(
        self, kernel: Kernel, target: KafkaCluster, plan: TopicPlan, pace: int = 1
    ) -> None:
        self.kernel, self.target, self.plan = kernel, target, plan
        self.stopped = False
        self._number = 0
        self._pause_s = kernel.random.choice((0.1, 1.0, 5.0)) * pace

    def start(self) -> None:
        self.kernel.later(self.kernel.random.random() * self._pause_s, self._step)

    def stop(self) -> None:
        self.stopped = True

    def _step(self) -> None:
        _try(self._act)
        if not self.stopped:
            self.kernel.later(self.kernel.random.random() * 2 * self._pause_s, self._step)

    def _act(self) -> None:
        topic = self.target.topics.get(self.plan.mirrored)
        if topic is None:
            return
        partition = self.kernel.random.randrange(len(topic.partitions))
        self._number += 1
        value = OTHERS + b"%d" % self._number
        ClusterProducer(self.target).write(self.plan.mirrored, partition, [(b"k", value)])


class Group:
    """A consumer group of the source that has read some records, and commits that."""

    def __init__(
        self,
        kernel: Kernel,
        cluster: KafkaCluster,
        name: str,
        places: Callable[[], list[tuple[str, int]]],
        pace: int = 1,
    ) -> None:
        self._pace = pace
        self.kernel, self.cluster, self.name = kernel, cluster, name
        self.places = places
        self.stopped = False
        self._positions: dict[tuple[str, int], int] = {}

    def start(self) -> None:
        self.kernel.later(self.kernel.random.random() * 5, self._step)

    def stop(self) -> None:
        self.stopped = True

    def _step(self) -> None:
        if self.stopped:
            return
        chance = self.kernel.random
        for place in self.places():
            _try(lambda place=place: self._read(place))  # type: ignore[misc]
        self.kernel.later((1 + chance.random() * 4) * self._pace, self._step)

    def _read(self, place: tuple[str, int]) -> None:
        replica = self.cluster.replica(*place)
        low, high = replica.log.start, replica.last_stable
        at = max(self._positions.get(place, 0), low)
        share = self.kernel.random.choice((0.0, 0.3, 1.0))
        at = max(at, min(high, at + int((high - at) * share)))
        self._positions[place] = at
        self.cluster.commit(self.name, {place: at})


def _try(act: Callable[[], None]) -> None:
    try:
        act()
    except (Refused, LookupError):
        pass  # no leader now
