"""A lane's stages, one for each transform of its flows, and their direct worker.

A transform gets a second stage for partitions whose records the first stage did not answer:

    first stage ── no answer in time ──► all works of the first owner ──► second stage
      ▲                                                                     │
      └── the owner has no work there, and caused no hang for PROBATION_S ◄─┘

So the search for the record holds up no other partition: a new attempt of the first stage treats
the others. A cluster may have a core for only one of the two stages. Then the second stage ends,
and the first stage treats all partitions for a while.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from causeway.errors import CausewayError
from causeway.link_topics import Outlet
from causeway.records import Batch
from causeway.relay.lane.chunks import DIES, Work, WorkResult
from causeway.relay.lane.direct import DirectWorker
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.stage import Stage
from causeway.relay.messages import Assignment, StageEnded, StageSpec, StageWanted
from causeway.relay.treatment import Series, as_relayed, treated
from causeway.transform import OutletBatch, path_of

PROBATION_S = 600.0  # after a slow record, similar records may follow
LINGERS_S = 60.0  # after this time a second stage ends that no partition needs
SPARE_S = 120.0  # both stages must be ready within this time


class FirstStage(Stage):
    """A stage that moves an owner to a second stage if it hangs on a work of that owner.
    `make_second` makes the second stage. Its argument is called with the owner of a work on which
    the second stage hung."""

    def __init__(
        self, *given: Any, make_second: Callable[[Callable[[object], None]], Stage]
    ) -> None:
        self._make_second = make_second
        self._without_until = 0.0  # monotonic: until then there is no core for a second stage
        self.second: Stage | None = None  # set while it is needed
        self._owners: dict[object, float] = {}  # each stays in the second stage until (monotonic)
        self._second_needed_at = 0.0
        super().__init__(*given)

    @property
    def size(self) -> int:
        return self.chunks.size + (0 if self.second is None else self.second.size)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self,) if self.second is None else (self, self.second)

    def submit(self, work: Work) -> None:
        if self.second is not None and work.owner in self._owners:
            self.second.submit(work)
        else:
            super().submit(work)

    def cancel(self, owner: object) -> None:
        super().cancel(owner)
        if self.second is not None:
            self.second.cancel(owner)
        if not self._owners.get(owner):
            self._owners.pop(owner, None)

    def turn_second(self, now: float) -> None:
        second = self.second
        if second is None:
            return
        for owner, until in list(self._owners.items()):
            if now > until and not second.has(owner):
                del self._owners[owner]
        if self._owners or second.size:
            self._second_needed_at = now
        elif now > self._second_needed_at + LINGERS_S:
            self._close_second()
            return
        second.turn(now)
        self.answered_at = max(self.answered_at, second.answered_at)
        if now - min(self.ready_at, second.ready_at) > SPARE_S:
            self._without_until = now + PROBATION_S
            self.chunks.take_over(second.chunks)
            self._close_second()

    def close(self) -> None:
        self._close_second()
        super().close()

    def lost_by_hang(self) -> None:
        if time.monotonic() < self._without_until:
            super().lost_by_hang()
            return
        works = self.chunks.give_up()
        if not works:
            return
        self._owners.setdefault(works[0].owner, 0.0)
        if self.second is None:
            self.second = self._make_second(self._second_hung)
        self.second.suspect(works)

    def _close_second(self) -> None:
        second, self.second = self.second, None
        self._owners.clear()
        if second is not None:
            second.close()

    def _second_hung(self, owner: object) -> None:
        if owner in self._owners:
            self._owners[owner] = time.monotonic() + PROBATION_S


SECOND = "+"  # after the key of a stage: its second stage
OnHung = Callable[[object], None]


class LaneStages:
    """All stages of a lane. A stage is made when a flow needs it. `here`: the address of the lane's
    machine, as the driver's machine sees it. If both are the same machine, and it runs Linux, the
    listeners are abstract Unix sockets, which leave no file."""

    def __init__(
        self, here: str, secret: str, helpers: Helpers, selector: selectors.BaseSelector
    ) -> None:
        self._here = here
        self._secret = secret
        self._helpers = helpers
        self._selector = selector
        self._specs: dict[str, StageSpec] = {}
        self._stages: dict[str, Stage] = {}
        self._direct = DirectWorker(secret, selector)

    def define(self, specs: Iterable[StageSpec]) -> None:
        self._specs.update((spec.key, spec) for spec in specs)

    def get(self, key: str) -> Stage:
        """Raises CausewayError if the driver has not announced this stage."""
        if key not in self._stages:
            if key not in self._specs:
                raise CausewayError("transform", key, "the driver has not described it")
            self._stages[key] = self._make(self._specs[key])
        return self._stages[key]

    def _make(self, spec: StageSpec, on_hung: OnHung | None = None) -> Stage:
        """Makes the first stage of a transform; with `on_hung`, the second stage."""
        listener, address = self._listen()
        given = listener, address, self._secret, self._helpers, self._selector, self._direct
        if on_hung is not None:
            return Stage(spec, *given, on_hung=on_hung)
        second = spec.replace(key=f"{spec.key}{SECOND}", shortcut=None, late=False)
        return FirstStage(spec, *given, make_second=partial(self._make, second))

    @property
    def _all(self) -> Iterator[Stage]:
        return (each for stage in self._stages.values() for each in stage.stages)

    def ended(self, message: StageEnded) -> None:
        for stage in self._all:
            if stage.spec.key == message.key:
                stage.ended(message.attempt, message.reason, threw=message.threw)

    def keep(self, keys: Iterable[str]) -> None:
        """Closes all stages except `keys`: no flow needs them any more."""
        for key in self._stages.keys() - set(keys):
            self._stages.pop(key).close()

    @property
    def wanted(self) -> tuple[StageWanted, ...]:
        return tuple(
            StageWanted(
                key=stage.spec.key, address=stage.address, waiting=stage.waiting, hung=stage.hung
            )
            for stage in self._all
            if stage.wanted
        )

    @property
    def size(self) -> int:
        """Bytes of records that wait for a stage or are in one."""
        return sum(stage.size for stage in self._stages.values())

    def turn(self, now: float) -> None:
        for stage in self._stages.values():
            stage.turn(now)
        self._direct.turn(now)

    def close(self) -> None:
        self.keep(())
        self._direct.close()

    def _listen(self) -> tuple[socket.socket, str]:
        if self._here.startswith("127.") and sys.platform == "linux":
            address = f"@causeway-stage-{os.urandom(12).hex()}"
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path_of(address))
        else:
            family = socket.AF_INET6 if ":" in self._here else socket.AF_INET
            listener = socket.create_server((self._here, 0), family=family)
            address = f"{self._here}:{listener.getsockname()[1]}"
        listener.listen()
        listener.setblocking(False)
        return listener, address


CHUNK_BYTES = 512 * 1024
Place = tuple[str, int]  # topic, as on the source, and partition


def dies(piece: WorkResult) -> bool:
    return any(refusal.reason == DIES for refusal in piece.outcome.refused)


def cut_chunks(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Groups `batches` into chunks of about CHUNK_BYTES."""
    chunk: list[Batch] = []
    size = 0
    for batch in batches:
        if chunk and size + batch.size > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(batch)
        size += batch.size
    if chunk:
        yield chunk


