"""What becomes of a partition: go on, begin, or stop with a reason that helps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from causeway.control import Copied, MirroredTopic, Transforms, UnconfirmedCopy
from causeway.daemon.partitions import assignment
from causeway.daemon.partitions.decisions import (
    Adopt,
    Begin,
    GoOn,
    Offsets,
    Stop,
    Wish,
)
from causeway.daemon.partitions.reloads import compared
from causeway.link_topics import PartitionProgress, decode_entry, encode_entry
from causeway.model import NO_TOPIC_ID, Pair, State
from causeway.relay import Compression
from tests.builders.decisions import claim, decide
from tests.builders.records import ADOPT, BEGUN, EMPTY, FROM, NO_WISH, TOPIC, progress
from tests.builders.settings import BY_KEY, LINK, link


def test_an_empty_target_begins() -> None:
    found = decide(TOPIC, 0, None, replace(EMPTY, start=7), LINK, NO_WISH)
    assert found == Begin(start=7, targets=(0,))


def test_progress_goes_on() -> None:
    known = progress()
    assert decide(TOPIC, 0, known, BEGUN, LINK, NO_WISH) == GoOn(progress=known)
    # Also with --from or --adopt, which speak of what has stopped; else a restart with the same
    # command would copy all of it again.
    assert decide(TOPIC, 0, known, BEGUN, LINK, FROM) == GoOn(progress=known)
    assert decide(TOPIC, 0, known, BEGUN, LINK, ADOPT) == GoOn(progress=known)


def test_a_target_with_data_and_no_progress_stops() -> None:
    found = decide(TOPIC, 0, None, BEGUN, LINK, NO_WISH)
    assert isinstance(found, Stop)
    assert "A.orders has data already" in found.reason
    assert "--from" in found.reason
    assert decide(TOPIC, 0, None, BEGUN, LINK, FROM) == Begin(start=0, targets=(0,))
    assert decide(TOPIC, 0, None, BEGUN, link(sole_writer=False), NO_WISH) == Begin(
        start=0, targets=(0,)
    )


def test_kept_names_and_data_of_which_nothing_is_known_stop_and_ask() -> None:
    """It may be a copy that another tool has made, and the name does not tell."""
    kept = link(sole_writer=False, stops_on_data=True)
    found = decide(TOPIC, 0, None, BEGUN, kept, NO_WISH)
    assert isinstance(found, Stop)
    for word in ("has data already", "--adopt", "--from", "causeway.sole.writer = false"):
        assert word in found.reason
    begins = Begin(start=0, targets=(0,))
    assert decide(TOPIC, 0, None, EMPTY, kept, NO_WISH) == begins
    assert decide(TOPIC, 0, None, BEGUN, kept, FROM) == begins
    assert isinstance(decide(TOPIC, 0, None, BEGUN, kept, ADOPT), Adopt)
    assert decide(TOPIC, 0, None, BEGUN, kept, NO_WISH, others=True) == begins
    assert isinstance(
        decide(TOPIC, 0, None, BEGUN, kept, NO_WISH, others=True, progress_lost=True), Stop
    )


def test_an_unsure_position_is_compared_with_the_records() -> None:
    """Also where the source has no more than that: it may be about another target."""
    adopted = decide(TOPIC, 0, None, BEGUN, LINK, NO_WISH, UnconfirmedCopy(499, False))
    assert isinstance(adopted, Adopt)
    assert (adopted.start, adopted.floor) == (None, None)
    sure = decide(TOPIC, 0, None, BEGUN, LINK, NO_WISH, Copied(499, False))
    assert sure == Begin(start=500, targets=(0,))


def test_a_claim_knows_the_claims_before_it() -> None:
    """Their records are no others' records."""
    first = claim(TOPIC, 0, Begin(start=0, targets=(0,)), BEGUN, {0: (5, 0)}, LINK, taken_over=True)
    (outlet,) = first.outlets
    assert (outlet.claimed_at, outlet.copied_to, outlet.earlier) == (70, 70, ())
    later = replace(BEGUN, target_ends={0: 90})
    again = claim(TOPIC, 0, Begin(start=9, targets=(0,)), later, {0: (6, 0)}, LINK, before=first)
    (outlet,) = again.outlets
    assert (outlet.claimed_at, outlet.copied_to, outlet.earlier) == (90, 70, (5,))
    assert decode_entry(*encode_entry(again, again.written_at)) == again
    other = replace(TOPIC, target_id="cc" * 16)
    anew = claim(other, 0, Begin(start=9, targets=(0,)), later, {0: (6, 0)}, LINK, before=first)
    assert (anew.outlets[0].copied_to, anew.outlets[0].earlier) == (0, ())


