"""Tables on narrow screens: no name is broken, and no figure is cut."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, RenderableType

from causeway.cli import status
from causeway.cli.output import fits, table
from causeway.status import LinkStatus
from tests.builders.settings import A_B
from tests.builders.status import KEPT, partition_status
from tests.harness.statuses import ends, replace

NAME = "payments.transactions.eu-central"
ORDERS = partition_status("orders", mirrored_to=10, lag_records=0, lag_ms=0)
BUSY = replace(
    ORDERS,
    topic=NAME,
    target_topic=f"A.{NAME}",
    source_end=12_345_678,
    high_watermark=12_345_700,
    mirrored_to=12_000_000,
    lag_records=345_678,
    lag_ms=3_700_000,
    state="no running driver",
    reason="a reason that is long enough to need more than a line of a narrow screen",
)
STATUS = LinkStatus(
    **ends(A_B),
    driver=None,
    partitions=(BUSY, replace(BUSY, partition=11), ORDERS),
    problems=(),
)


def printed(what: RenderableType, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, markup=False, highlight=False, emoji=False).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_the_status_has_whole_names_and_figures_on_each_screen(width: int) -> None:
    lines = printed(status.render([STATUS], width), width)

    assert max(map(len, lines)) <= width
    assert any(line.startswith(NAME) for line in lines)
    text = "\n".join(lines)
    for whole in ("12,000,000", "345,678 of 345,700", "1 h 1 min", "no running driver"):
        assert text.count(whole) >= 2
    assert "…" not in text
    assert ("12,345,678 of 12,345,700" in text) is (width > 100), "it follows from the others"


def test_what_fits_is_a_line_a_row() -> None:
    lines = printed(status.render([replace(STATUS, partitions=(ORDERS,))], 80), 80)

    assert [each.split()[0] for each in lines[1:3]] == ["topic", "orders"]
    assert lines[2].endswith("running")


def test_a_partition_that_preserves_offsets_says_so() -> None:
    kept = replace(ORDERS, preserving=KEPT, reason=KEPT.note)
    text = "\n".join(printed(status.render([replace(STATUS, partitions=(kept,))], 200), 200))
    assert "running, preserving" in text
    assert "its beginning is filled: 40% of 1,000 offsets, about 6 s left" in text


def test_rows_of_one_name_share_its_line() -> None:
    lines = printed(status.render([STATUS], 80), 80)

    at = lines.index(NAME)
    assert lines[at + 1].split()[0] == "0"
    assert lines[at + 2].split()[0] == "11"
    assert lines[at + 3] == "orders"


def test_text_wraps_before_names_do() -> None:
    columns, row = ("group", "code", "~answer"), ("team.billing", "not-yet", "word " * 30)

    assert fits(columns, [row], 80)
    lines = printed(table(columns, [row], 80), 80)
    assert lines[1].startswith("team.billing  not-yet  word word")
    assert len(lines) > 3

    long = ("g" * 60, *row[1:])
    assert not fits(columns, [long], 80)
    assert "g" * 60 in printed(table(columns, [long], 80), 80)[1]
