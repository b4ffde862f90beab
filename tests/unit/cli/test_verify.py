"""What `causeway verify` says, and ends with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causeway.cli import verify as command
from causeway.cli.main import main
from causeway.operate.verify import Difference, DifferenceKind, Progress, Report
from tests.builders.verify import BAD, GOOD, LEFT, report
from tests.harness.config_files import TWO_CLUSTERS


def _end(
    monkeypatch: pytest.MonkeyPatch, folder: Path, report: Report, *options: str
) -> tuple[int, dict[str, Any]]:
    asked: dict[str, Any] = {}

    def verify(_: object, **options: Any) -> Report:
        asked.update(options)
        return report

    monkeypatch.setattr("causeway.operate.verify.verify", verify)
    file = folder / "mm2.properties"
    file.write_text(TWO_CLUSTERS)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(file), *options])
    return int(ended.value.code or 0), asked


@pytest.mark.parametrize(
    ("report", "plain", "strict"),
    [(report(GOOD), 0, 0), (report(GOOD, LEFT), 0, 14), (report(BAD, LEFT), 13, 13)],
)
def test_the_exit_code_tells_whether_all_agrees(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, report: Report, plain: int, strict: int
) -> None:
    assert _end(monkeypatch, tmp_path, report)[0] == plain
    assert _end(monkeypatch, tmp_path, report, "--strict")[0] == strict
    assert _end(monkeypatch, tmp_path, report, "--json")[0] == plain


def test_options_reach_it_and_the_page_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page, state = tmp_path / "page.html", tmp_path / "state"
    options = ["--link", "A->B", "--topic", "t", "--topic", "u", "--throttle", "50MB"]
    options += ["--state", str(state), "--html", str(page)]
    code, asked = _end(monkeypatch, tmp_path, report(GOOD), *options)
    assert code == 0
    assert (asked["link"], asked["topics"]) == ("A->B", ["t", "u"])
    assert (asked["bytes_per_s"], asked["state"]) == (50_000_000, state)
    assert "agree" in page.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--throttle", "fast"], "--throttle fast"),
        (["--html", "/nowhere/at/all.html"], "--html /nowhere/at/all.html"),
    ],
)
def test_bad_options_are_refused_before_anything_is_compared(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    code, asked = _end(monkeypatch, tmp_path, report(GOOD), *options)
    assert (code, asked) == (2, {})
    assert said in capsys.readouterr().err


def test_differences_and_omissions_are_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _end(monkeypatch, tmp_path, report(GOOD, BAD, LEFT.replace(topic="audit")))
    out = capsys.readouterr().out
    assert "differs orders-1: missing, source offset 12,345; expected at target" in out
    assert "differs orders-1: swapped, source offsets 20,000 and 20,001" in out
    assert "not compared audit-0: the source has deleted offsets 0 to 9" in out
    assert "1 partition agrees, 1 in part, 1 differs; " in out


@pytest.mark.parametrize(
    ("each", "said"),
    [
        (
            Difference(kind=DifferenceKind.CHANGED, source=7, target=5, detail="headers"),
            "changed, source offset 7, target offset 5: headers",
        ),
        (
            Difference(kind=DifferenceKind.DOUBLED, source=7, target=9, records=3, other=(7, 5)),
            "doubled, source offset 7, at target offset 5 and again at target offset 9"
            " (3 records from there)",
        ),
        (
            Difference(kind=DifferenceKind.UNKNOWN, source=None, target=9, records=2),
            "unknown, not from the source, target offset 9 (2 records from there)",
        ),
    ],
)
def test_a_difference_in_words(each: Difference, said: str) -> None:
    assert command.difference(each) == said


def test_progress_in_words() -> None:
    seen = Progress(
        done=250_000_000,
        size=1_000_000_000,
        records=1_000,
        differ=1,
        seconds=2.5,
    )
    assert command.progress_line(seen) == (
        "25% of 1.0 GB, 100.0 MB/s, 1,000 records agree, 7.5 s left; 1 range differs"
    )
