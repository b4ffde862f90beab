"""A driver's memory and CPU for partitions that no broker of this machine could hold: its own rows
and reports, made up, in a process of their own.

    python -m bench.simulated PARTITIONS      prints its figures as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import psutil

from causeway.control import MirroredTopic
from causeway.daemon.lanes import ReportedPartition
from causeway.daemon.partitions import Registry, Row
from causeway.http.views import View
from causeway.link_topics import Outlet, PartitionProgress, ProgressContents, encode_entry
from causeway.metrics import text
from causeway.model import Pair, State
from causeway.relay import FlowReport
from causeway.status import LinkStatus, Role, Snapshot

EACH = 10  # partitions of a topic
_MOVED = 10  # one of so many partitions has moved when the next reports come
_IDS = "aa" * 16, "bb" * 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """CPU seconds and megabytes of one Python process that knows so many partitions.

    `memory_mb`: of what it knows, after the first look; `look_s`: a snapshot and its index, as for
    a page or call; `scrape_s`: a look, and the text for Prometheus of `scrape_mb`; `hear_s`: lanes'
    reports of all of them; `write_s`: all progress made into records, as when a driver takes over.
    """

    partitions: int
    memory_mb: float
    look_s: float
    scrape_s: float
    scrape_mb: float
    hear_s: float
    write_s: float


class Run:
    """So many partitions that run, and of which every tenth moves when it is told to."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._at = 1
        self.registry = Registry("A->B")
        self.registry.begin(ProgressContents())
        self.registry.add(_rows(partitions))
        self.registry.take_reports(_reports(range(partitions), at=self._at))

    def move(self) -> None:
        self._at += 1
        moved = range(self._at % _MOVED, self._partitions, _MOVED)
        self.registry.take_reports(_reports(moved, at=self._at))

    def look(self) -> Snapshot:
        return _look(self.registry)


def measure(partitions: int) -> Simulated:
    before = _rss_mb()
    run = Run(partitions)
    hear_s = _hear_s(run.registry, _reports(range(partitions), at=2))
    looks: list[View] = []
    look_s = _cpu_s(lambda: looks.append(View(run.look())))
    memory_mb = _rss_mb() - before
    looks.clear()
    scraped: list[bytes] = []
    scrape_s = _cpu_s(lambda: scraped.append(text(run.look())))
    write_s = _cpu_s(
        lambda: [encode_entry(each, 0) for each in run.registry.take_dirty(final=True)[1]]
    )
    return Simulated(
        partitions=partitions,
        memory_mb=memory_mb,
        look_s=look_s,
        scrape_s=scrape_s,
        scrape_mb=len(scraped[0]) / 1e6,
        hear_s=hear_s,
        write_s=write_s,
    )


def _hear_s(registry: Registry, reports: list[ReportedPartition]) -> float:
    return _cpu_s(lambda: registry.take_reports(reports))


def _rows(partitions: int) -> list[Row]:
    found = []
    for number in range(-(-partitions // EACH)):
        topic = MirroredTopic(
            source=f"team.orders-{number}",
            target=f"A.team.orders-{number}",
            source_id=_IDS[0],
            target_id=_IDS[1],
            partitions=EACH,
            target_partitions=EACH,
            max_message_bytes=1_000_000,
        )
        for partition in range(min(EACH, partitions - number * EACH)):
            progress = PartitionProgress(
                topic=topic.source,
                partition=partition,
                topic_id=_IDS[0],
                leader_epoch=0,
                position=0,
                outlets=(_outlet(topic.target, partition, 0),),
                state=State.WAITING,
            )
            found.append(Row(topic=topic, progress=progress, first=0))
    return found


def _reports(partitions: Iterable[int], at: int) -> list[ReportedPartition]:
    return [
        ReportedPartition(
            report=FlowReport(
                link="A->B",
                topic=f"team.orders-{number // EACH}",
                partition=number % EACH,
                state=State.RUNNING,
                reason=None,
                position=at,
                leader_epoch=0,
                source_end=at,
                last_timestamp=1_700_000_000_000,
                outlets=(_outlet(f"A.team.orders-{number // EACH}", number % EACH, at),),
            ),
            lane=number % 2,
            records=at,
            bytes=100 * at,
            records_per_s=0.0,
            bytes_per_s=0.0,
            recoveries=0,
        )
        for number in partitions
    ]


def _outlet(topic: str, partition: int, at: int) -> Outlet:
    return Outlet(
        topic=topic,
        partition=partition,
        topic_id=_IDS[1],
        producer_id=partition,
        producer_epoch=0,
        pair=Pair(source=at, target=at, sequence=at),
    )


def _look(registry: Registry) -> Snapshot:
    link = LinkStatus(
        name="A->B",
        source="A",
        target="B",
        role=Role.LEADING,
        reason=None,
        planned=True,
        partitions=registry.status(),
        problems=(),
    )
    now = time.time()
    return Snapshot(
        started_at=now,
        taken_at=now,
        bounded=False,
        draining=False,
        links=(link,),
        lanes=(),
        lanes_wanted=2,
    )


def _cpu_s(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _rss_mb() -> float:
    return float(psutil.Process().memory_info().rss / 1e6)


if __name__ == "__main__":
    print(json.dumps(asdict(measure(int(sys.argv[1])))))
