"""Lanes without processes: their assignments and their reports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from causeway.daemon.lanes import Fleet, Key, ReportedPartition
from causeway.link_topics import Outlet
from causeway.model import Pair, State
from causeway.relay import (
    Assign,
    Assignment,
    FlowReport,
    Hello,
    LaneConnection,
    LaneReport,
    Revoke,
)


def assignment(partition: int) -> Assignment:
    return Assignment(
        link="A->B",
        source="A/0",
        target="B/1",
        topic="orders",
        partition=partition,
        topic_id="aa" * 16,
        leader_epoch=-1,
        outlets=(outlet(partition),),
    )


@dataclass(eq=False)
class Lane:
    """Stands in for a lane's connection, and for the lane."""

    fleet: Fleet
    number: int
    pid: int = 1
    host: str = "elsewhere"
    sent: list[Any] = field(default_factory=list)
    dropped: bool = False

    @property
    def hello(self) -> Hello:
        return Hello(lane=self.number, pid=self.pid, host=self.host)

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def drop(self) -> None:
        self.dropped = True
        self.fleet.on_closed(cast(LaneConnection, self))

    def connect(self) -> Lane:
        self.fleet.on_hello(cast(LaneConnection, self))
        return self

    def says(self, message: Any) -> None:
        self.fleet.on_message(cast(LaneConnection, self), message)

    def reports(self, *partitions: FlowReport, lane_time: float = 1.0) -> None:
        self.says(LaneReport(lane_time=lane_time, partitions=partitions))

    def has(self) -> set[int]:
        """The partitions given to it and not taken away."""
        have: set[int] = set()
        for message in self.sent:
            if isinstance(message, Assign):
                have |= {a.partition for a in message.assignments}
            elif isinstance(message, Revoke):
                have -= {key[2] for key in message.keys}
        return have

    def given(self, partition: int) -> Assignment:
        return next(
            a
            for message in reversed(self.sent)
            if isinstance(message, Assign)
            for a in message.assignments
            if a.partition == partition
        )


def flow_report(
    partition: int, at: int, *, final: bool = False, records: int = 0, recoveries: int = 0
) -> FlowReport:
    return FlowReport(
        link="A->B",
        topic="orders",
        partition=partition,
        state=State.RUNNING,
        position=at,
        leader_epoch=4,
        source_end=at,
        last_timestamp=-1,
        outlets=(outlet(partition, at),),
        records=records,
        bytes=10 * records,
        recoveries=recoveries,
        final=final,
    )


class Heard:
    def __init__(self) -> None:
        self.reports: list[ReportedPartition] = []
        self.waiting: list[Key] = []

    def hear(self, reports: Sequence[ReportedPartition]) -> None:
        self.reports += reports

    def wait(self, keys: Collection[Key]) -> None:
        self.waiting += keys


def outlet(partition: int, at: int = 0) -> Outlet:
    return Outlet(
        topic="A.orders",
        partition=partition,
        topic_id="bb" * 16,
        producer_id=100 + partition,
        producer_epoch=0,
        pair=Pair(source=at, target=at, sequence=at),
    )
