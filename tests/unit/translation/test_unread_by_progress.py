"""Records that groups have not read, by the progress topic alone."""

from __future__ import annotations

from typing import Any, cast

from causeway.cluster import Committed
from causeway.control import TranslatedOffset
from causeway.link_topics import OffsetMapRecord, PartitionProgress
from causeway.model import Pair, State
from causeway.translation import UnreadRecords
from tests.builders.unread import AT, LOCAL, OURS, READ, SHARED, SOURCE, Target, others, outlet

__all__ = ["others"]  # a fixture that each test has


def progress(**changes: Any) -> PartitionProgress:
    return PartitionProgress(
        topic=SOURCE.topic,
        partition=0,
        topic_id="",
        leader_epoch=0,
        position=10,
        outlets=(outlet(pair=Pair(10, 12, 10), **changes),),
        state=State.RUNNING,
    )


def test_a_place_is_bounded_by_the_first_unread_record() -> None:
    target = Target()
    for producer_id, count in ((OURS, 5), (LOCAL, 2), (OURS, 5)):
        target.append(producer_id, count)
    found = UnreadRecords(cast(Any, target), SHARED)
    places = {"g": {AT: TranslatedOffset(10, 12)}}

    def bounds(known: PartitionProgress, maps: Any, there: Any) -> dict[str, int]:
        unread = found.look_by_progress([known], maps, places, there, READ, wait_s=0)
        return {group: held[AT].offset for group, held in unread.items() if held}

    assert bounds(progress(), {}, {}) == {"g": 5}
    assert bounds(progress(), {}, {"g": {AT: Committed(offset=7)}}) == {}
    assert bounds(progress(exclusive=True), {}, {}) == {}, "nobody else writes there"
    points = (Pair(0, 0, 0), Pair(5, 5, 5), Pair(5, 7, 5), Pair(10, 12, 10))
    record = OffsetMapRecord(topic="t", partition=0, producer_id=OURS, points=points)
    assert bounds(progress(), {SOURCE: {None: record}}, {}) == {"g": 5}
