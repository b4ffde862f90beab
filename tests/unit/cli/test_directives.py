"""What a person says of a running mirror, and what is said back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causeway.cli import directives
from causeway.cli.directives import directive_lines
from causeway.errors import ConfigError, UnreachableError
from causeway.link_topics import PauseDirective, Scope, ThrottleDirective
from causeway.operate.directives import DirectiveOutcome, Refill
from causeway.status import PartitionStatus

NINES = "9" * 400
ANNA = PauseDirective(scope=Scope("orders"), who="anna@ops", why="too [red]\x1b loud", at=0)
PAUSED = PartitionStatus(
    topic="orders", partition=0, target_topic="A.orders", state="paused", reason="x"
)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1", 1),
        ("500kB", 500_000),
        ("10MB", 10_000_000),
        ("1.5 MB/s", 1_500_000),
        ("1GiB", 1 << 30),
        ("2k", 2_000),
        ("unlimited", None),
    ],
)
def test_rates(text: str, rate: int | None) -> None:
    assert directives.parse_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["", "0", "fast", "-1MB", "10TB", "1,5MB", "0.1", "MB", NINES, "1e3"]
)
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ConfigError, match="such as 500kB"):
        directives.parse_rate(text)


def outcome(**changes: object) -> DirectiveOutcome:
    fields: dict[str, object] = {
        "link": "A->B",
        "action": "pause",
        "scope": Scope("orders"),
        "changed": True,
        "driver": "host/7",
        "acted": True,
    }
    return DirectiveOutcome(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"acted": None, "driver": None}, 0, "no driver leads now, the next one will act on it"),
        ({"acted": None}, 0, "host/7 leads and will act on it"),
        ({"acted": False, "refused": "no right"}, 9, "host/7 has not acted yet: no right"),
        ({"seen": (PAUSED,)}, 0, "1 paused"),
        ({"changed": False, "before": ANNA}, 0, "nothing to change"),
        (
            {
                "changed": False,
                "driver": None,
                "acted": None,
                "error": UnreachableError("reach", "B"),
            },
            3,
            "not changed: reach B",
        ),
        ({"changed": False, "before": ANNA}, 0, r"was paused by anna@ops since 1970"),
        ({"action": "resume", "beside": (ANNA,)}, 0, "still paused: orders by anna@ops"),
        ({"action": "step-down", "gap_ms": 50}, 0, "host/7 leads now, 50 ms without a leader"),
    ],
)
def test_what_is_said(
    changes: dict[str, object], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert directives.show_outcomes([outcome(**changes)], as_json=False) == code
    shown = capsys.readouterr().out
    assert said in shown
    assert "\x1b" not in shown


def test_directives_in_words() -> None:
    limit = ThrottleDirective(scope=Scope(), who="anna@ops", at=0, bytes_per_s=2_000_000)
    lines = [line.plain for line in directive_lines([ANNA, limit])]
    assert lines[0].startswith("paused orders by anna@ops since 1970-01-01T00:00:00Z: too [red]")
    assert "\x1b" not in lines[0]
    assert lines[1].startswith("throttled the link to 2.0 MB/s by anna@ops")


def test_a_rate_that_is_too_long_is_not_quoted_whole() -> None:
    with pytest.raises(ConfigError, match=r"9{40}…: the rate is too high"):
        directives.parse_rate(NINES)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The requests of commands."""
    found: list[tuple[str, dict[str, Any]]] = []
    cost = Refill(
        link="A->B",
        topic="orders",
        target="orders",
        partitions=4,
        offsets=2_000,
        size=3_000_000_000,
        fills=7_000,
        seconds=30,
    )

    def refill(_: object, *, dry_run: bool, **fields: Any) -> Refill:
        found.append(("refill", {"dry_run": dry_run, **fields}))
        return cost if dry_run else replace(cost, outcome=outcome(action="restart --refill"))

    def restart(_: object, **fields: Any) -> tuple[DirectiveOutcome, ...]:
        found.append(("restart", fields))
        return (outcome(action="restart"),)

    monkeypatch.setattr(directives, "load", lambda *_, **__: None)
    monkeypatch.setattr(directives, "with_chosen", lambda settings: settings)
    monkeypatch.setattr("causeway.operate.directives.refill", refill)
    monkeypatch.setattr("causeway.operate.directives.restart", restart)
    return found


FILE = Path("mm2.properties")


def test_a_topic_is_filled_again_only_with_a_yes(
    asked: list[tuple[str, dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert directives.restart(FILE, refill="orders") == 2
    said = capsys.readouterr()
    out = " ".join(said.out.split())
    for words in ("4 partitions", "2,000 records", "3.0 GB", "7,000 offsets are filled", "30.0 s"):
        assert words in out
    assert "Consumers of orders are interrupted" in out
    assert "--yes" in said.err
    assert directives.restart(FILE, refill="orders", yes=True) == 0
    assert "done by host/7" in capsys.readouterr().out
    assert [fields["dry_run"] for _, fields in asked] == [True, False]


def test_a_topic_goes_on_translated(asked: list[tuple[str, dict[str, Any]]]) -> None:
    assert directives.restart(FILE, translate="orders") == 0
    ((action, fields),) = asked
    assert (action, fields["topic"], fields["translate"]) == ("restart", "orders", True)


@pytest.mark.parametrize(
    "more",
    [
        {"translate": "a", "refill": "a"},
        {"adopt": True, "refill": "a"},
        {"adopt": True, "translate": "a"},
        {"topic": "a", "translate": "a"},
    ],
)
def test_ways_to_go_on_exclude_each_other(
    asked: list[tuple[str, dict[str, Any]]], more: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        directives.restart(FILE, **more)
    assert asked == []
