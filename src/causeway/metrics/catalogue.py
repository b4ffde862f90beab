"""All metrics: name, kind, labels, meaning.

Metrics of MirrorMaker 2 have the names and labels of Strimzi's rules for the JMX exporter, so that
existing dashboards work. For the same reason, their counts are gauges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """`name`: in the scrape; that of a counter ends in `_total`. `help`: one line, no backslash."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


class TimingMetrics(NamedTuple):
    """The four metrics that MirrorMaker 2 has for each measured time."""

    last: Metric
    least: Metric
    most: Metric
    mean: Metric


def _timing(name: str, meaning: str, labels: tuple[str, ...]) -> TimingMetrics:
    return TimingMetrics(
        Metric(name=name, help=f"{meaning} The latest value.", labels=labels),
        Metric(name=f"{name}_min", help=f"{meaning} Minimum of the last minute.", labels=labels),
        Metric(name=f"{name}_max", help=f"{meaning} Maximum of the last minute.", labels=labels),
        Metric(name=f"{name}_avg", help=f"{meaning} Average of the last minute.", labels=labels),
    )


_SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector"
_CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector"
_MIRRORED: Final = ("source", "target", "topic", "partition")
_GROUP: Final = ("source", "target", "group", "topic", "partition")

RECORD_COUNT: Final = Metric(
    name=f"{_SOURCE}_record_count", help="Records mirrored by this run.", labels=_MIRRORED
)
RECORD_RATE: Final = Metric(
    name=f"{_SOURCE}_record_rate",
    help="Records mirrored per second, over the last seconds.",
    labels=_MIRRORED,
)
BYTE_COUNT: Final = Metric(
    name=f"{_SOURCE}_byte_count",
    help="Bytes mirrored by this run, compressed.",
    labels=_MIRRORED,
)
BYTE_RATE: Final = Metric(
    name=f"{_SOURCE}_byte_rate",
    help="Bytes mirrored per second, over the last seconds.",
    labels=_MIRRORED,
)
RECORD_AGE: Final = _timing(
    f"{_SOURCE}_record_age_ms",
    "Age of the newest record of each batch when the batch is read from the source.",
    _MIRRORED,
)
REPLICATION_LATENCY: Final = _timing(
    f"{_SOURCE}_replication_latency_ms",
    "Age of the newest record of each batch when the target has acknowledged the batch.",
    _MIRRORED,
)
CHECKPOINT_LATENCY: Final = _timing(
    f"{_CHECKPOINT}_checkpoint_latency_ms",
    "Time from reading a group's offset on the source to its checkpoint on the target.",
    _GROUP,
)

_PARTITION: Final = ("link", "topic", "partition")

LAG_RECORDS: Final = Metric(
    name="causeway_partition_lag_records",
    help="Source offsets that are not mirrored yet; without gaps, this is the number of records.",
    labels=_PARTITION,
)
LAG_BYTES: Final = Metric(
    name="causeway_partition_lag_bytes",
    help="Estimate of the bytes that are not mirrored yet: the lag in records, multiplied by the "
    "average size of a record in this run.",
    labels=_PARTITION,
)
LAG_SECONDS: Final = Metric(
    name="causeway_partition_lag_seconds",
    help="Age of the first record that is not mirrored, by its timestamp; 0 if nothing is left to "
    "mirror, or the time since the source's last answer if the source does not answer now.",
    labels=_PARTITION,
)
HELD_RECORDS: Final = Metric(
    name="causeway_partition_held_records",
    help="Source offsets after the start of an open transaction. Consumers of committed records do "
    "not see them yet, and no lag counts them.",
    labels=_PARTITION,
)
HELD_SECONDS: Final = Metric(
    name="causeway_partition_held_seconds",
    help="How long the source's last stable offset has not moved while there are held offsets; 0 "
    "without held offsets.",
    labels=_PARTITION,
)
PARTITION_STATE: Final = Metric(
    name="causeway_partition_state",
    help="1 for the state of the partition: waiting, recovering, running, failed (retried "
    "automatically), stopped (needs an operator), paused (by an operator) or done.",
    labels=(*_PARTITION, "state"),
)
RECORDS: Final = Metric(
    name="causeway_partition_records_total",
    help="Records mirrored by this run.",
    labels=_PARTITION,
)
BYTES: Final = Metric(
    name="causeway_partition_bytes_total",
    help="Bytes mirrored by this run, compressed.",
    labels=_PARTITION,
)
RECOVERIES: Final = Metric(
    name="causeway_partition_recoveries_total",
    help="Recoveries of the partition: its position was read from the target's log.",
    labels=_PARTITION,
)
FAILURES: Final = Metric(
    name="causeway_partition_failures_total",
    help="Failures of the partition, each after several attempts in a row.",
    labels=_PARTITION,
)
LOST: Final = Metric(
    name="causeway_partition_lost_records_total",
    help="Lost source offsets that the partition has skipped since it was claimed: the source "
    "deleted them before they were mirrored, or they are damaged. Offsets that were deleted during "
    "the first copy do not count.",
    labels=_PARTITION,
)
OFFSET_MAP_POINTS: Final = Metric(
    name="causeway_partition_offset_map_points",
    help="Points of the map that translates offsets; at most 1,024, then some are removed.",
    labels=_PARTITION,
)

