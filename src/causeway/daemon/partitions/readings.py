"""What is read of a link's partitions: by people, and by the control plane."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from causeway.control import Held, MirroredTopic
from causeway.daemon.partitions.rows import Row
from causeway.link_topics import PartitionProgress, Span, Transformed
from causeway.model import ENDED, HELD, State, TopicPartition
from causeway.status import PartitionStatus
from causeway.translation import Course, CourseKey

IDLE = HELD | {State.STOPPED}  # they want nothing
OVER = ENDED | {State.STOPPED}  # nothing of them is brought up to date


class Readings:
    """Thread-safe. Who changes which rows there are calls `_others`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[TopicPartition, Row] = {}
        self._sorted: tuple[Row, ...] | None = ()  # by topic and partition; None: to be sorted
        self._moved: dict[TopicPartition, Row] = {}

    def _others(self) -> None:
        """With the lock held."""
        self._sorted = None

    def lacks(self, at: TopicPartition) -> bool:
        with self._lock:
            return at not in self._rows

    def places(self) -> list[TopicPartition]:
        with self._lock:
            return list(self._rows)

    def live(self) -> list[Row]:
        """Those that are not stopped, and have not ended."""
        return self.rows(lambda row: row.progress.state not in OVER)

    def rows(self, wanted: Callable[[Row], bool]) -> list[Row]:
        """Those that are `wanted`, which is asked with the lock held."""
        with self._lock:
            return [row for row in self._rows.values() if wanted(row)]

    def get(self, places: Iterable[TopicPartition]) -> list[Row]:
        """Those that are there."""
        with self._lock:
            return [row for at in places if (row := self._rows.get(at)) is not None]

    def wanting(self) -> list[Row]:
        """Those that wait for outlets."""
        return self.rows(lambda row: bool(row.wants) and row.progress.state not in IDLE)

    # -- for people -------------------------------------------------------------------------------

    def status(self, silent_since: int | None = None) -> tuple[PartitionStatus, ...]:
        """Sorted by topic and partition. Counts may be one report behind the rest. `silent_since`:
        when the source last answered (ms), None if it answers."""
        now, now_ms = time.monotonic(), int(time.time() * 1000)
        with self._lock:
            if self._sorted is None:
                self._sorted = tuple(row for _, row in sorted(self._rows.items()))
            rows = self._sorted
        return tuple([row.status(now, now_ms, silent_since) for row in rows])

    def counted(self) -> list[tuple[str, Transformed | None]]:
        """What became of the records of each partition that goes through a transform, and the
        transform's name."""
        rows = self._all().values()
        return [(row.transform.name, row.transformed) for row in rows if row.transform is not None]

    def _all(self) -> dict[TopicPartition, Row]:
        """For those who look at every row: reports need the lock, and with 100,000 partitions each
        look takes a while. What must fit together in a row is one value, replaced as a whole."""
        with self._lock:
            return dict(self._rows)

    def is_settled(self, for_good_s: float) -> bool:
        """Whether a bounded run has nothing more to wait for: each partition is done, or stopped,
        or has failed for `for_good_s`."""
        now = time.monotonic()
        with self._lock:
            return all(row.is_settled(now, for_good_s) for row in self._rows.values())

    # -- for the control plane --------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        """Of partitions with an offset map that are not stopped: below which source offset all is
        mirrored."""
        return {
            at: row.progress.position
            for at, row in self._all().items()
            if row.is_mapped and row.progress.state not in OVER
        }

    def newest(self, *, moved: bool) -> dict[TopicPartition, tuple[int, int]]:
        """`Row.newest` of the same partitions; with `moved`, only of partitions that lanes reported
        since the last call."""
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
            for row, known in self._mapped()
            for outlet in known.outlets
        ]

    def ended(self) -> set[TopicPartition]:
        """The source partitions whose mirror was promoted or failed over."""
        return {at for at, row in self._all().items() if row.progress.state in ENDED}

    def _mapped(self) -> Iterator[tuple[Row, PartitionProgress]]:
        return (
            (row, row.progress)
            for row in self._all().values()
            if row.is_mapped and row.progress.state not in ENDED
        )

    @property
    def transforms(self) -> bool:
        """Whether it has partitions that are transformed; no others share target partitions."""
        return any(row.progress.transform is not None for row in self._all().values())

    def are_placed(self) -> bool:
        """Whether each partition's place is known, or why it is not."""
        return all(
            row.placed or row.progress.state in IDLE | {State.FAILED}
            for row in self._all().values()
        )

    def undated(self) -> dict[TopicPartition, int]:
        """The positions of partitions that lag, if the time of the first record is unknown."""
        return {at: row.progress.position for at, row in self._all().items() if row.is_undated}

    def topics(self) -> dict[str, MirroredTopic]:
        """Those of which something is mirrored now, by source name."""
        with self._lock:
            return {
                at.topic: row.topic
                for at, row in self._rows.items()
                if row.progress.state not in OVER
            }

    def held(self) -> dict[TopicPartition, Held]:
        """The partitions that an open transaction on the source holds back for long."""
        now = time.monotonic()
        with self._lock:
            return {at: held for at, row in self._rows.items() if (held := row.held(now))}

    def place(self, key: CourseKey, offsets: Iterable[int]) -> dict[int, int | Span | None] | None:
        """Where each source offset of a partition went, see OffsetMap.place; None where it has no
        map (not mirrored, keys decide, at-least-once)."""
        with self._lock:
            row = self._rows.get(key.source)
            known = None if row is None else row.maps.get(key.target)
            return None if known is None else {offset: known.place(offset) for offset in offsets}

    def alone_until(self, key: CourseKey, target: int) -> int:
        """See OffsetMap.alone_until; `target` if `key` has no map."""
        with self._lock:
            row = self._rows.get(key.source)
            known = None if row is None else row.maps.get(key.target)
            return target if known is None else known.alone_until(target)

    def end(self, key: CourseKey) -> int | None:
        """The target offset up to which the map of `key` goes: what follows is not there yet."""
        with self._lock:
            row = self._rows.get(key.source)
            known = None if row is None else row.maps.get(key.target)
            return known.points[-1].target if known is not None and known.points else None
