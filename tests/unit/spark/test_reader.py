"""Where a read begins and ends, by what a cluster says; real ones are in tests/integration."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.streaming.datasource import ReadAllAvailable

from causeway.cluster import EARLIEST
from causeway.errors import BrokerError
from causeway.model import TopicPartition
from causeway.spark.columns import whole_schema
from causeway.spark.log import ReadRange
from causeway.spark.options import read_options
from causeway.spark.source import BatchReader, StreamReader

OPTIONS = {"subscribe": "t", "kafka.bootstrap.servers": "h:1"}


class FakeCluster:
    """Topic `t` of two partitions. `ends`: one after the other; the last one stays."""

    timeout_s = 0.0

    def __init__(self, *ends: int) -> None:
        self.ends = list(ends)

    def metadata(self, _: object) -> Any:
        topic = SimpleNamespace(name="t", error=None, partitions=[0, 1])
        return SimpleNamespace(topics={"t": topic})

    def list_offsets(self, tps: Collection[TopicPartition], moment: int, _: bool) -> Any:
        at = 0 if moment == EARLIEST else self.ends[0]
        if moment != EARLIEST and tps and len(self.ends) > 1:
            del self.ends[0]
        return {tp: SimpleNamespace(offset=at) for tp in tps}

    def retry(self, _: object, attempt: Callable[[], None]) -> None:
        for left in (1, 0):
            try:
                return attempt()
            except BrokerError as error:
                if not (error.retriable and left):
                    raise
        return None


def stream(cluster: FakeCluster, **options: str) -> StreamReader:
    every = OPTIONS | options
    reader = StreamReader(every, whole_schema(read_options(every, streaming=True)))
    reader._cluster = cluster  # type: ignore[assignment]
    return reader


BEGUN = {"t": {"0": 5, "1": 7}}


def test_a_log_that_ends_before_what_was_read_of_it_is_a_loss() -> None:
    with pytest.raises(BrokerError, match=r"t-0.*read up to offset 5.*ends at 3.*recreated"):
        stream(FakeCluster(3)).latestOffset(BEGUN, ReadAllAvailable())
    lenient = stream(FakeCluster(6), failOnDataLoss="false")
    assert lenient.latestOffset(BEGUN, ReadAllAvailable()) == {"t": {"0": 6, "1": 7}}


def test_a_leader_that_does_not_know_its_end_yet_is_waited_for() -> None:
    reader = stream(FakeCluster(3, 4, 9))
    assert reader.latestOffset(BEGUN, ReadAllAvailable()) == BEGUN
    assert reader.latestOffset(BEGUN, ReadAllAvailable()) == {"t": {"0": 9, "1": 9}}


def test_a_filter_narrows_what_is_read_and_not_what_options_have_to_name() -> None:
    every = OPTIONS | {"startingOffsets": '{"t":{"0":1,"1":2}}', "pushFilters": "true"}
    reader = BatchReader(every, whole_schema(read_options(every, streaming=False)))
    reader._filters = [EqualTo(("partition",), 1)]

    @contextmanager
    def cluster() -> Any:
        yield FakeCluster(9)

    reader._open = cluster  # type: ignore[assignment]
    (part,) = reader.partitions()
    assert part.value == ReadRange(tp=TopicPartition("t", 1), start=2, end=9)
