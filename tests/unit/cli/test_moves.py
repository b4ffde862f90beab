"""What is said of a mirror that ends, and of the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from causeway.cli import failback, moves
from causeway.cli.standing import standing
from causeway.control.cuts import Cut, CutPoint
from causeway.control.directives import THE_LINK, Directive, Kind, Scope
from causeway.errors import NobodyLeadsError
from causeway.model import State, TopicPartition
from causeway.operate.moves.failed_back import FailedBack, Step
from causeway.operate.moves.failed_over import FailedOver
from causeway.operate.moves.last_groups import GroupPlace
from causeway.operate.moves.missing import Known
from causeway.operate.moves.promote import Lagging, Promoted
from causeway.operate.moves.unmirrored import Unmirrored

AT = TopicPartition("orders", 0)
CUT = Cut(
    target="A.orders",
    points=(
        CutPoint(
            partition=0, source=1_200, targets=((TopicPartition("A.orders", 0), 900),), exact=False
        ),
    ),
)
END = Directive(kind=Kind.END, who="anna@ops", why="drill", at=0, how=State.FAILED_OVER, done=True)

NOW = 1_700_000_000_000


def promoted(**more: object) -> Promoted:
    fields: dict[str, object] = {
        "link": "A->B",
        "source": "A",
        "target": "B",
        "scope": THE_LINK,
        "changed": True,
        "dry_run": False,
        "cuts": {},
    }
    return Promoted(**{**fields, **more})  # type: ignore[arg-type]


def test_a_promotion_names_the_cut_and_what_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    moves._promoted(promoted(cuts={"orders": CUT}))
    said = capsys.readouterr().out
    assert "A->B is promoted" in said
    assert "1,200 or later" in said
    assert "orders is A.orders" in said
    moves._promoted(promoted(changed=False, before=END))
    assert "was failed over by anna@ops at 1970" in capsys.readouterr().out
    lagging = (Lagging(at=AT, position=3, end=5),)
    moves._promoted(promoted(changed=False, dry_run=True, lagging=lagging))
    assert "orders-0: mirrored up to 3 of 5" in capsys.readouterr().out


def test_a_failover_says_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    place = GroupPlace(group="billing", partition=AT, offset=5, there=None, behind=7)
    known = Known(
        topic="orders",
        target="orders",
        partitions=1,
        newest_ms=NOW - 4_000,
        missing=12,
        exact=False,
    )
    found = FailedOver(
        link="A->B",
        target="B",
        scope=Scope("orders"),
        changed=False,
        at_ms=NOW,
        seen_ms=NOW - 1_000,
        source="no answer",
        topics=(known,),
        groups=(place,),
        failures={},
        cuts={},
    )
    moves._failed_over([found])
    said = capsys.readouterr().out
    for each in ("orders of A->B", "no answer", "4.0 s old", "12 or more", "7 records", "RPO 4.0"):
        assert each in said
    assert "set it before" not in said
    moves._failed_over([replace(found, changed=True, failures={"billing": "not allowed"})])
    said = capsys.readouterr().out
    for each in (
        "group billing: not allowed",
        "set it before you start it",
        "orders-0 to offset 5",
    ):
        assert each in said, "nobody tries it again: the failover is done"
    moves._failed_over(
        [replace(found, left="no", error=NobodyLeadsError("end", "A->B", "it goes on"))]
    )
    assert "orders of A->B is not done: end A->B: it goes on" in capsys.readouterr().out


def test_how_a_failover_ended_is_said_last(capsys: pytest.CaptureFixture[str]) -> None:
    """After 600 partitions and their cuts, it is what is left on the screen."""
    points = tuple(
        CutPoint(
            partition=number,
            source=number,
            targets=((TopicPartition("A.orders", number), number),),
            exact=True,
        )
        for number in range(600)
    )
    known = Known(
        topic="orders",
        target="A.orders",
        partitions=600,
        newest_ms=NOW - 4_000,
        missing=12,
        exact=True,
    )
    first = FailedOver(
        link="A->B",
        target="B",
        scope=THE_LINK,
        changed=True,
        at_ms=NOW,
        topics=(known,),
        cuts={"orders": Cut(target="A.orders", points=points)},
        failures={"billing": "not allowed"},
    )
    other = replace(first, link="A->C", target="C", left="C does not answer", late=True)

    moves._failed_over([first, other])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 600
    assert lines[-3:] == [
        "A->B is failed over: RPO 4.0 s; 1 group without a place",
        "A->C is left as it is: C does not answer",
        "call this again with --link 'A->C' once C answers",
    ]


def test_a_failback_says_what_is_to_be_decided(capsys: pytest.CaptureFixture[str]) -> None:
    only = Unmirrored(at=AT, first=10, end=15, records=5, surely=False, deleted=3)
    fields = {"link": "A->B", "reverse": "B->A", "scope": THE_LINK, "dry_run": False}
    failback._show(
        FailedBack(step=Step.UNDECIDED, changed=False, unmirrored=(only,), **fields)  # type: ignore[arg-type]
    )
    said = capsys.readouterr().out
    assert "5 records of orders-0, offsets 10 to 14; some of them may be on both sides" in said
    assert "lost: 3 offsets of orders-0, before 10" in said
    assert "--drop-unmirrored --yes" in said
    failback._show(FailedBack(step=Step.BACK, changed=True, lag=3, **fields))  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "3 records behind" in said
    assert "stop the producers of B" in said


def test_an_end_of_all_is_told_once() -> None:
    part = Directive(kind=Kind.END, scope=Scope("orders"), who="anna@ops", at=0, cut=CUT)
    begin = Directive(kind=Kind.BEGIN, scope=Scope("orders"), who="anna@ops", at=0)
    (line,) = standing([END, part, begin])
    assert line.plain.startswith("failed over the link by anna@ops at 1970")
