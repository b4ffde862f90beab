"""Who may call. Each refusal is logged; none tells a secret."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

from causeway.config import RunSettings, Secret
from causeway.http.app import guarded, metrics_app
from causeway.http.guard import Guard, Refusals
from causeway.http.views import RunViews
from tests.builders.served import TOKEN, client
from tests.builders.status import full

HOME = "http://127.0.0.1:8490"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = await Request(scope, receive).body()
    await JSONResponse({"read": len(body)})(scope, receive, send)


def around(
    *, token: str | None = None, tls: bool = False, host: str = "127.0.0.1", base: str = HOME
) -> TestClient:
    guard = Guard(echo, host=host, tls=tls, token=None if token is None else Secret(token))
    return TestClient(guard, base_url=base, raise_server_exceptions=False)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8490", "127.0.0.1", "localhost:1", "LOCALHOST.", "[::1]:8490", "127.9.9.9:8490"],
)
def test_names_of_this_machine_are_ours(host: str) -> None:
    assert around().get("/x", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8490", "127.0.0.1.evil.example", "localhost.evil.example",
     "10.0.0.1", "[2001:db8::1]:8490", "", "[", "127.0.0.1@evil.example"],
)  # fmt: skip
def test_another_name_is_refused(host: str, caplog: pytest.LogCaptureFixture) -> None:
    """A page whose own name leads here would else read all of it in its visitor's browser."""
    with caplog.at_level(logging.WARNING, "causeway.http"):
        answer = around().get("/x", headers={"host": host})
    assert answer.status_code == 403
    (record,) = caplog.records
    assert record.getMessage() == "call refused"
    assert vars(record)["path"] == "/x"
    assert vars(record)["client"] == "testclient"
    assert "does not have that name" in vars(record)["reason"]


@pytest.mark.parametrize(
    ("host", "name", "status"),
    [
        ("0.0.0.0", "10.1.2.3:9404", 200),  # as a kubelet and Prometheus call a pod
        ("0.0.0.0", "[2001:db8::1]:9404", 200),
        ("0.0.0.0", "localhost:9404", 200),
        ("0.0.0.0", f"{socket.gethostname()}:9404", 200),
        ("0.0.0.0", "causeway.mirrors.svc:9404", 200),
        ("0.0.0.0", "evil.example:9404", 403),
        ("0.0.0.0", "10.1.2.3.evil.example:9404", 403),
        ("0.0.0.0", "", 403),
        ("127.0.0.1", "127.0.0.1:9404", 200),
        ("127.0.0.1", "10.1.2.3:9404", 403),
        ("127.0.0.1", "evil.example", 403),
    ],
)
def test_the_metrics_port_is_called_by_addresses_and_by_known_names(
    host: str, name: str, status: int
) -> None:
    sight = RunViews()
    sight.take(full)
    run = RunSettings(metrics_host=host, metrics_names=("causeway.mirrors.svc",))
    try:
        app = TestClient(metrics_app(sight, run), raise_server_exceptions=False)
        for path in ("/metrics", "/healthz"):
            answer = app.get(path, headers={"host": name})
            assert answer.status_code == status
            assert status == 200 or "causeway.metrics.names" in answer.json()["message"]
    finally:
        sight.views.close()


def test_with_tls_the_browser_has_compared_the_name() -> None:
    app = around(tls=True, host="0.0.0.0", base="https://mirror.example")
    assert app.get("/x").status_code == 200