def test_a_claim_knows_which_records_another_transform_made() -> None:
    first = claim(TOPIC, 0, Begin(start=0, targets=(0,)), EMPTY, {0: (5, 0)}, LINK)
    assert first.outlets[0].differs_to == 0
    places = iter((BEGUN, replace(BEGUN, target_ends={0: 90})))
    begin, differs, before = Begin(start=9, targets=(0,)), [], first.replace(transform="ff")
    for offsets in places:
        before = claim(TOPIC, 0, begin, offsets, {0: (6, 0)}, LINK, before=before)
        differs.append(before.outlets[0].differs_to)
    assert differs == [70, 70], "the second claim is also without the transform"
    assert decode_entry(*encode_entry(before, before.written_at)) == before


def test_a_shared_target_begins_unless_its_progress_was_lost() -> None:
    """Others' data says nothing; that we have been here before does."""
    shared = link(sole_writer=False)
    first = decide(TOPIC, 0, None, BEGUN, shared, NO_WISH)
    assert first == Begin(start=0, targets=(0,))
    lost = decide(TOPIC, 0, None, BEGUN, shared, NO_WISH, progress_lost=True)
    assert isinstance(lost, Stop)
    assert "progress topic was lost" in lost.reason
    assert decide(TOPIC, 0, None, EMPTY, shared, NO_WISH, progress_lost=True) == first
    assert decide(TOPIC, 0, None, BEGUN, shared, FROM, progress_lost=True) == first
    adopted = decide(TOPIC, 0, None, BEGUN, shared, ADOPT, progress_lost=True)
    assert isinstance(adopted, Adopt)
    assert adopted.start is None


@pytest.mark.parametrize(
    ("known", "topic", "offsets", "words", "adopted_start"),
    [
        (progress(topic_id="cc" * 16), TOPIC, BEGUN, "recreated on the source", 3),
        (progress(), replace(TOPIC, target_id="dd" * 16), BEGUN, "recreated on the target", 100),
        (progress(), replace(TOPIC, target="sales"), BEGUN, "calls its mirror sales by now", 100),
        (
            progress(state=State.STOPPED, reason="30 records were deleted"),
            TOPIC,
            replace(BEGUN, log_start=130),
            "30 records were deleted",
            130,
        ),
        (progress(state=State.STOPPED, reason="odd"), TOPIC, BEGUN, "odd", 100),
    ],
)
def test_what_stops_stays_until_a_person_acts(
    known: PartitionProgress, topic: MirroredTopic, offsets: Offsets, words: str, adopted_start: int
) -> None:
    offsets = replace(offsets, log_start=offsets.log_start or 3, start=42)
    found = decide(topic, 0, known, offsets, LINK, NO_WISH)
    assert isinstance(found, Stop)
    assert words in found.reason
    adopted = decide(topic, 0, known, offsets, LINK, ADOPT)
    assert isinstance(adopted, Begin | Adopt)
    assert adopted.start == adopted_start
    assert decide(topic, 0, known, offsets, LINK, FROM) == Begin(start=42, targets=(0,))


