"""The state of a running daemon at one moment, as plain values for tables, logs and pages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from causeway.model import State
from causeway.relay.progress import TaskRecord


class Role(StrEnum):
    STARTING = "starting"
    STANDBY = "standby"  # another driver leads this link
    LEADING = "leading"
    FAILED = "failed"  # tried again by itself, with backoff
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Offsets and times are -1 while unknown; counts are of this run, rates of the last seconds."""

    topic: str
    partition: int
    target_topic: str
    state: State
    reason: str | None
    lane: int | None
    first: int  # where this run began
    position: int  # every source offset below is mirrored
    source_end: int
    stop_at: int | None  # where a bounded run ends
    last_timestamp: int  # ms, of the newest record mirrored
    records: int
    bytes: int
    records_per_s: float
    bytes_per_s: float

    @property
    def lag(self) -> int | None:
        """Source offsets not mirrored yet, which are records where the source has no gaps."""
        if self.source_end < 0 or self.position < 0:
            return None
        return max(0, self.source_end - self.position)

    def lag_ms(self, now_ms: int) -> int | None:
        """The age of the newest record mirrored, 0 where nothing is left to mirror."""
        if self.lag == 0:
            return 0
        if self.lag is None or self.last_timestamp < 0:
            return None
        return max(0, now_ms - self.last_timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that keeps a topic from being mirrored, or mirrored as it should be."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """`planned`: the link's topics have been looked up, so that `partitions` is complete."""

    name: str
    role: Role
    reason: str | None  # of STANDBY: who leads; of FAILED: why
    planned: bool
    partitions: tuple[PartitionStatus, ...]  # sorted by topic and partition
    troubles: tuple[Trouble, ...]
    tasks: tuple[TaskRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStatus:
    lane: int
    host: str
    pid: int
    partitions: int
    bytes_per_s: float
    rss_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`started_at`, `taken_at`: seconds since 1970. `lane_trouble`: why the last lane that ended
    did, while lanes are missing. `bounded`: the run ends by itself once it has caught up."""

    started_at: float
    taken_at: float
    bounded: bool
    draining: bool
    links: tuple[LinkStatus, ...]
    lanes: tuple[LaneStatus, ...]
    lanes_wanted: int
    lane_trouble: str | None = None
