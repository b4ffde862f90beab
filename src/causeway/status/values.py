"""The status of a run, of links and of partitions, from the driver or from the clusters.

    the driver        from its memory, at one moment: a Snapshot
    a command         only from the clusters, see from_clusters.py: a LinkStatus for each link

None always means that a value is not known (yet). Offsets are the source's, times ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from causeway.config import TreatmentSettings
from causeway.config.reading import Expiry
from causeway.errors import CausewayError
from causeway.link_topics import (
    THE_LINK,
    Filled,
    LinkDirectives,
    PartitionProgress,
    RuleCounts,
    TaskRecord,
    Transformed,
    Value,
)
from causeway.model import Spread, State, TopicPartition
from causeway.status.states import NO_DRIVER, SOURCE_UNAVAILABLE, UNKNOWN, word, worst


class Role(StrEnum):
    """The role of this process for a link."""

    STARTING = "starting"
    STANDBY = "standby"  # another driver leads this link
    LEADING = "leading"
    FAILED = "failed"  # tried again by itself, with backoff
    ENDED = "ended"


class Timing(Value):
    """The duration of something, in ms. `last`: the most recent one, however old it is. `recent`:
    in about the last minute, None if nothing happened."""

    last: float
    recent: Spread | None


class Preserving(Value):
    """A partition that preserves offsets, see PartitionProgress. `filled_to`: the offset up to
    which the beginning of the target's log is filled, None once it is; at `per_s` offsets a second,
    if that is measured. `filled`: how many offsets were filled in this run; only the leading driver
    knows it."""

    offsets_from: int
    filled_to: int | None = None
    per_s: float | None = None
    filled: Filled | None = None

    @classmethod
    def of(
        cls,
        progress: PartitionProgress,
        filled_to: int | None = None,
        per_s: float | None = None,
        filled: Filled | None = None,
    ) -> Preserving | None:
        """Returns None for a partition whose offsets are translated. `filled_to` counts if it is
        more than the progress has."""
        if not progress.preserves:
            return None
        at = max(progress.position, -1 if filled_to is None else filled_to)
        if not progress.begins or at >= progress.offsets_from:
            return cls(offsets_from=progress.offsets_from, filled=filled)
        return cls(
            offsets_from=progress.offsets_from, filled_to=at, per_s=per_s or None, filled=filled
        )

    @property
    def left_s(self) -> float | None:
        """The time until the beginning is filled. None if it is filled, or if the rate is
        unknown."""
        if self.filled_to is None or not self.per_s:
            return None
        return (self.offsets_from - self.filled_to) / self.per_s

    @property
    def note(self) -> str | None:
        """A text that says how much of the beginning is filled; None once it is."""
        if self.filled_to is None:
            return None
        share = self.filled_to / self.offsets_from
        left = "" if self.left_s is None else f", about {self.left_s:,.0f} s left"
        return f"its beginning is filled: {share:.0%} of {self.offsets_from:,} offsets{left}"


class PartitionStatus(Value):
    """A mirrored partition, named as on the source.

    `state`: a model.State, or one of states.py if no driver or source answers. `lag_records`: the
    number of unmirrored offsets; `lag_ms`: see lag.py for both. `lost`: source offsets that were
    passed over since the partition was claimed. `unacknowledged`: those that no person has
    acknowledged. `gone_ms`: since when the source lacks its topic. `noted_ms`: when a driver last
    wrote its progress. `heartbeats`: its records never end.

    `source_end`: the source's end for readers: the last stable offset, for a link that reads only
    committed data. Up to `high_watermark`, an open transaction hides more records from readers.
    `held_ms`: for how long it has done so, 0 if there is none.

    Only the leading driver knows the rest. Counts are of this run, rates of the last seconds.
    `first`, `stop_at`: the beginning of this run, and the end of a bounded run. `ages`,
    `latencies`: the age of the newest record of each batch when it was fetched, and when the target
    had acknowledged it. `transform`: the name of the transform of its records. `transformed`: the
    counts of its results. `others`: more target partitions to which the transform has led.
    """

    topic: str
    partition: int
    target_topic: str
    state: str
    reason: str | None = None
    source_end: int | None = None
    high_watermark: int | None = None
    mirrored_to: int | None = None  # every source offset below is mirrored
    lag_records: int | None = None
    lag_ms: int | None = None
    lost: int = 0
    unacknowledged: int = 0
    transform: str | None = None
    preserving: Preserving | None = None
    noted_ms: int | None = None
    gone_ms: int | None = None
    heartbeats: bool = False
    lane: int | None = None
    first: int = -1
    stop_at: int | None = None
    newest_record_ms: int | None = None  # of the newest record mirrored
    records: int = 0
    bytes: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    held_ms: int = 0
    recoveries: int = 0
    failures: int = 0
    map_points: int = 0
    ages: Timing | None = None
    latencies: Timing | None = None
    transformed: Transformed | None = None
    others: tuple[TopicPartition, ...] = ()

    @property
    def held_records(self) -> int | None:
        """Source offsets behind an open transaction, which the lag does not count."""
        if self.source_end is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.source_end)

    @property
    def lag_bytes(self) -> float | None:
        """An estimate of the lag in bytes, from the average size of this run's records."""
        if self.lag_records == 0:
            return 0.0
        if self.lag_records is None or not self.records:
            return None
        return self.lag_records * self.bytes / self.records


class LinkProblem(Value):
    """Why a topic is not mirrored, or not as it should be. An empty topic means the whole link."""

    topic: str
    reason: str


