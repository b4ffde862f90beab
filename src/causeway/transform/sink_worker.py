"""A stage's last worker: rows that come out of Spark become record batches for the lane.

The first marker behind a chunk's rows closes the chunk, and its Outcome goes to the lane.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from causeway.config import Routes
from causeway.transform.channel import Outcome, Setup
from causeway.transform.rows import CHUNK, MARK, unpacked
from causeway.transform.rules.model import Rule
from causeway.transform.schemas import Schemas, encoded
from causeway.transform.worker import Lane, limited_memory, schemas_of, settle

if TYPE_CHECKING:
    import pyarrow as pa

WhyNot = Callable[[str], str | None]
_NAMES = 10_000  # of topics, whose answers are kept


@dataclass(frozen=True, slots=True)
class SinkWorker:
    """The function for `mapInArrow`; yields no rows. `encodes`: the formats of parts that it writes
    by their schemas; `rules`: those that the JSON was for."""

    lane: Lane
    encodes: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

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
        schemas = schemas_of(setup, self.encodes, connection, self.rules)
        chunks = Chunks(schemas, _why_not(setup))
        try:
            for batch in batches:
                for outcome in chunks.add(batch):
                    connection.send_all(outcome)
        except ConnectionError:
            # The lane has gone. The source worker sees it too, and so the rows end.
            connection.close()
            for _ in batches:
                pass
        finally:
            connection.close()


class Chunks:
    """Rows as `rows.OUTPUT` has them, in order, cut into chunks."""

    def __init__(self, schemas: Schemas | None = None, why_not: WhyNot | None = None) -> None:
        """`schemas`: of the parts that are to be written by them; `why_not`: see outcome_of."""
        self._schemas = schemas
        self._why_not = why_not
        self._rows: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[Outcome]:
        """The outcomes of chunks that `batch` closes."""
        import numpy as np

        from causeway.transform.outcome import outcome_of

        marks = batch.column(MARK)
        at = 0
        marked = marks.is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(marked).tolist():
            if row > at:
                self._rows.append(batch.slice(at, row - at))
            at = row + 1
            if mark := marks[row].as_py():
                rows, self._rows = self._rows, []
                told = json.loads(mark)
                if self._schemas is not None:
                    rows = [encoded(each, self._schemas, told["topic"]) for each in rows]
                data = batch.column("value")[row].as_py()
                treated = None if data is None else unpacked(data)
                number = batch.column(CHUNK)[row].as_py()
                yield outcome_of(number, told, rows, treated, self._why_not)
        if at < batch.num_rows:
            self._rows.append(batch.slice(at))


def _why_not(setup: Setup) -> WhyNot | None:
    if setup.routes is None:
        return None
    routes: Routes = pickle.loads(base64.b64decode(setup.routes))  # noqa: S301  our own lane's
    return lru_cache(_NAMES)(routes.why_not)
