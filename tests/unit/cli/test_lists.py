"""Lists: names come out as they are, and reasons are not squeezed into a few letters."""

from __future__ import annotations

import pytest

from causeway.cli import lists
from causeway.cli.output import Output

COLUMNS = ("link", "topic", ">lag", "~reason")
ROWS = [("A->B", "orders", "1", "the source was truncated [red]"), ("A->B", "x\x1b", "2", "")]


@pytest.mark.parametrize(("width", "below"), [(80, True), (200, False)])
def test_reasons_are_printed_where_there_is_room(
    width: int, below: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Output()
    out.width = width
    monkeypatch.setattr(lists, "console", lambda: out)

    lists._table(COLUMNS, ROWS, "topic")

    lines = capsys.readouterr().out.splitlines()
    assert ("reason" in lines[0]) is not below
    assert ("orders: the source was truncated [red]" in lines) is below
    assert r"x\x1b" in lines[2]
    assert lines[-1] == "2 topics"