def test_the_token() -> None:
    app = around(token=TOKEN)
    assert app.get("/x", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert app.get("/x", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200
    for wrong in (
        {},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer"},
        {"authorization": b"Bearer \xff\xe4"},
        {"cookie": f"token={TOKEN}"},
    ):
        answer = app.get("/x", headers=wrong)  # type: ignore[arg-type]
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error_code"] == 401
    assert app.get(f"/x?token={TOKEN}").status_code == 401, "it would stand in logs and histories"


def test_a_token_is_asked_for_all_that_tells_of_the_mirror(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with client(token=TOKEN) as app:
        for path in ("/api/v1/topics", "/metrics", "/connectors", "/nothing", "/pagex"):
            assert app.get(path).status_code == 401, path
            assert app.head(path).status_code == 401, path
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json", "/page/docs.css", "/"):
            assert app.get(path).status_code == 200, path
        right = {"authorization": f"Bearer {TOKEN}"}
        for path in ("/api/v1/topics", "/metrics", "/connectors"):
            assert app.get(path, headers=right).status_code == 200
    assert TOKEN not in caplog.text


def test_who_is_refused_again_and_again_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page left open with an old token asks every two seconds."""
    now = 1000.0
    monkeypatch.setattr("causeway.http.guard.time", SimpleNamespace(monotonic=lambda: now))
    app = around(token=TOKEN)
    for _ in range(5):
        app.get("/x")
    app.get("/x", headers={"host": "evil.example"})
    now += 61
    app.get("/y")
    told = [vars(each) for each in caplog.records if each.getMessage() == "call refused"]
    assert [(each["status"], each["path"], each["unsaid"]) for each in told] == [
        (401, "/x", 0),
        (403, "/x", 0),
        (401, "/y", 4),
    ]
    assert {each["client"] for each in told} == {"testclient"}


def test_however_many_are_refused_few_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    for number in range(3_000):
        refusals.note(str(number), "GET", "/x", 401, "send the token")
    assert len(caplog.records) == 3_000
    assert len(refusals) <= 1_000


@pytest.fixture
def app() -> TestClient:
    return around()


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 200),
        ({**JSON, "origin": HOME, "sec-fetch-site": "same-origin"}, 200),
        ({**JSON, "content-type": "application/json; charset=utf-8"}, 200),
        ({**JSON, "sec-fetch-site": "none"}, 200),
        ({**JSON, "origin": "http://evil.example"}, 403),
        ({**JSON, "origin": "http://127.0.0.1:3000"}, 403),
        ({**JSON, "origin": "https://127.0.0.1:8490"}, 403),
        ({**JSON, "origin": "null"}, 403),
        ({**JSON, "sec-fetch-site": "cross-site"}, 403),
        ({**JSON, "sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({}, 415),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_changes_of_other_sites_pages_are_refused(
    app: TestClient, method: str, headers: dict[str, str], status: int
) -> None:
    answer = app.request(method, "/x", content=b"{}", headers=headers)
    assert answer.status_code == status


def test_a_call_that_says_all_by_its_path_needs_no_body(app: TestClient) -> None:
    """As `curl -X PUT .../pause` does."""
    assert app.put("/x").status_code == 200
    assert app.post("/x").status_code == 200
    assert app.post("/x", headers={"content-type": "text/plain"}).status_code == 415
    assert app.post("/x", headers={"origin": "http://evil.example"}).status_code == 403


def test_a_body_is_bounded(app: TestClient) -> None:
    assert app.post("/x", content=b" " * 64 * 1024, headers=JSON).json() == {"read": 64 * 1024}
    assert app.post("/x", content=b" " * (64 * 1024 + 1), headers=JSON).status_code == 413

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 4096

    assert app.post("/x", content=endless(), headers=JSON).status_code != 200


def test_the_headers_that_browsers_get() -> None:
    with client() as app:
        for path in ("/docs", "/api/v1/topics", "/nothing", "/page/docs.css"):
            headers = app.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in headers
        refused = app.get("/docs", headers={"host": "evil.example"})
        assert "content-security-policy" in refused.headers
        assert app.options("/api/v1/topics", headers={"origin": "http://evil.example"}).headers.get(
            "access-control-allow-origin"
        ) is None  # fmt: skip


def test_nothing_changes_by_reading() -> None:
    """No route but those of changes takes anything but GET, and none of these takes GET."""
    with client() as app:
        described = app.get("/openapi.json").json()
    for path, methods in described["paths"].items():
        assert set(methods) == {"get"} or "get" not in methods, path


def test_a_page_is_open_only_below_its_own_folder() -> None:
    from fastapi import FastAPI

    app = TestClient(guarded(FastAPI(), "127.0.0.1", tls=False, token=Secret(TOKEN)), base_url=HOME)
    assert app.get("/page/x").status_code == 404
    assert app.get("/healthz/x").status_code == 401
    assert app.get("/pages").status_code == 401
