"""Statuses with every kind of state and figure, for the recorded samples in golden/."""

from __future__ import annotations

from typing import Any

from causeway.errors import ConfigError, UnreachableError
from causeway.link_topics import (
    LinkDirectives,
    PauseDirective,
    RuleCounts,
    Scope,
    TaskRecord,
    ThrottleDirective,
    Transformed,
)
from causeway.model import State
from causeway.status import (
    DriverStatus,
    GroupStatus,
    LinkProblem,
    LinkStatus,
    PartitionStatus,
    Role,
    Snapshot,
    TransformStatus,
)
from tests.builders import status as snapshots
from tests.builders.settings import link as settings
from tests.harness.statuses import ends, replace

NOW_MS = int(snapshots.NOW * 1000)
PAUSE = PauseDirective(
    scope=Scope("paid", 1), who="anna@ops1", why="maintenance", at=NOW_MS - 9_000
)
LIMIT = ThrottleDirective(scope=Scope("orders"), who="anna@ops1", at=NOW_MS, bytes_per_s=10)


def of_driver() -> Snapshot:
    unknown = replace(
        snapshots.partition(0),
        **snapshots.UNKNOWN,
        held_ms=0,
        records=0,
        bytes=0,
        records_per_s=0.0,
        bytes_per_s=0.0,
        topic="done",
        target_topic="A.done",
        lane=None,
        ages=None,
        latencies=None,
    )
    partitions = (
        replace(unknown, state=State.DONE, lag_ms=0),
        replace(
            unknown, partition=1, state=State.DONE, **snapshots.at(100), source_end=100, stop_at=100
        ),
        replace(unknown, topic="new", target_topic="A.new", state=State.WAITING),
        *(snapshots.partition(number, state) for number, state in enumerate(State)),
        replace(
            snapshots.partition(0),
            topic="paid",
            target_topic="A.paid",
            **snapshots.at(100),
            transform="pii",
        ),
        replace(
            snapshots.partition(1, State.PAUSED),
            topic="paid",
            target_topic="A.paid",
            transform="pii",
            reason="paused",
            lost=7,
        ),
        replace(
            snapshots.partition(2, State.FAILED),
            topic="paid",
            target_topic="A.paid",
            **snapshots.at(100),
            reason="no answer",
        ),
    )
    led = replace(
        snapshots.link(*partitions),
        directives=LinkDirectives.of((PAUSE, LIMIT)),
        groups=(
            GroupStatus(group="readers", followed=True, partitions=2, reason=None),
            GroupStatus(group="others", followed=False, partitions=0, reason="has members"),
        ),
    )
    silent = replace(
        snapshots.link(
            *(
                replace(each, lag_ms=11_000) if each.lag_records == 0 else each
                for each in partitions[3:]
            )
        ),
        name="C->B",
        unavailable="no broker answers",
        source="C",
        tasks=(TaskRecord(name="source", reason="no broker answers", done_at=NOW_MS - 11_000),),
    )
    standby = LinkStatus(
        name="B->A",
        source="B",
        target="A",
        role=Role.STANDBY,
        reason="host-2 leads",
        planned=False,
        partitions=(),
        problems=(LinkProblem(topic="", reason="denied"),),
    )
    empty = replace(
        standby, name="B->C", target="C", role=Role.LEADING, reason=None, planned=True, problems=()
    )
    return snapshots.full(led, silent, standby, empty)


def of_clusters() -> tuple[LinkStatus, ...]:
    def one(topic: str, number: int, state: str = State.RUNNING, **more: object) -> PartitionStatus:
        given: dict[str, Any] = {
            "topic": topic,
            "partition": number,
            "target_topic": f"A.{topic}",
            "source_end": 100,
            "mirrored_to": 70,
            "lag_records": 30,
            "lag_ms": 2_000,
            "state": state,
            "reason": None,
            "high_watermark": 120,
        }
        return PartitionStatus(**{**given, **more})

    partitions = (
        one(
            "gone",
            0,
            State.STOPPED,
            source_end=None,
            lag_records=None,
            lag_ms=None,
            reason="deleted",
            high_watermark=None,
            gone_ms=0,
            noted_ms=NOW_MS,
        ),
        one("orders", 0),
        one("orders", 1, State.FAILED, reason="no answer", unacknowledged=7),
        one("orders", 2, "no running driver", mirrored_to=None, lag_ms=None, reason="not begun"),
        one("paid", 0, mirrored_to=100, lag_records=0, lag_ms=0, high_watermark=100),
        one("paid", 1, State.PAUSED, reason="paused by anna"),
    )
    counts = Transformed(
        records_in=10, records_out=9, dropped=1, refused=0, without_spark=6, through_spark=4
    )
    full = LinkStatus(
        **ends(settings()),
        driver=DriverStatus(owner="host-1", running=True, last_seen_ms=NOW_MS - 500),
        partitions=partitions,
        problems=(LinkProblem(topic="odd", reason=str(ConfigError("mirror", "odd", "denied"))),),
        tasks=(
            TaskRecord(
                name="groups", done_at=NOW_MS, items={"g": "has members"}, figures={"copied": 2}
            ),
            TaskRecord(name="ACLs", reason="refused"),
        ),
        notes=(("A.orders", "compacted"),),
        transforms=(
            TransformStatus(
                name="pii",
                kind="rules",
                partitions=2,
                counts=counts,
                rules=(RuleCounts("1 hash", 4, 6),),
                unseen=("2 drop",),
                troubles=("OOM",),
            ),
            TransformStatus(name="sql", kind="sql", partitions=0),
        ),
        directives=LinkDirectives.of((PAUSE, LIMIT)),
        directives_reason="not allowed",
    )
    silent = replace(
        full,
        unavailable="no broker answers",
        driver=None,
        problems=(),
        transforms=(),
        directives=LinkDirectives(),
        directives_reason=None,
        notes=(),
        tasks=(),
    )
    unknown = LinkStatus(
        **ends(settings()),
        driver=None,
        partitions=(),
        problems=(),
        error=UnreachableError("reach", "B", "no answer"),
    )
    return full, silent, unknown
