"""What callers without a token can hold of the driver is bounded: files, memory and time."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from causeway.config import HttpSettings, RunSettings, Settings
from causeway.http import listener, protocol, served
from tests.builders.served import settings
from tests.builders.status import full
from tests.harness.kafka.certificates import create_certificates
from tests.harness.waiting import await_until

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY_TO_COME = (
    b"POST /api/v1/links/none/pause HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


@contextmanager
def listening(
    certificates: Path | None = None,
) -> Iterator[tuple[tuple[str, int], ssl.SSLContext | None]]:
    """Where the server listens, and what a client of it trusts if there is TLS. Its files lie
    in `certificates` then."""
    http, context = HttpSettings(port=0), None
    if certificates is not None:
        files = create_certificates(certificates)
        http = HttpSettings(port=0, certificate=str(files.broker), key=str(files.broker))
        context = ssl.create_default_context(cafile=str(files.ca))
    run = RunSettings(http=http)
    with served(Settings(links=(settings(),), run=run, spark={})) as serving:
        serving.take(full)
        host, _, port = str(serving.address).rpartition("//")[2].partition(":")
        yield (host, int(port)), context


@pytest.fixture
def place() -> Iterator[tuple[str, int]]:
    with listening() as (found, _):
        yield found


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


def test_a_head_with_too_many_headers_is_cut_off(place: tuple[str, int]) -> None:
    with socket.create_connection(place, timeout=30) as sock:
        sock.sendall(HEAD + b"a:\r\n" * 90 + b"Connection: close\r\n\r\n")
        assert b" 200 " in all_of(sock)
    with socket.create_connection(place, timeout=30) as sock, suppress(ConnectionError):
        sock.sendall(HEAD + b"a:\r\n" * 200 + b"Connection: close\r\n\r\n")
        assert b" 200 " not in all_of(sock)


def test_requests_before_their_answers_are_read_one_after_the_other(
    place: tuple[str, int],
) -> None:
    """A client that sends 24 MB of requests and reads no answer costs the driver kilobytes."""
    assert answers(place)
    requests = (HEAD + b"\r\n") * (24_000_000 // len(HEAD))
    before = psutil.Process().memory_info().rss
    with socket.create_connection(place, timeout=30) as sock:
        sock.settimeout(1)
        sent = 0
        with suppress(TimeoutError, ConnectionError):
            while sent < len(requests):
                sent += sock.send(requests[sent : sent + 65536])
        assert sent < len(requests), "the server reads no more than it answers"
        assert psutil.Process().memory_info().rss - before < 30_000_000
        assert answers(place)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_each_of_many_requests_at_once_is_answered(tmp_path: Path, tls: bool) -> None:
    many = 3_000
    head = b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    requests = [
        HEAD + b"\r\n",
        head + b"Content-Length: 2\r\n\r\n{}",
        head + b"Content-Length: 5000\r\n\r\n{" + b" " * 4998 + b"}",
    ]
    sent = b"".join(requests[number % 3] for number in range(many))

    async def sent_and_read(place: tuple[str, int], context: ssl.SSLContext | None) -> bytes:
        # One thread: OpenSSL does not allow one to read a connection while another one writes to
        # it. A read then looks like an end of the connection to the writer.
        name = "localhost" if context is not None else None
        reader, writer = await asyncio.open_connection(*place, ssl=context, server_hostname=name)

        async def send() -> None:
            for at in range(0, len(sent), 700):  # TLS records that are no whole requests
                writer.write(sent[at : at + 700])
                await writer.drain()
            writer.write(HEAD + b"Connection: close\r\n\r\n")
            await writer.drain()

        sending = asyncio.create_task(send())
        found = await asyncio.wait_for(reader.read(), 60)
        await sending
        writer.close()
        return found

    with listening(tmp_path if tls else None) as (place, context):
        found = asyncio.run(sent_and_read(place, context))
    assert found.count(b"HTTP/1.1 200 OK") == many // 3 + 1
    assert found.count(b"HTTP/1.1 404 Not Found") == many // 3 * 2


def test_a_client_that_takes_no_byte_of_its_answer_is_not_waited_for(
    place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers(place)
    monkeypatch.setattr(protocol, "UNREAD_S", 0.3)
    with socket.create_connection(place, timeout=30) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        requests = (HEAD + b"\r\n") * 500_000
        with pytest.raises(ConnectionError):
            sock.sendall(requests)


def test_a_long_answer_is_written_in_pieces(place: tuple[str, int]) -> None:
    sent: list[Any] = []

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x" * 200_000})

    async def note(message: Any) -> None:
        sent.append(message)

    asyncio.run(protocol.in_pieces(app)({}, None, note))  # type: ignore[arg-type]
    assert [len(each.get("body", b"")) for each in sent] == [0, 65536, 65536, 65536, 3392]
    assert [each.get("more_body", False) for each in sent] == [False, True, True, True, False]


def until_closed(sock: socket.socket) -> bool:
    """Whether the server has closed it by now."""
    sock.settimeout(0.01)
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("begun", [b"", HEAD, BODY_TO_COME], ids=["nothing", "head", "body"])
def test_the_oldest_connection_that_waits_for_its_client_makes_room(
    place: tuple[str, int],
    begun: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So a probe gets in, however many connections wait."""
    monkeypatch.setattr(listener, "MOST_CONNECTIONS", 4)
    await_until(lambda: answers(place), 30, "it answers")
    with caplog.at_level(logging.WARNING, "causeway.http"), ExitStack() as stack:
        held = []
        for _ in range(40):
            one = stack.enter_context(socket.create_connection(place, timeout=30))
            one.sendall(begun)
            held.append(one)
            assert b" 200 " in call(place), "a probe"
        await_until(lambda: all(until_closed(one) for one in held[:36]), 30, "the oldest left")
        assert not until_closed(held[-1])
        assert not until_closed(held[-2])
    assert caplog.messages == ["connections closed to make room"]


def test_a_connection_whose_request_is_worked_on_stays(
    place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers(place)
    monkeypatch.setattr(listener, "MOST_CONNECTIONS", 4)
    going_on = threading.Event()

    async def slow(*_: Any) -> Any:
        while not going_on.is_set():
            await asyncio.sleep(0.01)
        return SimpleNamespace(snapshot=full())

    monkeypatch.setattr("causeway.http.views.SharedValue.newest", slow)
    with ExitStack() as stack:
        oldest = stack.enter_context(socket.create_connection(place, timeout=30))
        oldest.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for _ in range(20):
            stack.enter_context(socket.create_connection(place, timeout=30))
            assert answers(place)
        going_on.set()
        assert b" 200 " in all_of(oldest)


def test_abandoned_handshakes_make_room_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MOST_CONNECTIONS", 4)
    with listening(tmp_path) as (place, context), ExitStack() as stack:
        held = []
        for _ in range(20):
            held.append(stack.enter_context(socket.create_connection(place)))
            address = f"https://localhost:{place[1]}/healthz"
            with urlopen(address, timeout=30, context=context) as found:
                assert found.status == 200
        await_until(lambda: all(until_closed(one) for one in held[:16]), 30, "the oldest left")
