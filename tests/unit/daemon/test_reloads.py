"""Which partitions a change of a link's settings concerns, and what new parts go on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from causeway.config import LinkSettings, TransformSettings
from causeway.control import Transforms
from causeway.daemon.partitions import Wish
from causeway.daemon.partitions.claiming import Claimer
from causeway.daemon.partitions.reloads import compared
from causeway.daemon.tasks.schedule import FILE, ScheduledTask, Tasks
from causeway.filters import compile_patterns
from causeway.link_topics import TaskRecord
from causeway.model import TopicPartition
from tests.builders.settings import LINK, link

TOPICS = ("orders", "customers")


def transforms_of(
    settings: LinkSettings, before: Transforms | None = None, generation: int = 0
) -> Transforms:
    return Transforms(settings, {}, lambda each, _: f"{each.rules}{'0' * 64}", before, generation)


def concerned(before: LinkSettings, now: LinkSettings) -> list[str]:
    known = transforms_of(before)
    other = compared((before, known), (now, transforms_of(now, known, 1)))
    return [topic for topic in TOPICS if other(topic)]


def mask(topics: str = "orders", **more: Any) -> TransformSettings:
    fields = {"name": "pii", "topics": compile_patterns(topics), "rules": "mask value.$.a"}
    return TransformSettings(**{**fields, **more})


def with_mask(**more: Any) -> LinkSettings:
    return replace(LINK, transforms=(mask(**more),))


@pytest.mark.parametrize(
    ("before", "now", "topics"),
    [
        (LINK, LINK, []),
        (LINK, link(topics_exclude="orders"), ["orders"]),
        (LINK, replace(LINK, throttle_bytes_per_s=7, refresh_topics_interval_s=1.0), []),
        (LINK, replace(LINK, fetch=replace(LINK.fetch, start="latest")), []),
        (LINK, replace(LINK, fetch=replace(LINK.fetch, max_wait_ms=7)), [*TOPICS]),
        (LINK, replace(LINK, offsets="preserve"), [*TOPICS]),
        (LINK, replace(LINK, preserve_topics=compile_patterns("orders")), ["orders"]),
        (LINK, replace(LINK, offset_gaps="markers"), []),
        (LINK, replace(LINK, sole_writer=False), [*TOPICS]),
        (LINK, with_mask(), ["orders"]),
        (with_mask(), with_mask(place="line 7"), []),
        (with_mask(), with_mask(topics=".*"), ["customers"]),
        (with_mask(), with_mask(rules="hash value.$.a"), ["orders"]),
        (with_mask(), with_mask(dead_letters="dead"), ["orders"]),
    ],
)
def test_only_partitions_whose_lanes_would_work_otherwise_are_concerned(
    before: LinkSettings, now: LinkSettings, topics: list[str]
) -> None:
    assert concerned(before, now) == topics


def test_a_transform_that_comes_back_gets_no_earlier_stage() -> None:
    """A lane may still have the stage with the secrets of then."""
    first = transforms_of(with_mask())
    second = transforms_of(with_mask(dead_letters="dead"), first, 1)
    third = transforms_of(with_mask(), second, 2)
    assert len({each.all[0].key for each in (first, second, third)}) == 3
    assert len({each.all[0].identity for each in (first, second, third)}) == 1


def claimer(first: Mapping[str, int] | None, wish: Wish) -> Claimer:
    none = cast(Any, None)
    found = Claimer(none, LINK, wish, none, none)
    found._first = first
    return found


def test_topics_that_a_reload_chooses_begin_as_at_a_start() -> None:
    """Of a topic that was chosen, partitions that came later begin with their first record; the
    options of the command line are for topics of the first file."""
    now = claimer(None, Wish(adopt=True))
    now.follow(claimer({"old": 1, "new": 1}, Wish(adopt=True)), {"old", "later"}.__contains__)
    assert now._at_first({"old": 3, "new": 3, "later": 2}) == {"old": 1, "new": 3, "later": 0}
    assert now.wish_of(TopicPartition("old", 0)).adopt
    assert not now.wish_of(TopicPartition("new", 0)).adopt


def test_the_options_of_the_command_line_are_not_for_topics_of_a_reload_before_the_first_look() -> (
    None
):
    now = claimer(None, Wish(adopt=True))
    now.follow(claimer(None, Wish(adopt=True)), {"old"}.__contains__)
    later = claimer(None, Wish(adopt=True))
    later.follow(now, {"old", "new"}.__contains__)
    for each in (now, later):
        assert each._at_first({"old": 3, "new": 3}) == {"old": 3, "new": 3}
        assert each.wish_of(TopicPartition("old", 0)).adopt
        assert not each.wish_of(TopicPartition("new", 0)).adopt


def test_what_is_wrong_with_the_file_is_recorded_with_the_tasks() -> None:
    tasks = Tasks("A->B", [ScheduledTask("one", 1.0, lambda: None)])
    tasks.note_file(None)
    assert tasks.take_dirty() == []
    tasks.note_file("no such key")
    tasks.note_file("no such key")
    (record,) = tasks.take_dirty()
    assert (record.name, record.reason) == (FILE, "no such key")
    after = Tasks("A->B", [ScheduledTask("two", 1.0, lambda: None)])
    after.follow(tasks)
    assert {each.name for each in after.status()} == {"two", FILE}
    after.note_file(None)
    assert [each.reason for each in after.take_dirty()] == [None]

    successor = Tasks("A->B", [])
    successor.note_file(None, TaskRecord(name=FILE, reason="of a driver that has ended"))
    assert [each.reason for each in successor.take_dirty()] == [None]
