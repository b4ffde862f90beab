"""What a cutover says before anything is changed."""

from __future__ import annotations

from dataclasses import replace

from causeway.control.topics import plan
from causeway.filters import compile_patterns
from causeway.operate.cutover import checks
from causeway.operate.cutover.values import Mark
from tests.unit.control.test_topics import link, observed
from tests.unit.daemon.test_claims import LINK, TOPIC
from tests.unit.operate.test_failback import BACK


def test_while_the_file_pauses_a_link_no_mirror_is_made_or_grows() -> None:
    look = observed({"orders": 3, "new": 1, "bills": 1}, {"A.orders": 2, "A.bills": 1})
    paused = link(records_paused=True)
    planned = plan(look, paused, {})
    told = checks._topics(paused, planned, planned.mirrored, ["orders", "new", "bills"])
    bad = [each.text for each in told if each.mark is Mark.BAD]
    assert bad == [
        "new: it has no mirror yet; none is made, paused by the file: its key",
        "orders: its mirror has 2 of 3 partitions; none is added, paused by the file: its key",
    ]
    running = link()
    told = checks._topics(running, planned, planned.mirrored, ["orders", "new", "bills"])
    assert [each.text for each in told if each.mark is Mark.BAD] == ["new: it has no mirror yet"]


def test_a_way_back_that_leaves_a_topic_out_is_told() -> None:
    mirrored = [replace(TOPIC, target="orders")]
    assert list(checks._way_back(LINK, BACK, mirrored)) == []
    narrow = replace(BACK, topics=compile_patterns("bills"))
    for reverse in (narrow, replace(narrow, way_back=True)):
        (found,) = checks._way_back(LINK, reverse, mirrored)
        assert (found.mark, found.name) == (Mark.BAD, "way back")
        assert found.text.startswith("orders: B->A does not mirror it")
    assert list(checks._way_back(LINK, replace(BACK, way_back=True), mirrored)) == []
