"""Groups that would skip records after a move, by the offset map alone."""

from __future__ import annotations

import pytest

from causeway.cluster import Committed
from causeway.errors import AuthorizationError
from causeway.link_topics import OffsetMapRecord, ProgressContents
from causeway.model import Pair, TopicPartition
from causeway.operate.ahead import Ahead, of_all
from tests.builders.daemon import MIRROR, row

ORDERS = TopicPartition("orders", 0)
STRAIGHT = Pair(0, 0, 0), Pair(1_000, 1_000, 1_000)
# 100 records, the marker of a transaction, 100 records that others wrote, 100 records.
MIXED = (Pair(0, 0, 0), Pair(101, 100, 100), Pair(101, 200, 100), Pair(201, 300, 200))
# 11 source offsets without records, and the map does not say where.
GAPS = Pair(0, 0, 0), Pair(600, 589, 589)
LATER = Pair(100, 0, 0), Pair(200, 100, 100)


def contents(*points: Pair) -> ProgressContents:
    """A mirror that has come from the first of these points to the last."""
    known = row().progress
    (outlet,) = known.outlets
    progress = known.replace(position=points[-1].source, outlets=(outlet.replace(pair=points[-1]),))
    record = OffsetMapRecord(
        topic="orders", partition=0, producer_id=outlet.producer_id, points=points
    )
    return ProgressContents(partitions={ORDERS: progress}, maps={ORDERS: {None: record}})


def at(where: TopicPartition, offset: int) -> dict[TopicPartition, Committed]:
    return {where: Committed(offset=offset)}


@pytest.mark.parametrize(
    ("points", "source", "target", "skipped"),
    [
        (STRAIGHT, 200, 1_000, 800),
        (STRAIGHT, 200, 200, 0),
        (STRAIGHT, 200, 150, 0),
        (MIXED, 100, 100, 0),  # what follows is the marker, which is not mirrored
        (MIXED, 101, 180, 0),  # it has read what others wrote, before its place
        (MIXED, 50, 150, 50),  # likewise, beyond that
        (MIXED, 101, 240, 40),
        (MIXED, 20, 100, 80),
        (MIXED, 500, 300, 0),  # further on than the mirror
        (GAPS, 30, 60, 30),  # 41 by the logs
        (GAPS, 30, 30, 0),
        (GAPS, 100, 589, 489),
        (LATER, 20, 30, 30),  # it has read nothing of the mirror, which began later
        (LATER, 120, 30, 10),
    ],
)
def test_what_lies_between_both_places_would_be_skipped(
    points: tuple[Pair, ...], source: int, target: int, skipped: int
) -> None:
    known = Ahead(contents(*points), [ORDERS])
    assert known.records(at(ORDERS, source), at(MIRROR, target)) == skipped


def test_what_is_not_known_is_not_ahead_nor_is_what_has_ended() -> None:
    one, other = at(ORDERS, 200), at(MIRROR, 900)
    found = contents(*STRAIGHT)
    assert of_all(found, {"app": one}, {"app": other}) == {"app": 700}
    assert of_all(found, {"app": one}, {"app": other}, {ORDERS}) == {}
    error = AuthorizationError("read", "group app")
    assert of_all(found, {"app": one}, {"app": error}) == {}
    assert of_all(found, {"app": error}, {"app": other}) == {}
    assert of_all(ProgressContents(), {"app": one}, {"app": other}) == {}
    assert of_all(found, {"app": {}}, {"app": other}) == {}


def test_where_offsets_are_preserved_the_offsets_show_what_a_group_would_skip() -> None:
    known = contents(Pair(80, 80, 3))
    known.partitions[ORDERS] = known.partitions[ORDERS].replace(offsets_from=50)

    found = Ahead(known, [ORDERS])

    assert found.records(at(ORDERS, 60), at(MIRROR, 72)) == 12
    assert found.records(at(ORDERS, 72), at(MIRROR, 60)) == 0
