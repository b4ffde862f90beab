"""The events of a link that outlive its driver: which there are, and that none is lost or too many
by a write that fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from causeway.daemon import events
from causeway.daemon.events import EventLog
from causeway.link_topics import EVENTS, EventRecord, ProgressContents, decode_entry, encode_entry

_log = logging.getLogger("causeway.test-happened")
_log.setLevel(logging.INFO)


@pytest.fixture
def link() -> Iterator[EventLog]:
    made = EventLog("A->B")
    made.listen()
    yield made
    made.end()


def told(link: EventLog) -> list[tuple[int, str]]:
    return [(each.number, each.event) for each in link.unwritten()]


def say(event: str, link: str = "A->B", **about: object) -> None:
    _log.warning(event, extra={"link": link, **about})


def test_what_the_log_says_of_the_link_and_nothing_else(link: EventLog) -> None:
    link.begin({})
    say("partition stopped", partition="orders-1", reason="caf\udce9 " + "x" * 1000)
    say("partition stopped", link="A->C")
    _log.warning("of the process")
    _log.debug("too much", extra={"link": "A->B"})

    (one,) = link.unwritten()

    assert (one.number, one.level, one.event) == (0, "warning", "partition stopped")
    assert one.about["partition"] == "orders-1"
    assert one.about["reason"].startswith("caf? ")
    assert len(one.about["reason"]) == 500
    assert "link" not in one.about


def test_a_write_that_fails_loses_none_and_one_that_does_not_ends_it(link: EventLog) -> None:
    link.begin({})
    say("one")
    assert told(link) == [(0, "one")]
    say("two")
    assert told(link) == [(0, "one"), (1, "two")], "the first write failed"
    link.written(again=False)
    assert told(link) == []


def test_a_new_leader_goes_on_where_the_last_one_ended(link: EventLog) -> None:
    before = EventRecord(number=7, at=1, level="info", event="lead link", about={})
    say("waited")
    link.begin({7: before})
    assert told(link) == [(8, "waited")]


def test_an_event_whose_write_failed_is_written_once_in_the_next_term(link: EventLog) -> None:
    link.begin({})
    say("one")
    (one,) = link.unwritten()

    link.begin({})
    assert told(link) == [(0, "one")], "it did not get there"
    link.begin({0: one})
    assert told(link) == [], "it did"


def test_what_was_lost_is_written_again(link: EventLog) -> None:
    link.begin({})
    say("one")
    link.unwritten()
    link.written(again=True)
    assert told(link) == [(0, "one")]
    link.written(again=False)
    assert told(link) == []


def test_a_flood_is_counted_and_not_kept(link: EventLog) -> None:
    link.begin({})
    for number in range(1000):
        say(f"event {number}")

    found = link.unwritten()

    assert len(found) == events._AT_ONCE + 1
    assert (found[-1].event, found[-1].about) == (events._MORE, {"count": "900"})


def test_no_more_wait_to_be_written_than_are_kept(link: EventLog) -> None:
    """However long the topic can't be written."""
    link.begin({})
    for _ in range(10):
        for number in range(100):
            say(f"partition failed {number}")
        link.unwritten()
    waiting = told(link)
    assert len(waiting) == EVENTS
    assert waiting[-1] == (999, "partition failed 99")


def test_an_event_takes_the_place_of_an_old_one() -> None:
    contents = ProgressContents()
    records: dict[bytes, bytes | None] = {}
    for number in range(EVENTS + 5):
        event = EventRecord(number=number, at=number, level="info", event="x", about={"a": "b"})
        key, value = encode_entry(event, 0)
        records[key] = value
    for key, value in records.items():
        contents.take(decode_entry(key, value))

    assert sorted(contents.events) == list(range(5, EVENTS + 5))
    assert contents.events[9].about == {"a": "b"}