LINK_ROLE: Final = Metric(
    name="causeway_link_role",
    help="1 for the role of this process for the link: starting, standby (another process leads), "
    "leading, failed (retried automatically) or ended.",
    labels=("link", "role"),
)
LINK_PROBLEMS: Final = Metric(
    name="causeway_link_problems",
    help="Problems of topics of the link.",
    labels=("link",),
)
PROGRESS_WRITES: Final = Metric(
    name="causeway_link_progress_writes_total",
    help="Commits of progress to the target.",
    labels=("link",),
)
PROGRESS_WRITE_FAILURES: Final = Metric(
    name="causeway_link_progress_write_failures_total",
    help="Failed commits of progress; they are retried.",
    labels=("link",),
)
TRANSLATION_FALLBACKS: Final = Metric(
    name="causeway_link_translation_fallbacks_total",
    help="Translations of a group's offset that were not exact: the group would read some records "
    "again, or gets no offset.",
    labels=("link",),
)
CHECKPOINTS_UNTIMED: Final = Metric(
    name="causeway_link_checkpoints_untimed_total",
    help="Written checkpoints without a latency metric: at most 1,000 groups and partitions have "
    "one. All checkpoints of one round have the same latency.",
    labels=("link",),
)
TASK_FAILING: Final = Metric(
    name="causeway_task_failing",
    help="1 if the last run of a control-plane task failed.",
    labels=("link", "task"),
)
TASK_PROBLEMS: Final = Metric(
    name="causeway_task_problems",
    help="Items that the last run of the task could not do, at most 100.",
    labels=("link", "task"),
)
TASK_SUCCESS: Final = Metric(
    name="causeway_task_last_success_timestamp_seconds",
    help="Time of the last success of the task, in seconds since 1970.",
    labels=("link", "task"),
)
SCHEMA_SUBJECTS: Final = Metric(
    name="causeway_schema_subjects",
    help="Subjects of the link's topics by their state in the target's registry: as on the source "
    "(`copied`), to be retried (`waiting`), or in need of an operator (`clashing`).",
    labels=("link", "state"),
)

_TRANSFORM: Final = ("link", "transform")

