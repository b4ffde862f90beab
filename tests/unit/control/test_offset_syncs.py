"""When an offset sync is written: MirrorMaker 2's rules."""

from __future__ import annotations

from typing import Any, cast

import pytest

from causeway.control import OffsetSync, OffsetSyncs
from causeway.link_topics import KeyValue, TopicLog
from causeway.model import TopicPartition

AT = TopicPartition("orders", 3)


class Log:
    def __init__(self) -> None:
        self.written: list[tuple[int, int]] = []

    def ensure(self, replication_factor: int) -> None:
        assert replication_factor == 3

    def append(self, records: list[KeyValue]) -> None:
        for key, value in records:
            sync = OffsetSync.decode(cast(bytes, key), cast(bytes, value))
            assert sync.partition == AT
            self.written.append((sync.upstream, sync.downstream))


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def syncs(log: Log, monkeypatch: pytest.MonkeyPatch) -> OffsetSyncs:
    made = OffsetSyncs(cast(TopicLog, log), replication_factor=3, lag_max=100)
    made.write({}, flush=True)
    return made


def write(syncs: OffsetSyncs, newest: dict[TopicPartition, tuple[int, int]]) -> None:
    syncs.write(newest, flush=syncs.wants_all)


@pytest.mark.parametrize(
    ("then", "due"),
    [
        ((1_099, 599), False),  # too little since the last one
        ((1_100, 600), True),  # offset.lag.max
        ((1_006, 505), True),  # a gap at the source
        ((1_005, 506), True),  # a foreign write
        ((995, 495), True),  # the target went back
        ((1_000, 500), False),  # nothing new
    ],
)
def test_due(syncs: OffsetSyncs, log: Log, then: tuple[int, int], due: bool) -> None:
    write(syncs, {AT: (1_000, 500)})
    write(syncs, {AT: then})
    assert log.written == [(1_000, 500), *([then] if due else [])]


def test_what_is_newer_than_the_last_one_is_flushed_once_a_minute(
    syncs: OffsetSyncs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: Any = [1_000_000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    write(syncs, {AT: (10, 10)})
    write(syncs, {AT: (11, 11)})
    now[0] += 61
    write(syncs, {AT: (11, 11)})
    write(syncs, {AT: (12, 12)})
    assert log.written == [(10, 10), (11, 11)]
    syncs.flush()
    write(syncs, {AT: (12, 12)})
    assert log.written[2:] == [(12, 12)]
