"""A stage's first worker: chunks from the lane become Arrow rows for Spark.

Behind each chunk's records stands a marker row, whose `_mark` closes the chunk for the sink worker.
Spark collects rows until an Arrow batch is full, so once no chunk waits as many markers follow as
push all before them through.

A chunk of which Spark is not needed (direct.py) is answered here, and never sees Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from causeway.transform.channel import Chunk, Frame, Outcome, Setup
from causeway.transform.direct import Answer, Direct
from causeway.transform.numbers import checks_of
from causeway.transform.queries.shortcut import QueryShortcut
from causeway.transform.rules.model import Rule
from causeway.transform.rules.shortcut import Shortcut
from causeway.transform.sealed import Connection
from causeway.transform.source_rows import ROWS_BYTES, Rows
from causeway.transform.worker import Lane, limited_memory, schemas_of, settle

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SourceWorker:
    """The function for `mapInArrow`. `secrets`: the fields of the column `secrets`, in its order;
    `push`: marker rows that push all before them through; `texts`: columns for the JSON of parts;
    `decodes`: the formats of those that have any; `types`: DataTypes that the JSON of parts is
    read as; `rules`: those that the JSON is for; `shortcut`: what can be done without Spark."""

    lane: Lane
    secrets: tuple[str, ...]
    push: int
    texts: tuple[str, ...] = ()
    decodes: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    shortcut: Shortcut | QueryShortcut | None = None

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
            schemas = schemas_of(setup, self.decodes, connection, self.rules)
            secrets = {name: setup.secrets[name] for name in self.secrets}
            rows = Rows(secrets, self.texts, schemas, checks_of(self.types))
            markers = rows.markers(self.push)
            treat: Callable[[Chunk], Answer] = rows.of
            if self.shortcut is not None:
                treat = Direct(self.shortcut.open(setup.secrets), rows).answer
            yield from bounded(self._all(connection, frames, treat, markers), markers)
        except ConnectionError:
            return  # the lane's end is ours
        finally:
            connection.close()

    def _all(
        self,
        connection: Connection,
        frames: list[Frame],
        treat: Callable[[Chunk], Answer],
        markers: pa.RecordBatch,
    ) -> Iterator[pa.RecordBatch]:
        """Of `frames` and all that come. Raises ConnectionError at the end."""
        waits = False  # something in Spark, to be pushed through
        while True:
            for chunk in frames:
                assert isinstance(chunk, Chunk)
                answer = treat(chunk)
                if isinstance(answer, Outcome):
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
    """`batches`, with `markers` behind large records: Spark's own batches end after as many rows,
    whatever these hold."""
    size = count = 0
    for batch in batches:
        yield batch
        size, count = size + batch.nbytes, count + batch.num_rows
        if size > ROWS_BYTES:
            if count < markers.num_rows:
                yield markers
            size = count = 0
