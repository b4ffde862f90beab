"""What a side's client makes of a broker's answers, and what librdkafka's refuses by itself."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from causeway.producer import rd_client
from causeway.producer.broker import Broker
from causeway.producer.client import Owner
from causeway.producer.outlet import Outlet
from causeway.producer.rd_client import RdClient
from causeway.producer.sender import Sender
from causeway.producer.wire_settings import wire_settings
from causeway.wire import Produced
from tests.unit.producer.test_outlet import sending

NOW = 1000.0


class Heard:
    """An owner."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append((name, *given))


def sender(heard: Heard) -> Sender:
    settings = wire_settings("east", {"bootstrap.servers": "east:9092"})
    assert settings is not None
    return Sender(settings, {}, threading.RLock(), cast(Owner, heard))


@pytest.mark.parametrize(
    ("code", "doubtful"), [(-1, 1), (3, 1), (6, 1), (7, 1), (20, 1), (56, 1), (100, 1), (19, 0)]
)
def test_what_a_broker_may_have_appended_is_in_doubt(code: int, doubtful: bool) -> None:
    """One that stops leading while it waits for its replicas says that it does not lead: they may
    have it."""
    client, outlet = sender(Heard()), Outlet("orders", 0)
    one = sending(1)
    outlet.leader = 1
    outlet.waiting.append(one)
    outlet.take()
    broker = cast(Broker, SimpleNamespace(node=1))
    client._answered(broker, outlet, Produced(code, -1, -1, ""), NOW)
    assert list(outlet.again) == [one]
    assert one.doubtful == doubtful


def test_a_broker_that_reads_nothing_for_a_quota_has_not_failed() -> None:
    client, heard = sender(Heard()), Heard()
    client._owner = cast(Owner, heard)
    begun = time.monotonic() - 100
    broker = Broker(1, cast(Any, SimpleNamespace(receive=lambda: [])), 9)
    broker.requests.append(cast(Any, SimpleNamespace(sent_at=begun)))
    broker.silent_until = begun + 90
    client._receive(broker, begun + 100)
    with pytest.raises(TimeoutError):
        client._receive(broker, begun + 151)


def test_behind_a_record_that_librdkafka_will_not_take_none_is_given_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those behind it would arrive, and then it would be taken for one that is there."""
    taken: list[bytes] = []

    class Producer:
        def __init__(self, _: Any) -> None: ...

        def produce(self, topic: str, value: bytes, *rest: Any) -> None:
            if len(taken) == 2:
                taken.append(b"")
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            taken.append(value)

        def poll(self, timeout: float) -> int:
            return 0

    monkeypatch.setattr(rd_client, "Producer", Producer)
    heard = Heard()
    client = RdClient({}, "shop", cast(Owner, heard))
    on = cast(Any, SimpleNamespace(lane=SimpleNamespace(topic="orders", partition=0)))
    for first in (1, 5):
        one = sending(first)
        if first == 1:
            client.send(on, one.batch, one.records)
        else:
            with pytest.raises(BufferError):
                client.send(on, one.batch, one.records)
    assert len(taken) == 3
    client.poll()
    ((name, _, index, error),) = heard.calls
    assert (name, index, error.code()) == ("rejected", 2, KafkaError.MSG_SIZE_TOO_LARGE)
