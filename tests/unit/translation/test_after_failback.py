"""Offsets that a link did not mirror, as the link the other way brought them there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config import RunSettings, Settings
from causeway.errors import UnreachableError
from causeway.link_topics import (
    BeginDirective,
    LinkDirectives,
    OffsetMapRecord,
    ProgressContents,
    Scope,
)
from causeway.model import Pair, State, TopicPartition
from causeway.translation import (
    BeforeFailback,
    Course,
    MappedOffset,
    OffsetNote,
    answers,
    reverse,
)
from tests.builders.daemon import row
from tests.builders.settings import BACK, LINK

AT = TopicPartition("orders", 0)
TURNED = 55  # where the way back had come to on A
BEFORE = MappedOffset(AT, None, OffsetNote.BEFORE)
EXACT = MappedOffset(AT, 17)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The way back of `orders`, which ended at 55 of A, and A->B, which was told to begin there."""
    begin = BeginDirective(scope=Scope("orders"), who="anna", at=7, starts={0: TURNED})
    found = SimpleNamespace(
        directives=LinkDirectives({begin.key: begin}),
        contents=contents(begun=-1, end=TURNED),
        places={20: EXACT},
        error=None,
    )

    def read(*_: object) -> Any:
        if found.error is not None:
            raise found.error
        return found.contents

    log = SimpleNamespace(look=lambda: None, directives=found.directives)
    monkeypatch.setattr(answers, "DirectiveLog", lambda *_: log)
    monkeypatch.setattr(answers, "read_progress", read)
    monkeypatch.setattr(answers, "logs_of", lambda *_: None)
    monkeypatch.setattr(answers, "mapped_courses", lambda *_: {AT: [None]})
    monkeypatch.setattr(answers, "translate_course", lambda *_, **__: found.places)
    return found


def contents(begun: int, end: int) -> ProgressContents:
    known = row().progress
    (outlet,) = known.outlets
    outlet = outlet.replace(topic="orders", pair=Pair(source=end, target=end, sequence=end))
    return ProgressContents(partitions={AT: known.replace(begun=begun, outlets=(outlet,))})


def filled(begun: int = 7) -> dict[int, MappedOffset]:
    settings = Settings(links=(LINK, BACK), run=RunSettings(), spark={})
    places = {20: BEFORE, 60: EXACT}
    mapped = cast(Any, SimpleNamespace(course=SimpleNamespace(target=AT)))
    known = contents(begun=begun, end=70)
    connect = cast(Any, lambda _: None)
    answers.fill_before({AT: [(mapped, places)]}, LINK, settings, connect, known, lambda: None)
    return places


def test_what_came_back_lies_where_it_came_from(other: SimpleNamespace) -> None:
    assert filled() == {20: EXACT, 60: EXACT}
    other.places = {20: BEFORE}
    assert filled()[20] == BEFORE, "it is from before the way back, too"


def test_only_a_mirror_that_begins_right_behind_the_way_back_tells(other: SimpleNamespace) -> None:
    assert filled(begun=3)[20] == BEFORE, "it was claimed again since"
    other.contents = contents(begun=-1, end=TURNED + 1)
    assert filled()[20] == BEFORE, "the way back has gone on since"
    other.error = UnreachableError("ask", "A")
    assert filled()[20] == BEFORE


class Rounds:
    """The task's look-ups of one course, as A->B began behind the reverse link at TURNED."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, other: SimpleNamespace) -> None:
        self._other = other
        log = SimpleNamespace(look=lambda: None, directives=other.directives)
        monkeypatch.setattr(reverse, "DirectiveLog", lambda *_: log)
        topic = SimpleNamespace(exists=lambda: True, read=self._read)
        monkeypatch.setattr(reverse, "ProgressTopic", lambda *_: topic)
        outlet = contents(begun=-1, end=0).partitions[AT].outlets[0]
        self.course = Course(source=AT, topic_id="aa" * 16, outlet=outlet, begun=7)

    def _read(self, *_: object) -> ProgressContents:
        if self._other.error is not None:
            raise self._other.error
        return cast(ProgressContents, self._other.contents)

    @property
    def _before(self) -> BeforeFailback:
        return BeforeFailback(cast(Any, None), cast(Any, None), LINK)

    def places(self, *offsets: int) -> dict[int, int]:
        return self._before.places(self.course, offsets)

    @property
    def brought_to(self) -> int:
        return self._before.brought_to(self.course)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch, other: SimpleNamespace) -> Rounds:
    """The reverse link brought 30 to 45 of B to 40 to 55 of A, one by one."""
    known = other.contents.partitions[AT]
    outlet = known.outlets[0].replace(
        topic_id="aa" * 16, pair=Pair(source=45, target=TURNED, sequence=15)
    )
    other.contents.partitions[AT] = known.replace(topic_id="bb" * 16, outlets=(outlet,))
    points = (Pair(30, 40, 0),)
    other.contents.maps[AT] = {
        None: OffsetMapRecord(topic="orders", partition=0, producer_id=1, points=points)
    }
    return Rounds(monkeypatch, other)


def test_a_group_gets_the_origin_of_a_record_that_the_reverse_link_brought(rounds: Rounds) -> None:
    assert rounds.places(39, 40, 41, 54) == {40: 30, 41: 31, 54: 44}, "39 is from before it, too"
    assert rounds.brought_to == 45


@pytest.mark.parametrize(
    "change",
    [{"topic_id": "cc" * 16}, {"state": State.STOPPED}, {"transform": "rules"}],
)
def test_a_group_gets_nothing_by_another_log_or_other_records(
    rounds: Rounds, other: SimpleNamespace, change: dict[str, Any]
) -> None:
    known = other.contents.partitions[AT]
    other.contents.partitions[AT] = known.replace(**change)
    assert rounds.places(41) == {}
    assert rounds.brought_to == 0


def test_a_group_gets_nothing_if_the_mirror_began_otherwise(
    rounds: Rounds, other: SimpleNamespace
) -> None:
    assert rounds.places(41) == {41: 31}
    begun_by_this = rounds.course
    for begun in (-1, 3):
        rounds.course = begun_by_this.replace(begun=begun)
        assert rounds.places(41) == {}, "it was claimed again since"
        assert rounds.brought_to == 0
    rounds.course = begun_by_this.replace(topic_id="cc" * 16)
    assert rounds.places(41) == {}, "the topic was recreated"
    rounds.course = begun_by_this
    other.error = UnreachableError("ask", "A")
    assert rounds.places(41) == {}


def test_groups_lower_than_a_preserved_beginning_get_nothing(
    rounds: Rounds, other: SimpleNamespace
) -> None:
    known = other.contents.partitions[AT]
    (outlet,) = known.outlets
    same = outlet.replace(pair=Pair(TURNED, TURNED, 25))
    other.contents.partitions[AT] = known.replace(offsets_from=30, position=TURNED, outlets=(same,))
    assert rounds.places(29, 30, 41) == {30: 30, 41: 41}
