"""Where damage in a source's log ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.cluster import Cluster, FetchedPartition
from causeway.model import Loss
from causeway.relay.recovery import Damage
from causeway.relay.recovery.resume import loss_by, readable_from
from causeway.wire import broker_error, codes
from tests.harness.raw_batches import Rec, damaged
from tests.harness.world import SOURCE, SOURCE_ID, FakeCluster, Log

# How a batch is damaged: not at all, in its records, in its header's counts, so that the broker
# itself cannot read it, or does not find it.
GOOD, RECORDS, COUNTS, UNREAD, LOST = range(5)


class Damaged(FakeCluster):
    def __init__(self, log: Log, unread: Sequence[range], lost: Sequence[range]) -> None:
        super().__init__("t", SOURCE_ID, {0: log}, compacted=False)
        self.unread, self.lost, self.fetches = unread, lost, 0

    def fetch(self, place: Any, offset: int, max_bytes: int, **more: Any) -> FetchedPartition:
        self.fetches += 1
        if any(offset in stretch for stretch in self.unread):
            raise broker_error(codes.CORRUPT_MESSAGE, "read", str(place))
        if any(offset in stretch for stretch in self.lost):
            found = super().fetch(place, offset, max_bytes, **more)
            return replace(found, records=b"")
        return super().fetch(place, offset, max_bytes, **more)


def _cluster(batches: Sequence[tuple[int, int]]) -> Damaged:
    """Of each batch, how many records it has, and how it is damaged."""
    log, unread, lost = Log(), [], []
    for count, how in batches:
        first = log.end
        log.append([Rec(offset=first + n) for n in range(count)])
        base, last, raw = log.batches[-1]
        if how == RECORDS:
            raw = damaged(raw)
        elif how == COUNTS:
            raw = raw[:23] + (2**30).to_bytes(4) + raw[27:57] + (2**30 + 1).to_bytes(4) + raw[61:]
        elif how == UNREAD:
            unread.append(range(base, last + 1))
        elif how == LOST:
            lost.append(range(base, last + 1))
        log.batches[-1] = base, last, raw
    return Damaged(log, unread, lost)


@given(
    st.lists(st.tuples(st.integers(1, 70), st.sampled_from(range(5))), max_size=6),
    st.lists(st.tuples(st.integers(1, 70), st.sampled_from(range(1, 5))), max_size=3),
    st.lists(st.tuples(st.integers(1, 70), st.sampled_from(range(5))), max_size=3),
)
def test_it_ends_with_the_first_batch_that_is_sound(
    before: list[tuple[int, int]], broken: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    """Wherever damage lies before and after, and whatever the damaged batches say of themselves."""
    after = [(5, GOOD), *after]
    cluster = _cluster([*before, *broken, *after])
    start = sum(count for count, _ in before)
    sound = start + sum(count for count, _ in broken)
    assert readable_from(cast(Cluster, cluster), SOURCE, start) == sound


def test_a_large_batch_takes_few_fetches() -> None:
    cluster = _cluster([(3, GOOD), (5000, RECORDS), (1, GOOD)])
    assert readable_from(cast(Cluster, cluster), SOURCE, 3) == 5003
    assert cluster.fetches < 40


def test_damage_at_the_end_ends_with_the_log() -> None:
    cluster = _cluster([(3, GOOD), (5, RECORDS)])
    assert readable_from(cast(Cluster, cluster), SOURCE, 3) == 8


@pytest.mark.parametrize(
    ("how", "position", "to", "lost"),
    [
        (RECORDS, 3, -1, Loss(3, 8, "damaged")),
        (GOOD, 3, -1, None),  # mended
        (GOOD, 3, 6, Loss(3, 6, "damaged")),  # the target refuses it
        (RECORDS, 2, -1, None),  # one more record is to be mirrored before
        (RECORDS, 8, -1, None),
    ],
)
def test_what_is_lost(how: int, position: int, to: int, lost: Loss | None) -> None:
    cluster = cast(Cluster, _cluster([(3, GOOD), (5, how), (4, GOOD)]))
    assert loss_by(Damage(3, "why", to), cluster, SOURCE, position) == lost
