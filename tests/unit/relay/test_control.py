"""The control socket: both ends over a real socket."""

from __future__ import annotations

import errno
import queue
import select
import selectors
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from causeway.link_topics import Transformed
from causeway.model import Spread, State
from causeway.relay import (
    Clusters,
    ControlClient,
    ControlServer,
    Drain,
    FlowReport,
    Hello,
    LaneConnection,
    LaneReport,
    Lease,
    Revoke,
    StageSpec,
    StageSpecs,
    ToDriver,
    TreatmentStep,
    control,
    new_secret,
)
from causeway.relay.messages import decode, encode

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
    client.send(LaneReport(lane_time=2.0))
    assert recorded.next()[2] == LaneReport(lane_time=2.0)
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
        FlowReport(
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
    client.send(LaneReport(lane_time=1.0, partitions=partitions))
    while not client.flush():
        select.select([], [client], [], 5)
    message = recorded.next()[2]
    assert isinstance(message, LaneReport)
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


def test_connections_without_the_key_are_bounded_and_a_lane_still_gets_in(
    recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    address = ("127.0.0.1", recorded.server.port)
    idle = [socket.create_connection(address) for _ in range(200)]
    client = ControlClient(*address, KEY)
    idle += [socket.create_connection(address) for _ in range(20)]
    hello(client)
    assert recorded.next()[0] == "hello"
    for sock in idle:
        sock.settimeout(60)
        assert len(sock.recv(16, socket.MSG_WAITALL)) == 16
    kept = 0
    for sock in idle:
        sock.setblocking(False)
        try:
            sock.recv(1)
        except BlockingIOError:
            kept += 1
        sock.close()
    assert kept <= 64
    client.close()
    assert [r for r in caplog.records if "without the control key" in r.message]


def test_a_server_out_of_descriptors_rests_and_goes_on(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    class Full:
        """The listener of a process that has no descriptor left, for a while."""

        def __init__(self, listener: socket.socket) -> None:
            self._listener = listener

        def accept(self) -> tuple[socket.socket, object]:
            calls.append(1)
            if len(calls) < 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return self._listener.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(self._listener, name)

    monkeypatch.setattr(control, "_ACCEPT_PAUSE_S", 0.2)
    server = ControlServer(
        "127.0.0.1", KEY, on_hello=lambda _: None, on_message=lambda *_: None, on_closed=print
    )
    full = Full(server._listener)
    server._selector.unregister(server._listener)
    monkeypatch.setattr(server, "_listener", full)
    server._selector.register(full, selectors.EVENT_READ)  # type: ignore[arg-type]
    server.start()
    ControlClient("127.0.0.1", server.port, KEY).close()
    server.close()
    assert len(calls) == 3
    assert "no room for a lane's connection" in caplog.text


def test_an_impostor_of_the_driver_gets_little_memory() -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def claim() -> None:
            with listener.accept()[0] as sock:
                sock.sendall(b"n" * 16)
                sock.recv(17, socket.MSG_WAITALL)  # its random bytes, and that it goes on
                sock.sendall((1 << 29).to_bytes(4) + b"x")
                over.wait(60)

        thread = threading.Thread(target=claim)
        thread.start()
        client = ControlClient("127.0.0.1", listener.getsockname()[1], KEY)
        hello(client)
        with pytest.raises(ConnectionError, match="a piece of 536870912 bytes"):
            receive(client, 1)
        client.close()
        over.set()
        thread.join()


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


def test_no_text_of_a_message_shows_a_secret() -> None:
    clusters = Clusters(
        clusters={"A": {"sasl": {"password": "hunter2-hunter2"}}},
        lease_s=1.0,
        report_interval_s=1,
        connections=1,
        in_flight=1,
        buffer_bytes=1,
    )
    assert "hunter2" not in f"{clusters} {clusters!r}"
    assert decode(encode(clusters)) == clusters
    broken = encode(clusters).replace(b'"lease_s":1.0', b'"lease_s":"x"')
    for data in (broken, b"[" * 200_000, b"{"):
        with pytest.raises(ValueError, match="not a message") as caught:
            decode(data)
        assert "hunter2" not in repr(caught.value)
    stage = StageSpec(key="k", name="n", secrets={"p": "hunter2"}, registry={"password": "hunter2"})
    step = TreatmentStep(kind="k", settings={"password": "hunter2"})
    shown = repr(StageSpecs(stages=(stage.replace(shortcut="hunter2"),))) + repr(step)
    assert "hunter2" not in shown
    assert "name='n'" in shown


def test_what_is_as_usual_is_not_sent_and_what_is_unknown_not_taken() -> None:
    report = FlowReport(
        link="A->B",
        topic="t",
        partition=0,
        state=State.FAILED,
        reason="why",
        position=1,
        leader_epoch=2,
        source_end=3,
        last_timestamp=4,
        outlets=(),
        ages=Spread.of(5),
        transformed=Transformed(seen=1 << 100),
    )
    sent = encode(LaneReport(lane_time=1.0, partitions=(report,)))
    assert decode(sent) == LaneReport(lane_time=1.0, partitions=(report,))
    assert b"records" not in sent
    for wrong in (b'{"type":"drain","x":1}', b'{"type":"lane"}', b'{"lane_time":1.0}', b"\xff"):
        with pytest.raises(ValueError, match="not a message"):
            decode(wrong)
    with pytest.raises(ValueError, match="not a message"):
        decode(sent.replace(b'"failed"', b'"asleep"'))
