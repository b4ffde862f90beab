from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from causeway.config import OAuthSettings, Secret
from causeway.errors import AuthenticationError, CausewayError, UnreachableError
from causeway.logins.oauth import OAuthEndpoint, oauth_tokens
from causeway.logins.tokens import Tokens
from tests.harness.kafka.certificates import create_certificates
from tests.harness.tokens import TokenEndpoint, token_endpoint

SECRET = "s3cret-word"


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as running:
        yield running


class Clock:
    """The clock of tokens."""

    now = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("causeway.logins.tokens.time.monotonic", lambda: clock.now)
    return clock


def oauth(url: str, scope: str | None = "kafka write") -> OAuthSettings:
    return OAuthSettings(
        token_endpoint=url, client_id="me", client_secret=Secret(SECRET), scope=scope
    )


def client_tokens(settings: OAuthSettings, ca_pem: str | None = None) -> Tokens:
    return Tokens(OAuthEndpoint(settings, ca_pem).fetch)


def test_asks_once_with_client_credentials_however_many_want_a_token(
    endpoint: TokenEndpoint,
) -> None:
    endpoint.delay_s = 0.05
    source = client_tokens(oauth(endpoint.url))
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: source.token(5), range(16)))
    assert tokens == {"token-1"}
    [(authorization, form)] = endpoint.requests
    assert authorization == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka write"]}


def test_refreshes_at_four_fifths_of_the_life(endpoint: TokenEndpoint, clock: Clock) -> None:
    endpoint.lifetime_s = 100
    source = client_tokens(oauth(endpoint.url, None))
    source.token(5)
    clock.now += 79
    source.token(5)
    assert len(endpoint.requests) == 1
    clock.now += 2
    source.token(5)
    assert len(endpoint.requests) == 2


def test_the_old_token_holds_while_the_endpoint_is_out_of_order(
    endpoint: TokenEndpoint, clock: Clock
) -> None:
    """A new one is asked for again after a second."""
    endpoint.lifetime_s = 100
    source = client_tokens(oauth(endpoint.url, None))
    source.token(5)
    endpoint.status = 503
    clock.now += 81
    assert [source.token(5), source.token(5)] == ["token-1", "token-1"]
    assert len(endpoint.requests) == 2
    clock.now += 2
    endpoint.status = 200
    assert source.token(5) == "token-3"
    endpoint.status = 503
    clock.now += 101
    with pytest.raises(UnreachableError, match="HTTP 503"):
        source.token(5)


def test_a_refused_client_does_not_go_on_with_its_old_token(
    endpoint: TokenEndpoint, clock: Clock
) -> None:
    endpoint.lifetime_s = 100
    source = client_tokens(oauth(endpoint.url, None))
    source.token(5)
    endpoint.status = 401
    clock.now += 81
    with pytest.raises(AuthenticationError, match="HTTP 401"):
        source.token(5)


def test_client_and_secret_in_the_encoding_of_rfc_6749(endpoint: TokenEndpoint) -> None:
    settings = replace(
        oauth(endpoint.url), client_id="m:e", client_secret=Secret("a b"), is_url_encoded=True
    )
    client_tokens(settings).token(5)
    [(authorization, _)] = endpoint.requests
    assert base64.b64decode(authorization.partition(" ")[2]) == b"m%3Ae:a+b"


def test_a_lifetime_that_only_the_token_says(endpoint: TokenEndpoint) -> None:
    """As a JWT, which may be called id_token."""
    claims = base64.urlsafe_b64encode(b'{"exp": %d}' % (time.time() + 100)).decode().rstrip("=")
    endpoint.answer = f'{{"id_token": "a.{claims}.b"}}'.encode()
    token = OAuthEndpoint(oauth(endpoint.url), None).fetch(5)
    assert token.value == f"a.{claims}.b"
    assert 90 < token.lifetime_s <= 100


@pytest.mark.parametrize(
    ("status", "answer", "kind", "says"),
    [
        (401, b'{"error": "invalid_client"}', AuthenticationError, "HTTP 401, invalid_client"),
        (400, f'{{"error": "bad {SECRET}"}}'.encode(), AuthenticationError, "HTTP 400 "),
        (503, b"busy", UnreachableError, "HTTP 503"),
        (302, b"", AuthenticationError, "HTTP 302"),
        (200, b"<html>", UnreachableError, "not JSON"),
        (200, b"[]", UnreachableError, "not a JSON object"),
        (200, b'{"token": "x"}', AuthenticationError, "no access_token"),
    ],
)
def test_failures_are_reported_without_secrets(
    endpoint: TokenEndpoint, status: int, answer: bytes, kind: type[CausewayError], says: str
) -> None:
    endpoint.status, endpoint.answer = status, answer
    endpoint.headers["Location"] = "http://127.0.0.1:1/elsewhere"
    with pytest.raises(kind, match=says) as caught:
        client_tokens(oauth(endpoint.url)).token(5)
    assert SECRET not in str(caught.value)
    assert caught.value.retriable == (status == 503)


