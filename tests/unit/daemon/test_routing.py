"""Where records go when numbers of partitions change: on as before, by key from now on, or stop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from causeway.daemon.partitions import assignment
from causeway.daemon.partitions.decisions import (
    GoByKey,
    GoOn,
    Offsets,
    Stop,
)
from causeway.daemon.partitions.deleted import changed, to_turn
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.routing import by_key_from, routed, targets_of
from causeway.daemon.partitions.rows import Row
from causeway.link_topics import Outlet, PartitionProgress, decode_entry, encode_entry
from causeway.model import Pair, State, TopicPartition
from tests.builders.decisions import decide
from tests.builders.records import NO_WISH, TOPIC
from tests.builders.settings import BY_KEY, LINK

Claimed = dict[int, tuple[int, ...]]  # the target partitions that a source partition feeds


def progress(partition: int, targets: tuple[int, ...]) -> PartitionProgress:
    return PartitionProgress(
        topic="orders",
        partition=partition,
        topic_id=TOPIC.source_id,
        leader_epoch=2,
        position=100,
        outlets=tuple(
            Outlet(
                topic="A.orders",
                partition=target,
                topic_id="bb" * 16,
                producer_id=5 + target,
                producer_epoch=0,
                pair=Pair(source=90, target=60, sequence=60),
                exclusive=False,
            )
            for target in targets
        ),
        state=State.RUNNING,
    )


def by_now(source: int, target: int, claimed: Claimed) -> dict[int, object]:
    """With these numbers of partitions: what becomes of each source partition, a new one's target
    partitions among them."""
    known = {TopicPartition("orders", p): progress(p, fed) for p, fed in claimed.items()}
    (topic,) = routed([replace(TOPIC, partitions=source, target_partitions=target)], known, BY_KEY)
    ends = dict.fromkeys(range(target), 60)
    offsets = Offsets(log_start=0, end=500, high_watermark=500, start=0, target_ends=ends)
    return {
        p: decide(topic, p, known[at], offsets, BY_KEY, NO_WISH).__class__
        if (at := TopicPartition("orders", p)) in known
        else targets_of(topic, p)
        for p in range(source)
    }


@pytest.mark.parametrize(
    ("source", "target", "claimed", "wanted"),
    [
        # At the beginning.
        (2, 2, {}, {0: (0,), 1: (1,)}),
        (2, 3, {}, {0: (0, 1, 2), 1: (0, 1, 2)}),
        (3, 2, {}, {0: (0, 1), 1: (0, 1), 2: (0, 1)}),
        # The source outgrows a target of as many: old ones turn, new ones begin by key.
        (3, 2, {0: (0,), 1: (1,)}, {0: GoByKey, 1: GoByKey, 2: (0, 1)}),
        (3, 2, {0: (0, 1), 1: (1,), 2: (0, 1)}, {0: GoOn, 1: GoByKey, 2: GoOn}),
        (2, 1, {0: (0,)}, {0: GoOn, 1: (0,)}),
        # The target grows first, then the source: still each to the one of its number.
        (2, 4, {0: (0,), 1: (1,)}, {0: GoOn, 1: GoOn}),
        (4, 4, {0: (0,), 1: (1,)}, {0: GoOn, 1: GoOn, 2: (2,), 3: (3,)}),
        (3, 4, {0: (0,), 1: (1,)}, {0: GoOn, 1: GoOn, 2: (2,)}),
        # ... and outgrows it at a stride: keys would go from the one of their source's number to
        # another.
        (5, 3, {0: (0,), 1: (1,)}, {0: Stop, 1: Stop, 2: (0, 1, 2), 3: (0, 1, 2), 4: (0, 1, 2)}),
        # By key it stays, whatever the source does.
        (4, 2, {0: (0, 1), 1: (0, 1), 2: (0, 1)}, {0: GoOn, 1: GoOn, 2: GoOn, 3: (0, 1)}),
        (2, 2, {0: (0, 1)}, {0: GoOn, 1: (0, 1)}),
        # But not when the target grows.
        (1, 3, {0: (0, 1)}, {0: Stop}),
        (3, 3, {0: (0,), 1: (0,), 2: (0,)}, {0: Stop, 1: Stop, 2: Stop}),
    ],
)
def test_what_becomes_of_each_partition(
    source: int, target: int, claimed: Claimed, wanted: dict[int, object]
) -> None:
    assert by_now(source, target, claimed) == wanted


def test_where_keys_do_not_decide_nothing_changes() -> None:
    known = {TopicPartition("orders", 0): progress(0, (0,))}
    topic = replace(TOPIC, partitions=5)
    assert routed([topic], known, LINK) == [topic]


def test_the_turn_lies_past_all_that_was_read_and_keeps_what_was_claimed() -> None:
    before = progress(1, (1,))
    topic = replace(TOPIC, partitions=3, target_partitions=2, by_key=True, fed=2)
    offsets = Offsets(log_start=0, end=500, high_watermark=520, start=0, target_ends={0: 33, 1: 60})
    turn = decide(topic, 1, before, offsets, BY_KEY, NO_WISH)
    assert turn == GoByKey(progress=before, start=500)

    after = by_key_from(topic, before, 500, offsets.target_ends, {0: (9, 0), 1: (8, 0)}, BY_KEY)

    assert after.keys_from == 500
    assert after.outlets[1] == before.outlets[0]
    other = after.outlets[0]
    assert (other.partition, other.producer_id, other.exclusive) == (0, 9, False)
    assert other.pair == Pair(source=500, target=33, sequence=0)
    # A later start, and a lane, hear of it.
    assert decode_entry(*encode_entry(after, 0)) == after.replace(written_at=0)
    sent = assignment(topic, after, BY_KEY)
    assert (sent.keys_from, sent.outlets) == (500, after.outlets)


def test_a_running_mirror_gets_the_new_routes() -> None:
    row = Row(topic=TOPIC, progress=progress(0, (0,)), first=0)
    known = {TopicPartition("orders", p): progress(p, (p,)) for p in range(2)}

    def found(source: int, target: int) -> Found:
        topics = [replace(TOPIC, partitions=source, target_partitions=target)]
        return Found(mirrored={t.source: t for t in routed(topics, known, BY_KEY)})

    for source, target in ((2, 2), (2, 3), (3, 3)):
        assert (
            changed([row], found(source, target), ()),
            to_turn([row], found(source, target)),
        ) == ([], [])
    assert (changed([row], found(3, 2), ()), to_turn([row], found(3, 2))) == ([], [row])
    ((_, reason),) = changed([row], found(5, 3), ())
    assert "partitions were added at the target" in reason
    assert "--adopt" in reason
