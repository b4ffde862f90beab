"""Offsets that a link did not mirror, as the link the other way brought them there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config import RunSettings, Settings
from causeway.errors import UnreachableError
from causeway.link_topics import BeginDirective, LinkDirectives, ProgressContents, Scope
from causeway.model import Pair, TopicPartition
from causeway.translation import MappedOffset, OffsetNote, answers
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
