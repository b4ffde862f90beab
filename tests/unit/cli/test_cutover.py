"""What `cutover` prints, and the lengths of time it takes."""

from __future__ import annotations

from rich.console import Console

from causeway.cli import cutover
from causeway.operate.cutover.values import Act, Checklist, State, Step

NAME = "a-topic-with-quite-a-long-name.of-a-team.in-a-region"


def listed() -> Checklist:
    lines = (f"{NAME}: producer id 4711, transactional id [red]{NAME}", "clear\x1b[2J")
    return Checklist(
        steps=(
            Step(name="check", state=State.DONE, text="2 topics"),
            Step(name="fence", state=State.NOW, text=f"deny {NAME}", lines=lines, left_s=90.0),
            Step(name="promote", state=State.NEXT, text="end the mirror"),
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
