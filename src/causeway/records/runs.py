"""Cuts batches at gaps, for targets that keep the source's offsets.

source offsets   0 1 2 . . 5 6 .        kept: one batch with offsets [0, 1, 2, 5, 6]
                 └─run─┘ gap └run┘ gap
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from causeway.errors import DivergedError
from causeway.records.batches import Batch
from causeway.records.codec import cut


class Gap(NamedTuple):
    """The source offsets from `start` to `stop` - 1: none of them has a record to relay."""

    start: int
    stop: int


def dense_runs(batches: Iterable[Batch], start: int, stop: int) -> list[Batch | Gap]:
    """Cuts `batches` at each jump of their source offsets, and adds the gaps between the runs.
    Runs and gaps cover each source offset from `start` to `stop` - 1, in order.

    Raises DivergedError if one source record became several. Raises ProtocolError if a batch that
    must be cut cannot be read.
    """
    found: list[Batch | Gap] = []
    at = start
    for batch in batches:
        for run in _runs(batch):
            if run.first > at:
                found.append(Gap(at, run.first))
            elif run.first < at:
                raise _several(run.first)
            found.append(run)
            at = run.first + run.records
    if stop > at:
        found.append(Gap(at, stop))
    return found


def _runs(batch: Batch) -> Iterator[Batch]:
    offsets = batch.offsets
    if offsets is None:
        following = batch.first + batch.records
        yield batch if batch.next == following else batch._replace(next=following)
        return
    jumps = [at for at in range(1, batch.records) if offsets[at] != offsets[at - 1] + 1]
    for at in jumps:
        if offsets[at] <= offsets[at - 1]:
            raise _several(offsets[at])
    for run in cut(batch, jumps) if jumps else (batch,):
        yield run._replace(offsets=None, next=run.first + run.records)


def _several(offset: int) -> DivergedError:
    return DivergedError(
        "keep the offsets of",
        f"the record at offset {offset}",
        "its transform makes several records of it",
        remedy="use a transform with one record for each, or causeway.offsets = translate",
    )
