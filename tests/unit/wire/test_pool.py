"""Kept connections: a client that is refused for minutes says so, until it is let in or has new
credentials; threads share a pool."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from causeway.cluster.pool import Pool
from causeway.config import ClientSettings
from causeway.errors import AuthenticationError, UnreachableError
from causeway.wire import Deadline

SETTINGS = ClientSettings(alias="A", bootstrap=(("a", 9092),))
HERE = ("a", 9092)


def test_refusals_count_once_they_have_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    answers: list[Any] = []

    def connect(*_: object, **__: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("causeway.cluster.pool.Connection.open", connect)
    monkeypatch.setattr("causeway.cluster.pool.time.monotonic", lambda: now[0])
    connections = Pool(SETTINGS)

    def attempt(at: float, answer: Any) -> str | None:
        now[0] = at
        answers.append(answer)
        try:
            connections.open(HERE)
        except (AuthenticationError, UnreachableError):
            pass
        return connections.refused_for_minutes

    refusal = AuthenticationError("authenticate to", "A", "refused")
    assert attempt(0, refusal) is None
    assert attempt(100, refusal) is None
    assert attempt(130, refusal) == str(refusal)
    assert attempt(140, UnreachableError("connect to", "A")) == str(refusal)
    now[0] = 1_000
    assert connections.refused_for_minutes is None, "there was no attempt since"
    assert attempt(1_001, refusal) == str(refusal)
    assert attempt(1_002, SimpleNamespace()) is None
    assert attempt(1_003, refusal) is None
    assert attempt(1_200, refusal) == str(refusal)
    connections.renew(SETTINGS)
    assert connections.refused_for_minutes is None


def test_a_broker_may_fail_while_another_thread_looks_for_one() -> None:
    connections = Pool(ClientSettings(alias="A", bootstrap=()))
    failed = 20_000

    def fail() -> None:
        for port in range(failed):
            connections.suspect(("a", port))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    failing = threading.Thread(target=fail)
    failing.start()
    try:
        while failing.is_alive():
            with pytest.raises(UnreachableError, match="no bootstrap servers"):
                connections.take_any([], None, Deadline(1.0))
    finally:
        sys.setswitchinterval(before)
        failing.join()
