"""What a lane looks up for the driver: in what its stage makes of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import Outlet
from causeway.model import Pair
from causeway.records import Batch, build, records_of
from causeway.relay import Assignment, LookedUp, Lookup
from causeway.relay.lane.helpers import AT_ONCE, Helpers, LookupQueue, look_for
from causeway.relay.messages import decode, encode
from tests.harness.raw_batches import Rec
from tests.harness.world import OURS, SOURCE_ID, TARGET, TARGET_ID, FakeCluster, Log


def outlet(partition: int) -> Outlet:
    return Outlet(
        topic=TARGET,
        partition=partition,
        topic_id=TARGET_ID,
        producer_id=OURS + partition,
        producer_epoch=0,
        pair=Pair(10, 20, 20),
        exclusive=False,
    )


ASSIGNMENT = Assignment(
    link="A->B",
    source="a",
    target="b",
    topic="t",
    partition=0,
    topic_id=SOURCE_ID,
    leader_epoch=-1,
    outlets=(outlet(0), outlet(1)),
    transform="twice",
)


def twice(_: Assignment, batches: Iterator[Batch]) -> Iterator[Sequence[Batch | None]]:
    """Each record of an odd offset becomes two, for the second outlet."""
    for batch in batches:
        odd = [
            (record, batch.source_offset(index))
            for index, record in enumerate(records_of(batch))
            if batch.source_offset(index) % 2
        ]
        offsets = [offset for _, offset in odd for _ in range(2)]
        records = [record for record, _ in odd for _ in range(2)]
        yield [
            None,
            build(
                records,
                codec=0,
                first=offsets[0],
                next=batch.next,
                leader_epoch=0,
                offsets=offsets,
            ),
        ]


def asks(producer_id: int = OURS + 1, patience_s: float = 60.0) -> Lookup:
    return Lookup(
        id=5,
        key=ASSIGNMENT.key,
        producer_id=producer_id,
        start=Pair(0, 0, 0),
        end=Pair(10, 10, 10),
        offsets=(0, 1, 2, 9),
        floor=0,
        patience_s=patience_s,
    )


def look(message: Lookup) -> Callable[[], dict[int, int]] | None:
    source, target = Log(), Log()
    source.append([Rec(offset=n, value=b"%d" % n) for n in range(10)])
    there = [Rec(offset=n, value=b"%d" % (n // 2 * 2 + 1)) for n in range(10)]
    target.append(there, producer_id=OURS + 1, epoch=0, sequence=0)
    return look_for(
        message,
        ASSIGNMENT,
        twice,
        cast(Cluster, FakeCluster("t", SOURCE_ID, {0: source}, compacted=False)),
        cast(Cluster, FakeCluster(TARGET, TARGET_ID, {0: Log(), 1: target}, compacted=False)),
    )


def test_places_are_counted_in_what_the_records_become() -> None:
    found = look(asks())
    assert found is not None
    assert found() == {0: 0, 1: 0, 2: 2, 9: 8}


def test_an_outlet_of_another_claim_is_not_looked_at() -> None:
    assert look(asks(producer_id=7)) is None


def test_a_lookup_whose_caller_has_gone_is_dropped() -> None:
    late = look(asks(patience_s=0.0))
    assert late is not None
    with pytest.raises(CausewayError, match="the answer is no longer needed"):
        late()


class HandCranked:
    """Helpers whose work is done when the test says so."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None], *, staged: bool) -> None:
        self.submitted.append((work, then))

    def finish_first(self) -> None:
        work, then = self.submitted.pop(0)
        try:
            answer = work()
        except CausewayError as error:
            answer = error
        then(answer)


def test_look_ups_leave_helpers_to_those_who_recover() -> None:
    helpers = HandCranked()
    sent: list[LookedUp] = []
    lookups = LookupQueue(cast(Helpers, helpers), sent.append)

    def fails() -> dict[int, int]:
        raise CausewayError("transform", "twice", "its stage starts", retriable=True)

    lookups.refuse(9)
    lookups.add(1, lambda: {3: 4})
    lookups.add(2, fails)
    lookups.add(3, lambda: {})
    assert len(helpers.submitted) == AT_ONCE
    for _ in range(3):
        helpers.finish_first()
    assert [(each.id, each.places) for each in sent] == [(9, ()), (1, ((3, 4),)), (2, ()), (3, ())]
    assert [each.reason is None for each in sent] == [False, True, False, True]
    assert "its stage starts" in (sent[2].reason or "")


def test_the_reason_of_a_failed_lookup_is_reported_also_if_it_is_no_utf8() -> None:
    """Or the answer could not be written, and its lane would end."""
    helpers = HandCranked()
    sent: list[LookedUp] = []
    lookups = LookupQueue(cast(Helpers, helpers), sent.append)

    def fails() -> dict[int, int]:
        raise CausewayError("transform", "t", b"header \xff".decode(errors="surrogateescape"))

    lookups.add(1, fails)
    helpers.finish_first()
    answer = decode(encode(sent[0]))
    assert isinstance(answer, LookedUp)
    assert "header \\udcff" in (answer.reason or "")
