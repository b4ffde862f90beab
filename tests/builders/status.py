"""A made-up run of which everything is known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from causeway.config.reading import Expiry
from causeway.link_topics import Filled, RuleCounts, TaskRecord, Transformed
from causeway.model import Spread, State
from causeway.status import (
    CheckpointTiming,
    LaneStatus,
    LinkProblem,
    LinkStatus,
    PartitionStatus,
    Preserving,
    ReloadStatus,
    Role,
    Snapshot,
    Timing,
    TransformStatus,
)

NOW = 1_700_000_000.0
# Its beginning is being filled, for another six seconds.
KEPT = Preserving(
    offsets_from=1_000,
    filled_to=400,
    per_s=100.0,
    filled=Filled(gaps=2, beginning=400, markers=5),
)
LATENCY = Timing(last=7.0, recent=Spread(4, 40, 3, 20))


def at(position: int) -> dict[str, Any]:
    """The fields of a partition that is mirrored up to `position`, of 100."""
    age = 0 if position == 100 else 5_000
    return {"mirrored_to": position, "lag_records": 100 - position, "lag_ms": age}


# The fields of a partition of which nothing is known yet.
UNKNOWN = dict[str, Any].fromkeys(
    (
        "source_end",
        "high_watermark",
        "mirrored_to",
        "lag_records",
        "lag_ms",
        "newest_record_ms",
    )
)


def partition(number: int, state: State = State.RUNNING) -> PartitionStatus:
    """Ten records behind, each of a hundred bytes, the first of them five seconds old."""
    return PartitionStatus(
        topic="orders",
        partition=number,
        target_topic="A.orders",
        state=state,
        reason=None,
        lane=0,
        first=0,
        **at(90),
        source_end=100,
        newest_record_ms=int(NOW * 1000) - 60_000,
        records=90,
        bytes=9_000,
        records_per_s=10.0,
        bytes_per_s=1_000.0,
        high_watermark=140,
        held_ms=90_000,
        recoveries=2,
        failures=1,
        map_points=3,
        ages=Timing(last=5.0, recent=Spread(4, 32, 2, 15)),
        latencies=LATENCY,
    )


def link(*partitions: PartitionStatus) -> LinkStatus:
    return LinkStatus(
        name="A->B",
        source="A",
        target="B",
        role=Role.LEADING,
        reason=None,
        planned=True,
        partitions=partitions or (partition(0), partition(1, State.STOPPED)),
        problems=(LinkProblem(topic="odd", reason="no permission"),),
        tasks=(
            TaskRecord(name="groups", done_at=int(NOW * 1000) - 60_000, items={"g": "has members"}),
            TaskRecord(name="ACLs", reason="refused"),
            TaskRecord(name="schemas", figures={"copied": 3, "waiting": 1, "clashing": 0}),
        ),
        checkpoints=(
            CheckpointTiming(group="readers", topic="A.orders", partition=0, latency=LATENCY),
        ),
        progress_writes=30,
        progress_write_failures=4,
        translation_fallbacks=5,
        transforms=(
            TransformStatus(
                name="pii",
                partitions=2,
                counts=Transformed(
                    records_in=100,
                    records_out=120,
                    dropped=7,
                    refused=3,
                    without_spark=88,
                    through_spark=12,
                ),
                rules=(RuleCounts("1 hash value.name", 0, 60), RuleCounts("2 drop key", 9, 0)),
                unseen=("hash value.name", "drop key"),
                stages=1,
                troubles=("no such function",),
            ),
        ),
    )


def full(*links: LinkStatus) -> Snapshot:
    return Snapshot(
        started_at=NOW - 600,
        taken_at=NOW,
        bounded=False,
        draining=False,
        expiries=(
            Expiry("A", "client", datetime(2024, 1, 1, tzinfo=UTC)),
            Expiry("A", "trusted", datetime(2034, 1, 1, tzinfo=UTC)),
        ),
        links=links or (link(),),
        reload=ReloadStatus(in_force_since_ms=1_699_999_940_000, pending=True, reason="wrong"),
        lanes=(
            LaneStatus(
                lane=0,
                host="worker",
                pid=17,
                partitions=2,
                bytes_per_s=2_000.0,
                rss_bytes=50_000_000,
                cpu_s=1.5,
            ),
        ),
        lanes_wanted=2,
        other_tasks={"B->A": (TaskRecord(name="heartbeats", done_at=int(NOW * 1000)),)},
    )


def partition_status(topic: str, number: int = 0, **more: Any) -> PartitionStatus:
    given: dict[str, Any] = {
        "target_topic": f"A.{topic}",
        "source_end": 10,
        "mirrored_to": 8,
        "lag_records": 2,
        "lag_ms": 100,
        "state": State.RUNNING,
        "reason": None,
        **more,
    }
    return PartitionStatus(topic=topic, partition=number, **given)
