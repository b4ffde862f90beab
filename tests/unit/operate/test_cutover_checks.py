"""What a cutover says before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from causeway.config import LinkSettings
from causeway.control import TopicPlan
from causeway.control.topics import plan
from causeway.filters import compile_patterns
from causeway.operate.cutover import CheckMark, Wishes, checks
from tests.builders.cluster import StubCluster
from tests.builders.records import TOPIC
from tests.builders.settings import BACK, LINK, filtered_link
from tests.builders.topics import observed

NOTHING = TopicPlan(mirrored=(), left_out=(), changes=(), problems=())
WISHES = Wishes()
TOPICS = {"orders": 3, "new": 1, "bills": 1}
FEWER = observed(TOPICS, {"A.orders": 2, "A.bills": 1})
GB = 10**9


def checked(
    link: LinkSettings,
    planned: TopicPlan = NOTHING,
    names: Collection[str] = (),
    *,
    of: str,
    target: StubCluster | None = None,
    wishes: Wishes = WISHES,
    reverse: LinkSettings | None = None,
) -> list[tuple[CheckMark, str]]:
    """The checks named `of`."""
    source, target = StubCluster("A"), target or StubCluster("B")
    link = replace(link, sync_topic_configs_enabled=False)
    found = checks.checks(link, source, target, planned, names, wishes, (), reverse)
    return [(each.mark, each.text) for each in found if each.name == of]


def test_while_the_file_pauses_a_link_no_mirror_is_made_or_grows() -> None:
    paused = filtered_link(records_paused=True)
    planned = plan(FEWER, paused, {})
    *bad, _ = checked(paused, planned, TOPICS, of="topics")
    assert bad == [
        (
            CheckMark.BAD,
            "new: it has no mirror yet; none is made, paused by the file: its key",
        ),
        (
            CheckMark.BAD,
            "orders: its mirror has 2 of 3 partitions; none is added, paused by the file: its key",
        ),
    ]
    *bad, _ = checked(filtered_link(), planned, TOPICS, of="topics")
    assert bad == [(CheckMark.BAD, "new: it has no mirror yet")]


def test_a_way_back_that_leaves_a_topic_out_is_reported() -> None:
    planned = replace(NOTHING, mirrored=(replace(TOPIC, target="orders"),))

    def found(reverse: LinkSettings) -> list[tuple[CheckMark, str]]:
        wishes = replace(WISHES, back=True)
        return checked(LINK, planned, ["orders"], of="reverse link", wishes=wishes, reverse=reverse)

    assert found(BACK) == []
    narrow = replace(BACK, topics=compile_patterns("bills"))
    for reverse in (narrow, replace(narrow, way_back=True)):
        ((mark, text),) = found(reverse)
        assert mark is CheckMark.BAD
        assert text.startswith("orders: B->A does not mirror it")
    assert found(replace(BACK, way_back=True)) == []


def disk_checks(brokers: Mapping[int, tuple[int, int] | None]) -> list[tuple[CheckMark, str]]:
    target = StubCluster("B")
    target.disks = brokers
    return checked(LINK, of="disk", target=target)


def test_a_disk_that_others_have_filled_is_full() -> None:
    """Of 100 GB, 4 are left; only one is Kafka's."""
    assert disk_checks({1: (100 * GB, 4 * GB), 2: (100 * GB, 60 * GB)}) == [
        (CheckMark.BAD, "broker 1 of B has 4.0 GB of 100.0 GB left on the disk of /data"),
        (CheckMark.GOOD, "at least 4% of each disk free on B, 4.0 GB"),
    ]


@pytest.mark.parametrize("unknown", [None, (-1, -1)])
def test_brokers_that_do_not_report_disk_sizes_are_noted(unknown: tuple[int, int] | None) -> None:
    rest = "does not show the size and the use of its disks: Kafka does since 3.3"
    assert disk_checks({1: unknown}) == [(CheckMark.NOTE, f"B {rest}")]
    assert disk_checks({1: unknown, 2: (100 * GB, 60 * GB)}) == [
        (CheckMark.NOTE, f"broker 1 of B {rest}"),
        (CheckMark.GOOD, "at least 60% of each disk free on B, 60.0 GB"),
    ]
