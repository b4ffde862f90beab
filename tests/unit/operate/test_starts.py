"""Where a run would begin, and what only a run can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from causeway.cluster import EARLIEST, OffsetAt
from causeway.config import ReverseFlow
from causeway.daemon import Sides
from causeway.link_topics import ProgressContents, TaskRecord
from causeway.model import TopicPartition
from causeway.operate.plan import How, starts
from tests.builders import records, settings

TOPIC = replace(records.TOPIC, partitions=1)
IDS = "__transaction_state"


@dataclass
class Cluster:
    """Each log has 70 records; `knows` our transactional id."""

    knows: bool | None

    def list_offsets(
        self, places: Sequence[TopicPartition], timestamp: int, *, read_committed: bool
    ) -> dict[TopicPartition, OffsetAt]:
        offset = 0 if timestamp == EARLIEST else 70
        return {at: OffsetAt(offset=offset, timestamp=-1, leader_epoch=-1) for at in places}

    def knows_transactional_id(self, name: str) -> bool | None:
        assert name == "causeway.A.B"
        return self.knows


@pytest.mark.parametrize(
    ("knows", "topics", "how", "doubt"),
    [
        (True, (IDS,), How.STOP, False),
        (False, (IDS,), How.BEGIN, False),
        (None, (IDS,), How.BEGIN, True),
        (False, (), How.BEGIN, True),  # hidden from us, perhaps
    ],
)
def test_a_shared_target_whose_progress_was_lost_is_not_promised_from_the_first_record(
    knows: bool | None, topics: Sequence[str], how: How, doubt: bool
) -> None:
    quiet = replace(settings.LINK.control, mm2_offsets=False)
    link = settings.link(sole_writer=False, control=quiet)
    cluster = cast(Any, Cluster(knows))
    sides = Sides(source=cluster, target=cluster, source_admin=cluster, target_admin=cluster)
    there = {TOPIC.target: 4, **dict.fromkeys(topics, 50)}

    found = starts.plan(sides, link, [TOPIC], ProgressContents(), there)

    (start,) = found.partitions
    assert start.how is how
    assert [problem.topic for problem in found.problems] == (
        [TOPIC.source] if how is How.STOP else []
    )
    assert ["A.orders" in note for note in found.notes] == ([True] if doubt else [])


def test_plan_says_where_groups_go_on_if_both_clusters_write_a_topic() -> None:
    none = settings.link()
    assert not list(starts.groups_both_ways(none, ProgressContents(), {}))
    link = replace(none, reverse=ReverseFlow(treatments=()))
    there = "__causeway.B.A.progress"
    (text, waits) = starts.groups_both_ways(link, ProgressContents(), {})
    assert "so groups read some records again" in text
    assert there in waits
    task = TaskRecord(name="groups", figures={"slow": 500, "app": 7})
    (text,) = starts.groups_both_ways(link, ProgressContents(tasks={"groups": task}), {there})
    assert "(group slow at most 500, no other group more)" in text