@pytest.mark.parametrize(
    "offsets",
    [BEGUN, replace(BEGUN, end=400)],  # it has read a transaction that is open still
)
def test_without_progress_mirror_makers_book_counts(offsets: Offsets) -> None:
    """It may have copied more than that says: where there is more, only the records tell."""

    def decided(copied: int, wish: Wish = NO_WISH) -> Begin | Adopt | object:
        return decide(TOPIC, 0, None, offsets, LINK, wish, Copied(copied, ours=False))

    assert decided(499) == Begin(start=500, targets=(0,))
    found = decided(480)
    assert isinstance(found, Adopt)
    assert (found.start, found.floor) == (None, 481)
    trusted = decided(480, ADOPT)
    assert isinstance(trusted, Adopt)
    assert (trusted.start, trusted.floor) == (481, 481)
    assert decided(480, FROM) == Begin(start=offsets.start, targets=(0,))
    beyond = decided(500)
    assert isinstance(beyond, Stop)
    assert "truncated or recreated" in beyond.reason


def test_mirror_makers_book_does_not_count_where_the_target_is_empty() -> None:
    copied = Copied(499, ours=False)
    assert decide(TOPIC, 0, None, EMPTY, LINK, NO_WISH, copied) == Begin(start=0, targets=(0,))
    # Nor does it count once we have begun there: what it says is from before.
    outlets = (progress().outlets[0].replace(pair=Pair(0, 0, 0)),)
    begun = progress(position=0, outlets=outlets)
    assert decide(TOPIC, 0, begun, EMPTY, LINK, NO_WISH, copied) == GoOn(progress=begun)


def test_beside_progress_only_records_tell_what_mirror_maker_has_copied_since() -> None:
    """Its entry may be older than our claim, and the target may have grown by our own writes."""
    known = progress()
    for offset in (100, 499, 5_000):
        found = decide(TOPIC, 0, known, BEGUN, LINK, NO_WISH, Copied(offset, ours=False))
        assert isinstance(found, Adopt)
        assert (found.start, found.floor) == (None, known.position)
    for copied in (Copied(499, ours=True), Copied(99, ours=False)):
        assert decide(TOPIC, 0, known, BEGUN, LINK, NO_WISH, copied) == GoOn(progress=known)
    same = replace(BEGUN, target_ends={0: 60})
    assert decide(TOPIC, 0, known, same, LINK, NO_WISH, Copied(499, ours=False)) == GoOn(
        progress=known
    )


def test_to_adopt_a_truncated_source_is_to_go_on_at_its_end() -> None:
    known = progress(state=State.STOPPED, reason="truncated")
    found = decide(TOPIC, 0, known, replace(BEGUN, end=80), LINK, ADOPT)
    assert found == Adopt(start=80, target=0, reason="truncated")


def test_to_adopt_a_target_without_progress_is_to_look_for_its_last_records() -> None:
    found = decide(TOPIC, 0, None, BEGUN, LINK, ADOPT)
    assert isinstance(found, Adopt)
    assert (found.start, found.target) == (None, 0)


def test_a_source_deleted_past_the_position_is_the_lanes_to_judge() -> None:
    # The target may hold more than the last progress says; only recovery can tell.
    known = progress()
    offsets = replace(BEGUN, log_start=130)
    assert decide(TOPIC, 0, known, offsets, LINK, NO_WISH) == GoOn(progress=known)


def test_ids_that_a_cluster_has_given_its_topics_since_are_learnt() -> None:
    """Progress from before Kafka 2.8 knows none."""
    (outlet,) = progress().outlets
    unknown = progress(topic_id=NO_TOPIC_ID, outlets=(outlet.replace(topic_id=NO_TOPIC_ID),))
    assert decide(TOPIC, 0, unknown, BEGUN, LINK, NO_WISH) == GoOn(progress=progress())


def test_by_key_each_of_the_target_partitions_gets_a_claim() -> None:
    offsets = Offsets(log_start=0, end=500, high_watermark=500, start=0, target_ends={0: 5, 1: 9})
    two = replace(TOPIC, target_partitions=2, by_key=True)
    begin = decide(two, 3, None, offsets, BY_KEY, NO_WISH)
    assert begin == Begin(start=0, targets=(0, 1))
    assert isinstance(begin, Begin)
    made = claim(two, 3, begin, offsets, {0: (11, 0), 1: (12, 0)}, BY_KEY)
    assert [(o.partition, o.producer_id, o.pair, o.exclusive) for o in made.outlets] == [
        (0, 11, Pair(source=0, target=5, sequence=0), False),
        (1, 12, Pair(source=0, target=9, sequence=0), False),
    ]
    assert decide(TOPIC, 3, None, replace(EMPTY, target_ends={3: 0}), BY_KEY, NO_WISH) == Begin(
        start=0, targets=(3,)
    )


