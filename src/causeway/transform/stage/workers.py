"""The Python workers at both ends of a stage.

The source worker turns chunks from the lane into Arrow rows for Spark. A marker row follows the
records of each chunk, and its `_mark` closes the chunk for the sink worker. Spark collects rows
until an Arrow batch is full. So when no chunk waits, the source worker sends enough markers to push
all rows through. A chunk that does not need Spark (direct.py) is answered by the source worker.

The sink worker turns the rows that come out of Spark into record batches for the lane. The first
marker after a chunk's rows closes the chunk, and its ChunkOutcome goes to the lane."""

from __future__ import annotations

import base64
import gc
import json
import os
import pickle
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from causeway.config import Routes
from causeway.records import keep_freed_memory
from causeway.transform.channel import (
    Chunk,
    ChunkOutcome,
    Frame,
    Greeting,
    SealedConnection,
    Setup,
    WaitingForRegistry,
)
from causeway.transform.rows import CHUNK, MARK, unpacked
from causeway.transform.rules import TransformRule
from causeway.transform.schema_formats import Schemas, WorkerRegistry, encoded
from causeway.transform.stage.direct import Answer, Direct
from causeway.transform.stage.source_rows import ROWS_BYTES, Rows
from causeway.transform.udfs import discreet_worker
from causeway.transform.work import StageWork

if TYPE_CHECKING:
    import pyarrow as pa

WORKER_BYTES = 2 * 1024**3  # of memory: about ten times the need of the largest chunks


class LaneAddress(NamedTuple):
    """The address of a stage's lane. It can be pickled: the secret is in the environment variable
    `secret_variable`."""

    stage: str
    attempt: str
    address: str
    secret_variable: str

    def connect(self, end: Literal["source", "sink"]) -> tuple[SealedConnection, list[Frame]]:
        """Returns a connection after the worker's greeting, and the frames received: Setup first.

        Raises OSError; ConnectionError if the lane closes the connection, as it does when it ends.
        """
        connection = SealedConnection.open(self.address, os.environ[self.secret_variable])
        try:
            connection.send(Greeting(self.stage, self.attempt, end))
            while not (frames := connection.wait(None)):
                pass
        except ConnectionError:
            connection.close()
            raise
        return connection, frames


