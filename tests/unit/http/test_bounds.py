"""What callers without a token can hold of the driver is bounded: files, memory and time."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest

from causeway.config.settings import HttpSettings, RunSettings, Settings
from causeway.http import listener, protocol
from causeway.http.server import served
from tests.harness.waiting import await_until
from tests.unit.http.served import settings
from tests.unit.metrics.snapshots import full

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY_TO_COME = (
    b"POST /api/v1/links/none/pause HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


@pytest.fixture
def place() -> Iterator[tuple[str, int]]:
    run = RunSettings(http=HttpSettings(port=0))
    with served(Settings(links=(settings(),), run=run, spark={})) as serving:
        serving.take(full)
        host, _, port = str(serving.address).removeprefix("http://").partition(":")
        yield host, int(port)


def call(place: tuple[str, int]) -> bytes:
    with socket.create_connection(place, timeout=30) as sock:
        sock.sendall(HEAD + b"Connection: close\r\n\r\n")
        return all_of(sock)


def all_of(sock: socket.socket) -> bytes:
    """Until the other end closes."""
    found = b""
    try:
        while more := sock.recv(65536):
            found += more
    except ConnectionError:
        pass
    return found


def answers(place: tuple[str, int]) -> bool:
    try:
        return b" 200 " in call(place)
    except ConnectionError:
        return False


@pytest.mark.parametrize(
    "piece", [b"X-A: " + b"a" * 1000 + b"\r\n", b"a" * 1000], ids=["many", "one"]
)
def test_a_head_without_end_is_cut_off(place: tuple[str, int], piece: bytes) -> None:
    sent = 0
    with socket.create_connection(place, timeout=30) as sock:
        try:
            sock.sendall(HEAD + b"X: ")
            while sent < 20_000_000:
                sock.sendall(piece)
                sent += len(piece)
        except ConnectionError:
            pass
    assert sent < 20_000_000
    assert answers(place)


def test_a_long_body_is_no_long_head(place: tuple[str, int]) -> None:
    connection = HTTPConnection(*place, timeout=30)
    for _ in range(3):
        body = b" " * 60_000 + b"{}"
        connection.request("POST", "/none", body, {"content-type": "application/json"})
        with connection.getresponse() as answer:
            assert answer.status == 404
            answer.read()
    connection.close()


@pytest.mark.parametrize("begun", [b"", HEAD, BODY_TO_COME], ids=["nothing", "head", "body"])
def test_who_says_nothing_more_is_not_waited_for(
    place: tuple[str, int], begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers(place)
    monkeypatch.setattr(protocol, "PATIENCE_S", 0.3)
    with socket.create_connection(place, timeout=30) as sock:
        sock.sendall(begun)
        assert all_of(sock) == b""  # and it ends


def test_more_connections_than_the_driver_spares_are_closed(
    place: tuple[str, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The ones that are there go on, and are made room of."""
    monkeypatch.setattr(listener, "MOST_CONNECTIONS", 4)
    await_until(lambda: answers(place), 30, "it answers")
    with caplog.at_level(logging.WARNING, "causeway.http"), ExitStack() as stack:
        held = []

        def enough() -> bool:
            one = stack.enter_context(socket.create_connection(place, timeout=30))
            held.append(one)
            return not answers(place)

        await_until(enough, 60, "it takes no more")
        assert len(held) <= 4
        held[0].sendall(HEAD + b"Connection: close\r\n\r\n")
        assert b" 200 " in all_of(held[0])
        await_until(lambda: answers(place), 30, "there is room again")
    assert "connections refused" in caplog.messages
