"""Records on the target that a group has not read, before its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from causeway.cluster import Committed
from causeway.config import LinkSettings, ReverseFlow
from causeway.control import UnreadRecord
from causeway.link_topics import OtherFeed, Outlet
from causeway.model import TopicPartition
from causeway.translation import Course, CourseKey, UnreadRecords
from causeway.translation.unread import UnreadRange
from tests.builders.unread import (
    ALSO,
    AT,
    LOCAL,
    MORE,
    OURS,
    READ,
    SHARED,
    SOURCE,
    THEIRS,
    Target,
    fed,
    others,
    outlet,
)
from tests.harness.raw_batches import COMMIT, marker

__all__ = ["others"]  # a fixture that each test has


def alone(_: CourseKey, offset: int) -> int:
    """Nothing is known of the offsets."""
    return offset


def records(
    target: Target, *feeding: Course, straight: Any = alone, link: LinkSettings = SHARED
) -> UnreadRecords:
    known = feeding or (fed(SOURCE, outlet()),)
    found = UnreadRecords(cast(Any, target), link)
    assert not found.take(known, straight)
    return found


def look(
    found: UnreadRecords, start: int, place: int, commits: Any = READ
) -> Mapping[TopicPartition, UnreadRecord]:
    return found.look({"g": {AT: UnreadRange(start, place)}}, commits).get("g", {})


def test_a_group_has_read_on_the_source_all_that_a_reverse_link_brought_there() -> None:
    """Programs wrote 5 records on the target, which came to the source before a failback, and then
    two more. With a second source, nothing is known of its groups."""
    target = Target()
    target.append(OURS, 10)
    target.append(LOCAL, 5)
    course = fed(SOURCE, outlet())

    def looked(place: int, brought_to: int, *feeding: Course) -> int | None:
        found = UnreadRecords(cast(Any, target), SHARED, lambda _: brought_to)
        found.take(feeding, alone)
        held = look(found, 0, place).get(AT)
        return None if held is None else held.offset

    assert looked(15, 0, course) == 10
    assert looked(15, 15, course) is None
    assert looked(12, 15, course) is None, "a group before the beginning of the mirror"
    target.append(LOCAL, 2)
    target.append(OURS, 1)
    assert looked(18, 15, course) == 15
    assert looked(15, 15, course, fed(MORE, outlet(ALSO))) == 10


def test_what_others_wrote_holds_a_group_back_until_it_has_read_it() -> None:
    target = Target()
    for producer_id, count in ((OURS, 5), (LOCAL, 2), (OURS, 5)):
        target.append(producer_id, count)
    found = records(target)
    held = UnreadRecord(5, "a record that did not come from A")
    assert look(found, 0, 12) == {AT: held}
    reads = target.reads
    assert look(found, 5, 12) == {AT: held}
    assert target.reads == reads, "what held it back is known"
    assert look(found, 6, 12) == {AT: held._replace(offset=6)}, "it has read one of two"
    assert look(found, 7, 12) == {}
    assert look(found, 0, 5) == {}, "its place lies before them"
    assert not found.unfinished


def test_ends_of_transactions_are_no_records() -> None:
    target = Target()
    target.append(OURS, 2)
    base = target.log.end
    target.log.batches.append((base, base, marker(COMMIT, base, LOCAL)))
    target.log.end += 1
    target.append(OURS, 2)
    assert look(records(target), 0, 5) == {}


@pytest.mark.parametrize("magic", [0, 1])
def test_a_small_message_of_an_old_format_is_a_record_of_others(magic: int) -> None:
    target = Target()
    target.append(OURS, 2)
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(target.log.end, 0, None, b"v")
    target.log.batches.append((target.log.end, target.log.end, bytes(builder.build())))
    target.log.end += 1
    target.append(OURS, 2)
    held = UnreadRecord(2, "a record that did not come from A")
    assert look(records(target), 0, 5) == {AT: held}


def test_another_link_s_records_are_read_up_to_the_group_s_checkpoint_there(
    others: dict[str, Any],
) -> None:
    target = Target()
    for producer_id, count in ((OURS, 3), (THEIRS, 4), (OURS, 3), (THEIRS, 4)):
        target.append(producer_id, count)
    theirs = OtherFeed(source="C", topic_id="c" * 32, outlet=outlet(THEIRS, earlier=(7,)))
    others["feeds"] = {AT: [theirs]}
    found = records(target)
    held = UnreadRecord(3, "a record from C that the group has not read there")
    assert look(found, 0, 14) == {AT: held}
    others["C"] = {("g", AT): 5}
    assert look(found, 0, 14) == {AT: held._replace(offset=5)}
    others["C"] = {("g", AT): 10, ("other", AT): 14}
    assert look(found, 0, 14) == {AT: held._replace(offset=10)}
    others["C"] = {("g", AT): 14}
    assert look(found, 0, 14) == {}
    assert others["asked"] == 1, "whose ids these are is known for a while"


def test_earlier_claims_and_copies_of_another_tool_are_the_mirror_s() -> None:
    target = Target()
    for producer_id, count in ((LOCAL, 5), (ALSO, 3), (OURS, 2)):
        target.append(producer_id, count)
    assert look(records(target, fed(SOURCE, outlet(earlier=(ALSO,)))), 5, 10) == {}
    taken = fed(SOURCE, outlet(earlier=(ALSO,), copied_to=5))
    assert look(records(target, taken), 0, 10) == {}
    assert look(records(target), 0, 10)[AT].offset == 0
    # Programs may have written among the copies.
    both_ways = replace(SHARED, reverse=ReverseFlow(treatments=()))
    assert look(records(target, taken, link=both_ways), 0, 10)[AT].offset == 0


def test_records_of_a_topic_on_which_it_has_committed_nothing_are_unread() -> None:
    """Where transforms lead several topics to one; of a topic that it reads, its place tells."""
    target = Target()
    for producer_id, count in ((OURS, 3), (ALSO, 2), (OURS, 3)):
        target.append(producer_id, count)
    both = fed(SOURCE, outlet()), fed(MORE, outlet(ALSO))
    held = look(records(target, *both), 0, 8)[AT]
    assert held == UnreadRecord(3, "a record of more, on which the group has committed nothing")
    reads_both = {"g": {SOURCE: Committed(offset=9), MORE: Committed(offset=9)}}
    assert look(records(target, *both), 0, 8, reads_both) == {}
    assert look(records(target, *both), 0, 8, None) == {}


def test_the_log_is_not_read_where_the_offset_map_tells() -> None:
    target = Target()
    for producer_id, count in ((OURS, 5), (LOCAL, 1), (OURS, 5)):
        target.append(producer_id, count)

    def straight(feed: CourseKey, offset: int) -> int:
        assert feed == CourseKey(SOURCE, AT)
        return 5 if offset < 5 else 11 if offset >= 6 else offset

    found = records(target, straight=straight)
    assert look(found, 0, 5) == {}
    assert look(found, 6, 11) == {}
    assert target.reads == 0
    assert look(found, 0, 11)[AT].offset == 5
    assert target.reads > 0


def test_a_log_that_cannot_be_read_holds_back_and_is_read_later() -> None:
    target = Target()
    target.append(OURS, 5)
    target.dark = True
    found = records(target)
    assert look(found, 2, 5)[AT].offset == 2
    assert found.unfinished
    target.dark = False
    assert look(found, 2, 5) == {}


def test_groups_at_different_offsets_share_one_read() -> None:
    target = Target()
    for producer_id, count in ((OURS, 5), (LOCAL, 1), (OURS, 5), (LOCAL, 1)):
        target.append(producer_id, count)
    stretches = {
        "a": {AT: UnreadRange(0, 12)},
        "b": {AT: UnreadRange(6, 12)},
        "c": {AT: UnreadRange(6, 11)},
        "d": {AT: UnreadRange(12, 12)},
    }
    commits = dict.fromkeys(stretches, READ["g"])
    found = records(target).look(stretches, commits)
    assert {group: held[AT].offset for group, held in found.items()} == {"a": 5, "b": 11}


def test_only_shared_target_partitions_are_looked_at() -> None:
    alone = fed(SOURCE, replace_exclusive(outlet()))
    assert records(Target(), alone).shared() == set()
    assert records(Target()).shared() == {AT}


def replace_exclusive(at: Outlet) -> Outlet:
    return at.replace(exclusive=True)


def test_a_partition_that_is_taken_up_again_just_now_gets_no_commit() -> None:
    """A restart lets go of it for the length of a look."""
    known = [fed(SOURCE, outlet())]
    found = UnreadRecords(cast(Any, Target()), SHARED)
    assert found.take(known, alone) == set()
    known.clear()
    assert found.take(known, alone) == {AT}
    known.append(fed(SOURCE, outlet()))
    assert found.take(known, alone) == set()
