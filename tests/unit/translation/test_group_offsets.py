"""Where a group goes on in the target partitions that what it reads feeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from causeway.cluster import EARLIEST, Committed
from causeway.control import GroupCommits, TranslatedOffset
from causeway.model import TopicPartition
from causeway.translation import (
    CourseKey,
    CourseOffsets,
    MappedOffset,
    OffsetNote,
    group_offsets,
    inexact,
    offsets_to_translate,
)

ORDERS, MORE = TopicPartition("orders", 0), TopicPartition("orders", 1)
BILLS = TopicPartition("bills", 0)
OWN, OTHER_OWN = TopicPartition("A.orders", 0), TopicPartition("A.orders", 1)
ROUTED = TopicPartition("A.paid", 0)

at = partial(MappedOffset, ROUTED)


def followed(**groups: Mapping[TopicPartition, int]) -> GroupCommits:
    return GroupCommits(
        commits={
            group: {at: Committed(offset=offset) for at, offset in commits.items()}
            for group, commits in groups.items()
        },
        left_out=(),
    )


def found(
    places: Mapping[tuple[TopicPartition, TopicPartition], Mapping[int, MappedOffset]],
    shared: Mapping[TopicPartition, Collection[TopicPartition]] | None = None,
) -> CourseOffsets:
    return CourseOffsets({CourseKey(*at): of for at, of in places.items()}, shared or {})


def test_what_one_partition_becomes_may_lie_in_several() -> None:
    places = {
        (ORDERS, OWN): {7: at(3)},
        (ORDERS, ROUTED): {7: at(12, mirrored=False)},
    }
    assert group_offsets(followed(g={ORDERS: 7}), found(places)) == {
        "g": {OWN: TranslatedOffset(7, 3), ROUTED: TranslatedOffset(7, 12, certain=False)}
    }


def test_where_several_feed_one_the_first_record_that_was_not_read_counts() -> None:
    shared = {ROUTED: {ORDERS, MORE}}
    places = {
        (ORDERS, ROUTED): {7: at(12)},
        (MORE, ROUTED): {5: at(9), 8: at(20)},
    }
    groups = followed(behind={ORDERS: 7, MORE: 5}, ahead={ORDERS: 7, MORE: 8})
    assert group_offsets(groups, found(places, shared)) == {
        "behind": {ROUTED: TranslatedOffset(5, 9, alone=False)},
        "ahead": {ROUTED: TranslatedOffset(7, 12, alone=False)},
    }


def test_nothing_is_said_while_one_of_them_is_not_known() -> None:
    shared = {ROUTED: {ORDERS, MORE}}
    groups = followed(g={ORDERS: 7, MORE: 5})
    places = {(ORDERS, ROUTED): {7: at(12)}, (ORDERS, OWN): {7: at(7)}}
    unknown = {(MORE, ROUTED): {5: at(None, OffsetNote.UNREACHABLE, "not now")}}
    assert group_offsets(groups, found({**places, **unknown}, shared)) == {
        "g": {OWN: TranslatedOffset(7, 7)}
    }
    assert group_offsets(groups, found(places, shared)) == {"g": {OWN: TranslatedOffset(7, 7)}}, (
        "begun meanwhile"
    )
    notes = inexact(groups, found({**places, **unknown}, shared))
    assert notes == {"g on orders-1": "not now"}


def test_a_group_has_read_nothing_of_a_partition_on_which_it_has_not_committed() -> None:
    """Of a topic that it reads; those that it does not read are none of its business."""
    shared = {ROUTED: {ORDERS, MORE, BILLS}}
    groups = followed(g={ORDERS: 7})
    assert offsets_to_translate(groups, shared) == {ORDERS: {7}, MORE: {EARLIEST}}
    places = {
        (ORDERS, ROUTED): {7: at(12)},
        (MORE, ROUTED): {EARLIEST: at(4)},
    }
    assert group_offsets(groups, found(places, shared)) == {
        "g": {ROUTED: TranslatedOffset(0, 4, alone=False)}
    }


def test_a_place_that_may_be_too_early_is_not_certain() -> None:
    shared = {ROUTED: {ORDERS, MORE}}
    places = {
        (ORDERS, ROUTED): {7: at(12)},
        (MORE, ROUTED): {5: at(20, OffsetNote.NOT_YET, "being looked up")},
    }
    answer = group_offsets(followed(g={ORDERS: 7, MORE: 5}), found(places, shared))
    assert answer == {"g": {ROUTED: TranslatedOffset(7, 12, certain=False, alone=False)}}


SOURCES = [ORDERS, MORE, BILLS]
_places = st.builds(
    MappedOffset,
    st.just(ROUTED),
    st.sampled_from([None, *range(30)]),
    st.sampled_from([None, OffsetNote.GAP, OffsetNote.NOT_YET]),
    st.sampled_from([None, "a note"]),
    st.booleans(),
)
_courses = st.dictionaries(
    st.tuples(st.sampled_from(SOURCES), st.sampled_from([OWN, OTHER_OWN, ROUTED])),
    st.fixed_dictionaries({5: _places, 7: _places}, optional={EARLIEST: _places}),
    min_size=3,
)
_groups = st.dictionaries(
    st.sampled_from("gh"), st.dictionaries(st.sampled_from(SOURCES), st.sampled_from([5, 7]))
)


@given(_courses, _groups)
def test_each_target_partition_gets_the_least_place_of_the_topics_that_a_group_reads(
    courses: dict[tuple[TopicPartition, TopicPartition], dict[int, MappedOffset]],
    groups: dict[str, dict[TopicPartition, int]],
) -> None:
    feeding: dict[TopicPartition, set[TopicPartition]] = {}
    for source, target in courses:
        feeding.setdefault(target, set()).add(source)
    shared = {target: sources for target, sources in feeding.items() if len(sources) > 1}
    commits, places = followed(**groups), found(courses, shared)

    translated, notes = group_offsets(commits, places), inexact(commits, places)

    wanted_notes = {}
    for group, own in groups.items():
        topics = {at.topic for at in own}
        wanted = {}
        for target, sources in feeding.items():
            if not sources & own.keys():
                continue
            offsets = {s: own.get(s, EARLIEST) for s in sources if s in own or s.topic in topics}
            known = {s: courses[s, target].get(offset) for s, offset in offsets.items()}
            placed = {s: p for s, p in known.items() if p is not None and p.offset is not None}
            if len(placed) < len(known):
                continue
            first = min(sorted(placed), key=lambda s: placed[s].offset or 0)
            wanted[target] = TranslatedOffset(
                max(0, offsets[first]),
                placed[first].offset or 0,
                certain=all(p.exact and p.mirrored for p in placed.values()),
                alone=len(placed) == 1,
            )
        assert translated[group] == wanted
        for (source, _), of in courses.items():
            if source in own and (place := of.get(own[source])) is not None and place.note:
                wanted_notes[f"{group} on {source}"] = place.note
    assert notes == wanted_notes
