"""The proxy keeps, passes on and drops bytes exactly when told to."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.harness.proxy import Proxy
from tests.harness.waiting import await_until


class Echo:
    """A server that remembers what it received, and sends it back."""

    def __init__(self) -> None:
        self.received = b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(1024):
                self.received += chunk
                connection.sendall(chunk)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    proxy = Proxy(echo.port)
    yield proxy
    proxy.close()


def _connected(proxy: Proxy) -> socket.socket:
    client = socket.create_connection(proxy.address, timeout=60)
    client.sendall(b"hi")
    assert client.recv(10) == b"hi"
    return client


def test_stalled_bytes_arrive_after_their_sender_has_gone(echo: Echo, proxy: Proxy) -> None:
    client = _connected(proxy)
    proxy.stall("up")
    client.sendall(b" zombie")
    await_until(lambda: proxy.held == 7)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    _connected(proxy).close()  # new connections pass

    assert echo.received == b"hihi"
    proxy.release()

    await_until(lambda: echo.received == b"hihi zombie", what="the late bytes")
    await_until(lambda: proxy.connections == 0, what="both connections to end")


def test_only_the_named_connections_stall(echo: Echo, proxy: Proxy) -> None:
    held, free = _connected(proxy), _connected(proxy)
    proxy.stall(client_ports={held.getsockname()[1]})

    held.sendall(b"held")
    free.sendall(b"free")

    assert free.recv(10) == b"free"
    assert b"held" not in echo.received
    proxy.release()
    assert held.recv(10) == b"held"


def test_answers_can_be_lost_although_requests_arrive(echo: Echo, proxy: Proxy) -> None:
    client = _connected(proxy)
    proxy.stall("down")
    client.sendall(b"request")
    await_until(lambda: echo.received.endswith(b"request"))

    proxy.cut()

    with pytest.raises(ConnectionResetError):
        client.recv(10)


def test_new_connections_stall_or_are_refused_on_request(echo: Echo, proxy: Proxy) -> None:
    proxy.stall(new_ones=True)
    client = socket.create_connection(proxy.address, timeout=60)
    client.sendall(b"early")
    await_until(lambda: proxy.held == 5)
    assert echo.received == b""
    proxy.release()
    assert client.recv(10) == b"early"

    proxy.refuse()
    refused = socket.create_connection(proxy.address, timeout=60)
    assert refused.recv(10) == b""
    proxy.refuse(False)
    _connected(proxy)
