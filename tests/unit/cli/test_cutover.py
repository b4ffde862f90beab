"""What `cutover` prints, and the lengths of time it takes."""

from __future__ import annotations

import pytest
from rich.console import Console

from causeway.cli import cutover
from causeway.cli.common import console
from causeway.operate.cutover import (
    Act,
    Checklist,
    CutoverEnd,
    CutoverResult,
    CutoverStep,
    Look,
    Producer,
    StepState,
    Wishes,
    result_json,
)
from causeway.operate.cutover.plan import plan
from tests.builders.settings import link

NAME = "a-topic-with-quite-a-long-name.of-a-team.in-a-region"


def listed() -> Checklist:
    lines = (f"{NAME}: producer id 4711, transactional id [red]{NAME}", "clear\x1b[2J")
    return Checklist(
        steps=(
            CutoverStep(name="check", state=StepState.DONE, text="2 topics"),
            CutoverStep(
                name="fence", state=StepState.NOW, text=f"deny {NAME}", lines=lines, left_s=90.0
            ),
            CutoverStep(name="promote", state=StepState.NEXT, text="end the mirror"),
        ),
        act=Act.WAIT,
    )


def test_the_list_fits_the_terminal_and_gives_it_no_orders() -> None:
    out = Console(width=60, record=True, markup=False, emoji=False)
    out.print(cutover._table(listed()))
    text = out.export_text()
    assert max(map(len, text.splitlines())) <= 60
    assert "about 1 min 30 s left" in " ".join(text.split())
    assert "[red]" in text.replace("\n", "").replace(" ", "")
    assert "\x1b" not in text


@pytest.mark.parametrize("end", [CutoverEnd.DONE, CutoverEnd.LIFTED, CutoverEnd.TIMEOUT])
def test_the_report_at_the_end_names_who_wrote_through_the_fence(
    end: CutoverEnd, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long after: while the command waited, it was named for ten seconds."""
    who = Producer(
        topics=("orders",),
        producer_id=4711,
        transactional_id="boss",
        last_ms=1_700_000_000_000,
        records=12,
    )
    look = Look(
        at_ms=1_700_000_060_000,
        topics={"orders": "A.orders"},
        checks=(),
        places=(),
        driver="host-1",
    )
    result = CutoverResult(
        link=link("A", "B"),
        wishes=Wishes(),
        end=end,
        checklist=plan(look, Wishes()),
        look=look,
        pause_ms=5,
        through=(who,),
    )

    cutover._show(console(), result, act=True)

    said = capsys.readouterr().out
    assert "written through the fence:" in said
    assert (
        "  orders: producer id 4711, transactional id boss, 12 records, newest record dated 1 min"
        in said
    )
    (through,) = result_json(result)["through_the_fence"]
    assert (through["transactional_id"], through["records"]) == ("boss", 12)