def test_an_endpoint_that_is_not_there() -> None:
    url = f"http://user:{SECRET}@127.0.0.1:1/token?key={SECRET}"
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:1: no answer") as caught:
        client_tokens(oauth(url)).token(1)
    assert SECRET not in str(caught.value)
    assert caught.value.retriable


def test_one_source_for_equal_settings() -> None:
    assert oauth_tokens(oauth("http://a"), None) is oauth_tokens(oauth("http://a"), None)
    assert oauth_tokens(oauth("http://a"), None) is not oauth_tokens(oauth("http://b"), None)


def test_an_answer_that_is_not_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as sock:
                sock.recv(1 << 16)
                sock.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        source = client_tokens(oauth(f"http://127.0.0.1:{listener.getsockname()[1]}/", None))
        with pytest.raises(UnreachableError, match="its answer is not HTTP"):
            source.token(5)
        thread.join()


@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_of_nothing_but_brackets(endpoint: TokenEndpoint, status: int) -> None:
    endpoint.status, endpoint.answer = status, b"[" * 200_000
    with pytest.raises(CausewayError, match="not JSON" if status == 200 else "HTTP 400 "):
        client_tokens(oauth(endpoint.url, None)).token(5)


def test_other_grants_are_asked_for_with_what_they_need(endpoint: TokenEndpoint) -> None:
    """A client without a secret says its name in the form."""
    settings = OAuthSettings(
        token_endpoint=endpoint.url,
        client_id="me",
        client_secret=Secret(""),
        grant="refresh_token",
        fields={"refresh_token": Secret(SECRET), "audience": Secret("kafka")},
    )
    assert client_tokens(settings).token(5) == "token-1"
    assert endpoint.requests == [
        (
            "",
            {
                "grant_type": ["refresh_token"],
                "refresh_token": [SECRET],
                "audience": ["kafka"],
                "client_id": ["me"],
            },
        )
    ]
    assert SECRET not in repr(settings)
    other = replace(settings, fields={"refresh_token": Secret("another")})
    assert oauth_tokens(settings, None) is not oauth_tokens(other, None)


def refreshing(url: str) -> OAuthSettings:
    return replace(
        oauth(url, None), grant="refresh_token", fields={"refresh_token": Secret("configured")}
    )


def test_a_refresh_token_that_the_provider_renews_takes_the_old_one_s_place(
    endpoint: TokenEndpoint,
) -> None:
    """The old one ceases. A new process has the configured one alone, which is refused clearly."""
    endpoint.rotates, endpoint.lifetime_s = "configured", 0
    source = client_tokens(refreshing(endpoint.url))
    assert [source.token(5) for _ in range(3)] == ["token-1", "token-2", "token-3"]
    assert [form["refresh_token"] for _, form in endpoint.requests] == [
        ["configured"],
        ["refresh-1"],
        ["refresh-2"],
    ]
    with pytest.raises(AuthenticationError, match="invalid_grant") as refused:
        client_tokens(refreshing(endpoint.url)).token(5)
    assert "configured" not in str(refused.value)


def test_where_a_renewed_refresh_token_is_withdrawn_the_configured_one_is_tried(
    endpoint: TokenEndpoint,
) -> None:
    endpoint.rotates, endpoint.lifetime_s = "configured", 0
    source = client_tokens(refreshing(endpoint.url))
    source.token(5)
    endpoint.rotates = "configured"
    assert source.token(5) == "token-3"
    endpoint.rotates = "none of them"
    with pytest.raises(AuthenticationError, match="invalid_grant"):
        source.token(5)
    assert len(endpoint.requests) == 5


def test_with_other_grants_a_refresh_token_is_of_no_account(endpoint: TokenEndpoint) -> None:
    endpoint.answer = b'{"access_token": "a", "refresh_token": "r", "expires_in": 0}'
    source = client_tokens(oauth(endpoint.url))
    source.token(5)
    source.token(5)
    assert not any("refresh_token" in form for _, form in endpoint.requests)


def test_a_given_token_is_used_without_a_request() -> None:
    given = replace(oauth(""), access_token=Secret("given"))
    assert oauth_tokens(given, None).token(5) == "given"
    assert oauth_tokens(given, None) is not oauth_tokens(oauth(""), None)


def test_what_is_trusted_of_an_endpoint(tmp_path: Path) -> None:
    """The cluster's certificates beside the system's; where the login has its own, these alone."""
    files = create_certificates(tmp_path)
    authority, stranger = files.ca.read_text(), files.stranger.read_text()
    with token_endpoint(files.broker) as endpoint:
        plain = oauth(endpoint.url)
        assert client_tokens(plain, authority).token(5) == "token-1"
        own = replace(plain, ca_pem=authority)
        assert client_tokens(own, stranger).token(5) == "token-2"
        for settings, cluster in (
            (plain, None),
            (plain, stranger),
            (replace(plain, ca_pem=stranger), authority),
        ):
            with pytest.raises(AuthenticationError, match="its certificate is not trusted"):
                client_tokens(settings, cluster).token(5)
    assert oauth_tokens(own, None) is not oauth_tokens(plain, None)
