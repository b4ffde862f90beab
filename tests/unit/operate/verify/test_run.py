"""What is made of the answers: nothing is called equal that was not seen to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from causeway.config import LinkSettings, Settings
from causeway.errors import CausewayError
from causeway.operate.verify import (
    Agreement,
    Difference,
    DifferenceKind,
    PartitionReport,
    Report,
    Why,
    run,
    verify,
)
from causeway.operate.verify.job import Answer, OnAnswer, Part
from causeway.operate.verify.outcome import Range, RangeOutcome
from causeway.operate.verify.plan import PartitionPlan
from causeway.operate.verify.state import Agreed
from tests.builders.verify import FEED, ONE, OTHER

LINK = cast(LinkSettings, type("Link", (), {"name": "A->B"})())
# Of a range, by whether it is looked into.
Answers = Callable[[Range, bool], Answer]
GONE = CausewayError("fetch", "t-0", "no broker answers", retriable=True)


def _agrees(part: Range) -> RangeOutcome:
    count = part.end.source - part.source_from
    return RangeOutcome(range=part, begun=part.source_from, records=count)


def _verified(
    monkeypatch: pytest.MonkeyPatch,
    answers: Answers,
    *,
    state: Path | None = None,
    shares: Sequence[PartitionPlan] | None = None,
    **share: Any,
) -> Report:
    def planned(
        *_: object, agreed: Callable[..., Agreed | None], **__: object
    ) -> Sequence[PartitionPlan]:
        if shares is not None:
            return shares
        before = agreed(FEED)
        done = [] if before is None else before.stretches
        left = tuple(
            one
            for one in (ONE, OTHER)
            if not any(a <= one.start and one.end <= b for a, b in done if one.start is not None)
        )
        given = {"feed": FEED, "ranges": left, **share}
        return [
            PartitionPlan(
                link=LINK, source=FEED.source, target_topic="A.t", target=FEED.target, **given
            )
        ]

    class Here:
        def run(self, parts: Sequence[Part], *, look_into: bool, on_answer: OnAnswer) -> None:
            for part in parts:
                on_answer(part, answers(part.range, look_into))

    @contextmanager
    def runner(*_: object) -> Iterator[Here]:
        yield Here()

    monkeypatch.setattr(run, "plan", planned)
    monkeypatch.setattr(run, "runner", runner)
    return verify(cast(Settings, None), state=state)


def _only(report: Report) -> PartitionReport:
    (found,) = report.partitions
    return found


def _whys(found: PartitionReport) -> list[Why]:
    return [left.why for left in found.left]


def test_a_difference_stays_one_if_it_cannot_be_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a broker fails, or retention moves on, between the two passes."""

    def gone(part: Range, look_into: bool) -> Answer:
        return GONE if look_into else structs.replace(_agrees(part), differs=part is OTHER)

    def deleted(part: Range, look_into: bool) -> Answer:
        if look_into:
            return structs.replace(_agrees(part), ended="a log has deleted it meanwhile")
        return structs.replace(_agrees(part), differs=part is OTHER)

    for answers in (gone, deleted):
        found = _only(_verified(monkeypatch, answers))
        assert found.verdict is Agreement.DIFFERS
        assert [one.kind for one in found.differences] == [DifferenceKind.DIFFERENT]
        assert (found.different, _whys(found)) == (1, [Why.UNREADABLE])


def test_what_no_broker_told_is_not_said_to_agree_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _only(_verified(monkeypatch, lambda *_: GONE))
    assert (found.verdict, found.source_offsets) == (Agreement.NOT_COMPARED, None)
    half = _only(_verified(monkeypatch, lambda part, _: GONE if part is ONE else _agrees(part)))
    assert (half.verdict, half.source_offsets) == (Agreement.IN_PART, (100, 200))


@pytest.mark.parametrize(
    ("noticed", "verdict", "records"),
    [
        ({"others": 3, "others_at": 150}, Agreement.DIFFERS, 3),
        ({"timeless": True}, Agreement.IN_PART, 0),
    ],
)
def test_notes_are_reported_again_with_a_state(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    noticed: Mapping[str, Any],
    verdict: Agreement,
    records: int,
) -> None:
    def answers(part: Range, _: bool) -> Answer:
        return structs.replace(_agrees(part), **(noticed if part is OTHER else {}))

    for _ in range(2):
        found = _only(_verified(monkeypatch, answers, state=tmp_path / "state"))
        assert (found.verdict, found.different, found.records) == (verdict, records, 200)
    assert found.before  # not all was read again


def test_a_corrupt_batch_is_a_difference_also_in_a_compacted_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corrupt = Difference(kind=DifferenceKind.CORRUPT, source=None, target=150)

    def answers(part: Range, _: bool) -> Answer:
        bad = {"differs": True, "differences": (corrupt,)}
        return structs.replace(_agrees(part), **cast(dict[str, Any], bad if part is OTHER else {}))

    found = _only(_verified(monkeypatch, answers, compacted=True))
    assert (found.verdict, found.differences) == (Agreement.DIFFERS, (corrupt,))
    assert Why.COMPACTED in _whys(found)


def test_records_from_before_the_mirror_are_told_where_no_map_says_where_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = _only(
        _verified(
            monkeypatch,
            lambda part, _: structs.replace(_agrees(part), skipped=7 if part is ONE else 0),
        )
    )
    assert (found.verdict, _whys(found)) == (Agreement.IN_PART, [Why.BEFORE])


def test_nothing_is_no_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    report = _verified(monkeypatch, lambda part, _: _agrees(part), shares=[])
    assert (report.agrees, report.complete, report.differs) == (False, False, False)
