"""What happens is posted to a real server, once it can be, and never at the driver's cost."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Sequence
from typing import Any

import pytest

from causeway.config import Secret, WebhookSettings
from causeway.daemon import events
from causeway.daemon.events import posting
from tests.harness.receiver import PATH, SECRET, TOKEN, receiving
from tests.harness.waiting import await_until

_log = logging.getLogger("causeway.test-webhook")
_log.setLevel(logging.INFO)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_TOGETHER_S", 0.02)
    monkeypatch.setattr(events, "_BACKOFF_S", (0.02, 0.05))


def stop(partition: str, **about: object) -> None:
    extra = {"link": "A->B", "partition": partition, **about}
    _log.warning("partition stopped", extra=extra)


def test_what_happens_is_posted_signed_and_with_the_token() -> None:
    with receiving() as receiver:
        with posting(receiver.settings):
            stop("orders-3", reason="caf\udce9")
            _log.info("directive", extra={"link": "A->B", "what": "pause", "by": "anna"})
            _log.info("lanes ready")
            logging.getLogger("causeway.http.guard").warning("call refused")
            await_until(lambda: len(receiver.events()) == 2, 60, "both events")
        headers, body = receiver.posts[0]
        event = json.loads(body)["events"][0]

    assert receiver.events() == ["partition stopped", "directive"], "and no more of them"
    assert event["about"] == {"partition": "orders-3", "reason": "caf?"}
    assert (event["link"], event["level"]) == ("A->B", "warning")
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["content-type"] == "application/json"
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-causeway-signature"] == f"sha256={signature}"


def test_a_receiver_that_is_away_gets_it_later_in_order() -> None:
    with receiving(500, 503, 429) as receiver, posting(receiver.settings):
        stop("orders-0")
        stop("orders-1")
        await_until(lambda: len(receiver.posts) >= 4, 60, "four tries")
        last = receiver.bodies()[3]
    assert [each["about"]["partition"] for each in last["events"]] == ["orders-0", "orders-1"]


def test_a_refused_event_is_reported_once_and_not_posted_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with receiving(404, 302) as receiver, posting(receiver.settings):
        for number in range(3):
            stop(f"orders-{number}")
            await_until(lambda many=number + 1: len(receiver.posts) == many, 60, "a post")  # type: ignore[misc]
    told = [each for each in caplog.records if each.name == "causeway.webhook"]
    assert [each.getMessage() for each in told] == ["webhook refuses events"]
    assert receiver.paths == [PATH] * 3, "a redirect is not followed"
    assert not any(secret in caplog.text for secret in (TOKEN, SECRET, PATH))
    assert not any(secret in repr(receiver.settings) for secret in (TOKEN, SECRET, PATH))


def test_a_receiver_that_hangs_costs_the_driver_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MOST", 50)
    with receiving() as receiver, posting(receiver.settings):
        receiver.gate.clear()
        stop("orders-0")
        began = time.monotonic()
        for number in range(1, 2000):
            stop(f"orders-{number}")
        took_s = time.monotonic() - began
        receiver.gate.set()
        await_until(lambda: any(b["left_out"] for b in receiver.bodies()), 60, "what was left out")
        await_until(lambda: _all_told(receiver.bodies()), 60, "all of them, or their number")
    assert took_s < 9, "it was never waited for"


def _all_told(bodies: Sequence[dict[str, Any]]) -> bool:
    return sum(len(each["events"]) + int(each["left_out"]) for each in bodies) == 2000


def test_the_end_of_a_run_is_posted_and_is_not_delayed(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setattr(events, "_TOGETHER_S", 60)
    monkeypatch.setattr(events, "_END_S", 60)
    with receiving() as receiver:
        with posting(receiver.settings):
            stop("orders-0")
        assert receiver.events() == ["partition stopped"]
    began = time.monotonic()
    with posting(WebhookSettings(url=Secret(f"http://127.0.0.1:{port}/"))):
        stop("orders-0")
    assert time.monotonic() - began < 30


def test_without_a_webhook_nothing_listens() -> None:
    before = list(logging.getLogger("causeway").handlers)
    with posting(None):
        assert logging.getLogger("causeway").handlers == before
