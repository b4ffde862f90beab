"""MirrorMaker 1's options, as its users write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causeway.cli import mirror_maker, run
from causeway.cli.mirror_maker import command
from causeway.errors import ConfigError

BASE = ["--consumer.config", "a.properties", "--producer.config", "b.properties"]


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], str]]:
    """What would have been run."""
    calls: list[tuple[dict[str, Any], str]] = []

    def run(options: dict[str, Any], include: str) -> int:
        calls.append((options, include))
        return 0

    monkeypatch.setattr(mirror_maker, "_run", run)
    return calls


def test_the_usual_line(accepted: list[tuple[dict[str, Any], str]]) -> None:
    command([*BASE, "--consumer.config=c.properties", "--whitelist", "A|B", "--new.consumer"])

    ((options, include),) = accepted
    assert options["consumer.config"] == ["a.properties", "c.properties"]
    assert options["producer.config"] == "b.properties"
    assert include == "A|B"
    assert options["num.streams"] is None
    assert options["offset.commit.interval.ms"] is None
    assert options["abort.on.send.failure"] is True


def test_one_dash_is_as_good_as_two(accepted: list[tuple[dict[str, Any], str]]) -> None:
    line = (
        "-consumer.config a -producer.config=b -include .* -num.streams 4 "
        "-abort.on.send.failure false --offset.commit.interval.ms 100"
    )

    command(line.split())

    ((options, include),) = accepted
    assert (options["consumer.config"], options["producer.config"], include) == (["a"], "b", ".*")
    assert (options["num.streams"], options["abort.on.send.failure"]) == (4, False)
    assert options["offset.commit.interval.ms"] == 100


def test_what_is_causeways_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c").write_text("bootstrap.servers=a:1\ngroup.id=mm\n")
    (tmp_path / "p").write_text("bootstrap.servers=b:1\n")
    calls: list[dict[str, object]] = []

    def remember(_: object, **options: object) -> int:
        calls.append(options)
        return 0

    monkeypatch.setattr(run, "run_settings", remember)
    files = f"--consumer.config {tmp_path / 'c'} --producer.config {tmp_path / 'p'} --include A"

    command(f"{files} --until-caught-up --from 1970-01-01T00:00:01 --adopt".split())
    command(files.split())

    assert calls == [
        {"until_caught_up": True, "start_from": 1000, "adopt": True},
        {"until_caught_up": False, "start_from": None, "adopt": False},
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*BASE, "--whitelist", "A", "--message.handler", "x.Y"], "--message.handler"),
        ([*BASE, "--whitelist", "A", "--message.handler.args=z"], "--message.handler.args"),
        ([*BASE, "--whitelist", "A", "--consumer.rebalance.listener", "x.Y"], "no equivalent"),
        ([*BASE, "--whitelist", "A", "--rebalance.listener.args", "z"], "no equivalent"),
        ([*BASE, "--blacklist", "A"], "--include"),
        ([*BASE], "--include is missing"),
        (["--producer.config", "b", "--include", "A"], "--consumer.config is missing"),
        (["--consumer.config", "a", "--include", "A"], "--producer.config is missing"),
        ([*BASE, "--include", "A", "--whitelist", "B"], "give one"),
        ([*BASE, "--include", "A", "--num.streams", "0"], "num.streams"),
        ([*BASE, "--include", "A", "--num.streams", "many"], "num.streams"),
        ([*BASE, "--include", "A", "--abort.on.send.failure", "perhaps"], "perhaps"),
        ([*BASE, "--include", "A", "--colour", "red"], "--colour"),
        (["--consumer.config"], "consumer.config"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], says: str, accepted: list[tuple[dict[str, Any], str]]
) -> None:
    with pytest.raises(ConfigError) as caught:
        command(arguments)

    assert says in str(caught.value)
    assert caught.value.exit_code == 2
    assert accepted == []


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-help"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(arguments) == 0

    assert "--consumer.config" in capsys.readouterr().out
