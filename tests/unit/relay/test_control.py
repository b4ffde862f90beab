"""The control socket: both ends over a real socket."""

from __future__ import annotations

import queue
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from causeway.model import State
from causeway.relay.control import ControlClient, ControlServer, LaneConnection, new_secret
from causeway.relay.messages import (
    Drain,
    Hello,
    Lease,
    PartitionReport,
    Report,
    Revoke,
    ToDriver,
)

KEY = new_secret()
Event = tuple[str, LaneConnection, ToDriver | None]


class Recorded:
    def __init__(self) -> None:
        self.events: queue.Queue[Event] = queue.Queue()
        self.server = ControlServer(
            "127.0.0.1",
            KEY,
            on_hello=lambda connection: self.events.put(("hello", connection, connection.hello)),
            on_message=lambda connection, message: self.events.put(
                ("message", connection, message)
            ),
            on_closed=lambda connection: self.events.put(("closed", connection, None)),
        )

    def next(self) -> Event:
        return self.events.get(timeout=60)


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    recorded = Recorded()
    recorded.server.start()
    yield recorded
    recorded.server.close()


def receive(client: ControlClient, count: int) -> list[object]:
    messages: list[object] = []
    while len(messages) < count:
        assert select.select([client], [], [], 60)[0]
        messages += client.receive()
    return messages


def hello(client: ControlClient) -> None:
    client.send(Hello(lane=3, pid=1, host="here"))


def test_messages_go_both_ways(recorded: Recorded) -> None:
    client = ControlClient("127.0.0.1", recorded.server.port, KEY)
    assert client.receive() == []
    hello(client)
    kind, connection, message = recorded.next()
    assert (kind, message) == ("hello", Hello(lane=3, pid=1, host="here"))
    connection.send(Lease(lane_time=1.5))
    connection.send(Drain())
    assert receive(client, 2) == [Lease(lane_time=1.5), Drain()]
    client.send(Report(lane_time=2.0))
    assert recorded.next()[2] == Report(lane_time=2.0)
    client.close()
    assert recorded.next()[:2] == ("closed", connection)
    connection.send(Drain())  # does nothing


def test_messages_larger_than_a_socket_buffer_do_not_block(recorded: Recorded) -> None:
    client = ControlClient("127.0.0.1", recorded.server.port, KEY)
    hello(client)
    connection = recorded.next()[1]
    revoke = Revoke(keys=tuple(("A->B", "topic" * 20, n) for n in range(60_000)))
    connection.send(revoke)
    connection.send(Drain())
    assert receive(client, 2) == [revoke, Drain()]
    partitions = tuple(
        PartitionReport(
            link="A->B",
            topic="t" * 200,
            partition=n,
            state=State.RUNNING,
            position=n,
            leader_epoch=0,
            source_end=n,
            last_timestamp=-1,
            outlets=(),
        )
        for n in range(20_000)
    )
    client.send(Report(lane_time=1.0, partitions=partitions))
    while not client.flush():
        select.select([], [client], [], 5)
    message = recorded.next()[2]
    assert isinstance(message, Report)
    assert message.partitions == partitions


def test_another_key_is_refused(recorded: Recorded) -> None:
    client = ControlClient("127.0.0.1", recorded.server.port, new_secret())
    hello(client)
    with pytest.raises(ConnectionError):
        receive(client, 1)
    assert recorded.events.empty()


def test_a_recorded_conversation_cannot_be_played_again(recorded: Recorded) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    recording = bytearray()
    real = socket.create_connection(("127.0.0.1", recorded.server.port))
    nonce = real.recv(16)
    # A lane that talks to an eavesdropper, who hands it the real driver's random bytes.
    accepted: list[socket.socket] = []

    def accept() -> None:
        accepted.append(listener.accept()[0])
        accepted[0].sendall(nonce)

    thread = threading.Thread(target=accept)
    thread.start()
    client = ControlClient("127.0.0.1", listener.getsockname()[1], KEY)
    thread.join()
    hello(client)
    time.sleep(0.1)
    recording += accepted[0].recv(1 << 16)
    real.sendall(recording)  # the first time it counts: the eavesdropper only passes it on
    assert recorded.next()[0] == "hello"
    with socket.create_connection(("127.0.0.1", recorded.server.port)) as again:
        again.recv(16)
        again.sendall(recording)
        again.settimeout(60)
        assert again.recv(1) == b""
    assert recorded.events.empty()
    for sock in (real, accepted[0], listener):
        sock.close()
    client.close()


def test_closing_the_server_ends_the_lanes(recorded: Recorded) -> None:
    client = ControlClient("127.0.0.1", recorded.server.port, KEY)
    hello(client)
    recorded.next()
    recorded.server.close()
    with pytest.raises(ConnectionError):
        receive(client, 1)
    with pytest.raises(ConnectionError):
        ControlClient("127.0.0.1", recorded.server.port, KEY, timeout_s=1)


def test_a_raising_callback_is_kept_as_the_failure() -> None:
    def fail(connection: LaneConnection) -> None:
        raise ValueError("odd")

    server = ControlServer(
        "127.0.0.1", KEY, on_hello=fail, on_message=lambda *_: None, on_closed=lambda _: None
    )
    server.start()
    client = ControlClient("127.0.0.1", server.port, KEY)
    hello(client)
    with pytest.raises(ConnectionError):
        receive(client, 1)
    assert isinstance(server.failure, ValueError)
