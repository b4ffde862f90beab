"""Where a target ends that another tool wrote: found for certain, or not at all."""

from __future__ import annotations

from typing import cast

import pytest

from causeway.cluster import Cluster
from causeway.daemon.partitions import find_place, others
from tests.harness.raw_batches import ABORT, Rec, marker
from tests.harness.world import SOURCE, SOURCE_ID, TARGET_ID, FakeCluster, Log


def records(values: range, at: int, *, value: bytes = b"%d") -> list[Rec]:
    """Of a log that goes on at offset `at`."""
    return [
        Rec(
            offset=at + i,
            timestamp=1_600_000_000_000 + n,
            value=value % n if b"%" in value else value,
        )
        for i, n in enumerate(values)
    ]


def a_log(*parts: range, value: bytes = b"%d") -> Log:
    log = Log()
    for part in parts:
        log.append(records(part, log.end, value=value))
    return log


def aborted(log: Log, part: range) -> None:
    first = log.end
    log.append(records(part, first), producer_id=5, epoch=0, sequence=0, transactional=True)
    log.batches.append((log.end, log.end, marker(log.end, 5, ABORT)))
    log.aborted.append((5, first, log.end))
    log.end += 1


def place(source: Log, target: Log, floor: int | None = None) -> int | None:
    return find_place(
        cast(Cluster, FakeCluster("t", SOURCE_ID, {0: source}, False)),
        SOURCE,
        cast(Cluster, FakeCluster("t", TARGET_ID, {0: target}, False)),
        SOURCE,
        floor=floor,
    )


@pytest.mark.parametrize("floor", [None, 0, 10, 30])
def test_it_goes_on_after_the_record_that_the_target_ends_with(floor: int | None) -> None:
    assert place(a_log(range(50)), a_log(range(30)), floor) == 30


def test_a_reader_of_uncommitted_records_has_copied_what_was_rolled_back_or_is_open() -> None:
    source = a_log(range(10))
    aborted(source, range(10, 13))  # to offset 13, its marker
    source.append(
        records(range(13, 15), 14), transactional=True, producer_id=6, epoch=0, sequence=0
    )
    source.stable = 14
    assert place(source, a_log(range(15)), floor=5) == 16
    assert place(source, a_log(range(12)), floor=5) == 12
    only_committed = a_log(range(10), range(13, 14))
    source.stable = None
    assert place(source, only_committed, floor=5) == 15


def test_what_looks_alike_is_no_place() -> None:
    source = a_log(range(10), range(10), range(10, 20))
    assert place(source, a_log(range(10)), floor=10) is None
    assert place(source, a_log(range(10), range(10, 12)), floor=10) == 22


def test_a_target_that_sets_the_times_itself_is_compared_without_them() -> None:
    target = Log()
    target.append(records(range(30), 0), append_time=1_700_000_000_000)
    assert place(a_log(range(50)), target, floor=20) == 30
    alike = Log()
    alike.append(records(range(30), 0, value=b"same"), append_time=1_700_000_000_000)
    assert place(a_log(range(50), value=b"same"), alike, floor=20) is None


def test_what_the_source_never_had_is_not_found_unless_there_is_nothing_to_find() -> None:
    assert place(a_log(range(50)), a_log(range(100, 130)), floor=20) is None
    assert place(a_log(range(20)), a_log(range(100, 130)), floor=20) == 20
    marked = a_log(range(20))
    aborted(marked, range(0))
    assert place(marked, a_log(range(100, 130)), floor=20) == 20


def test_the_source_may_have_deleted_some_of_the_last_records() -> None:
    source = a_log(range(27), range(27, 50))
    source.start = 27
    assert place(source, a_log(range(30)), floor=25) == 30
    source.start = 30
    assert place(source, a_log(range(30)), floor=25) is None


def test_a_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    source = a_log(*(range(n, n + 10) for n in range(0, 200, 10)))
    monkeypatch.setattr(others, "_SEARCH_BYTES", 500)
    assert place(source, a_log(range(20)), floor=10) == 20
    assert place(source, a_log(range(190)), floor=10) is None
    stamped = Log()
    stamped.append(records(range(20), 0), append_time=1_700_000_000_000)
    assert place(source, stamped, floor=10) is None
