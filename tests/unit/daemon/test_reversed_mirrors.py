"""Where a partition begins whose mirror was turned round."""

from __future__ import annotations

from dataclasses import replace

from causeway.daemon.partitions import Begin, GoOn, Stop, Wish
from causeway.link_topics import (
    BeginDirective,
    ClaimStart,
    LinkDirectives,
    Scope,
    decode_directive,
    encode_directive,
)
from causeway.model import TopicPartition
from tests.builders.decisions import decide
from tests.builders.records import BEGUN, EMPTY, FROM, TOPIC, progress
from tests.builders.settings import LINK

START = ClaimStart(offset=70, by=5_000)


def test_it_begins_there_once() -> None:
    place = replace(EMPTY, log_start=10, end=100)
    found = decide(TOPIC, 0, progress(), place, LINK, Wish(), start=START, reverse_ended=True)
    assert found == Begin(start=70, targets=(0,), by=5_000)
    done = progress().replace(begun=5_000)
    goes_on = decide(TOPIC, 0, done, place, LINK, Wish(), start=START, reverse_ended=True)
    assert goes_on == GoOn(progress=done)
    again = ClaimStart(offset=90, by=6_000)
    found = decide(TOPIC, 0, done, place, LINK, Wish(), start=again, reverse_ended=True)
    assert found == Begin(start=90, targets=(0,), by=6_000)


def test_the_place_is_one_of_the_topic_that_was_there_then() -> None:
    """In one that was recreated since, records before that offset would be left out."""

    def begins(start: ClaimStart) -> Begin:
        found = decide(TOPIC, 0, None, EMPTY, LINK, Wish(), start=start)
        assert isinstance(found, Begin)
        return found

    assert begins(START._replace(of=TOPIC.source_id)).start == 70
    assert begins(START).start == 70, "an earlier version does not record the topic's id"
    other = begins(START._replace(of="cc" * 16))
    assert (other.start, other.by) == (0, -1)


def test_it_does_not_begin_by_itself() -> None:
    found = decide(TOPIC, 0, None, EMPTY, LINK, Wish(), reverse_ended=True)
    assert isinstance(found, Stop)
    assert "causeway failback" in found.reason
    begins = Begin(start=0, targets=(0,))
    assert decide(TOPIC, 0, None, EMPTY, LINK, FROM, reverse_ended=True) == begins
    assert decide(TOPIC, 0, None, EMPTY, LINK, Wish()) == begins
    known = progress()
    assert decide(TOPIC, 0, known, EMPTY, LINK, Wish(), reverse_ended=True) == GoOn(progress=known)


def test_lost_progress_may_have_begun_there_already() -> None:
    found = decide(
        TOPIC, 0, None, BEGUN, LINK, Wish(), start=START, reverse_ended=True, progress_lost=True
    )
    assert isinstance(found, Stop)
    assert "its progress topic was lost" in found.reason


def test_a_directive_to_begin_is_read_as_it_was_written() -> None:
    wish = BeginDirective(
        scope=Scope("orders"),
        who="anna@ops",
        at=5_000,
        starts={0: 70, 3: 9},
        source_id="ab",
    )
    assert decode_directive(*encode_directive((wish.key, wish))) == (wish.key, wish)
    directives = LinkDirectives({wish.key: wish})
    assert directives.start_of(TopicPartition("orders", 3)) == ClaimStart(
        offset=9, by=5_000, of="ab"
    )
    assert directives.start_of(TopicPartition("orders", 1)) is None
