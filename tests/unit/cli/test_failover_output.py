"""What is said of a mirror that ends, and of the way back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from causeway.cli import failback, failover
from causeway.cli.directives import directive_lines
from causeway.cli.main import main
from causeway.errors import NobodyLeadsError
from causeway.link_topics import THE_LINK, BeginDirective, Cut, CutPoint, EndDirective, Scope
from causeway.model import State, TopicPartition
from causeway.operate import failover as door
from causeway.operate.failover import FailbackStep, FailedBack, FailedOver, Promoted
from causeway.operate.failover.keeping import ReturningOffsets
from causeway.operate.failover.last_groups import GroupPlace
from causeway.operate.failover.missing import TopicLoss
from causeway.operate.failover.results import LaggingPartition
from causeway.operate.failover.unmirrored import Unmirrored
from causeway.status import GroupStatus

AT = TopicPartition("orders", 0)
CUT = Cut(
    target="A.orders",
    points=(
        CutPoint(
            partition=0, source=1_200, targets=((TopicPartition("A.orders", 0), 900),), exact=False
        ),
    ),
)
END = EndDirective(who="anna@ops", why="drill", at=0, how=State.FAILED_OVER, done=True)

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
    failover._promoted([promoted(cuts={"orders": CUT})])
    said = capsys.readouterr().out
    assert "A->B is promoted" in said
    assert "1,200 or later" in said
    assert "orders is A.orders" in said
    followed = {"followed": True, "partitions": 1, "reason": None}
    groups = tuple(GroupStatus(group=name, **followed) for name in ("audit", "billing"))  # type: ignore[arg-type]
    failover._promoted([promoted(groups=groups, ahead={"billing": 800})])
    said = capsys.readouterr().out
    assert "group billing: its offset on B is ahead and would skip at least 800 records" in said
    assert "1 consumer group committed on the target" in said
    failover._promoted([promoted(changed=False, before=END)])
    assert "was failed over by anna@ops at 1970" in capsys.readouterr().out
    lagging = (LaggingPartition(AT, "mirrored up to 3 of 5"),)
    failover._promoted([promoted(changed=False, dry_run=True, lagging=lagging)])
    assert "orders-0: mirrored up to 3 of 5" in capsys.readouterr().out


def test_consumers_with_offsets_of_their_own_go_on_where_offsets_are_preserved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = CUT.replace(preserves=True)
    failover._promoted([promoted(cuts={"orders": kept})])
    assert (
        "offsets are the same: consumers with offsets of their own go on with them\n"
        in capsys.readouterr().out
    )
    failover._promoted([promoted(cuts={"orders": kept, "bills": CUT})])
    assert "offsets of orders are the same" in capsys.readouterr().out
    failover._promoted([promoted(cuts={"bills": CUT})])
    assert "the same" not in capsys.readouterr().out


def test_how_a_promotion_ended_is_said_last(capsys: pytest.CaptureFixture[str]) -> None:
    failover._promoted([promoted(cuts={"orders": CUT}), promoted(link="A->C", left="nothing")])
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "A->B is promoted",
        "A->C is unchanged: nothing",
    ]


def test_a_failover_says_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    place = GroupPlace(group="billing", partition=AT, offset=5, there=None, behind=7)
    known = TopicLoss(
        topic="orders",
        target="orders",
        partitions=1,
        newest_ms=NOW - 9_000,
        missing=12,
        exact=False,
        first_ms=NOW - 4_000,
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
    unknown = replace(known, topic="bills", missing=None, first_ms=-1)
    failover._failed_over([replace(found, topics=(known, unknown))])
    said = capsys.readouterr().out
    assert "RPO 4.0 s at most, but unknown for bills" in said
    for cut in (CUT, CUT.replace(preserves=True)):
        failover._failed_over([replace(found, changed=True, cuts={"orders": cut})])
        said = capsys.readouterr().out
        assert ("if such an offset is beyond the cut" in said) is cut.preserves
    failover._failed_over([found])
    said = capsys.readouterr().out
    for each in ("orders of A->B", "no answer", "4.0 s old", "12 or more", "7 records", "RPO 4.0"):
        assert each in said
    assert "set it before" not in said
    failover._failed_over([replace(found, changed=True, failures={"billing": "not allowed"})])
    said = capsys.readouterr().out
    for each in (
        "group billing: not allowed",
        "or set the offset yourself",
        "orders-0 to offset 5",
    ):
        assert each in said, "nobody tries it again: the failover is done"
    failover._failed_over(
        [replace(found, left="no", error=NobodyLeadsError("end", "A->B", "it goes on"))]
    )
    assert "orders of A->B is not failed over: end A->B: it goes on" in capsys.readouterr().out


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
    known = TopicLoss(
        topic="orders",
        target="A.orders",
        partitions=600,
        newest_ms=NOW - 9_000,
        missing=12,
        exact=True,
        first_ms=NOW - 4_000,
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

    failover._failed_over([first, other])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 600
    assert lines[-3:] == [
        "A->B is failed over: RPO 4.0 s; 1 group without an offset",
        "A->C is unchanged: C does not answer",
        "repeat the command with --link 'A->C' when C answers",
    ]


def test_a_failback_says_what_is_to_be_decided(capsys: pytest.CaptureFixture[str]) -> None:
    only = Unmirrored(at=AT, first=10, end=15, records=5, surely=False, deleted=3)
    fields = {"link": "A->B", "reverse": "B->A", "scope": THE_LINK, "dry_run": False}
    failback._show(
        FailedBack(step=FailbackStep.UNDECIDED, changed=False, unmirrored=(only,), **fields)  # type: ignore[arg-type]
    )
    said = capsys.readouterr().out
    assert "5 records of orders-0, offsets 10 to 14; some of them may be on both clusters" in said
    assert "lost: 3 offsets of orders-0, before 10" in said
    assert "--drop-unmirrored, with --yes" in said
    failback._show(FailedBack(step=FailbackStep.BACK, changed=True, lag=3, **fields))  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "3 records behind" in said
    assert "stop the producers of B" in said


def test_a_failback_says_how_topics_go_on_that_cannot_keep_their_offsets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keeps = ReturningOffsets(
        topics=frozenset({"orders", "bills"}), beyond={AT: 7}, blocked=frozenset({"orders"})
    )
    found = FailedBack(
        link="A->B",
        reverse="B->A",
        scope=THE_LINK,
        step=FailbackStep.UNDECIDED,
        changed=False,
        dry_run=True,
        keeps=keeps,
        again=1_200,
    )
    failback._show(found)
    said = capsys.readouterr().out
    assert "orders-0: its log on A goes 7 offsets beyond the cutover" in said
    assert "stock Kafka cannot cut the end of a log" in said
    assert "--refill deletes it on A" in said
    assert "1,200 offsets are copied again" in said
    assert "--translate keeps its records" in said
    assert "never be mirrored" not in said
    deleted = ReturningOffsets(topics=keeps.topics, blocked=keeps.blocked)
    failback._show(replace(found, keeps=deleted))
    assert "the target has deleted the records right behind the cutover" in capsys.readouterr().out
    back = replace(found, step=FailbackStep.BACK)
    failback._show(replace(back, refilled=("orders",)))
    assert "orders would be deleted on A, and is filled again" in capsys.readouterr().out
    undecided = replace(found, dry_run=False, refilled=("orders",))
    failback._show(undecided)  # records have to be saved first
    assert "orders would be deleted on A" in capsys.readouterr().out
    failback._show(replace(back, dry_run=False, changed=True, refilled=("orders",)))
    assert "orders was deleted on A" in capsys.readouterr().out
    failback._show(replace(back, translated=("orders",)))
    assert "orders does not keep its offsets" in capsys.readouterr().out
    failback._show(replace(back, keeps=ReturningOffsets(topics=frozenset({"orders"}))))
    assert "offsets stay the same, and nothing is copied again" in capsys.readouterr().out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
        "A->B.enabled = true\nB->A.enabled = false\n"
    )
    return path


def exit_code(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return int(cast(int, ended.value.code))


def test_a_promotion_is_shown_and_done_with_a_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """A script that forgets --yes must not move its producers."""
    lagging: list[LaggingPartition] = []

    def promote(*_: object, dry_run: bool, **__: object) -> tuple[Promoted, ...]:
        return (promoted(changed=not dry_run, dry_run=dry_run, lagging=tuple(lagging)),)

    monkeypatch.setattr(door, "promote", promote)
    assert exit_code("promote", file) == 2
    said = capsys.readouterr()
    assert "A->B would be promoted: nothing lags" in said.out
    assert "nothing was changed; repeat the command with --yes to change it" in said.err
    assert exit_code("promote", file, "--dry-run") == 0
    assert exit_code("promote", file, "--dry-run", "--yes") == 0
    assert "is promoted" not in capsys.readouterr().out
    assert exit_code("promote", file, "--yes") == 0
    assert "A->B is promoted" in capsys.readouterr().out
    lagging.append(LaggingPartition(AT, "mirrored up to 3 of 5"))
    assert exit_code("promote", file) == exit_code("promote", file, "--dry-run") == 7
    monkeypatch.setattr(door, "promote", lambda *_, **__: (promoted(before=END),))
    assert exit_code("promote", file) == 0, "nothing is left to do"


def test_a_failback_is_shown_and_done_with_a_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    asked: list[bool] = []
    found = FailedBack(
        link="A->B",
        reverse="B->A",
        scope=THE_LINK,
        step=FailbackStep.BACK,
        changed=False,
        dry_run=True,
    )

    def fail_back(*_: object, dry_run: bool, **__: object) -> FailedBack:
        asked.append(dry_run)
        return found

    monkeypatch.setattr(door, "failback", fail_back)
    found = replace(found, pending=True)
    for options, code in (([], 2), (["--dry-run"], 0), (["--dry-run", "--yes"], 0)):
        assert exit_code("failback", file, *options, "--drop-unmirrored") == code
        assert "B->A would start at the cutover offsets" in capsys.readouterr().out
    lagging = promoted(lagging=(LaggingPartition(AT, "mirrored up to 3 of 5"),))
    found = replace(found, begun=True, promoted=lagging)
    assert exit_code("failback", file, "--turn-round") == 7
    assert "B->A cannot end now: some records are not mirrored back" in capsys.readouterr().out
    found = replace(found, promoted=promoted())
    assert exit_code("failback", file, "--turn-round") == 2
    assert "B->A would end, and A->B would continue" in capsys.readouterr().out
    assert asked == [True] * 5
    found = replace(found, promoted=None, pending=False)
    assert exit_code("failback", file) == 0, "it waits for producers to stop"
    assert "repeat the command with --turn-round" in capsys.readouterr().out
    assert exit_code("failback", file, "--yes") == 0
    assert asked[-1] is False


def test_a_failback_either_fills_topics_again_or_translates_their_offsets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    asked: list[object] = []

    def fail_back(*_: object, otherwise: object, **__: object) -> FailedBack:
        asked.append(otherwise)
        return FailedBack(
            link="A->B",
            reverse="B->A",
            scope=THE_LINK,
            step=FailbackStep.BACK,
            changed=True,
            dry_run=False,
        )

    monkeypatch.setattr(door, "failback", fail_back)
    for options in ([], ["--refill"], ["--translate"]):
        assert exit_code("failback", file, "--yes", *options) == 0
    assert asked == [None, "refill", "translate"]
    assert exit_code("failback", file, "--refill", "--translate") == 2
    assert "give one" in capsys.readouterr().err
    assert len(asked) == 3


def test_an_end_of_the_whole_link_is_printed_once() -> None:
    part = EndDirective(scope=Scope("orders"), who="anna@ops", at=0, cut=CUT)
    begin = BeginDirective(scope=Scope("orders"), who="anna@ops", at=0)
    (line,) = directive_lines([END, part, begin])
    assert line.plain.startswith("failed over the link by anna@ops at 1970")
