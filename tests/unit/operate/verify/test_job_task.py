"""What an executor is sent."""

from __future__ import annotations

import pickle
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config import ClientSettings, SaslSettings, Secret
from causeway.errors import BrokerError, UnreachableError
from causeway.operate.verify import job
from causeway.operate.verify.job import Answer, CompareTask, Pace, seal
from causeway.operate.verify.outcome import RangeOutcome
from causeway.relay import SECRET_VARIABLE, new_secret
from tests.builders.verify import ONE

CLIENT = ClientSettings(
    alias="A",
    bootstrap=(("localhost", 1),),
    protocol="SASL_PLAINTEXT",
    sasl=SaslSettings(mechanism="PLAIN", username="me", password=Secret("open sesame")),
)


def test_no_secret_is_in_what_spark_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_secret()
    sealed = seal(secret, CLIENT, CLIENT)
    sent = pickle.dumps(CompareTask(sealed, [], look_into=False, bytes_per_s=None))
    assert b"sesame" not in sent
    assert secret.encode() not in sent
    monkeypatch.setenv(SECRET_VARIABLE, secret)
    source, target = job._opened(sealed)
    assert (source.settings, target.settings) == (CLIENT, CLIENT)


def test_a_pace_is_held_in_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", sleep)
    pace = Pace(1_000.0)
    for _ in range(50):
        pace.spent(400)
    assert now == pytest.approx(120.0, abs=1.1)
    now += 60  # what was not used is not saved up
    before = now
    for _ in range(50):
        pace.spent(400)
    assert now - before > 18.5
    Pace(None).spent(10**12)


def test_what_a_broker_answers_may_pass_and_silence_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behind = BrokerError("compare", "t-0", code=-1, name="BEHIND", retriable=True)
    silent = UnreachableError("fetch", "t-0", retriable=True)
    told: list[Answer] = []
    asked = 0

    def answers(*ones: Answer) -> Answer:
        nonlocal asked
        waiting = iter(ones)

        def answer(*_: object) -> Answer:
            nonlocal asked
            asked += 1
            return next(waiting)

        monkeypatch.setattr(job, "answer", answer)
        part = job.Part(
            owner=0, place=0, link=cast(Any, SimpleNamespace(source=1, target=2)), range=ONE
        )
        here = job.Runner(cast(Any, lambda _: None), None, lambda: None)
        here.run([part], look_into=False, on_answer=lambda _, found: told.append(found))
        return told.pop()

    monkeypatch.setattr(time, "sleep", lambda _: None)
    good = RangeOutcome(range=ONE, begun=0)
    assert answers(behind, good) is good
    assert answers(behind, behind, behind, good) is behind
    asked = 0
    assert answers(silent, good) is silent
    assert asked == 1