def test_an_assignment_has_what_a_lane_needs() -> None:
    made = assignment(TOPIC, progress(), LINK, "stage")
    assert made.key == ("A->B", "orders", 0)
    assert (made.topic_id, made.leader_epoch, made.transform) == (TOPIC.source_id, 2, "stage")
    assert made.outlets == progress().outlets
    assert made.max_message_bytes == 1_000_000


@pytest.mark.parametrize(
    ("keys", "recompress", "expected"),
    [
        ({}, "always", None),
        ({"compression_type": "none"}, "always", None),
        ({"compression_type": "producer"}, "always", None),
        ({"compression_type": "zstd"}, "never", None),
        ({"compression_type": "zstd"}, "uncompressed", Compression(codec=4, level=3)),
        (
            {"compression_type": "zstd", "zstd_level": 9, "lz4_level": 3},
            "always",
            Compression(codec=4, level=9, always=True),
        ),
        (
            {"compression_type": "lz4", "zstd_level": 9, "lz4_level": 3},
            "uncompressed",
            Compression(codec=3, level=3),
        ),
        ({"compression_type": "gzip"}, "uncompressed", Compression(codec=1, level=-1)),
        ({"compression_type": "snappy"}, "uncompressed", Compression(codec=2)),
    ],
)
def test_an_assignment_has_the_codec_of_the_target_s_writer(
    keys: dict[str, Any], recompress: Literal["always", "never"], expected: Compression | None
) -> None:
    one = replace(LINK, target=replace(LINK.target, **keys), recompress=recompress)
    assert assignment(TOPIC, progress(), one).compression == expected


def test_a_running_driver_assigns_partitions_again_if_their_codec_changes() -> None:
    def concerned(**keys: Any) -> bool:
        now = replace(LINK, target=replace(LINK.target, **keys))
        return compared((LINK, Transforms(LINK, {})), (now, Transforms(now, {})))("orders")

    assert not concerned()
    assert not concerned(lz4_level=3)
    assert not concerned(compression_type="producer")
    assert concerned(compression_type="zstd")


def test_what_stopped_for_another_name_goes_on_under_the_one_before() -> None:
    """So that a rule which was changed by mistake can be changed back."""
    found = decide(replace(TOPIC, target="sales"), 0, progress(), BEGUN, LINK, NO_WISH)
    assert isinstance(found, Stop)
    known = progress(state=State.STOPPED, reason=found.reason)
    assert isinstance(decide(TOPIC, 0, known, BEGUN, LINK, NO_WISH), GoOn)


@pytest.mark.parametrize(
    ("of", "start"), [({"source_id": "cc" * 16}, 0), ({"target_id": "cc" * 16}, 100)]
)
def test_heartbeats_continue_by_themselves_in_a_recreated_topic(
    of: dict[str, Any], start: int
) -> None:
    """On a cluster that was rebuilt, say: they hold nothing that anybody could lose."""
    topic = replace(TOPIC, **of)
    assert isinstance(decide(topic, 0, progress(), BEGUN, LINK, NO_WISH), Stop)
    beats = replace(topic, source="heartbeats", target="A.heartbeats")
    (outlet,) = progress().outlets
    known = progress(topic="heartbeats", outlets=(outlet.replace(topic="A.heartbeats"),))
    assert decide(beats, 0, known, BEGUN, LINK, NO_WISH) == Begin(start=start, targets=(0,))
    stopped = known.replace(state=State.STOPPED, reason="it was deleted")
    assert isinstance(decide(beats, 0, stopped, BEGUN, LINK, NO_WISH), Begin)
