"""Lane processes under a small driver of the test's own: the relay without Spark.

A test can kill, pause and double lanes at will, hand the same assignment to several of them, and
keep or lose their reports, as crashes would.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from causeway.cluster import Cluster, OffsetAt, TopicMetadata
from causeway.config import ClientSettings, to_wire
from causeway.errors import CausewayError
from causeway.link_topics import Outlet
from causeway.model import Pair, State, TopicPartition
from causeway.relay import (
    Assign,
    Assignment,
    Clusters,
    ControlServer,
    Drain,
    Drained,
    FlowReport,
    LaneConnection,
    LaneReport,
    Lease,
    Preserve,
    ToDriver,
    new_secret,
)
from tests.harness.lane_process import LaneProcess
from tests.harness.waiting import await_until


def client(alias: str, bootstrap: str) -> ClientSettings:
    addresses = [address.rsplit(":", 1) for address in bootstrap.split(",")]
    return ClientSettings(
        alias=alias,
        bootstrap=tuple((host, int(port)) for host, port in addresses),
        request_timeout_ms=10_000,
    )


class LaneDriver:
    """Hands `assignments` to every lane that says hello, renews its lease, keeps its reports."""

    def __init__(
        self,
        source: ClientSettings,
        target: ClientSettings,
        *,
        lease_s: float = 3.0,
        in_flight: int | None = 5,
    ) -> None:
        self.source, self.target = Cluster(source), Cluster(target)
        self.assignments: dict[tuple[str, str, int], Assignment] = {}
        self.reports: dict[tuple[str, str, int], FlowReport] = {}
        self.drained: set[int] = set()
        self.crowded: set[str] = set()  # brokers that took too few connections of a lane
        self.small_requests: set[str] = set()  # brokers that closed connections after larger ones
        self.renew = True
        self._handed: set[tuple[str, str, int]] = set()  # assignments that a lane has had
        self._settings = {"source": to_wire(source), "target": to_wire(target)}
        self._lease_s = lease_s
        self._in_flight = in_flight
        self._key = new_secret()
        self._lock = threading.Lock()
        self._connections: dict[int, LaneConnection] = {}
        self.lanes: dict[int, LaneProcess] = {}
        self._server = ControlServer(
            "127.0.0.1",
            self._key,
            on_hello=self._on_hello,
            on_message=self._on_message,
            on_closed=lambda _: None,
        )
        self._server.start()

    def __enter__(self) -> LaneDriver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in list(self.lanes):
            self.kill(number)
        self._server.close()
        self.source.close()
        self.target.close()

    def claim(
        self,
        topic: str,
        target_topic: str,
        *,
        outlets: int | None = None,
        keeps: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> list[Assignment]:
        """Assign every partition of `topic`, from its start; `outlets`: how many target
        partitions each feeds by key (None: its namesake alone). `keeps`: each record keeps its
        offset; the fields of Preserve that are not the default."""
        source, target = _described(self.source, topic), _described(self.target, target_topic)
        places = [TopicPartition(target_topic, p) for p in sorted(target.partitions)]
        ends = self.target.list_offsets(places, -1)
        starts = self.source.list_offsets([TopicPartition(topic, p) for p in source.partitions], -2)
        made = []
        for partition in sorted(source.partitions):
            start = _offset(starts[TopicPartition(topic, partition)])
            if keeps is not None:
                own: dict[str, Any] = {
                    "begin": start,
                    "gaps": "markers",
                    "transactional_id": "causeway.A.B",
                }
                more["preserve"] = Preserve(**{**own, **keeps})
            fed = [partition] if outlets is None else list(range(outlets))
            ids = self.target.init_producer_ids(len(fed))
            made.append(
                Assignment(
                    link="A->B",
                    source="source",
                    target="target",
                    topic=topic,
                    partition=partition,
                    topic_id=source.topic_id,
                    leader_epoch=-1,
                    outlets=tuple(
                        Outlet(
                            topic=target_topic,
                            partition=p,
                            topic_id=target.topic_id,
                            producer_id=producer_id,
                            producer_epoch=epoch,
                            pair=Pair(
                                source=start if keeps is None else _offset(ends[places[p]]),
                                target=_offset(ends[places[p]]),
                                sequence=0,
                            ),
                            exclusive=outlets is None,
                        )
                        for p, (producer_id, epoch) in zip(fed, ids, strict=True)
                    ),
                    **more,
                )
            )
        for assignment in made:
            self.assignments[assignment.key] = assignment
        for connection in self._connections.values():
            self._hand(connection, made)
        return made

    def start_lane(self, number: int) -> LaneProcess:
        process = LaneProcess(number, self._server.host, self._server.port, self._key)
        self.lanes[number] = process
        return process

    def kill(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.lanes.pop(number)
        process.send_signal(how)
        if how is signal.SIGKILL:
            process.wait()

    def signal(self, number: int, how: signal.Signals) -> None:
        """Freeze (SIGSTOP) or thaw (SIGCONT) a lane."""
        self.lanes[number].send_signal(how)

    def is_up(self, number: int) -> bool:
        """Whether the lane has said hello, so that it can be drained."""
        return number in self._connections

    def drain(self, number: int) -> None:
        self._connections[number].send(Drain())
        process = self.lanes[number]
        await_until(
            # A lane that was frozen as it sent ends when it wakes, past its lease.
            lambda: number in self.drained or process.poll() is not None,
            what=f"lane {number} drained",
        )
        self.lanes.pop(number).wait()

    def await_position(self, ends: Mapping[tuple[str, int], int], timeout: float = 60) -> None:
        """Until every partition of the source in `ends` is mirrored up to its offset."""

        def reached() -> bool:
            with self._lock:
                at = {(r.topic, r.partition): r.position for r in self.reports.values()}
            return all(at.get(place, -1) >= end for place, end in ends.items())

        try:
            await_until(reached, timeout)
        except AssertionError as late:
            raise AssertionError(f"positions {dict(ends)}: {self.summary()}") from late

    def summary(self) -> list[tuple[str, int, State, str | None, int]]:
        with self._lock:
            return [
                (r.topic, r.partition, r.state, r.reason, r.position) for r in self.reports.values()
            ]

    def _on_hello(self, connection: LaneConnection) -> None:
        hello = connection.hello
        assert hello is not None
        self._connections[hello.lane] = connection
        connection.send(
            Clusters(
                clusters=self._settings,
                lease_s=self._lease_s,
                report_interval_s=0.1,
                connections=2,
                in_flight=self._in_flight,
                buffer_bytes=32 * 1024 * 1024,
            )
        )
        with self._lock:
            newest = [self._newest(assignment) for assignment in self.assignments.values()]
        self._hand(connection, newest)

    def _hand(self, connection: LaneConnection, assignments: Sequence[Assignment]) -> None:
        """Nothing is on its way of what no lane has had before."""
        connection.send(
            Assign(
                assignments=tuple(
                    one.replace(settled=one.key not in self._handed) for one in assignments
                )
            )
        )
        self._handed.update(one.key for one in assignments)

    def _newest(self, assignment: Assignment) -> Assignment:
        report = self.reports.get(assignment.key)
        if report is None:
            return assignment
        return assignment.replace(outlets=report.outlets, leader_epoch=report.leader_epoch)

    def _on_message(self, connection: LaneConnection, message: ToDriver) -> None:
        if isinstance(message, LaneReport):
            with self._lock:
                for report in message.partitions:
                    self.reports[report.key] = report
                self.crowded.update(message.crowded)
                self.small_requests.update(message.small_requests)
            if self.renew:
                connection.send(Lease(lane_time=message.lane_time))
        elif isinstance(message, Drained):
            assert connection.hello is not None
            self.drained.add(connection.hello.lane)
            connection.drop()


def _described(cluster: Cluster, topic: str) -> TopicMetadata:
    """What the broker asked says of a topic that was just made; it may learn of it last of all."""

    def known() -> TopicMetadata | None:
        found = cluster.metadata([topic]).topics[topic]
        return None if found.error else found

    return await_until(known, what=f"{topic} known on {cluster.settings.alias}")


def _offset(answer: object) -> int:
    if isinstance(answer, CausewayError):
        raise answer
    assert isinstance(answer, OffsetAt), answer
    return answer.offset
