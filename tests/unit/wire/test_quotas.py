"""What a client does where a broker throttles it by a quota."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from causeway.cluster.pool import Pool
from causeway.config import ClientSettings
from causeway.errors import BrokerError
from causeway.wire import MOST_WAIT_S, Deadline, QuotaWaits
from tests.harness.scripted import response_class, scripted_broker

FETCH, PRODUCE = 1, 0


def throttled(seconds: float) -> Any:
    return SimpleNamespace(throttle_time_ms=round(seconds * 1000))


def test_requests_of_a_kind_wait_at_the_broker_that_throttles_them() -> None:
    waits, deadline = QuotaWaits(), Deadline(10)
    waits.note(1, FETCH, throttled(40))
    waits.note(1, PRODUCE, throttled(0))
    waits.note(2, FETCH, SimpleNamespace())
    assert waits.wait_s(2, FETCH, deadline) == waits.wait_s(1, PRODUCE, deadline) == 0
    assert waits.left_s(FETCH) == pytest.approx(40, abs=5)
    assert waits.left_s(FETCH, 1) == pytest.approx(40, abs=5)
    assert waits.left_s(FETCH, 2) == waits.left_s(PRODUCE) == 0

    assert waits.wait_s(1, FETCH, deadline) == pytest.approx(40, abs=5)
    assert deadline.left() == pytest.approx(50, abs=5), "the wait does not count"


def test_a_call_does_not_wait_for_a_quota_without_end() -> None:
    waits, deadline = QuotaWaits(), Deadline(10)
    waits.note(1, FETCH, throttled(0.6 * MOST_WAIT_S))
    waits.wait_s(1, FETCH, deadline)
    with pytest.raises(BrokerError, match=r"broker 1: .* throttled by quota for 7\d s") as raised:
        waits.wait_s(1, FETCH, deadline)
    assert raised.value.retriable


def test_a_connection_that_a_broker_mutes_is_not_used_meanwhile() -> None:
    """Over another one it answers."""
    answer = response_class(MetadataRequest)

    def metadata(request: Any, version: int) -> Any:
        return answer(throttle_time_ms=60_000 if request.topics else 0, brokers=[], topics=[])

    with scripted_broker() as broker:
        broker.handlers[MetadataRequest] = metadata
        address = "127.0.0.1", broker.port
        pool = Pool(ClientSettings(alias="A", bootstrap=(address,)))
        topic = MetadataRequest.MetadataRequestTopic(name="t")
        first = pool.take(address, 5)
        first.call(MetadataRequest(topics=[topic]))
        pool.give_back(first)

        second = pool.take(address, 5)
        assert second is not first
        second.call(MetadataRequest(topics=[]))
        pool.give_back(second)
        assert pool.take(address, 5) is second

        first.muted_until = time.monotonic()
        assert pool.take(address, 5) is first
        first.close()
        second.close()
        pool.close()
