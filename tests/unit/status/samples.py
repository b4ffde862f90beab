"""Statuses with every kind of state and figure, for the recorded samples in golden/."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from causeway.control import TopicProblem
from causeway.errors import ConfigError, UnreachableError
from causeway.link_topics import (
    ActiveDirectives,
    PauseDirective,
    RuleCounts,
    Scope,
    TaskRecord,
    ThrottleDirective,
    Transformed,
)
from causeway.model import State
from causeway.operate.plan.transforms import TransformState
from causeway.status.from_clusters import Driver
from causeway.status.from_clusters import LinkStatus as FromClusters
from causeway.status.from_clusters import PartitionStatus as Asked_
from causeway.status.snapshot import GroupStatus, LinkStatus, Role, Snapshot, Trouble
from tests.unit.daemon.test_claims import link as settings
from tests.unit.metrics import snapshots

NOW_MS = int(snapshots.NOW * 1000)
PAUSE = PauseDirective(
    scope=Scope("paid", 1), who="anna@ops1", why="maintenance", at=NOW_MS - 9_000
)
LIMIT = ThrottleDirective(scope=Scope("orders"), who="anna@ops1", at=NOW_MS, bytes_per_s=10)


def of_driver() -> Snapshot:
    unknown = replace(
        snapshots.partition(0),
        position=-1,
        source_end=-1,
        high_watermark=-1,
        held_ms=0,
        last_timestamp=-1,
        first_unmirrored=-1,
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
        replace(unknown, state=State.DONE),
        replace(unknown, partition=1, state=State.DONE, position=100, source_end=100, stop_at=100),
        replace(unknown, topic="new", target_topic="A.new", state=State.WAITING),
        *(snapshots.partition(number, state) for number, state in enumerate(State)),
        replace(
            snapshots.partition(0),
            topic="paid",
            target_topic="A.paid",
            position=100,
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
            position=100,
            reason="no answer",
            first_unmirrored=-1,
        ),
    )
    led = replace(
        snapshots.link(*partitions),
        directives=(PAUSE, LIMIT),
        groups=(
            GroupStatus(group="readers", followed=True, partitions=2, reason=None),
            GroupStatus(group="others", followed=False, partitions=0, reason="has members"),
        ),
    )
    silent = replace(
        snapshots.link(*partitions[3:]),
        name="C->B",
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
        troubles=(Trouble(topic="", reason="denied"),),
    )
    empty = replace(
        standby, name="B->C", target="C", role=Role.LEADING, reason=None, planned=True, troubles=()
    )
    return snapshots.full(led, silent, standby, empty)


def of_clusters() -> tuple[FromClusters, ...]:
    def one(topic: str, number: int, state: str = State.RUNNING, **more: object) -> Asked_:
        given: dict[str, Any] = {
            "topic": topic,
            "partition": number,
            "target": f"A.{topic}",
            "source_end": 100,
            "mirrored_to": 70,
            "lag_records": 30,
            "lag_ms": 2_000,
            "state": state,
            "reason": None,
            "high_watermark": 120,
        }
        return Asked_(**{**given, **more})

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
            gone=True,
            noted_ms=NOW_MS,
        ),
        one("orders", 0),
        one("orders", 1, State.FAILED, reason="no answer", lost_records=7),
        one("orders", 2, "no running driver", mirrored_to=None, lag_ms=None, reason="not begun"),
        one("paid", 0, mirrored_to=100, lag_records=0, lag_ms=0, high_watermark=100),
        one("paid", 1, State.PAUSED, reason="paused by anna"),
    )
    counts = Transformed(
        records_in=10, records_out=9, dropped=1, refused=0, without_spark=6, through_spark=4
    )
    full = FromClusters(
        link=settings(),
        driver=Driver(owner="host-1", running=True, last_seen_ms=NOW_MS - 500),
        partitions=partitions,
        problems=(TopicProblem(topic="odd", error=ConfigError("mirror", "odd", "denied")),),
        tasks=(
            TaskRecord(
                name="groups", done_at=NOW_MS, items={"g": "has members"}, figures={"copied": 2}
            ),
            TaskRecord(name="ACLs", reason="refused"),
        ),
        notes=(("A.orders", "compacted"),),
        transforms=(
            TransformState(
                name="pii",
                kind="rules",
                partitions=2,
                counts=counts,
                rules=(RuleCounts("1 hash", 4, 6),),
                unseen=("2 drop",),
                reason="OOM",
            ),
            TransformState(name="sql", kind="sql", partitions=0),
        ),
        asked=ActiveDirectives((PAUSE, LIMIT), "not allowed"),
    )
    silent = replace(
        full,
        unavailable="no broker answers",
        driver=None,
        problems=(),
        transforms=(),
        asked=ActiveDirectives(),
        notes=(),
        tasks=(),
    )
    unknown = FromClusters(
        link=settings(),
        driver=None,
        partitions=(),
        problems=(),
        error=UnreachableError("reach", "B", "no answer"),
    )
    return full, silent, unknown
