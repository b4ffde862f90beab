"""Looking again and again: what is shown, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from rich.text import Text

from causeway.cli import watch as watching
from causeway.cli.status import worst_first
from causeway.errors import CausewayError, UnreachableError
from causeway.status import LinkStatus, PartitionStatus
from tests.builders.settings import link
from tests.harness.statuses import ends

GONE = UnreachableError("connect to", "A", "no answer", retriable=True)


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def looks(*seen: object) -> Callable[[], object]:
    left = list(seen)

    def look() -> object:
        if not left:
            raise KeyboardInterrupt
        if isinstance(found := left.pop(0), Exception):
            raise found
        return found

    return look


def watch(look: Callable[[], object], *, as_json: bool) -> int:
    return watching.watch(
        look, lambda seen: Text(f"<{seen}>"), lambda seen: {"seen": seen}, 1, as_json=as_json
    )


def test_json_is_one_object_a_line_and_ctrl_c_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert watch(looks(1, 2), as_json=True) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"seen": 1},
        {"seen": 2},
    ]


def test_a_cluster_that_is_gone_is_reported_and_asked_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert watch(looks(1, GONE, 2), as_json=False) == 0
    said = capsys.readouterr()
    assert "<1>" in said.out
    assert "<2>" in said.out
    assert "no answer" in said.err


@pytest.mark.parametrize("seen", [(GONE,), (1, CausewayError("read", "x", "no right"))])
def test_what_no_second_look_mends_ends_it(seen: tuple[object, ...]) -> None:
    with pytest.raises(CausewayError):
        watch(looks(*seen), as_json=True)


def test_on_a_terminal_what_was_seen_stays_while_a_cluster_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert watch(looks(1, GONE), as_json=False) == 0
    assert "<1>" in capsys.readouterr().out


def test_what_does_not_fit_a_screen_begins_with_what_must_be_seen() -> None:
    def partition(number: int, state: str, lag: int) -> PartitionStatus:
        return PartitionStatus(
            topic="orders",
            partition=number,
            target_topic="A.orders",
            source_end=None,
            mirrored_to=None,
            lag_records=lag,
            lag_ms=None,
            state=state,
            reason=None,
        )

    some = (partition(0, "running", 1), partition(1, "running", 9), partition(2, "stopped", 0))
    status = LinkStatus(**ends(link()), driver=None, partitions=some, problems=())

    (fits,), (cut,) = worst_first([status], 4), worst_first([status], 3)

    assert [one.partition for one in fits.partitions] == [0, 1, 2]
    assert [one.partition for one in cut.partitions] == [2, 1, 0]
