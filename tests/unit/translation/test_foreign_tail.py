"""Behind the last record of one of several who feed a target partition."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.errors import BrokerError
from causeway.link_topics import Outlet
from causeway.model import Pair, TopicPartition
from causeway.translation import CourseKey
from causeway.translation.lookups import ForeignTails
from tests.harness.raw_batches import Rec
from tests.harness.world import TARGET, TARGET_ID, FakeCluster, Log

AT = TopicPartition(TARGET, 0)
ONE, TWO = CourseKey(TopicPartition("one", 0), AT), CourseKey(TopicPartition("two", 0), AT)


class Target(FakeCluster):
    """Counts how often it is read, and can be without a leader."""

    def __init__(self, log: Log) -> None:
        super().__init__(TARGET, TARGET_ID, {0: log}, compacted=False)
        self.log, self.reads, self.dark = log, 0, False

    def fetch(self, *args: Any, **kwargs: Any) -> Any:
        if self.dark:
            raise BrokerError("fetch", TARGET, code=5, name="NO_LEADER", retriable=True)
        self.reads += 1
        return super().fetch(*args, **kwargs)

    def append(self, producer_id: int, sequence: int, count: int) -> None:
        records = [Rec(offset=self.log.end + n) for n in range(count)]
        self.log.append(records, producer_id=producer_id, epoch=0, sequence=sequence)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def outlet(producer_id: int, target: int, sequence: int) -> Outlet:
    return Outlet(
        topic=TARGET,
        partition=0,
        topic_id=TARGET_ID,
        producer_id=producer_id,
        producer_epoch=0,
        pair=Pair(100, target, sequence),
        exclusive=False,
    )


def test_a_producer_without_later_records_is_at_the_end(pool: ThreadPoolExecutor) -> None:
    target = Target(Log())
    target.append(1, 0, 3)
    target.append(2, 0, 4)
    target.append(2, 4, 5)
    tails = ForeignTails(cast(Cluster, target), pool)
    idle, other = outlet(1, 3, 3), outlet(2, 7, 4)

    assert tails.look({ONE: idle, TWO: other}, {AT: 12}, 1, 60) == {ONE: 12, TWO: 7}

    reads = target.reads
    assert tails.look({ONE: idle}, {AT: 12}, 1, 60) == {ONE: 12}
    assert target.reads == reads, "nothing is read twice"
    target.append(1, 3, 2)
    assert tails.look({ONE: idle}, {AT: 14}, 1, 60) == {ONE: 12}, "there its next record lies"
    assert tails.look({ONE: idle}, {AT: 14}, 2, 60) == {ONE: 12}, "in another term anew"


def test_in_the_midst_of_a_batch(pool: ThreadPoolExecutor) -> None:
    """The report of a batch is on its way: of what was known, two records less were sent."""
    target = Target(Log())
    target.append(2, 0, 4)
    target.append(1, 2**31 - 2, 4)
    tails = ForeignTails(cast(Cluster, target), pool)
    assert tails.look({ONE: outlet(1, 0, 0)}, {AT: 8}, 1, 60) == {ONE: 6}


def test_an_answer_about_what_has_moved_on_meanwhile_is_none(pool: ThreadPoolExecutor) -> None:
    target = Target(Log())
    target.append(2, 0, 4)
    tails = ForeignTails(cast(Cluster, target), pool)
    release = threading.Event()
    pool.submit(release.wait, 60)
    assert tails.look({ONE: outlet(1, 0, 0)}, {AT: 4}, 1, 0) == {}, "it takes its time"

    target.append(1, 0, 3)
    release.set()
    assert tails.look({ONE: outlet(1, 7, 3)}, {AT: 7}, 1, 60) == {}
    assert tails.look({ONE: outlet(1, 7, 3)}, {AT: 7}, 1, 60) == {ONE: 7}


def test_an_unreadable_log_gives_no_answer(pool: ThreadPoolExecutor) -> None:
    target = Target(Log())
    target.append(2, 0, 4)
    tails = ForeignTails(cast(Cluster, target), pool)
    target.dark = True
    assert tails.look({ONE: outlet(1, 0, 0)}, {AT: 4}, 1, 60) == {}
    assert tails.look({ONE: outlet(1, 0, 0)}, {}, 1, 60) == {}, "nobody knows where it ends"
    target.dark = False
    assert tails.look({ONE: outlet(1, 0, 0)}, {AT: 4}, 1, 60) == {ONE: 4}
