"""A snapshot is made only for those who show it, and as often as that costs little."""

from __future__ import annotations

import pytest

from causeway.cli.present import Paced, presenter
from causeway.status import Snapshot
from tests.builders.status import full


class Looks:
    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Snapshot:
        self.made += 1
        return full()


@pytest.mark.parametrize("bounded", [True, False])
def test_without_a_terminal_or_server_no_view_is_made(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("causeway.cli.present.set_up_logs", lambda: None)
    look = Looks()
    with presenter(bounded=bounded) as show:
        for _ in range(10):
            show(look)
    assert look.made == 0


def test_the_address_of_the_page_is_printed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("causeway.cli.present.set_up_logs", lambda: None)
    with caplog.at_level("INFO", "causeway.run"):
        with presenter(bounded=False, address="http://127.0.0.1:8490"):
            pass
        with presenter(bounded=False, trouble="another process has the port"):
            pass
    (served, not_yet) = caplog.records
    assert served.getMessage() == "served"
    assert vars(served)["address"] == "http://127.0.0.1:8490"
    assert not_yet.getMessage() == "not served yet"
    assert vars(not_yet)["reason"] == "another process has the port"


def test_what_takes_long_to_show_is_shown_seldom_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    look = Looks()

    def draw(_: Snapshot) -> None:
        nonlocal now
        now += 1.0

    show = Paced(draw)
    for _ in range(60):
        now += 0.5
        show(look)
    assert look.made == 2
    show.finish()
    assert look.made == 3
