"""The registry's client against a server in this process."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from causeway.config import RegistrySettings, Secret
from causeway.errors import ConfigError
from causeway.schemas import check_registry
from causeway.transform.schema_formats import WorkerRegistry, registry
from causeway.transform.schema_formats.registry import NamedSchema, ResolvedSchema

PASSWORD = "a password nobody is to see"
PLACE = "pii.registry.url (line 9)"


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}  # by path: JSON, or a status
        self.asked: list[str] = []
        self.credentials: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.credentials.append(self.headers["Authorization"])
        known = self.path in self.server.answers
        answer = self.server.answers.get(self.path, {"error_code": 40403, "message": "not found"})
        self.send_response(answer if isinstance(answer, int) else 200 if known else 404)
        if answer == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()
        if not isinstance(answer, int):
            self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def settings(url: str, **more: Any) -> RegistrySettings:
    return RegistrySettings(url=url, place=PLACE, timeout_ms=2000, **more)


def version(subject: str, number: int) -> dict[str, Any]:
    return {"subject": subject, "version": number, "id": 3}


def test_a_schema_is_asked_for_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("causeway.schemas.registry.LATE_S", ())
    server.answers["/schemas/ids/3"] = {"schema": '"int"'}
    client = WorkerRegistry(settings(server.url).as_json())
    assert client.schema(3) == client.schema(3) == ResolvedSchema(3, "AVRO", '"int"')
    assert client.schema(4) is None
    assert client.schema(4) is None
    assert server.asked == ["/schemas/ids/3", "/schemas/ids/4"]


def test_references_come_with_it_those_they_need_first(server: Server) -> None:
    def reference(name: str) -> dict[str, Any]:
        return {"name": name, "subject": f"a/{name}", "version": 2}

    server.answers |= {
        "/schemas/ids/3": {
            "schema": "top",
            "schemaType": "PROTOBUF",
            "references": [reference("b"), reference("c")],
        },
        "/subjects/a%2Fb/versions/2": {
            **version("a/b", 2),
            "schema": "B",
            "references": [reference("c")],
        },
        "/subjects/a%2Fc/versions/2": {**version("a/c", 2), "schema": "C"},
    }
    found = WorkerRegistry(settings(server.url).as_json()).schema(3)
    assert found == ResolvedSchema(
        3, "PROTOBUF", "top", (NamedSchema("c", "C"), NamedSchema("b", "B"))
    )


def test_versions_of_the_subjects_the_preferred_first_and_the_oldest(server: Server) -> None:
    server.answers |= {
        "/schemas/ids/3/versions": [
            {"subject": "a-value", "version": 1},
            {"subject": "t-value", "version": 2},
        ],
        "/subjects/a-value/versions": [1],
        "/subjects/a-value/versions/1": {**version("s", 1), "schema": "three"},
        "/subjects/t-value/versions": [2, 1],
        "/subjects/t-value/versions/1": {**version("s", 1), "id": 2, "schema": "two"},
        "/subjects/t-value/versions/2": {**version("s", 1), "schema": "three"},
    }
    client = WorkerRegistry(settings(server.url).as_json())
    assert [one.id for one in client.relatives(3, "t-value")] == [2, 3]
    assert [one.id for one in client.relatives(3, "a-value")] == [3, 2]


def test_an_instance_that_has_not_heard_of_a_schema_yet_is_asked_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = server.asked
    monkeypatch.setattr("causeway.schemas.registry.LATE_S", (0.0, 0.0, 0.0))
    client = WorkerRegistry(settings(server.url).as_json())
    monkeypatch.setattr(time, "sleep", lambda _: _learn(server, 3))
    assert client.schema(3) == ResolvedSchema(3, "AVRO", '"int"')
    assert len(asked) == 3
    # So long for one that nobody knows, and no longer for all those that follow soon.
    assert [client.schema(id) for id in (4, 5, 6)] == [None] * 3
    assert len(asked) == 3 + 4 + 1 + 1
    monkeypatch.setattr("causeway.schemas.registry.LATE_EVERY_S", 0.0)
    assert client.schema(7) is None
    assert len(asked) == 3 + 4 + 1 + 1 + 4


def _learn(server: Server, id: int) -> None:
    """At the second time."""
    path = f"/schemas/ids/{id}"
    if server.asked.count(path) == 2:
        server.answers[path] = {"schema": '"int"'}


@pytest.mark.parametrize("trouble", [500, 429, 401, 404, b"no JSON", {"a": 1}, [3], None])
def test_a_worker_waits_for_an_answer_as_long_as_it_takes(
    server: Server, monkeypatch: pytest.MonkeyPatch, trouble: Any
) -> None:
    monkeypatch.setattr(registry, "PAUSES_S", (0.0, 0.0))
    heard: list[str] = []

    def waiting(reason: str) -> None:
        heard.append(reason)
        if len(heard) == 3:
            server.answers["/schemas/ids/3"] = {"schema": '"int"'}
            client._registry._client.url = server.url

    server.answers["/schemas/ids/3"] = trouble
    client = WorkerRegistry(
        settings(server.url if trouble else closed(), username="ann").as_json(), waiting
    )
    assert client.schema(3) is not None
    assert len(heard) == 3


def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return f"http://127.0.0.1:{one.getsockname()[1]}"


def test_the_credentials_go_to_the_registry_alone(server: Server) -> None:
    server.answers |= {"/subjects": ["a"]}
    ann = {"username": "ann", "password": Secret(PASSWORD)}
    check_registry(settings(server.url, **ann))
    wanted = "Basic " + base64.b64encode(f"ann:{PASSWORD}".encode()).decode()
    assert server.credentials == [wanted]
    server.answers["/subjects"] = 302
    with pytest.raises(ConfigError, match="HTTP 302"):
        check_registry(settings(server.url, **ann))
    assert "/elsewhere" not in server.asked


@pytest.mark.parametrize(
    ("answer", "told", "may_pass"),
    [
        (401, "denies access (HTTP 401) (see registry.username and registry.password)", False),
        (403, "denies access (HTTP 403)", False),
        (404, "it was not found (HTTP 404)", False),
        ({"a": 1}, "there is no schema registry at", False),
        (429, "answered (HTTP 429)", True),
        (503, "answered (HTTP 503)", True),
        (b"hello", "its answer is not JSON", False),
        (None, "connection refused", True),
    ],
)
def test_an_error_is_reported_at_the_start_with_its_place(
    server: Server, answer: Any, told: str, may_pass: bool
) -> None:
    server.answers["/subjects"] = answer
    url = server.url if answer else closed()
    with pytest.raises(ConfigError) as caught:
        check_registry(settings(url, username="ann", password=Secret(PASSWORD)))
    assert str(caught.value).startswith(f"use {PLACE}: ")
    assert told in str(caught.value)
    assert caught.value.retriable is may_pass
    assert PASSWORD not in str(caught.value)


def test_the_password_is_in_no_repr() -> None:
    one = settings("http://r", username="ann", password=Secret(PASSWORD))
    assert PASSWORD not in repr(one)
    assert PASSWORD in json.dumps(one.as_json())
