"""All metrics: name, kind, labels, meaning.

Metrics of MirrorMaker 2 have the names and labels of Strimzi's rules for the JMX exporter, so that
existing dashboards work. For the same reason, their counts are gauges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Metric(NamedTuple):
    """`name`: as in the scrape; a counter's name ends in `_total`. `help`: a line, no backslash."""

    name: str
    help: str
    labels: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


def _timing(name: str, meaning: str) -> dict[str, str]:
    """Returns the four metrics that MirrorMaker 2 has for each measured time."""
    return {
        name: f"{meaning} The latest value.",
        f"{name}_min": f"{meaning} Minimum of the last minute.",
        f"{name}_max": f"{meaning} Maximum of the last minute.",
        f"{name}_avg": f"{meaning} Average of the last minute.",
    }


SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector"
CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector"
_MIRRORED: Final = ("source", "target", "topic", "partition")
_GROUP: Final = ("source", "target", "group", "topic", "partition")
_PARTITION: Final = ("link", "topic", "partition")
_TRANSFORM: Final = ("link", "transform")
_LANE: Final = ("lane", "host", "pid")

# Section -> labels -> name -> meaning.
_TABLE: Final[Mapping[str, Mapping[tuple[str, ...], Mapping[str, str]]]] = {
    "MirrorMaker 2's": {
        _MIRRORED: {
            f"{SOURCE}_record_count": "Records mirrored by this run.",
            f"{SOURCE}_record_rate": "Records mirrored per second, over the last seconds.",
            f"{SOURCE}_byte_count": "Bytes mirrored by this run, compressed.",
            f"{SOURCE}_byte_rate": "Bytes mirrored per second, over the last seconds.",
            **_timing(
                f"{SOURCE}_record_age_ms",
                "Age of the newest record of each batch when the batch is read from the source.",
            ),
            **_timing(
                f"{SOURCE}_replication_latency_ms",
                "Age of the newest record of each batch when the target has acknowledged the "
                "batch.",
            ),
        },
        _GROUP: {
            **_timing(
                f"{CHECKPOINT}_checkpoint_latency_ms",
                "Time from reading a group's offset on the source to its checkpoint on the target.",
            ),
        },
    },
    "Partitions": {
        _PARTITION: {
            "causeway_partition_lag_records": "Source offsets that are not mirrored yet; "
            "without gaps, this is the number of records.",
            "causeway_partition_lag_bytes": "Estimate of the bytes that are not mirrored yet: "
            "the lag in records, multiplied by the average size of a record in this run.",
            "causeway_partition_lag_seconds": "Age of the first record that is not mirrored, by"
            " its timestamp; 0 if nothing is left to mirror, or the time since the source's "
            "last answer if the source does not answer now.",
            "causeway_partition_held_records": "Source offsets after the start of an open "
            "transaction. Consumers of committed records do not see them yet, and no lag counts"
            " them.",
            "causeway_partition_held_seconds": "How long the source's last stable offset has "
            "not moved while there are held offsets; 0 without held offsets.",
            "causeway_partition_records_total": "Records mirrored by this run.",
            "causeway_partition_bytes_total": "Bytes mirrored by this run, compressed.",
            "causeway_partition_recoveries_total": "Recoveries of the partition: its position "
            "was read from the target's log.",
            "causeway_partition_failures_total": "Failures of the partition, each after several"
            " attempts in a row.",
            "causeway_partition_lost_records_total": "Lost source offsets that the partition "
            "has skipped since it was claimed: the source deleted them before they were "
            "mirrored, or they are damaged. Offsets that were deleted during the first copy do "
            "not count.",
            "causeway_preserving": "1 if the partition preserves offsets; no sample otherwise.",
            "causeway_preserving_offsets_left": "Offsets below the first record of a partition "
            "that preserves offsets that are not filled yet; 0 once it mirrors.",
            "causeway_gaps_filled_total": "Gaps of a partition that preserves offsets that were "
            "filled in this run.",
            "causeway_partition_offset_map_points": "Points of the map that translates offsets;"
            " at most 1,024, then some are removed.",
        },
        (*_PARTITION, "way"): {
            "causeway_offsets_filled_total": "Offsets without a record that were filled in this "
            "run, of a partition that preserves offsets: below the first record (`beginning`), "
            "and in gaps by transaction markers (`markers`), empty transactions "
            "(`transactions`) or aborted records (`filler`).",
        },
        (*_PARTITION, "state"): {
            "causeway_partition_state": "1 for the state of the partition: waiting, recovering,"
            " running, failed (retried automatically), stopped (needs an operator), paused (by "
            "an operator) or done.",
        },
    },
    "Links and their control plane": {
        ("link", "role"): {
            "causeway_link_role": "1 for the role of this process for the link: starting, "
            "standby (another process leads), leading, failed (retried automatically) or ended.",
        },
        ("link",): {
            "causeway_link_problems": "Problems of topics of the link.",
            "causeway_link_progress_writes_total": "Commits of progress to the target.",
            "causeway_link_progress_write_failures_total": "Failed commits of progress; they "
            "are retried.",
            "causeway_link_translation_fallbacks_total": "Translations of a group's offset that"
            " were not exact: the group would read some records again, or gets no offset.",
            "causeway_link_checkpoints_untimed_total": "Written checkpoints without a latency "
            "metric: at most 1,000 groups and partitions have one. All checkpoints of one round"
            " have the same latency.",
        },
        ("link", "task"): {
            "causeway_task_failing": "1 if the last run of a control-plane task failed.",
            "causeway_task_problems": "Items that the last run of the task could not do, at "
            "most 100.",
            "causeway_task_last_success_timestamp_seconds": "Time of the last success of the "
            "task, in seconds since 1970.",
        },
        ("link", "state"): {
            "causeway_schema_subjects": "Subjects of the link's topics by their state in the "
            "target's registry: as on the source (`copied`), to be retried (`waiting`), or in "
            "need of an operator (`clashing`).",
        },
    },
    "Transforms": {
        (*_TRANSFORM, "outcome"): {
            "causeway_transform_records_total": "Records of the transform in this run: input "
            "(`in`), output (`out`), dropped (`dropped`), and those that it could not transform"
            " (`refused`).",
        },
        (*_TRANSFORM, "way"): {
            "causeway_transform_ways_total": "Input records of the transform in this run, by "
            "the path: transformed by a worker (`worker`), or by the transform's query in Spark"
            " (`spark`).",
        },
        (*_TRANSFORM, "rule", "path"): {
            "causeway_transform_rule_records_total": "Records with a value at the path of the "
            "rule in this run (`found`), and records without the path (`missing`). `rule` is "
            "the number and name of the rule.",
        },
        _TRANSFORM: {
            "causeway_transform_partitions": "Partitions whose records are transformed.",
            "causeway_transform_stages": "Current Spark jobs of the transform, one for each "
            "lane with partitions of the transform.",
            "causeway_transform_troubles": "1 while stages of the transform fail, or wait for "
            "their schema registry.",
            "causeway_transform_unseen_rules": "Rules that protect nothing so far: no record "
            "had their path.",
        },
    },
    "Lanes and the process": {
        (): {
            "causeway_lanes_running": "Lanes that are connected.",
            "causeway_lanes_wanted": "Lanes that were started.",
            "causeway_start_time_seconds": "Start of this run, in seconds since 1970.",
            "causeway_draining": "1 while the run is draining.",
            "causeway_file_in_force_since_seconds": "When the settings in force were taken from "
            "the file, in seconds since 1970.",
            "causeway_file_pending": "1 while the file has changed and is not in force.",
            "causeway_file_refused": "1 if the last attempt to put the changed file in force "
            "failed: something in it is wrong, or needs a restart.",
        },
        _LANE: {
            "causeway_lane_partitions": "Partitions that the lane mirrors.",
            "causeway_lane_resident_memory_bytes": "Resident memory of the lane's process.",
            "causeway_lane_cpu_seconds_total": "CPU time of the lane's process, user and system.",
        },
        ("version",): {
            "causeway_info": "1, with the running version.",
        },
        ("cluster", "certificate"): {
            "causeway_certificate_expiry_seconds": "When a certificate expires, in seconds "
            "since 1970: the client's own certificate (`client`), or the last one of its trust "
            "store (`trusted`).",
        },
    },
}

SECTIONS: Final[Mapping[str, tuple[Metric, ...]]] = {
    title: tuple(
        Metric(name, meaning, labels)
        for labels, metrics in by_labels.items()
        for name, meaning in metrics.items()
    )
    for title, by_labels in _TABLE.items()
}
METRICS: Final = {one.name: one for section in SECTIONS.values() for one in section}
