"""Tokens for clients that are not Causeway's. tests/unit/producer/test_logins.py has the logins."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.config import GoogleSettings
from causeway.errors import ConfigError
from causeway.logins import BearerLogin
from causeway.logins.tokens import Token, Tokens, shared_tokens
from tests.harness.tokens import TokenEndpoint, token_endpoint

URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as running:
        yield running


def keys(url: str) -> dict[str, str]:
    start = "sasl.oauthbearer.client.credentials.client"
    login = {f"{start}.id": "me", f"{start}.secret": "s3cret-word"}
    return {"sasl.mechanism": "OAUTHBEARER", URL: url, **login}


def test_the_same_token_with_less_life(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the endpoint does not answer either."""
    now = time.monotonic()
    monkeypatch.setattr("causeway.logins.tokens.time.monotonic", lambda: now)
    login = BearerLogin("A", keys(endpoint.url))
    first = login.token(5)
    endpoint.status = 503
    now += 50
    left = login.token(5)
    assert left.value == first.value
    assert abs(first.expires_at - left.expires_at - 50) < 5
    assert first.value not in repr(first)


def test_an_opaque_token_is_used_for_a_minute(endpoint: TokenEndpoint) -> None:
    endpoint.answer = b'{"access_token": "opaque"}'
    token = BearerLogin("A", keys(endpoint.url)).token(5)
    assert 50 < token.expires_at - time.time() <= 60


def test_a_changed_file_that_cannot_be_used(tmp_path: Path) -> None:
    """The login goes on as before, until the file can be used."""
    token = tmp_path / "token"
    token.write_text("one")
    login = BearerLogin("A", {"sasl.mechanism": "OAUTHBEARER", URL: token.as_uri()})
    token.unlink()
    assert login.token(5).value == "one"
    token.write_text("two")
    assert login.token(5).value == "two"


def test_a_login_without_a_token() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="a" password="s3cret";'
    with pytest.raises(ConfigError, match="get a token for A: PLAIN has no token") as caught:
        BearerLogin("A", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})
    assert "s3cret" not in str(caught.value)


def test_the_logins_that_were_used_last_are_kept() -> None:
    """Each renewed file with a credential is another login."""

    def of(number: int) -> Tokens:
        return shared_tokens(
            (GoogleSettings(), number), lambda: lambda _: Token(value="", lifetime_s=0)
        )

    first, second = of(0), of(1)
    for number in range(2, 300):
        of(number)
        assert of(0) is first
    assert of(1) is not second
