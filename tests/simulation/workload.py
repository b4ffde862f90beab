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
_PAUSES_S: Final = 0.05, 0.3, 2.0
_LONG_S: Final = 0.3, 1.0, 3.0
_RARE_S: Final = 7_200.0, 40_000.0, 200_000.0
_BRISK_S: Final = 5.0  # for which clients of a long run are brisk, after something has happened
_CODECS: Final = (0, 0, 0, 0, 1, 2, 3, 4)  # as in a batch's attributes


class Client:
    """Acts again and again until `stop`: after pauses of `pause_s` or so, in a long run after much
    longer ones while nothing else happens."""

    def __init__(self, kernel: Kernel, pause_s: float) -> None:
        self.kernel = kernel
        self.stopped = False
        self._pause_s = pause_s
        self._rare_s = kernel.random.choice(_RARE_S) if kernel.long else 0.0
        self._turn = 0

    def start(self) -> None:
        self._again(self.kernel.random.random() * self._pause_s)

    def hurry(self) -> None:
        """Something else happens."""
        if self._turn and not self.idle:
            self.start()

    def stop(self) -> None:
        self.stopped = True
        self.hurry()

    @property
    def idle(self) -> bool:
        """Whether it has stopped, and has nothing left to do."""
        return self.stopped

    def _again(self, seconds: float) -> None:
        self._turn += 1
        turn = self._turn
        self.kernel.later(seconds, lambda: self._go_on(turn))

    def _go_on(self, turn: int) -> None:
        if turn == self._turn and not self.idle:
            self._step()
            calm = self.kernel.long and self.kernel.elapsed - self.kernel.hurried_at > _BRISK_S
            pause_s = self._rare_s if calm and self.may_rest else self._pause_s
            self._again(self.kernel.random.random() * 2 * pause_s)

    @property
    def may_rest(self) -> bool:
        return True

    def _step(self) -> None:
        raise NotImplementedError


class Application(Client):
    """Writes to one partition, now and then. `number`: of its last record."""

    def __init__(
        self,
        kernel: Kernel,
        cluster: KafkaCluster,
        plan: TopicPlan,
        partition: int,
        *,
        number: int = 0,
    ) -> None:
        super().__init__(kernel, kernel.random.choice(_LONG_S if kernel.long else _PAUSES_S))
        self.cluster = cluster
        self.plan, self.partition = plan, partition
        self._chance = kernel.random
        self._number = number
        self._transactional = plan.content in TRANSACTIONAL
        self._codec = self._chance.choice(_CODECS)
        self._producer: ClusterProducer | None = None
        self._open = False
        self._lives = 0

    @property
    def idle(self) -> bool:
        return self.stopped and not self._open

    @property
    def may_rest(self) -> bool:
        return not self._open

    def _step(self) -> None:
        try:
            self._act()
        except (Refused, LookupError):
            # A broker is down. A real producer tries again; this one begins another life, in which
            # it says nothing of records whose answer it did not get.
            self._producer = None

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


class OtherWriter(Client):
    """Writes to the mirror's topic on the target, next to the mirror."""

    def __init__(self, kernel: Kernel, target: KafkaCluster, plan: TopicPlan) -> None:
        super().__init__(kernel, kernel.random.choice((0.1, 1.0, 5.0)))
        self.target, self.plan = target, plan
        self._number = 0

    def _step(self) -> None:
        _try(self._act)

    def _act(self) -> None:
        topic = self.target.topics.get(self.plan.mirrored)
        if topic is None:
            return
        partition = self.kernel.random.randrange(len(topic.partitions))
        self._number += 1
        value = OTHERS + b"%d" % self._number
        ClusterProducer(self.target).write(self.plan.mirrored, partition, [(b"k", value)])


class Group(Client):
    """A consumer group of the source that has read some records, and commits that."""

    def __init__(
        self,
        kernel: Kernel,
        cluster: KafkaCluster,
        name: str,
        places: Callable[[], list[tuple[str, int]]],
    ) -> None:
        super().__init__(kernel, 3.0)
        self.cluster, self.name, self.places = cluster, name, places
        self._positions: dict[tuple[str, int], int] = {}

    def _step(self) -> None:
        for place in self.places():
            _try(lambda place=place: self._read(place))  # type: ignore[misc]

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
