"""The part of a lane's loop that stages need, and workers of theirs that are no processes."""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Callable

from causeway.records import Batch, PlainRecord, build
from causeway.relay import StageSpec
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.stages import LaneStages
from causeway.transform import (
    Chunk,
    ChunkOutcome,
    Frame,
    Greeting,
    OutletBatch,
    SealedConnection,
    Setup,
    WaitingForRegistry,
)

KEY, SECRET = "A->B/pii@1", "the key"


def batch_at(first: int) -> Batch:
    records = [PlainRecord(at, 1_000, None, b"v", []) for at in range(10)]
    return build(records, codec=0, first=first, next=first + 10, leader_epoch=0, offsets=None)


def one_at(first: int) -> Batch:
    record = PlainRecord(0, 1_000, None, b"v", [])
    return build([record], codec=0, first=first, next=first + 1, leader_epoch=0, offsets=None)


class Loop:
    """The part of a lane's loop that a stage needs."""

    def __init__(self, here: str = "127.0.0.1", *more: StageSpec) -> None:
        self.selector = selectors.DefaultSelector()
        self.helpers = Helpers(2)
        self.selector.register(self.helpers, selectors.EVENT_READ, lambda _: self.helpers.finish())
        self.stages = LaneStages(here, SECRET, self.helpers, self.selector)
        spec = StageSpec(key=KEY, name="pii", secrets={"pepper": "salt"})
        self.stages.define([spec, *more])

    def until(self, done: Callable[[], object], within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while not done():
            assert time.monotonic() < deadline
            for key, mask in self.selector.select(0.05):
                key.data(mask)
            self.stages.turn(time.monotonic())

    def close(self) -> None:
        self.stages.close()
        self.helpers.close()
        self.selector.close()


class Workers:
    """Both ends of one attempt; answers chunks with what they held, until it is to die."""

    def __init__(self, address: str, attempt: str, key: str = KEY) -> None:
        self.setups: list[Frame] = []
        self.chunks: list[Chunk] = []
        self.dies_at: int | None = None
        self.hangs_at: int | None = None  # on a batch that holds this offset
        self._let_go = threading.Event()
        self.dies_at_once = False
        self.waits = 0  # so many times it says so before it answers
        self.dies_after_waiting = False
        self._source = SealedConnection.open(address, SECRET)
        self._sink = SealedConnection.open(address, SECRET)
        self._source.send(Greeting(key, attempt, "source"))
        self._sink.send(Greeting(key, attempt, "sink"))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.setups += self._until_one(self._sink)
            while True:
                for frame in self._source.wait(None):
                    if isinstance(frame, Setup):
                        self.setups.append(frame)
                    elif isinstance(frame, Chunk):
                        self._answer(frame)
        except ConnectionError:
            pass
        finally:
            self._source.close()
            self._sink.close()

    def _until_one(self, connection: SealedConnection) -> list[Frame]:
        while not (frames := connection.wait(None)):
            pass
        return frames

    def _answer(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        if self.dies_at_once or any(batch.first == self.dies_at for batch in chunk.batches):
            raise ConnectionError("it dies")
        if any(batch.first <= (self.hangs_at or -1) < batch.next for batch in chunk.batches):
            self._let_go.wait()
            raise ConnectionError("it is ended")
        for _ in range(self.waits):
            self._source.send_all(WaitingForRegistry("no registry"))
            threading.Event().wait(0.05)
        if self.dies_after_waiting:
            raise ConnectionError("it dies")
        outputs = tuple(OutletBatch(None, None, batch) for batch in chunk.batches)
        records = sum(batch.records for batch in chunk.batches)
        self._sink.send_all(ChunkOutcome(chunk.number, outputs, records_in=records))

    def let_go(self) -> None:
        """Of what it hangs on: it ends."""
        self._let_go.set()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()
