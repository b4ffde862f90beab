"""Every metric there is: name, kind, labels, meaning.

MirrorMaker 2's have the names and labels that Strimzi's rules for the JMX exporter give its MBeans,
so that people's dashboards go on working. They are gauges for the same reason, counts as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """`name` as it is scraped; a counter's ends in `_total`. `help`: one line, no backslash."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


class TimingMetrics(NamedTuple):
    """As MirrorMaker 2 has them for each time that it measures."""

    last: Metric
    least: Metric
    most: Metric
    mean: Metric


def _timing(name: str, meaning: str, labels: tuple[str, ...]) -> TimingMetrics:
    return TimingMetrics(
        Metric(name=name, help=f"{meaning} Most recently.", labels=labels),
        Metric(name=f"{name}_min", help=f"{meaning} Least of the last minute.", labels=labels),
        Metric(name=f"{name}_max", help=f"{meaning} Most of the last minute.", labels=labels),
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
    help="Records mirrored a second, over the last seconds.",
    labels=_MIRRORED,
)
BYTE_COUNT: Final = Metric(
    name=f"{_SOURCE}_byte_count",
    help="Bytes mirrored by this run, compressed as they travel.",
    labels=_MIRRORED,
)
BYTE_RATE: Final = Metric(
    name=f"{_SOURCE}_byte_rate",
    help="Bytes mirrored a second, over the last seconds.",
    labels=_MIRRORED,
)
RECORD_AGE: Final = _timing(
    f"{_SOURCE}_record_age_ms",
    "Age of records, the newest of each batch, when they are read from the source.",
    _MIRRORED,
)
REPLICATION_LATENCY: Final = _timing(
    f"{_SOURCE}_replication_latency_ms",
    "Age of records, the newest of each batch, when the target has acknowledged them.",
    _MIRRORED,
)
CHECKPOINT_LATENCY: Final = _timing(
    f"{_CHECKPOINT}_checkpoint_latency_ms",
    "From reading a group's offset on the source to its checkpoint on the target.",
    _GROUP,
)

_PARTITION: Final = ("link", "topic", "partition")

LAG_RECORDS: Final = Metric(
    name="causeway_partition_lag_records",
    help="Source offsets that are not mirrored yet; records, where the source has no gaps.",
    labels=_PARTITION,
)
LAG_BYTES: Final = Metric(
    name="causeway_partition_lag_bytes",
    help="Estimate of the bytes that are not mirrored yet: the lag in records, each as large as "
    "this run's are on average.",
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
    help="Source offsets behind an open transaction, which readers of committed data do not see "
    "yet, and which no lag counts.",
    labels=_PARTITION,
)
HELD_SECONDS: Final = Metric(
    name="causeway_partition_held_seconds",
    help="How long the source's last stable offset has stood with such offsets behind it; 0 where "
    "there are none.",
    labels=_PARTITION,
)
PARTITION_STATE: Final = Metric(
    name="causeway_partition_state",
    help="1, for the state that the partition is in: waiting, recovering, running, failed (tried "
    "again by itself), stopped (a person decides), paused (a person wants it so) or done.",
    labels=(*_PARTITION, "state"),
)
RECORDS: Final = Metric(
    name="causeway_partition_records_total",
    help="Records mirrored by this run.",
    labels=_PARTITION,
)
BYTES: Final = Metric(
    name="causeway_partition_bytes_total",
    help="Bytes mirrored by this run, compressed as they travel.",
    labels=_PARTITION,
)
RECOVERIES: Final = Metric(
    name="causeway_partition_recoveries_total",
    help="Times the partition was tried again: its place was looked for in the target's log.",
    labels=_PARTITION,
)
FAILURES: Final = Metric(
    name="causeway_partition_failures_total",
    help="Times the partition failed: several tries in a row were in vain.",
    labels=_PARTITION,
)
LOST: Final = Metric(
    name="causeway_partition_lost_records_total",
    help="Lost source offsets that the partition has passed over since it was claimed: the source "
    "deleted them before they were mirrored, or they are damaged. Offsets that were deleted during "
    "the first copy do not count.",
    labels=_PARTITION,
)
OFFSET_MAP_POINTS: Final = Metric(
    name="causeway_partition_offset_map_points",
    help="Points kept to translate offsets; 1,024 at most, then they are thinned out.",
    labels=_PARTITION,
)

