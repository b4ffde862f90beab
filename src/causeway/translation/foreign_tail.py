"""Looks for records of one course behind its last known record, if others feed the same partition.

    target  ──[ours]──[others']──[others']──E      no record of ours behind our last one up to E:
                  ▲ pair                           our next record will lie at E or later

Each range of the target is read once, for all courses that feed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import Outlet
from causeway.model import TopicPartition
from causeway.relay import offset_lookup
from causeway.translation.course import CourseKey


class _Series(NamedTuple):
    term: int  # of leadership: another driver may have seen a loss
    producer_id: int
    sequence: int  # of its next record


@dataclass(frozen=True, slots=True, kw_only=True)
class _TailLook:
    end: int
    sought: Mapping[CourseKey, _Series]
    found: Future[dict[int, int] | CausewayError]


class ForeignTails:
    """Not thread-safe; its look-ups run in `pool`."""

    def __init__(self, target: Cluster, pool: ThreadPoolExecutor) -> None:
        self._target = target
        self._pool = pool
        self._clear: dict[
            CourseKey, tuple[_Series, int]
        ] = {}  # no record of the course below this target offset
        self._under_way: dict[TopicPartition, _TailLook] = {}

    def look(
        self,
        outlets: Mapping[CourseKey, Outlet],
        ends: Mapping[TopicPartition, int],
        term: int,
        timeout_s: float,
    ) -> dict[CourseKey, int]:
        """The target offset of the first record from each outlet's pair on, or the end in `ends` if
        there is none yet. Courses that are not known in time are missing; the look goes on."""
        self._clear = {at: known for at, known in self._clear.items() if at in outlets}
        by_target: dict[TopicPartition, dict[CourseKey, Outlet]] = defaultdict(dict)
        for at, outlet in outlets.items():
            if at.target in ends:
                by_target[at.target][at] = outlet
        for target, feeding in by_target.items():
            if target not in self._under_way:
                self._begin(target, feeding, ends[target], term)
        wait([look.found for look in self._under_way.values()], timeout_s)
        answers: dict[CourseKey, int] = {}
        for target in list(self._under_way):
            if self._under_way[target].found.done():
                self._end(self._under_way.pop(target), outlets, term, answers)
        return answers

    def _begin(
        self, target: TopicPartition, feeding: Mapping[CourseKey, Outlet], end: int, term: int
    ) -> None:
        sought = {at: _series(outlet, term) for at, outlet in feeding.items()}
        starts = []
        for at, outlet in feeding.items():
            before, clear = self._clear.get(at, (None, 0))
            starts.append(max(outlet.pair.target, clear if before == sought[at] else 0))
        found = self._pool.submit(self._look, target, list(sought.values()), min(starts), end)
        self._under_way[target] = _TailLook(end=end, sought=sought, found=found)

    def _end(
        self,
        look: _TailLook,
        outlets: Mapping[CourseKey, Outlet],
        term: int,
        answers: dict[CourseKey, int],
    ) -> None:
        found = look.found.result()
        if isinstance(found, CausewayError):
            return
        for at, series in look.sought.items():
            place = found.get(series.producer_id)
            if place is None:
                self._clear[at] = series, look.end
            outlet = outlets.get(at)
            # The course may have sent more since the look began.
            if outlet is not None and series == _series(outlet, term):
                answers[at] = look.end if place is None else place

    def _look(
        self, target: TopicPartition, series: list[_Series], start: int, end: int
    ) -> dict[int, int] | CausewayError:
        try:
            sequences = {each.producer_id: each.sequence for each in series}
            return offset_lookup.first_of(self._target, target, sequences, start, end)
        except CausewayError as error:
            return error  # of one partition: the others do not wait for it


def _series(outlet: Outlet, term: int) -> _Series:
    return _Series(term, outlet.producer_id, outlet.pair.sequence)
