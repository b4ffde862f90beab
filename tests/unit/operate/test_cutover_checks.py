"""What a cutover says before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.control.topics import plan
from causeway.filters import compile_patterns
from causeway.operate.cutover import CheckMark, checks
from tests.builders.records import TOPIC
from tests.builders.settings import BACK, LINK, filtered_link
from tests.builders.topics import observed


def test_while_the_file_pauses_a_link_no_mirror_is_made_or_grows() -> None:
    look = observed({"orders": 3, "new": 1, "bills": 1}, {"A.orders": 2, "A.bills": 1})
    paused = filtered_link(records_paused=True)
    planned = plan(look, paused, {})
    on_look = checks._topics(paused, planned, planned.mirrored, ["orders", "new", "bills"])
    bad = [each.text for each in on_look if each.mark is CheckMark.BAD]
    assert bad == [
        "new: it has no mirror yet; none is made, paused by the file: its key",
        "orders: its mirror has 2 of 3 partitions; none is added, paused by the file: its key",
    ]
    running = filtered_link()
    on_look = checks._topics(running, planned, planned.mirrored, ["orders", "new", "bills"])
    assert [each.text for each in on_look if each.mark is CheckMark.BAD] == [
        "new: it has no mirror yet"
    ]


def test_a_way_back_that_leaves_a_topic_out_is_told() -> None:
    mirrored = [replace(TOPIC, target="orders")]
    assert list(checks._way_back(LINK, BACK, mirrored)) == []
    narrow = replace(BACK, topics=compile_patterns("bills"))
    for reverse in (narrow, replace(narrow, way_back=True)):
        (found,) = checks._way_back(LINK, reverse, mirrored)
        assert (found.mark, found.name) == (CheckMark.BAD, "reverse link")
        assert found.text.startswith("orders: B->A does not mirror it")
    assert list(checks._way_back(LINK, replace(BACK, way_back=True), mirrored)) == []


GB = 10**9


class Target:
    """Brokers whose disks have (total, usable) bytes, and logs of a gigabyte; None: the broker is
    older than Kafka 3.3."""

    def __init__(self, brokers: Mapping[int, tuple[int, int] | None]) -> None:
        self._brokers = brokers

    def __str__(self) -> str:
        return "B"

    def metadata(self, _: object) -> Any:
        return SimpleNamespace(brokers=self._brokers)

    def call(self, _: object, node: int) -> Any:
        log = SimpleNamespace(partition_size=GB)
        on_look = {
            "error_code": 0,
            "log_dir": "/data",
            "topics": [SimpleNamespace(partitions=[log])],
        }
        if (disk := self._brokers[node]) is not None:
            on_look |= {"total_bytes": disk[0], "usable_bytes": disk[1]}
        return SimpleNamespace(error_code=0, results=[SimpleNamespace(**on_look)])


def disk_checks(brokers: Mapping[int, tuple[int, int] | None]) -> list[tuple[CheckMark, str]]:
    found = list(checks._disks(cast(Any, Target(brokers))))
    return [(each.mark, each.text) for each in found]


def test_a_disk_that_others_have_filled_is_full() -> None:
    """Of 100 GB, 4 are left; only one is Kafka's."""
    assert disk_checks({1: (100 * GB, 4 * GB), 2: (100 * GB, 60 * GB)}) == [
        (CheckMark.BAD, "broker 1 of B has 4.0 GB of 100.0 GB left on the disk of /data"),
        (CheckMark.GOOD, "at least 4% of each disk free on B, 4.0 GB"),
    ]


@pytest.mark.parametrize("unknown", [None, (-1, -1)])
def test_brokers_that_do_not_tell_are_said_to(unknown: tuple[int, int] | None) -> None:
    rest = "does not tell how large its disks are and how full: Kafka does since 3.3"
    assert disk_checks({1: unknown}) == [(CheckMark.NOTE, f"B {rest}")]
    assert disk_checks({1: unknown, 2: (100 * GB, 60 * GB)}) == [
        (CheckMark.NOTE, f"broker 1 of B {rest}"),
        (CheckMark.GOOD, "at least 60% of each disk free on B, 60.0 GB"),
    ]
