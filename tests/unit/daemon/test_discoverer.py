"""Who looks for topics goes on looking, whatever goes wrong with what people ask meanwhile."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.daemon import discoverer
from causeway.daemon.discoverer import Discoverer, Term
from causeway.daemon.partitions import Found
from causeway.errors import CausewayError
from causeway.link_topics import LeadershipLostError
from tests.builders.settings import LINK

PATIENCE_S = 10.0


class DirectiveExecutor:
    """What is asked for fails as often as there are errors, then it is done."""

    def __init__(self, *errors: Exception) -> None:
        self.known, self.wanted = threading.Event(), threading.Event()
        self.known.set()
        self.wanted.set()
        self._errors = list(errors)
        self.looks = 0

    def carry_out(self) -> bool:
        if self._errors:
            raise self._errors.pop(0)
        return True

    def looked(self) -> None:
        self.looks += 1


class Looks:
    """Two: the second follows what was carried out."""

    def __init__(self) -> None:
        self.count = 0
        self.second = threading.Event()

    def look(self) -> Found:
        self.count += 1
        if self.count == 2:
            self.second.set()
        return Found()

    def pass_over(self) -> bool | None:
        return None


def start(
    directing: DirectiveExecutor, looks: Looks
) -> tuple[Discoverer, threading.Event, list[str]]:
    term, failures = Term(), list[str]()

    def fail(error: Exception) -> CausewayError:
        failures.append(str(error))
        return CausewayError("mirror", cause=str(error))

    made = Discoverer(
        LINK,
        cast(Any, looks),
        cast(Any, SimpleNamespace(wanted=threading.Event(), passing=threading.Event())),
        cast(Any, directing),
        term,
        again=True,
        on_look=lambda _: None,
        fail=fail,
    )
    return made, term.lost, failures


def test_what_cannot_be_carried_out_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discoverer, "_BACKOFF_S", (0.01, 0.02))
    looks = Looks()

    made, lost, failures = start(DirectiveExecutor(ValueError("odd"), CausewayError("x")), looks)

    assert looks.second.wait(PATIENCE_S), "discovery goes on"
    assert failures == ["odd", "x"]
    assert made.alive
    lost.set()
    made.join()


def test_who_was_overtaken_meanwhile_ends() -> None:
    made, lost, failures = start(DirectiveExecutor(LeadershipLostError("write", "p")), Looks())

    made.join()

    assert lost.is_set()
    assert failures == []


def test_what_a_lane_has_yet_to_let_go_of_is_not_acted_upon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discoverer, "_BACKOFF_S", (0.01, 0.02))
    directing, looks = DirectiveExecutor(), Looks()
    seen: list[int] = []

    def look(self: Looks) -> Found:
        seen.append(directing.looks)
        if len(seen) == 2:
            self.second.set()
        held = len(seen) == 1
        return Found(held=held, unfinished=held)

    monkeypatch.setattr(Looks, "look", look)
    made, lost, _ = start(directing, looks)

    assert looks.second.wait(PATIENCE_S)
    lost.set()
    made.join()
    assert seen[:2] == [0, 0]
    assert directing.looks == len(seen) - 1