def usable(piece: WorkResult, *, stops: bool) -> Iterable[OutletBatch]:
    """The outputs of `piece`. If a refused record `stops` the flow, only the outputs before it."""
    refused = piece.outcome.refused
    if not refused or not stops:
        return piece.outcome.outputs
    first = refused[0].offset
    return [output for output in piece.outcome.outputs if output.batch.first < first]


def place_of(assignment: Assignment, output: OutletBatch) -> Place:
    topic = assignment.topic if output.topic is None else output.topic
    return topic, assignment.partition if output.partition is None else output.partition


def place_of_outlet(assignment: Assignment, outlet: Outlet) -> Place:
    return outlet.routed or assignment.topic, outlet.partition


def series_of(flow: Flow) -> Series:
    """How the source's records become the records of the flow's outlets. A helper's thread uses
    it."""
    way = flow.on_the_way
    series: Series = as_relayed if way is None else partial(_transformed, way.stage)
    return series if flow.treatment is None else treated(flow.treatment, series)


def _transformed(
    stage: Stage, assignment: Assignment, batches: Iterator[Batch]
) -> Iterator[Sequence[Batch | None]]:
    at = {place_of_outlet(assignment, o): n for n, o in enumerate(assignment.outlets)}
    stops = stage.spec.dead_letters is None
    for chunk in cut_chunks(batches):
        pieces = stage.call(assignment.topic, assignment.partition, chunk[-1].next, chunk)
        for piece in pieces:
            if dies(piece):
                raise CausewayError("transform", stage.spec.name, DIES, retriable=True)
            for output in usable(piece, stops=stops):
                number = at.get(place_of(assignment, output))
                if number is not None:
                    yield [output.batch if n == number else None for n in range(len(at))]
            if piece.outcome.refused and stops:
                return
