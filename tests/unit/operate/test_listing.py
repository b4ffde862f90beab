"""Topics a line each, and what is asked of the driver on this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from causeway.config import HttpSettings, RunSettings, Secret, Settings
from causeway.errors import AuthenticationError, AuthorizationError, ConfigError, NobodyLeadsError
from causeway.model import State
from causeway.operate.listing import events, fits, groups, lanes, topic_json, topic_lines, topics
from causeway.status import LinkProblem, LinkStatus
from tests.builders.settings import link
from tests.builders.status import partition_status
from tests.harness.statuses import ends, replace

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda settings: topics(settings, states=["stoped"]), "stopped"),
        (lambda settings: groups(settings, codes=["has-member"]), "has-members"),
        (lambda settings: events(settings, levels=["warn"]), "warning"),
    ],
)
def test_a_word_that_there_is_not_is_refused(call: Callable[[Settings], object], near: str) -> None:
    """And no cluster is asked: a list that is empty would look as if all were well."""
    with pytest.raises(ConfigError, match=near):
        call(Settings(links=(link(),), run=RunSettings(), spark={}))


def test_a_topic_s_partitions_are_taken_together() -> None:
    stopped = partition_status("orders", 2, state=State.STOPPED, reason="truncated", lag_ms=9000)
    problem = LinkProblem(topic="odd", reason=str(AuthorizationError("look up topic", "odd")))
    status = LinkStatus(
        **ends(link()),
        driver=None,
        partitions=(
            partition_status("bills", lag_records=None),
            partition_status("orders"),
            partition_status("orders", 1),
            stopped,
        ),
        problems=(problem, replace(problem, topic="orders")),
    )

    bills, odd, orders = topic_lines(status)

    assert (bills.topic, bills.lag_records, bills.states) == ("bills", None, {"running": 1})
    assert (odd.topic, topic_json(odd)["target_topic"], odd.states) == ("odd", None, {"problem": 1})
    assert (orders.partitions, orders.lag_records, orders.lag_ms) == (3, 6, 9000)
    assert [*orders.states.items()] == [("running", 2), ("stopped", 1)]
    assert topic_json(orders)["reason"] == "truncated"


def test_what_is_searched_for() -> None:
    assert fits("Orders-EU", "rs-e")
    assert not fits("orders", "bills")


class Driver(BaseHTTPRequestHandler):
    names = ("A->B",)

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.send_error(401)
            return
        path, _, query = self.path.partition("?")
        if path.endswith("/overview"):
            found: Any = {"links": [{"link": name} for name in self.names]}
        else:
            offset = int(query.rpartition("offset=")[2])
            found = {"items": [{"lane": n} for n in range(3)][offset : offset + 2], "total": 3}
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def settings(port: int | None, token: str | None = TOKEN) -> Settings:
    http = HttpSettings(port=port, token=None if token is None else Secret(token))
    return Settings(links=(link(),), run=RunSettings(http=http), spark={})


def test_the_driver_is_asked_page_by_page() -> None:
    with serving(Driver) as port:
        assert lanes(settings(port)) == [{"lane": n} for n in range(3)]


def test_a_driver_of_another_file_or_without_a_right_tells_nothing() -> None:
    class Other(Driver):
        names = ("X->Y",)

    with serving(Other) as port, pytest.raises(NobodyLeadsError, match="runs X->Y"):
        lanes(settings(port))
    with serving(Driver) as port, pytest.raises(AuthenticationError, match="401") as refused:
        lanes(settings(port, "another-token-than-that"))
    assert "another-token" not in str(refused.value)


def test_where_no_driver_answers_it_is_said_where_to_ask(port: int) -> None:
    with pytest.raises(NobodyLeadsError, match="run this command on its machine"):
        lanes(settings(port))
    with pytest.raises(NobodyLeadsError, match="configures no HTTP server"):
        lanes(settings(None))


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that answers every connection so. Its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    caller, _ = server.accept()
                    with caller:
                        caller.recv(1 << 16)
                        caller.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\x00\x00\x23no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n[]",
        b'HTTP/1.1 200 OK\r\n\r\n{"links": 3}',
        b'HTTP/1.1 200 OK\r\n\r\n{"links": [{"name": "x"}]}',
    ],
)
def test_what_else_answers_there_is_no_driver(answer: bytes) -> None:
    with (
        answering(answer) as port,
        pytest.raises(NobodyLeadsError, match=r"ask the driver at http://127\.0\.0\.1"),
    ):
        lanes(settings(port))