LINK_ROLE: Final = Metric(
    name="causeway_link_role",
    help="1, for what this process is to the link: starting, standby (another one leads), leading, "
    "failed (tried again by itself) or ended.",
    labels=("link", "role"),
)
LINK_PROBLEMS: Final = Metric(
    name="causeway_link_problems",
    help="Things that keep topics from being mirrored as they should be.",
    labels=("link",),
)
PROGRESS_WRITES: Final = Metric(
    name="causeway_link_progress_writes_total",
    help="Times progress was committed to the target.",
    labels=("link",),
)
PROGRESS_WRITE_FAILURES: Final = Metric(
    name="causeway_link_progress_write_failures_total",
    help="Times it could not be committed; it is tried again.",
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
    help="Checkpoints written of groups and partitions that have no latency here: 1,000 of them "
    "have, and those of one round all take the same time.",
    labels=("link",),
)
TASK_FAILING: Final = Metric(
    name="causeway_task_failing",
    help="1 if the last run of a control-plane task failed.",
    labels=("link", "task"),
)
TASK_PROBLEMS: Final = Metric(
    name="causeway_task_problems",
    help="Items that the last run of the task had to leave undone, 100 at most.",
    labels=("link", "task"),
)
TASK_SUCCESS: Final = Metric(
    name="causeway_task_last_success_timestamp_seconds",
    help="When the task last ended well, in seconds since 1970.",
    labels=("link", "task"),
)
SCHEMA_SUBJECTS: Final = Metric(
    name="causeway_schema_subjects",
    help="Subjects of the link's topics by what became of them in the target's registry: as on the "
    "source (`copied`), to be tried again (`waiting`) or left to a person (`clashing`).",
    labels=("link", "state"),
)

_TRANSFORM: Final = ("link", "transform")

TRANSFORM_RECORDS: Final = Metric(
    name="causeway_transform_records_total",
    help="Records that went into the transform in this run (`in`), that it made of them (`out`), "
    "and those that it dropped (`dropped`) or could not treat (`refused`).",
    labels=(*_TRANSFORM, "outcome"),
)
TRANSFORM_WAYS: Final = Metric(
    name="causeway_transform_ways_total",
    help="Records that went into the transform in this run, by the way that they took: a worker "
    "treated them itself (`worker`), or the transform's query in Spark did (`spark`).",
    labels=(*_TRANSFORM, "way"),
)
TRANSFORM_RULE_RECORDS: Final = Metric(
    name="causeway_transform_rule_records_total",
    help="Records in which the rule found something at its path in this run (`found`), and those "
    "that lacked the path (`missing`). `rule` is its number and name.",
    labels=(*_TRANSFORM, "rule", "path"),
)
TRANSFORM_PARTITIONS: Final = Metric(
    name="causeway_transform_partitions",
    help="Partitions whose records go through the transform.",
    labels=_TRANSFORM,
)
TRANSFORM_STAGES: Final = Metric(
    name="causeway_transform_stages",
    help="Spark jobs that the transform has now, one for each lane with partitions of it.",
    labels=_TRANSFORM,
)
TRANSFORM_TROUBLES: Final = Metric(
    name="causeway_transform_troubles",
    help="1 while stages of the transform fail, or wait for their schema registry.",
    labels=_TRANSFORM,
)
TRANSFORM_UNSEEN: Final = Metric(
    name="causeway_transform_unseen_rules",
    help="Rules that protect nothing so far: no record has had what they name.",
    labels=_TRANSFORM,
)

_LANE: Final = ("lane", "host", "pid")

LANES_RUNNING: Final = Metric(name="causeway_lanes_running", help="Lanes that are connected.")
LANES_WANTED: Final = Metric(name="causeway_lanes_wanted", help="Lanes that were launched.")
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
INFO: Final = Metric(
    name="causeway_info", help="1, with the version that runs.", labels=("version",)
)
STARTED: Final = Metric(
    name="causeway_start_time_seconds", help="When this run began, in seconds since 1970."
)
CERTIFICATE_EXPIRY: Final = Metric(
    name="causeway_certificate_expiry_seconds",
    help="When a certificate expires, in seconds since 1970: the client's own certificate "
    "(`client`), or the last one of its trust store (`trusted`).",
    labels=("cluster", "certificate"),
)
DRAINING: Final = Metric(name="causeway_draining", help="1 while the run is coming to its end.")

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
