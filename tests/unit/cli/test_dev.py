"""`causeway dev up`: which Kafka is started, and what is refused before anything is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causeway.cli import dev
from causeway.cli.main import main
from causeway.dev import ClusterStatus, Environment, KafkaVersion


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[KafkaVersion | None]:
    """Nothing is fetched or started; what would be."""
    asked: list[KafkaVersion | None] = []

    def up(_: Environment, *options: Any) -> list[Any]:
        assert options[-1] == asked[-1]
        return []

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(dev, "broker_classpath", asked.append)
    monkeypatch.setattr(Environment, "up", up)
    return asked


def up(*options: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["dev", "up", *options])
    return int(ended.value.code or 0)


def test_the_version_that_is_named_is_fetched_and_started(
    fetched: list[KafkaVersion | None],
) -> None:
    assert up("--kafka", "2.8") == 0
    assert up() == 0
    assert [str(each) for each in fetched] == ["2.8.2", "None"]


def test_the_line_that_the_use_cases_need_is_printed(
    fetched: list[KafkaVersion | None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    running = [
        ClusterStatus(name=name, kafka="4.3.0", bootstrap=f"127.0.0.1:{port}", brokers=())
        for name, port in (("A", 20001), ("B", 20002))
    ]
    monkeypatch.setattr(Environment, "up", lambda *_: running)
    monkeypatch.setenv("COLUMNS", "40")  # a line to copy is never broken

    assert up() == 0
    assert "  export A=127.0.0.1:20001 B=127.0.0.1:20002\n" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["2.7.2", "3.6", "newest"])
def test_a_version_that_cannot_be_is_refused_with_those_that_are_tested(
    fetched: list[KafkaVersion | None], version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up("--kafka", version) == 2
    assert not fetched
    said = capsys.readouterr().err
    assert f"use Kafka {version}: " in said
    assert "2.8, 3.3, 3.9, 4.0, 4.3" in " ".join(said.split())
