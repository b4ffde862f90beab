"""What `causeway translate` says, and ends with."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from causeway import translation as answering
from causeway.cli.main import main
from causeway.model import TopicPartition
from causeway.translation import Answer, MappedOffset, OffsetNote, Question
from tests.harness.config_files import TWO_CLUSTERS

ASK = Question(topic="t", partition=0, offset=5)


def _place(why: OffsetNote | None) -> MappedOffset:
    return MappedOffset(TopicPartition("A.t", 0), 4, why, "so")


def _answer(*places: MappedOffset, why: OffsetNote | None = None) -> Answer:
    return Answer(question=ASK, link="A->B", offset=5, places=places, why=why, note="so")


def _end(
    monkeypatch: pytest.MonkeyPatch, folder: Path, answers: Sequence[Answer], *options: str
) -> int:
    def translated(_: object, questions: Sequence[Question], **__: Any) -> tuple[Answer, ...]:
        assert list(questions) == [ASK]
        return tuple(answers)

    monkeypatch.setattr(answering, "translate", translated)
    file = folder / "mm2.properties"
    file.write_text(TWO_CLUSTERS)
    with pytest.raises(SystemExit) as ended:
        main(["translate", str(file), *options])
    return int(ended.value.code or 0)


ONE = ("--topic", "t", "--partition", "0", "--offset", "5")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (_answer(_place(None)), 0),
        (_answer(_place(OffsetNote.RETENTION)), 7),
        (_answer(_place(None), _place(OffsetNote.SHARED)), 7),
        (_answer(why=OffsetNote.BY_KEY), 7),
        (_answer(why=OffsetNote.UNKNOWN), 2),
    ],
)
def test_the_exit_code_tells_whether_all_is_exact(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Answer, code: int
) -> None:
    assert _end(monkeypatch, tmp_path, [answer], *ONE) == code
    assert _end(monkeypatch, tmp_path, [answer], *ONE, "--json") == code


def test_of_many_one_that_is_unknown_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "offsets.csv"
    given.write_text("t,0,5\n")
    options = ("--input", str(given), "--json")
    assert _end(monkeypatch, tmp_path, [_answer(why=OffsetNote.UNKNOWN)], *options) == 7
    (said,) = json.loads(capsys.readouterr().out)["answers"]
    assert (said["exact"], said["why"], said["places"]) == (False, "unknown", [])


@pytest.mark.parametrize("options", [(*ONE, "--input", "-"), ("--topic", "t"), ()])
def test_a_place_that_is_not_said_whole_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...]
) -> None:
    assert _end(monkeypatch, tmp_path, [], *options) == 2


def test_what_is_no_text_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"t,0,\xff\n"), "utf-8"))
    assert _end(monkeypatch, tmp_path, [], "--input", "-") == 2
    assert "read stdin" in capsys.readouterr().err
