"""One connection, against a broker that says what the test wants."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from causeway.config import ClientSettings, SaslSettings, Secret
from causeway.errors import BrokerError, ProtocolError, UnreachableError
from causeway.wire import Connection, round_trip_s
from tests.harness.scripted import ScriptedBroker, response_class, scripted_broker

MetadataResponse = response_class(MetadataRequest)


def metadata(request: Any, version: int) -> Any:
    return MetadataResponse(
        brokers=[], cluster_id=f"v{version}", controller_id=len(request.topics or ()), topics=[]
    )


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted_broker() as running:
        running.handlers[MetadataRequest] = metadata
        yield running


def open_to(broker: ScriptedBroker, **settings: Any) -> Connection:
    address = ("127.0.0.1", broker.port)
    client = ClientSettings(alias="A", bootstrap=(address,), connect_timeout_ms=2_000, **settings)
    return Connection.open(client, *address)


def ask(topics: int = 0, **versions: int) -> Any:
    kind = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(topics=[kind(name=f"{n:0200}") for n in range(topics)], **versions)


def test_uses_the_highest_common_version(broker: ScriptedBroker) -> None:
    broker.versions[MetadataRequest.API_KEY] = (5, 9)
    with open_to(broker) as connection:
        assert connection.call(ask()).cluster_id == "v9"
        assert connection.call(ask(max_version=7)).cluster_id == "v7"
        assert connection.api_version(MetadataRequest.API_KEY, 12) == 9
        with pytest.raises(BrokerError, match=r"Metadata in versions 5 to 9, and .* version 10"):
            connection.call(ask(min_version=10))
        with pytest.raises(BrokerError, match=r"no ListOffsets \(API 2\)"):
            connection.call(ListOffsetsRequest(topics=[]))
        assert connection.call(ask(topics=3)).controller_id == 3, "still of use"


def test_an_old_broker_answers_api_versions_in_version_0(broker: ScriptedBroker) -> None:
    broker.versions[18] = (0, 2)
    with open_to(broker) as connection:
        assert connection.call(ask()).controller_id == 0


def test_nothing_big_is_taken_from_a_peer_before_it_has_said_who_it_is(
    broker: ScriptedBroker,
) -> None:
    handshake = response_class(SaslHandshakeRequest)
    broker.handlers[SaslHandshakeRequest] = lambda *_: handshake(error_code=0, mechanisms=["PLAIN"])
    broker.handlers[SaslAuthenticateRequest] = lambda *_: (1 << 30).to_bytes(4) + b"x"
    sasl = SaslSettings(mechanism="PLAIN", username="u", password=Secret("p"))
    with pytest.raises(ProtocolError, match="a frame of 1073741824 bytes"):
        open_to(broker, protocol="SASL_PLAINTEXT", sasl=sasl)
    answer = response_class(SaslAuthenticateRequest)
    broker.handlers[SaslAuthenticateRequest] = lambda *_: answer(error_code=0, auth_bytes=b"")
    broker.handlers[MetadataRequest] = lambda *_: MetadataResponse(
        brokers=[], cluster_id="c" * 30_000, controller_id=1, topics=[]
    )
    with open_to(broker, protocol="SASL_PLAINTEXT", sasl=sasl) as connection:
        assert len(connection.call(ask()).cluster_id) == 30_000


def test_pipelined_answers_come_in_order(broker: ScriptedBroker) -> None:
    with open_to(broker) as connection:
        # More than the sockets between us hold, so that sending waits for reading.
        requests = [ask(topics=n % 100) for n in range(500)]
        answers = connection.call_many(requests)
        assert [answer.controller_id for answer in answers] == [n % 100 for n in range(500)]


def test_an_answer_to_another_question_is_refused(broker: ScriptedBroker) -> None:
    broker.handlers[MetadataRequest] = lambda *_: b"\0\0\0\x06" + b"\0\0\0\x63" + b"\0\0"
    with open_to(broker) as connection:
        with pytest.raises(ProtocolError, match="correlation id 99, expected 2"):
            connection.call(ask())
        assert connection.closed


def test_an_endless_length_is_refused_at_once(broker: ScriptedBroker) -> None:
    body = b"\0\0\0\x02\0" + b"\0\0\0\0" + b"\xff" * 1_000_000  # added up, it took minutes
    broker.handlers[MetadataRequest] = lambda *_: len(body).to_bytes(4) + body
    started = time.monotonic()
    with open_to(broker) as connection, pytest.raises(ProtocolError, match="more than 5 bytes"):
        connection.call(ask(), timeout_s=20)
    assert time.monotonic() - started < 20


def test_an_answer_cut_short_is_refused(broker: ScriptedBroker) -> None:
    broker.handlers[MetadataRequest] = lambda *_: b"\0\0\0\x06" + b"\0\0\0\x02" + b"\0\0"
    with open_to(broker) as connection, pytest.raises(ProtocolError, match="can't be decoded"):
        connection.call(ask())


def test_no_answer_in_time(broker: ScriptedBroker) -> None:
    broker.handlers[MetadataRequest] = lambda *_: time.sleep(0.5)
    with open_to(broker) as connection:
        with pytest.raises(UnreachableError, match=r"send Metadata to A .*no answer within 0\.1 s"):
            connection.call(ask(), timeout_s=0.1)
        assert connection.closed, "its answer may still come, and must not meet another request"


def test_a_broker_that_hangs_up(broker: ScriptedBroker) -> None:
    with open_to(broker) as connection:
        connection.call(ask())
        broker.handlers[MetadataRequest] = lambda *_: None
        with pytest.raises(UnreachableError, match="the broker closed the connection") as caught:
            connection.call(ask())
        assert caught.value.retriable
        assert "security.protocol" not in str(caught.value), "it had taken a request before"


def test_unreachable() -> None:
    cases = [("127.0.0.1", 1, "connection refused"), ("no-such-host.invalid", 9092, "resolved")]
    for host, port, says in cases:
        client = ClientSettings(alias="A", bootstrap=((host, port),))
        with pytest.raises(UnreachableError, match=says) as caught:
            Connection.open(client, host, port, timeout_s=1)
        assert caught.value.retriable


def test_closing_throws_away_what_is_not_sent(broker: ScriptedBroker) -> None:
    connection = open_to(broker)
    connection.queue([bytes(64 << 20)])
    assert not connection.flush()
    assert connection.wants_write
    started = time.monotonic()
    connection.close()
    assert time.monotonic() - started < 20
    assert connection.closed
    assert not broker.requests


def test_socket_buffers_are_the_kernels_unless_the_file_says_otherwise(
    broker: ScriptedBroker,
) -> None:
    def sizes(connection: Connection) -> list[int]:
        kinds = (socket.SO_RCVBUF, socket.SO_SNDBUF)
        return [connection.socket.getsockopt(socket.SOL_SOCKET, kind) for kind in kinds]

    with (
        open_to(broker) as left_alone,
        open_to(broker, receive_buffer_bytes=30_000, send_buffer_bytes=40_000) as told,
    ):
        assert sizes(told) == [60_000, 80_000], "Linux doubles them for its own needs"
        assert sizes(left_alone) != sizes(told)


def test_a_broker_that_is_busy_for_a_moment_is_not_far_away(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*took: float) -> float:
        monkeypatch.setattr("causeway.wire.connection.time", Clock(took))
        with open_to(broker) as connection:
            return round_trip_s(connection, 0.01)

    assert measured(0.001) == pytest.approx(0.001), "it is not asked twice"
    assert measured(0.3, 0.002) == pytest.approx(0.002)
    assert measured(0.2, 0.1, 0.15) == pytest.approx(0.1)


class Clock:
    """By which each question takes as long as the test says, and not one more is asked."""

    def __init__(self, took: tuple[float, ...]) -> None:
        self._ticks = iter([tick for one in took for tick in (0.0, one)])

    def monotonic(self) -> float:
        return next(self._ticks)


@pytest.fixture
def silent(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A name with two addresses. The first one accepts connections and never answers."""
    with socket.create_server(("127.0.0.2", broker.port)) as server:

        def resolve(_: str, port: int, **__: object) -> list[Any]:
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
                for ip in ("127.0.0.2", "127.0.0.1")
            ]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        yield server


def open_by_name(broker: ScriptedBroker, name: str, timeout_s: float) -> Connection:
    client = ClientSettings(alias="A", bootstrap=((name, broker.port),))
    return Connection.open(client, name, broker.port, timeout_s=timeout_s)


def test_an_address_that_accepts_and_never_answers_leaves_time_for_the_others(
    broker: ScriptedBroker, silent: socket.socket
) -> None:
    with open_by_name(broker, "two.invalid", 4) as connection:
        assert connection.socket.getpeername()[0] == "127.0.0.1"
        assert connection.call(ask()).controller_id == 0
    silent.settimeout(10)
    silent.accept()[0].close()
    with open_by_name(broker, "two.invalid", 4):
        silent.settimeout(0.2)
        with pytest.raises(TimeoutError):
            silent.accept()  # the address that answered comes first from now on


def test_an_error_of_a_name_says_what_each_address_did(
    broker: ScriptedBroker, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = r"127\.0\.0\.2: no answer within .* s; 127\.0\.0\.1: the broker (closed|reset) the conn"
    monkeypatch.setattr(broker, "serve", socket.socket.close)
    with pytest.raises(UnreachableError, match=said) as caught:
        open_by_name(broker, "both.invalid", 2)
    assert caught.value.retriable
