"""What an executor is sent."""

from __future__ import annotations

import pickle
import time

import pytest

from causeway.config.settings import ClientSettings, SaslSettings, Secret
from causeway.operate.verify import task
from causeway.operate.verify.task import Pace, Task, seal
from causeway.relay.control import SECRET_VARIABLE, new_secret

CLIENT = ClientSettings(
    alias="A",
    bootstrap=(("localhost", 1),),
    protocol="SASL_PLAINTEXT",
    sasl=SaslSettings(mechanism="PLAIN", username="me", password=Secret("open sesame")),
)


def test_no_secret_is_in_what_spark_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_secret()
    sealed = seal(secret, CLIENT, CLIENT)
    sent = pickle.dumps(Task(sealed, [], look_into=False, bytes_per_s=None))
    assert b"sesame" not in sent
    assert secret.encode() not in sent
    monkeypatch.setenv(SECRET_VARIABLE, secret)
    source, target = task._opened(sealed)
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