def schemas_of(
    setup: Setup,
    formats: Mapping[str, str],
    connection: SealedConnection,
    rules: Sequence[TransformRule] = (),
) -> Schemas | None:
    """Returns the schemas of the parts with these `formats`, for `rules` if the JSON is for rules.
    The worker reports to the lane if the registry does not answer. None if there are no such
    parts."""
    if not formats:
        return None
    assert setup.registry is not None
    registry = WorkerRegistry(
        setup.registry, lambda reason: connection.send_all(WaitingForRegistry(reason))
    )
    return Schemas(registry, formats, rules)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Within this context the process may take WORKER_BYTES more memory; then it raises
    MemoryError. Afterwards the limit is as before. Linux only."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(OSError, ValueError):  # no such file, or a system without the limit
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
        most = pages * resource.getpagesize() + WORKER_BYTES
        limits = [most, *(limit for limit in before if limit != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def settle() -> None:
    """Prepares this process for its only task: quiet errors, memory pools, no garbage collection of
    loaded modules."""
    import pyarrow

    discreet_worker()
    keep_freed_memory()
    # Arrow's own pools return free memory, so each batch would allocate new pages.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    gc.freeze()


@dataclass(frozen=True, slots=True)
class SourceWorker:
    """The function for `mapInArrow`. `push`: how many markers push all rows through."""

    lane: LaneAddress
    work: StageWork
    push: int

    def __call__(self, start: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        with limited_memory():
            yield from self._rows(start)

    def _rows(self, start: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in start:  # one row, so that there is a task
            pass
        try:
            connection, frames = self.lane.connect("source")
        except ConnectionResetError:
            return
        try:
            setup = frames.pop(0)
            assert isinstance(setup, Setup)
            work = self.work
            schemas = schemas_of(setup, work.decodes, connection, work.rules)
            secrets = {name: setup.secrets[name] for name in work.secrets}
            rows = Rows(secrets, work.texts, schemas, work.types)
            markers = rows.markers(self.push)
            treat: Callable[[Chunk], Answer] = rows.of
            if work.shortcut is not None:
                treat = Direct(work.shortcut.open(setup.secrets), rows).answer
            yield from bounded(self._all(connection, frames, treat, markers), markers)
        except ConnectionError:
            return  # the lane ended
        finally:
            connection.close()

    def _all(
        self,
        connection: SealedConnection,
        frames: list[Frame],
        treat: Callable[[Chunk], Answer],
        markers: pa.RecordBatch,
    ) -> Iterator[pa.RecordBatch]:
        """Rows for `frames` and all later frames. Raises ConnectionError at the end."""
        waits = False  # whether Spark holds rows of a chunk
        while True:
            for chunk in frames:
                assert isinstance(chunk, Chunk)
                answer = treat(chunk)
                if isinstance(answer, ChunkOutcome):
                    connection.send_all(answer)
                else:
                    waits = True
                    yield from answer
            if not (frames := connection.receive()):
                if waits:
                    yield markers
                    waits = False
                while not (frames := connection.wait(None)):
                    pass


def bounded(batches: Iterator[pa.RecordBatch], markers: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """`batches`, with `markers` after large records: Spark's own batches end after a number of
    rows, however large the rows are."""
    size = count = 0
    for batch in batches:
        yield batch
        size, count = size + batch.nbytes, count + batch.num_rows
        if size > ROWS_BYTES:
            if count < markers.num_rows:
                yield markers
            size = count = 0


WhyNot = Callable[[str], str | None]
_NAMES = 10_000  # of topics whose results are cached


@dataclass(frozen=True, slots=True)
class SinkWorker:
    """The function for `mapInArrow`; yields no rows."""

    lane: LaneAddress
    work: StageWork

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        with limited_memory():
            self._run(batches)
        yield from ()

    def _run(self, batches: Iterator[pa.RecordBatch]) -> None:
        try:
            connection, frames = self.lane.connect("sink")
        except ConnectionResetError:
            return
        setup = frames[0]
        assert isinstance(setup, Setup)
        schemas = schemas_of(setup, self.work.encodes, connection, self.work.rules)
        chunks = OutcomeReader(schemas, _why_not(setup))
        try:
            for batch in batches:
                for outcome in chunks.add(batch):
                    connection.send_all(outcome)
        except ConnectionError:
            # The lane is gone. The source worker notices it too, so the rows end.
            connection.close()
            for _ in batches:
                pass
        finally:
            connection.close()


class OutcomeReader:
    """Cuts rows of `rows.OUTPUT`, in order, into chunks."""

    def __init__(self, schemas: Schemas | None = None, why_not: WhyNot | None = None) -> None:
        """`schemas`: of the parts to be written by schemas; `why_not`: see outcome_of."""
        self._schemas = schemas
        self._why_not = why_not
        self._rows: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[ChunkOutcome]:
        """Yields the outcomes of the chunks that `batch` closes."""
        import numpy as np

        from causeway.transform.stage.outcome import outcome_of

        marks = batch.column(MARK)
        at = 0
        marked = marks.is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(marked).tolist():
            if row > at:
                self._rows.append(batch.slice(at, row - at))
            at = row + 1
            if mark := marks[row].as_py():
                rows, self._rows = self._rows, []
                fields = json.loads(mark)
                if self._schemas is not None:
                    rows = [encoded(each, self._schemas, fields["topic"]) for each in rows]
                data = batch.column("value")[row].as_py()
                treated = None if data is None else unpacked(data)
                number = batch.column(CHUNK)[row].as_py()
                yield outcome_of(number, fields, rows, treated, self._why_not)
        if at < batch.num_rows:
            self._rows.append(batch.slice(at))


def _why_not(setup: Setup) -> WhyNot | None:
    if setup.routes is None:
        return None
    routes: Routes = pickle.loads(base64.b64decode(setup.routes))  # noqa: S301  our own lane's
    return lru_cache(_NAMES)(routes.why_not)
