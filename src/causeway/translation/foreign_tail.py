"""Behind the last record of one source partition in a target partition that others feed as well.

    target  ──[ours]──[others']──[others']──E      nothing of ours behind our last record up to E:
                  ▲ pair                           our next record will lie at E or later

Each stretch of the target is looked through once, for all who feed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import Cluster
from causeway.daemon.partitions.mirrored import Feed
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.relay.messages import Outlet
from causeway.translation import lookup


class _Series(NamedTuple):
    term: int  # of leading: another driver may have heard of a loss
    producer_id: int
    sequence: int  # of its next record


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    end: int
    sought: Mapping[Feed, _Series]
    found: Future[dict[int, int] | CausewayError]


class Tails:
    """Not thread-safe; its look-ups run in `pool`."""

    def __init__(self, target: Cluster, pool: ThreadPoolExecutor) -> None:
        self._target = target
        self._pool = pool
        self._clear: dict[Feed, tuple[_Series, int]] = {}  # up to where nothing of it lies
        self._under_way: dict[TopicPartition, _Look] = {}

    def look(
        self,
        outlets: Mapping[Feed, Outlet],
        ends: Mapping[TopicPartition, int],
        term: int,
        timeout_s: float,
    ) -> dict[Feed, int]:
        """The target offset of the first record from each outlet's pair on, or, where none of it
        is there yet, the end in `ends`. Those that are not known in time are missing: they are
        looked for meanwhile."""
        self._clear = {at: known for at, known in self._clear.items() if at in outlets}
        by_target: dict[TopicPartition, dict[Feed, Outlet]] = defaultdict(dict)
        for at, outlet in outlets.items():
            if at.target in ends:
                by_target[at.target][at] = outlet
        for target, feeding in by_target.items():
            if target not in self._under_way:
                self._begin(target, feeding, ends[target], term)
        wait([look.found for look in self._under_way.values()], timeout_s)
        answers: dict[Feed, int] = {}
        for target in list(self._under_way):
            if self._under_way[target].found.done():
                self._end(self._under_way.pop(target), outlets, term, answers)
        return answers

    def _begin(
        self, target: TopicPartition, feeding: Mapping[Feed, Outlet], end: int, term: int
    ) -> None:
        sought = {at: _series(outlet, term) for at, outlet in feeding.items()}
        starts = []
        for at, outlet in feeding.items():
            before, clear = self._clear.get(at, (None, 0))
            starts.append(max(outlet.pair.target, clear if before == sought[at] else 0))
        found = self._pool.submit(self._look, target, list(sought.values()), min(starts), end)
        self._under_way[target] = _Look(end=end, sought=sought, found=found)

    def _end(
        self, look: _Look, outlets: Mapping[Feed, Outlet], term: int, answers: dict[Feed, int]
    ) -> None:
        found = look.found.result()
        if isinstance(found, CausewayError):
            return
        for at, series in look.sought.items():
            place = found.get(series.producer_id)
            if place is None:
                self._clear[at] = series, look.end
            outlet = outlets.get(at)
            # It may have sent more since an older look began.
            if outlet is not None and series == _series(outlet, term):
                answers[at] = look.end if place is None else place

    def _look(
        self, target: TopicPartition, series: list[_Series], start: int, end: int
    ) -> dict[int, int] | CausewayError:
        try:
            sequences = {each.producer_id: each.sequence for each in series}
            return lookup.first_of(self._target, target, sequences, start, end)
        except CausewayError as error:
            return error  # of one partition, on which the others do not wait


def _series(outlet: Outlet, term: int) -> _Series:
    return _Series(term, outlet.producer_id, outlet.pair.sequence)
