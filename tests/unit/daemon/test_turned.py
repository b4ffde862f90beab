"""Where a partition begins whose mirror was turned round."""

from __future__ import annotations

from dataclasses import replace

from causeway.daemon.partitions.after_failback import decide
from causeway.daemon.partitions.decisions import Begin, Stop, Wish
from causeway.link_topics import (
    BeginDirective,
    ClaimStart,
    LinkDirectives,
    Scope,
    decode_directive,
    encode_directive,
)
from causeway.model import TopicPartition
from tests.builders.records import EMPTY, FROM, TOPIC, progress

START = ClaimStart(offset=70, by=5_000)


def test_it_begins_there_once() -> None:
    place = replace(EMPTY, log_start=10, end=100)
    found = decide(TOPIC, 0, progress(), place, Wish(), START, ended=True, progress_lost=False)
    assert found == Begin(start=70, targets=(0,), by=5_000)
    done = progress().replace(begun=5_000)
    assert decide(TOPIC, 0, done, place, Wish(), START, ended=True, progress_lost=False) is None, (
        "it goes on where it is"
    )
    again = ClaimStart(offset=90, by=6_000)
    found = decide(TOPIC, 0, done, place, Wish(), again, ended=True, progress_lost=False)
    assert found == Begin(start=90, targets=(0,), by=6_000)


def test_the_place_is_one_of_the_topic_that_was_there_then() -> None:
    """In one that was made anew since, records before that offset would be left out."""

    def begins(start: ClaimStart) -> int | None:
        found = decide(TOPIC, 0, None, EMPTY, Wish(), start, ended=False, progress_lost=False)
        return found.start if isinstance(found, Begin) else None

    assert begins(START._replace(of=TOPIC.source_id)) == 70
    assert begins(START) == 70, "an earlier version has not said of which"
    assert begins(START._replace(of="cc" * 16)) is None


def test_it_does_not_begin_by_itself() -> None:
    found = decide(TOPIC, 0, None, EMPTY, Wish(), None, ended=True, progress_lost=False)
    assert isinstance(found, Stop)
    assert "causeway failback" in found.reason
    assert decide(TOPIC, 0, None, EMPTY, FROM, None, ended=True, progress_lost=False) is None
    assert decide(TOPIC, 0, None, EMPTY, Wish(), None, ended=False, progress_lost=False) is None
    assert (
        decide(TOPIC, 0, progress(), EMPTY, Wish(), None, ended=True, progress_lost=False) is None
    )


def test_lost_progress_may_have_begun_there_already() -> None:
    assert decide(TOPIC, 0, None, EMPTY, Wish(), START, ended=True, progress_lost=True) is None


def test_a_directive_to_begin_is_read_as_it_was_written() -> None:
    wish = BeginDirective(
        scope=Scope("orders"),
        who="anna@ops",
        at=5_000,
        starts={0: 70, 3: 9},
        source_id="ab",
    )
    assert decode_directive(*encode_directive((wish.key, wish))) == (wish.key, wish)
    standing = LinkDirectives({wish.key: wish})
    assert standing.start_of(TopicPartition("orders", 3)) == ClaimStart(offset=9, by=5_000, of="ab")
    assert standing.start_of(TopicPartition("orders", 1)) is None
