"""A name or message that a broker or another person chose gives the terminal no orders: not in the
live table, nor in any other output."""

from __future__ import annotations

import json
import logging
import re

import pytest
from rich.table import Table
from rich.text import Text

from causeway.cli.common import console, print_json
from causeway.cli.guard import guarded
from causeway.cli.live import render
from causeway.cli.present import Logfmt, _Above
from causeway.link_topics import Transformed
from causeway.model import State
from causeway.status import LinkProblem, Role, TransformStatus
from tests.builders.status import full
from tests.harness.statuses import replace

# ESC [ 2 J clears the screen, and so does the one character 9b with 2 J; then what turns text.
EVIL = "x\x1b[2J\x9b2J\x07\u202e\rforged\ny"
ORDERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def test_the_live_table(capsys: pytest.CaptureFixture[str]) -> None:
    link = full().links[0]
    one = replace(link.partitions[0], topic=EVIL, state=State.FAILED, reason=EVIL)
    evil = replace(
        link,
        role=Role.LEADING,
        partitions=(one,),
        problems=(LinkProblem(topic=EVIL, reason=EVIL),),
        transforms=(
            TransformStatus(
                name="t", partitions=1, counts=Transformed(records_in=1), troubles=(EVIL,)
            ),
        ),
    )
    standby = replace(link, role=Role.STANDBY, reason=EVIL)
    snapshot = replace(full(), links=(evil, standby), lane_trouble=EVIL)
    console().print(render(snapshot, 60, 160))
    out = capsys.readouterr().out
    assert not ORDERS.search(out)
    assert r"x\x1b[2J\x9b2J\x07\u202e\rforged\ny" in out
    assert not [line for line in out.splitlines() if line.startswith("y")]


def test_no_output_of_a_command_has_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", EVIL)
    table.add_row(Text(EVIL, "red"), EVIL)
    console().print(table)
    console().print(Text(EVIL, "bold red"), Text.assemble((EVIL, "red"), EVIL), EVIL)
    assert not ORDERS.search(capsys.readouterr().out)


def test_columns_stay_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "next")
    table.add_row(Text("\x1b" * 3), "|")
    table.add_row(Text("abc"), "|")
    console().print(table)
    lines = [line for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert len({line.rindex("|") for line in lines}) == 1


def test_json_is_the_same_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"reason": EVIL, EVIL: [{"ü": "ok"}]})
    out = capsys.readouterr().out
    assert not ORDERS.search(out)
    assert json.loads(out) == {"reason": EVIL, EVIL: [{"ü": "ok"}]}
    assert "ü" in out


def test_logs(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.makeLogRecord({"msg": EVIL, "levelname": "WARNING", "reason": EVIL})
    assert not ORDERS.search(Logfmt().format(record))
    above = _Above(console())
    above.setFormatter(logging.Formatter())
    above.emit(record)
    assert not ORDERS.search(capsys.readouterr().out)


@pytest.mark.parametrize("debug", ["0", "1"])
def test_errors_and_their_tracebacks(
    debug: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEWAY_DEBUG", debug)
    monkeypatch.setattr("causeway.cli.guard.fit_streams", lambda: None)

    def fails() -> int:
        raise ValueError(EVIL)

    assert guarded(fails) == 1
    err = capsys.readouterr().err
    assert ("Traceback" in err) is (debug == "1")
    assert not ORDERS.search(err)