TRANSFORM_RECORDS: Final = Metric(
    name="causeway_transform_records_total",
    help="Records of the transform in this run: input (`in`), output (`out`), dropped (`dropped`), "
    "and those that it could not transform (`refused`).",
    labels=(*_TRANSFORM, "outcome"),
)
TRANSFORM_WAYS: Final = Metric(
    name="causeway_transform_ways_total",
    help="Input records of the transform in this run, by the path: transformed by a worker "
    "(`worker`), or by the transform's query in Spark (`spark`).",
    labels=(*_TRANSFORM, "way"),
)
TRANSFORM_RULE_RECORDS: Final = Metric(
    name="causeway_transform_rule_records_total",
    help="Records with a value at the path of the rule in this run (`found`), and records without "
    "the path (`missing`). `rule` is the number and name of the rule.",
    labels=(*_TRANSFORM, "rule", "path"),
)
TRANSFORM_PARTITIONS: Final = Metric(
    name="causeway_transform_partitions",
    help="Partitions whose records are transformed.",
    labels=_TRANSFORM,
)
TRANSFORM_STAGES: Final = Metric(
    name="causeway_transform_stages",
    help="Current Spark jobs of the transform, one for each lane with partitions of the transform.",
    labels=_TRANSFORM,
)
TRANSFORM_TROUBLES: Final = Metric(
    name="causeway_transform_troubles",
    help="1 while stages of the transform fail, or wait for their schema registry.",
    labels=_TRANSFORM,
)
TRANSFORM_UNSEEN: Final = Metric(
    name="causeway_transform_unseen_rules",
    help="Rules that protect nothing so far: no record had their path.",
    labels=_TRANSFORM,
)

_LANE: Final = ("lane", "host", "pid")

LANES_RUNNING: Final = Metric(name="causeway_lanes_running", help="Lanes that are connected.")
LANES_WANTED: Final = Metric(name="causeway_lanes_wanted", help="Lanes that were started.")
LANE_PARTITIONS: Final = Metric(
    name="causeway_lane_partitions", help="Partitions that the lane mirrors.", labels=_LANE
)
LANE_MEMORY: Final = Metric(
    name="causeway_lane_resident_memory_bytes",
    help="Resident memory of the lane's process.",
    labels=_LANE,
)
LANE_CPU: Final = Metric(
    name="causeway_lane_cpu_seconds_total",
    help="CPU time of the lane's process, user and system.",
    labels=_LANE,
)
INFO: Final = Metric(name="causeway_info", help="1, with the running version.", labels=("version",))
STARTED: Final = Metric(
    name="causeway_start_time_seconds", help="Start of this run, in seconds since 1970."
)
CERTIFICATE_EXPIRY: Final = Metric(
    name="causeway_certificate_expiry_seconds",
    help="When a certificate expires, in seconds since 1970: the client's own certificate "
    "(`client`), or the last one of its trust store (`trusted`).",
    labels=("cluster", "certificate"),
)
DRAINING: Final = Metric(name="causeway_draining", help="1 while the run is draining.")

SECTIONS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "MirrorMaker 2's": (
        RECORD_COUNT,
        RECORD_RATE,
        BYTE_COUNT,
        BYTE_RATE,
        *RECORD_AGE,
        *REPLICATION_LATENCY,
        *CHECKPOINT_LATENCY,
    ),
    "Partitions": (
        LAG_RECORDS,
        LAG_BYTES,
        LAG_SECONDS,
        HELD_RECORDS,
        HELD_SECONDS,
        PARTITION_STATE,
        RECORDS,
        BYTES,
        RECOVERIES,
        FAILURES,
        LOST,
        OFFSET_MAP_POINTS,
    ),
    "Links and their control plane": (
        LINK_ROLE,
        LINK_PROBLEMS,
        PROGRESS_WRITES,
        PROGRESS_WRITE_FAILURES,
        TRANSLATION_FALLBACKS,
        CHECKPOINTS_UNTIMED,
        TASK_FAILING,
        TASK_PROBLEMS,
        TASK_SUCCESS,
        SCHEMA_SUBJECTS,
    ),
    "Transforms": (
        TRANSFORM_RECORDS,
        TRANSFORM_WAYS,
        TRANSFORM_RULE_RECORDS,
        TRANSFORM_PARTITIONS,
        TRANSFORM_STAGES,
        TRANSFORM_TROUBLES,
        TRANSFORM_UNSEEN,
    ),
    "Lanes and the process": (
        LANES_RUNNING,
        LANES_WANTED,
        LANE_PARTITIONS,
        LANE_MEMORY,
        LANE_CPU,
        INFO,
        STARTED,
        DRAINING,
        CERTIFICATE_EXPIRY,
    ),
}


def metrics() -> Iterator[Metric]:
    for section in SECTIONS.values():
        yield from section
