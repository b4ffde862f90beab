"""Rows of the registry, reports of lanes, and a link that has not started."""

from __future__ import annotations

from typing import Any, cast

from causeway.config import RunSettings
from causeway.control import MirroredTopic, Transforms
from causeway.daemon import Sides
from causeway.daemon.lanes import Fleet, ReportedPartition
from causeway.daemon.link import LinkDriver
from causeway.daemon.link_parts import LinkWork
from causeway.daemon.partitions import Row, RunOptions, Wish
from causeway.daemon.staging import Staging
from causeway.link_topics import (
    Outlet,
    PartitionProgress,
)
from causeway.model import Pair, State, TopicPartition
from causeway.relay import FlowReport
from tests.builders.settings import LINK

MIRROR = TopicPartition("A.orders", 0)


def row(state: State = State.WAITING) -> Row:
    topic = MirroredTopic(
        source="orders",
        target="A.orders",
        source_id="aa" * 16,
        target_id="bb" * 16,
        partitions=1,
        target_partitions=1,
        max_message_bytes=1_000_000,
    )
    progress = PartitionProgress(
        topic="orders",
        partition=0,
        topic_id="aa" * 16,
        leader_epoch=0,
        position=0,
        outlets=(outlet(0),),
        state=state,
    )
    return Row(topic=topic, progress=progress, first=0)


def outlet(at: int) -> Outlet:
    return Outlet(
        topic="A.orders",
        partition=0,
        topic_id="bb" * 16,
        producer_id=1,
        producer_epoch=0,
        pair=Pair(source=at, target=at, sequence=at),
    )


def says(state: State, position: int, reason: str | None = None) -> ReportedPartition:
    report = FlowReport(
        link="A->B",
        topic="orders",
        partition=0,
        state=state,
        reason=reason,
        position=position,
        leader_epoch=0,
        source_end=100,
        last_timestamp=-1,
        outlets=(outlet(position),),
    )
    return ReportedPartition(
        report=report,
        lane=3,
        records=position,
        bytes=0,
        records_per_s=0.0,
        bytes_per_s=0.0,
        recoveries=0,
    )


def holds(high_watermark: int, source_end: int = 100) -> ReportedPartition:
    said = says(State.RUNNING, 100)
    ends = {"high_watermark": high_watermark, "source_end": source_end}
    return said.replace(report=said.report.replace(**ends))


def part(partition: int, state: State = State.RUNNING) -> Row:
    found = row()
    found.progress = found.progress.replace(partition=partition, state=state)
    return found


def new_link(run: RunSettings, wish: Wish = Wish()) -> LinkDriver:  # noqa: B008
    none = cast(Any, None)
    fleet = Fleet(run, {}, local=True)
    return LinkDriver(
        LinkWork(
            link=LINK,
            run=RunOptions(settings=run, wish=wish, bounded=True),
            transforms=Transforms(LINK, {}),
        ),
        Sides(source=none, target=none, source_admin=none, target_admin=none),
        fleet,
        Staging((), fleet),
    )
