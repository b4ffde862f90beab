"""A real lane in simulated surroundings: its driver, its helper threads, its lease and a stage do
what a test says, when it says so. Its brokers: see simulated_brokers.py."""

from __future__ import annotations

import random
import selectors
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, cast

from causeway.errors import CausewayError
from causeway.records import Batch, Record, part_of, records_of
from causeway.relay import Clusters, ControlClient, Drained, StageSpec, partition_of
from causeway.relay.lane.chunks import Work, WorkResult
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.loop import LaneLoop
from causeway.transform import ChunkOutcome, OutletBatch, Refusal
from tests.harness.simulated_brokers import Brokers
from tests.harness.simulated_logs import Clock, Place

STAGE = "k"
EVENTS = selectors.EVENT_READ | selectors.EVENT_WRITE


class Helpers:
    """In place of helper threads. What is done is heard of later, in any order."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._done: list[Callable[[], None]] = []

    def submit(
        self, work: Callable[[], Any], then: Callable[[Any], None], *, staged: bool = False
    ) -> None:
        self._waiting.append((work, then))

    def post(self, act: Callable[[], None]) -> None:
        self._done.append(act)

    def step(self) -> bool:
        """Do some work, or let the lane hear of some; False where there is none."""
        if self._waiting and (not self._done or self._chance.random() < 0.5):
            work, then = self._waiting.pop(self._chance.randrange(len(self._waiting)))
            try:
                answer = work()
            except CausewayError as error:
                answer = error
            self.post(lambda: then(answer))
        elif self._done:
            self._done.pop(self._chance.randrange(len(self._done)))()
        else:
            return False
        return True

    def close(self) -> None: ...


class Lease:
    """One that lasts until a test says otherwise."""

    def __init__(self) -> None:
        self.over = False

    def lasts(self) -> bool:
        return not self.over

    def send(self, act: Callable[[], object]) -> None:
        if self.lasts():
            act()

    def renew(self, _: float) -> None: ...


@cache
def _silent() -> socket.socket:
    """Nothing arrives on it. The whole mirror's simulation cannot open it at its import."""
    return socket.socket()


class Control:
    """The lane's end of the connection to its driver, which closes once the lane has drained."""

    address = "127.0.0.1"

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.incoming: list[Any] = []

    def send(self, message: object) -> None:
        self.sent.append(message)

    def receive(self) -> list[Any]:
        if any(isinstance(message, Drained) for message in self.sent):
            raise ConnectionResetError
        incoming, self.incoming = self.incoming, []
        return incoming

    def flush(self) -> bool:
        return True

    def fileno(self) -> int:
        return _silent().fileno()


@cache
def share_of(offset: int, count: int) -> int:
    """To which of `count` outlets a source's record goes, by its key."""
    return partition_of(b"%d" % offset, offset, count)


def copies_of(offset: int) -> int:
    """How many records the stage makes of one."""
    return {3: 0, 5: 2}.get(offset % 7, 1)


class Stage:
    """Leaves records out, makes several of one, and leads them to outlets by their keys. `refused`:
    the offsets that it refuses, by source partition."""

    ready, size = True, 0
    spec = StageSpec(key=STAGE, name="simulated")

    def __init__(self, refused: dict[Place, int]) -> None:
        self._refused = refused
        self._works: list[Work] = []

    def trouble(self, _: float) -> None: ...

    def submit(self, work: Work) -> None:
        self._works.append(work)

    def cancel(self, owner: object) -> None:
        self._works = [work for work in self._works if work.owner is not owner]

    def answer(self) -> bool:
        """The first work that waits; False where there is none."""
        if not self._works:
            return False
        work = self._works.pop(0)
        count = len(cast(Flow, work.owner).outlets)
        stop = self._refused.get((work.topic, work.partition))
        outputs = [one for batch in work.batches for one in _outputs(batch, count, stop)]
        found = {batch.source_offset(at) for batch in work.batches for at in range(batch.records)}
        refused = (Refusal(stop, "no"),) if stop in found and stop is not None else ()
        outcome = ChunkOutcome(0, tuple(outputs), refused, work.records)
        assert work.take is not None
        work.take(WorkResult(outcome, work.next, work.batches, work.size, True))
        return True


def _outputs(batch: Batch, count: int, refused: int | None) -> Iterator[OutletBatch]:
    """None reaches over what is refused."""
    parts: dict[int, list[tuple[Record, int]]] = {}
    for index, record in enumerate(records_of(batch)):
        offset = batch.source_offset(index)
        if offset == refused:
            yield from _built(batch._replace(next=offset), parts)
            parts = {}
        elif copies := copies_of(offset):
            parts.setdefault(share_of(offset, count), []).extend([(record, offset)] * copies)
    yield from _built(batch, parts)


def _built(whole: Batch, parts: dict[int, list[tuple[Record, int]]]) -> Iterator[OutletBatch]:
    for number, part in parts.items():
        records, offsets = [record for record, _ in part], [offset for _, offset in part]
        yield OutletBatch(None, number, part_of(whole, records, offsets))


class Stages:
    """All flows share one."""

    wanted, size = (), 0

    def __init__(self, refused: dict[Place, int]) -> None:
        self.stage = Stage(refused)

    def get(self, _: str) -> Stage:
        return self.stage

    def keep(self, keys: Iterable[str]) -> None:
        list(keys)

    def turn(self, _: float) -> None: ...

    def close(self) -> None: ...


class SimulatedLane:
    """Made where the loop's Helpers, Stages and LeaseGuard are those of this module."""

    def __init__(self, brokers: Brokers, clock: Clock, clusters: Clusters) -> None:
        self._brokers, self._clock = brokers, clock
        self.control = Control()
        self._lane = LaneLoop(0, cast(ControlClient, self.control), "secret")
        self.helpers = cast(Helpers, self._lane._helpers)
        self.stage = cast(Stages, self._lane._stages).stage
        self.lease = cast(Lease, self._lane._lease)
        self.draining = False
        self.tell(clusters)
        assert self._lane._relay is not None
        self._relay = self._lane._relay

    @property
    def flows(self) -> dict[tuple[str, str, int], Flow]:
        return self._lane._flows

    @property
    def ended(self) -> bool:
        return self._lane._ended

    def tell(self, *told: object) -> None:
        self.control.incoming.extend(told)
        self._lane._on_control(selectors.EVENT_READ)

    def turn(self) -> None:
        if not self.ended:
            self._lane._turn(self._relay, self._clock.now)

    def happens(self, connection: Any, mask: int) -> None:
        """Its selector tells of `connection`, if it has it."""
        for key in list(self._lane._selector.get_map().values()):
            if key.fileobj is connection:
                key.data(mask)

    def advance(self) -> None:
        """Everything that can be done without waiting: brokers, helpers and the stage serve all
        that is there."""
        self.turn()
        for connection in list(self._brokers.connections):
            for _ in range(len(connection.under_way)):
                connection.serve_next()
            self.happens(connection, EVENTS)
        while self.helpers.step():
            pass
        while self.stage.answer():
            pass

    def close(self) -> None:
        """As a process ends: without a word."""
        self._relay.close()
        self._lane._selector.close()
