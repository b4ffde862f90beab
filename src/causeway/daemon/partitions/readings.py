"""Reads a link's partitions, for the status and for the control plane."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from causeway.config import LinkSettings
from causeway.control import Held, MirroredTopic
from causeway.daemon.partitions.rows import Row
from causeway.link_topics import OffsetMap, Span, Transformed
from causeway.model import ENDED, HELD, State, TopicPartition
from causeway.status import PartitionStatus
from causeway.translation import Course, CourseKey

V = TypeVar("V")
IDLE = HELD | {State.STOPPED}  # partitions in these states need no outlets
OVER = ENDED | {State.STOPPED}  # partitions in these states are not kept up to date


class Readings:
    """Thread-safe. A change of the set of rows must call `_rows_changed`. `chosen`: the topics that
    people have chosen, by their names on the source; only the directive executor replaces it."""

    def __init__(self) -> None:
        self.chosen: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._rows: dict[TopicPartition, Row] = {}
        self._sorted: tuple[Row, ...] | None = ()  # by topic and partition; None: to be sorted
        self._moved: dict[TopicPartition, Row] = {}

    def _rows_changed(self) -> None:
        """Call this with the lock held."""
        self._sorted = None

    def with_chosen(self, link: LinkSettings) -> LinkSettings:
        return replace(link, chosen=self.chosen)

    def _with_rows(self, values: Mapping[TopicPartition, V]) -> Iterator[tuple[Row, V]]:
        """Yields the rows of those `values` that have one. Call it with the lock held."""
        for at, value in values.items():
            if (row := self._rows.get(at)) is not None:
                yield row, value

    def lacks(self, at: TopicPartition) -> bool:
        with self._lock:
            return at not in self._rows

    def places(self) -> list[TopicPartition]:
        with self._lock:
            return list(self._rows)

    def live(self) -> list[Row]:
        """Returns the rows that are not stopped and have not ended."""
        return self.rows(lambda row: row.progress.state not in OVER)

    def rows(self, wanted: Callable[[Row], bool]) -> list[Row]:
        """Returns the rows for which `wanted` is true. It is called with the lock held."""
        with self._lock:
            return [row for row in self._rows.values() if wanted(row)]

    def get(self, places: Iterable[TopicPartition]) -> list[Row]:
        """Returns the rows of those `places` that have one."""
        with self._lock:
            return [row for at in places if (row := self._rows.get(at)) is not None]

    def wanting(self) -> list[Row]:
        """Returns the rows that wait for outlets."""
        return self.rows(lambda row: bool(row.wants) and row.progress.state not in IDLE)

    def status(self, silent_since: int | None = None) -> tuple[PartitionStatus, ...]:
        """Returns the partitions by topic and number. Counts may be one report behind the other
        figures. `silent_since`: when the source last answered (ms); None if it answers."""
        now, now_ms = time.monotonic(), int(time.time() * 1000)
        with self._lock:
            if self._sorted is None:
                self._sorted = tuple(row for _, row in sorted(self._rows.items()))
            rows = self._sorted
        return tuple([row.status(now, now_ms, silent_since) for row in rows])

    def counted(self) -> list[tuple[str, Transformed | None]]:
        """Returns, for each partition that goes through a transform, the transform's name and the
        counts."""
        rows = self._all().values()
        return [(row.transform.name, row.transformed) for row in rows if row.transform is not None]

    def _all(self) -> dict[TopicPartition, Row]:
        """Returns a copy, for readers of all rows: reports need the lock, and 100,000 rows take a
        while. Values of a row that must be consistent are one value, replaced as a whole."""
        with self._lock:
            return dict(self._rows)

    def is_settled(self, for_good_s: float) -> bool:
        """Returns whether a bounded run need not wait: each partition is done, is stopped, or has
        failed for `for_good_s`."""
        now = time.monotonic()
        with self._lock:
            return all(row.is_settled(now, for_good_s) for row in self._rows.values())

    def positions(self) -> dict[TopicPartition, int]:
        """Returns, for each running partition with an offset map, the source offset below which
        everything is mirrored."""
        return {
            at: row.progress.position
            for at, row in self._all().items()
            if row.is_mapped and row.progress.state not in OVER
        }

    def newest(self, *, moved: bool) -> dict[TopicPartition, tuple[int, int]]:
        """Returns `Row.newest` of the partitions of `positions`. With `moved`, only of partitions
        that lanes have reported since the last call."""
        with self._lock:
            moving, self._moved = self._moved, {}
            rows = moving if moved else dict(self._rows)
        return {
            at: newest
            for at, row in rows.items()
            if row.is_mapped
            and row.progress.state not in OVER
            and (newest := row.newest) is not None
        }

    def courses(self) -> list[Course]:
        """See translation.course.Courses."""
        return [
            Course.of(known, outlet, placed=row.placed, rewinds=row.rewinds)
            for row in self._all().values()
            if (known := row.progress).is_mapped and known.state not in ENDED
            for outlet in known.outlets
        ]

    def ended(self) -> set[TopicPartition]:
        """Returns the source partitions whose mirror was promoted or failed over."""
        return {at for at, row in self._all().items() if row.progress.state in ENDED}

    @property
    def transforms(self) -> bool:
        """Whether partitions are transformed; only these share target partitions."""
        return any(row.progress.transform is not None for row in self._all().values())

    def are_placed(self) -> bool:
        """Returns whether the position of each partition is known, or the reason why it is not."""
        return all(
            row.placed or row.progress.state in IDLE | {State.FAILED}
            for row in self._all().values()
        )

    def undated(self) -> dict[TopicPartition, int]:
        """Returns the positions of partitions that lag, if the time of the first unmirrored record
        is unknown."""
        return {at: row.progress.mirrored_to for at, row in self._all().items() if row.is_undated}

    def topics(self) -> dict[str, MirroredTopic]:
        """Returns the topics of which at least one partition is mirrored now, by source name."""
        with self._lock:
            return {
                at.topic: row.topic
                for at, row in self._rows.items()
                if row.progress.state not in OVER
            }

    def filling(self) -> set[str]:
        """Returns the source topics of partitions whose beginnings are being filled now."""
        return {
            at.topic
            for at, row in self._all().items()
            if (known := row.progress).begins
            # It may be filled, and the filler not be deleted yet.
            or (known.position == known.offsets_from > 0 and known.state is not State.RUNNING)
        }

    def held(self) -> dict[TopicPartition, Held]:
        """Returns the partitions that an open transaction on the source holds back for long."""
        now = time.monotonic()
        with self._lock:
            return {at: held for at, row in self._rows.items() if (held := row.held(now))}

    def place(self, key: CourseKey, offsets: Iterable[int]) -> dict[int, int | Span | None] | None:
        """Returns the target of each source offset, see OffsetMap.place. None if the partition has
        no map (it is not mirrored, or keys decide, or at-least-once)."""
        with self._lock:
            known = self._map(key)
            return None if known is None else {offset: known.place(offset) for offset in offsets}

    def alone_until(self, key: CourseKey, target: int) -> int:
        """See OffsetMap.alone_until. Returns `target` if `key` has no map."""
        with self._lock:
            known = self._map(key)
            return target if known is None else known.alone_until(target)

    def read_again(self, key: CourseKey, source: int, target: int) -> tuple[int, int]:
        """See OffsetMap.read_again."""
        with self._lock:
            known = self._map(key)
            return (0, source) if known is None else known.read_again(source, target)

    def end(self, key: CourseKey) -> int | None:
        """Returns the target offset up to which the map of `key` goes: it has no later records
        yet."""
        with self._lock:
            known = self._map(key)
            return known.points[-1].target if known is not None and known.points else None

    def _map(self, key: CourseKey) -> OffsetMap | None:
        row = self._rows.get(key.source)
        return None if row is None else row.maps.get(key.target)
