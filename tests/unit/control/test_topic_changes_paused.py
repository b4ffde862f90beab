"""While the file pauses a link, its topics stay as they are."""

from __future__ import annotations

from causeway.control import CreateTopic, GrowTopic
from causeway.control.topic_changes import PAUSED, without_changes_if_paused
from causeway.control.topics import plan
from tests.builders.settings import filtered_link
from tests.builders.topics import observed


def test_no_topic_is_made_nor_grows() -> None:
    """Those that are there are mirrored as far as they go: their lag is measured."""
    look = observed({"orders": 3, "new": 1}, {"A.orders": 2})
    running, paused = filtered_link(), filtered_link(records_paused=True)
    planned = plan(look, running, {})
    assert {type(each) for each in planned.changes} >= {CreateTopic, GrowTopic}
    assert without_changes_if_paused(planned, running) is planned

    found = without_changes_if_paused(plan(look, paused, {}), paused)
    assert found.changes == ()
    (orders,) = found.mirrored
    assert (orders.source, orders.partitions, orders.target_partitions) == ("orders", 2, 2)
    (left,) = (each for each in found.left_out if each.code == PAUSED)
    assert left.topic == "new"
    assert left.reason.startswith("paused by the file")
