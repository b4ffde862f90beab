"""The state of a running daemon at one moment, as plain values for tables, logs and pages: made
when somebody looks, since that takes a second where there are 100,000 partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from causeway.config.reading import Expiry
from causeway.link_topics import (
    THE_LINK,
    Directive,
    LinkDirectives,
    RuleCounts,
    TaskRecord,
    Transformed,
)
from causeway.model import ENDED, Spread, State, TopicPartition
from causeway.status import lag
from causeway.status.states import SOURCE_UNAVAILABLE, word, worst


class Role(StrEnum):
    STARTING = "starting"
    STANDBY = "standby"  # another driver leads this link
    LEADING = "leading"
    FAILED = "failed"  # tried again by itself, with backoff
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long something took, in ms. `last`: most recently, however long ago that was; `recent`:
    in about the last minute, None where nothing happened."""

    last: float
    recent: Spread | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Offsets and times are -1 while unknown; counts are of this run, rates of the last seconds.

    `source_end` is where readers see the source end: its last stable offset, for a link that reads
    committed data only. Beyond it, up to `high_watermark`, lies what an open transaction keeps from
    them; `held_ms`: for how long already, 0 where nothing does.
    `ages`, `latencies`: how old the newest record of each batch was when it was fetched, and when
    the target had acknowledged it. None before the first one.
    `transform`: the name of what its records go through, None where they are relayed as they are;
    `transformed`: what became of them in this run; `others`: target partitions, besides its own,
    that the transform has led to, by their names on the target.
    """

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
    first_unmirrored: int = -1  # ms, of the first record not mirrored
    high_watermark: int = -1
    held_ms: int = 0
    recoveries: int = 0  # times its place was looked for anew, whatever for
    failures: int = 0  # times it became FAILED
    lost: int = 0  # source offsets that were passed over, since it was claimed
    map_points: int = 0  # of its offset map
    ages: Timing | None = None
    latencies: Timing | None = None
    transform: str | None = None
    transformed: Transformed | None = None
    others: tuple[TopicPartition, ...] = ()

    @property
    def lag(self) -> int | None:
        """Source offsets not mirrored yet, which are records where the source has no gaps."""
        if self.source_end < 0 or self.position < 0:
            return None
        return max(0, self.source_end - self.position)

    @property
    def held(self) -> int | None:
        """Source offsets behind an open transaction, which `lag` does not count."""
        if self.source_end < 0 or self.high_watermark < 0:
            return None
        return max(0, self.high_watermark - self.source_end)

    @property
    def lag_bytes(self) -> float | None:
        """An estimate: the lag, each record as large as this run's are on average."""
        if self.lag == 0:
            return 0.0
        if self.lag is None or not self.records:
            return None
        return self.lag * self.bytes / self.records

    def lag_ms(self, now_ms: int, silent_since: int | None) -> int | None:
        """The age of the first record not mirrored: see control.lag, and `LinkStatus.silent_since`.
        0 for a bounded run that had nothing to copy and so never asked for the source's end."""
        behind = 0 if self.state is State.DONE and self.lag is None else self.lag
        if self.state in ENDED:
            silent_since = None  # no record is waited for
        return lag.lag_ms(behind, self.first_unmirrored, now_ms, silent_since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that keeps a topic from being mirrored, or mirrored as it should be."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTiming:
    """From reading a group's offset on the source to the checkpoint's being on the target.
    `topic` is the target's name, as in the checkpoint."""

    group: str
    topic: str
    partition: int
    latency: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A consumer group of the source, as the last round found it. `partitions`: of mirrored topics
    on which it has committed offsets; `reason`: why it is not followed, or what is left undone."""

    group: str
    followed: bool
    partitions: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformStatus:
    """One transform of a link. `counts` are of this run, and so are those of its `rules`;
    `unseen`: rules that protect nothing so far, because no record had their path since the
    transform last changed; `stages`: how many are wanted now; `troubles`: why stages fail, or what
    they wait for."""

    name: str
    partitions: int
    counts: Transformed = field(default_factory=Transformed)
    rules: tuple[RuleCounts, ...] = ()
    unseen: tuple[str, ...] = ()
    stages: int = 0
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """`source`, `target`: the clusters' aliases. `planned`: the link's topics have been looked up,
    so that `partitions` is complete. Counts are of this run."""

    name: str
    source: str
    target: str
    role: Role
    reason: str | None  # of STANDBY: who leads; of FAILED: why
    planned: bool
    partitions: tuple[PartitionStatus, ...]  # sorted by topic and partition
    troubles: tuple[Trouble, ...]
    tasks: tuple[TaskRecord, ...] = ()
    checkpoints: tuple[CheckpointTiming, ...] = ()
    progress_writes: int = 0
    progress_write_failures: int = 0
    translation_fallbacks: int = 0  # answers of the translation that were not exact
    checkpoints_untimed: int = 0  # written, and too many to be in `checkpoints`
    transforms: tuple[TransformStatus, ...] = ()  # in the file's order
    groups: tuple[GroupStatus, ...] = ()  # by name
    directives: tuple[Directive, ...] = ()  # of people, that stand

    @property
    def unavailable(self) -> str | None:
        """Why its source does not answer; None where it does."""
        return next((task.reason for task in self.tasks if task.name == lag.SOURCE_TASK), None)

    @property
    def silent_since(self) -> int | None:
        """When its source last answered (ms; -1 unknown); None if it answers."""
        return None if self.unavailable is None else lag.answered_at(self.tasks)

    @property
    def state(self) -> str:
        """The worst state of its partitions in the words of states.py. The link's role if another
        driver leads, or none yet."""
        return word(self.worst)

    @property
    def worst(self) -> str:
        """The same, but with a partition's own state (model.State)."""
        standing = LinkDirectives({each.key: each for each in self.directives})
        if (end := standing.end_of(THE_LINK)) is not None:
            return end.how
        if self.role is not Role.LEADING:
            return self.role
        if self.unavailable is not None:
            return SOURCE_UNAVAILABLE
        return worst(each.state for each in self.partitions) or State.RUNNING


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
    did, while lanes are missing. `bounded`: the run ends by itself once it has caught up.
    `other_tasks`: by name, those of pairs of clusters without a flow. `refused`: by link,
    why one of its clusters has refused new connections for minutes. `expiries`: of certificates."""

    started_at: float
    taken_at: float
    bounded: bool
    draining: bool
    links: tuple[LinkStatus, ...]
    lanes: tuple[LaneStatus, ...]
    lanes_wanted: int
    lane_trouble: str | None = None
    other_tasks: Mapping[str, tuple[TaskRecord, ...]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    expiries: tuple[Expiry, ...] = ()


# Makes a snapshot, at the caller's cost: no lane's report waits for it. Any thread may look.
Look = Callable[[], Snapshot]