class CheckpointTiming(Value):
    """The time from reading a group's offset on the source until its checkpoint is on the target.
    `topic`: its name on the target, as in the checkpoint."""

    group: str
    topic: str
    partition: int
    latency: Timing


class GroupStatus(Value):
    """A consumer group of the source, by the last round. `partitions`: the number of partitions of
    mirrored topics with its commits. `reason`: why it is not followed, or what was not done.
    `again`: the most records that it would read again on the target, because programs write to both
    clusters."""

    group: str
    followed: bool
    partitions: int
    reason: str | None
    again: int = 0


class TransformStatus(Value):
    """One transform of a link. `counts`: from the driver, those of its run; from the clusters,
    those since the transform last changed, None if no driver has recorded any. The same is true of
    `rules`. `unseen`: rules that protect nothing so far, because no record had their path.
    `stages`: the number of wanted stages. `troubles`: why stages fail, or what they wait for."""

    name: str
    kind: str = ""
    partitions: int = 0
    counts: Transformed | None = None
    rules: tuple[RuleCounts, ...] = ()
    unseen: tuple[str, ...] = ()
    stages: int = 0
    troubles: tuple[str, ...] = ()


class DriverStatus(Value):
    """Who leads a link, by its newest lease record. `last_seen_ms`: by the driver's own clock."""

    owner: str
    running: bool
    last_seen_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatus:
    """`source`, `target`: the clusters' aliases. `partitions`: by topic and number. `directives`:
    the directives in force. `directives_reason`: why they are not known, or not carried out.

    From the clusters: `driver`, None if the link never ran; `notes` on target topics, about
    differences that stay; `unavailable`, why the source does not answer; `error`, why nothing else
    is known. From the driver: `role` of this process, with its `reason`; `planned`, the topics have
    been looked up, so `partitions` is complete; counts of this run.
    """

    name: str
    source: str
    target: str
    partitions: tuple[PartitionStatus, ...] = ()
    problems: tuple[LinkProblem, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()  # of the control plane
    transforms: tuple[TransformStatus, ...] = ()  # in the file's order
    directives: LinkDirectives = field(default_factory=LinkDirectives)
    directives_reason: str | None = None
    unavailable: str | None = None
    # from the clusters
    driver: DriverStatus | None = None
    treatments: tuple[TreatmentSettings, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    error: CausewayError | None = None
    # from the driver
    role: Role | None = None
    reason: str | None = None  # of STANDBY: who leads; of FAILED: why
    planned: bool = False
    groups: tuple[GroupStatus, ...] = ()  # by name
    checkpoints: tuple[CheckpointTiming, ...] = ()
    checkpoints_untimed: int = 0  # written, and too many to be in `checkpoints`
    progress_writes: int = 0
    progress_write_failures: int = 0
    translation_fallbacks: int = 0  # answers of the translation that were not exact

    @property
    def runs(self) -> bool:
        """Whether a driver leads the link now."""
        return self.driver is not None and self.driver.running

    @property
    def state(self) -> str:
        """The worst state of its partitions, in the words of states.py."""
        return word(self.worst)

    @property
    def worst(self) -> str:
        """The same with a partition's own states. Facts about the whole link come first: nothing is
        known, its mirror has ended, this process does not lead, the source does not answer, there
        is no driver."""
        if self.error is not None:
            return UNKNOWN
        if (end := self.directives.end_of(THE_LINK)) is not None:
            return end.how
        if self.role not in (None, Role.LEADING):
            return str(self.role)
        if self.unavailable is not None:
            return SOURCE_UNAVAILABLE
        if self.role is None and not self.runs:
            return NO_DRIVER
        states = (each.state for each in self.partitions if each.gone_ms is None)
        return worst(states) or State.RUNNING


class LaneStatus(Value):
    lane: int
    host: str
    pid: int
    partitions: int
    bytes_per_s: float
    rss_bytes: int
    cpu_s: float


class ReloadResult(StrEnum):
    """The result for a changed file that a running driver should put in force."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"  # it has the settings in force
    REFUSED = "refused"  # something in it is wrong, or cannot be checked now
    NEEDS_RESTART = "needs-restart"


class ReloadStatus(Value):
    """The file in force. `in_force_since_ms`: when its settings were put in force. `pending`: the
    file has changed since, and is not in force. The last attempt to put it in force has `tried_ms`,
    `by` and `result`, all None if there was none, and `reason`, why the file is not in force.
    `changes`: the changes by that file, one line each, without secrets. `exit_code`: that of
    `causeway reload`."""

    in_force_since_ms: int
    pending: bool = False
    tried_ms: int | None = None
    by: str | None = None
    result: ReloadResult | None = None
    reason: str | None = None
    changes: tuple[str, ...] = ()
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A running driver at one moment. It is made on demand, which takes half a second with
    100,000 partitions.

    `started_at`, `taken_at`: seconds since 1970. `lane_trouble`: why the last lane ended, while
    lanes are missing. `bounded`: the run ends by itself once it has caught up. `other_tasks`: by
    name, the tasks of pairs of clusters without a flow. `refused`: by link, why one of its clusters
    has refused new connections for minutes. `expiries`: of certificates. `reload`: None for a run
    whose settings do not come from a file."""

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
    reload: ReloadStatus | None = None


# Makes a snapshot in the caller's thread: no lane's report waits for it. Any thread may call it.
Look = Callable[[], Snapshot]
