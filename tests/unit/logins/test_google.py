"""Tokens for Google's Managed Service for Apache Kafka, from each kind of credentials."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causeway.config import GoogleSettings, Secret
from causeway.errors import AuthenticationError, PrerequisiteError, UnreachableError
from causeway.logins.google import GoogleCredentials, google_tokens
from tests.harness.google_stand_in import ACCOUNT, GoogleStandIn, google_stand_in

pytest.importorskip("google.auth")


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleStandIn]:
    with google_stand_in() as running:
        # google-auth reads the variable when it is imported.
        from google.auth.compute_engine import _metadata

        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", f"127.0.0.1:{running.port}")
        yield running


def decoded(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    header, claims, access = (
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")
    )
    assert "=" not in token
    return json.loads(header), json.loads(claims), access.decode()


def assert_wrapped(token: str, access_token: str, lifetime_s: int = 3600) -> None:
    header, claims, access = decoded(token)
    assert header == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert (claims["iss"], claims["scope"], claims["sub"]) == ("Google", "kafka", ACCOUNT)
    assert abs(claims["iat"] - time.time()) < 60
    assert abs(claims["exp"] - claims["iat"] - lifetime_s) < 60
    assert access == access_token


def of(text: str) -> GoogleSettings:
    return GoogleSettings(credentials=Secret(text))


def test_the_metadata_server(google: GoogleStandIn) -> None:
    token = GoogleCredentials(GoogleSettings()).fetch(5)
    assert_wrapped(token.value, "ya29.token-1")
    assert 3500 < token.lifetime_s <= 3600


def test_the_key_of_a_service_account(google: GoogleStandIn) -> None:
    text = google.key_of_service_account()
    assert_wrapped(GoogleCredentials(of(text)).fetch(5).value, "ya29.token-1")
    [(path, form)] = google.asked
    assert (path, form["grant_type"]) == ("/token", "urn:ietf:params:oauth:grant-type:jwt-bearer")
    assert "PRIVATE KEY" not in repr(of(text))


def test_the_login_of_a_person(google: GoogleStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the address in the answer."""
    from google.oauth2 import credentials

    monkeypatch.setattr(credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{google.url}/token")
    assert_wrapped(GoogleCredentials(of(google.login_of_a_person())).fetch(5).value, "ya29.token-1")


def test_a_workload_identity(google: GoogleStandIn, tmp_path: Path) -> None:
    """The token of the other issuer is read again, as it is renewed on disk."""
    google.lifetime_s = 120  # the library would use a longer one again
    subject = tmp_path / "subject"
    credentials = GoogleCredentials(of(google.workload_identity(str(subject))))
    for text in ("first", "second"):
        subject.write_text(text)
        token = credentials.fetch(5)
        forms = [form for path, form in google.asked if path == "/sts"]
        assert forms[-1]["subject_token"] == text
        assert_wrapped(token.value, f"ya29.token-{google.issued}", 120)


def test_a_workload_identity_without_an_account(google: GoogleStandIn, tmp_path: Path) -> None:
    (tmp_path / "subject").write_text("x")
    text = google.workload_identity(str(tmp_path / "subject"), impersonates=False)
    with pytest.raises(AuthenticationError, match=r"do not name an account.*to impersonate"):
        GoogleCredentials(of(text)).fetch(5)


def test_tokens_are_shared_and_renewed(
    google: GoogleStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr("causeway.logins.tokens.time.monotonic", lambda: now)
    settings = of(google.key_of_service_account())
    first = google_tokens(settings).token(5)
    assert google_tokens(settings).token(5) == first
    now += 0.81 * 3600
    assert_wrapped(google_tokens(settings).token(5), "ya29.token-2")


def test_google_refuses_or_does_not_answer(google: GoogleStandIn) -> None:
    credentials = GoogleCredentials(of(google.key_of_service_account()))
    google.status = 401
    with pytest.raises(AuthenticationError, match="Google refuses the credentials") as refused:
        credentials.fetch(5)
    assert "s3cret" not in str(refused.value)
    gone = json.dumps(
        {**json.loads(google.key_of_service_account()), "token_uri": "http://127.0.0.1:1/"}
    )
    with pytest.raises(UnreachableError, match="get a token from Google") as silent:
        GoogleCredentials(of(gone)).fetch(5)
    assert silent.value.retriable


@pytest.mark.parametrize("text", ['{"type": "service_account"}', '{"type": "other"}', "{}"])
def test_credentials_that_are_none(text: str) -> None:
    with pytest.raises(AuthenticationError):
        GoogleCredentials(of(text)).fetch(5)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth.exceptions", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'causeway\[gcp\]'"):
        GoogleCredentials(GoogleSettings()).fetch(5)
