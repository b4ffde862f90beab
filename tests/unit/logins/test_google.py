"""Tokens for Google's Managed Service for Apache Kafka, from each kind of credentials."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causeway.config import GoogleSettings, Secret
from causeway.errors import AuthenticationError, PrerequisiteError, UnreachableError
from causeway.extras import install_extra
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


@pytest.fixture
def impersonation(google: GoogleStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes the account from the file, and the service's place from itself."""
    from google.auth import iam
    from google.oauth2 import credentials

    monkeypatch.setattr(iam, "_IAM_ENDPOINT", google.impersonation)
    monkeypatch.setattr(credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{google.url}/token")


@pytest.mark.usefixtures("impersonation")
@pytest.mark.parametrize("source", ["key_of_service_account", "login_of_a_person"])
def test_an_impersonated_account(google: GoogleStandIn, source: str) -> None:
    """A person, or another account, gets a token of the account; a new one each time."""
    google.lifetime_s = 120
    credentials = GoogleCredentials(of(google.impersonated(getattr(google, source)())))
    for _ in range(2):
        token = credentials.fetch(5)
        assert_wrapped(token.value, f"ya29.token-{google.issued}", 120)
        assert 60 < token.lifetime_s <= 120
        assert google.impersonators[-1] == f"ya29.token-{google.issued - 1}"
    path, form = google.asked[-1]
    assert path == f"/impersonate/serviceAccounts/{ACCOUNT}:generateAccessToken"
    assert form["scope"] == ["https://www.googleapis.com/auth/cloud-platform"]


@pytest.mark.usefixtures("impersonation")
def test_an_impersonation_that_is_refused(google: GoogleStandIn) -> None:
    credentials = GoogleCredentials(of(google.impersonated(google.key_of_service_account())))
    google.status = 403
    with pytest.raises(AuthenticationError, match="Google refuses the credentials") as refused:
        credentials.fetch(5)
    assert "s3cret" not in str(refused.value)


# -- a workload identity with a program that gives the token of the other issuer

SUBJECT = "s3cret-subject"
JWT = "urn:ietf:params:oauth:token-type:jwt"


def program(file: Path, script: str) -> dict[str, object]:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    return {"executable": {"command": f"{file} --key {SUBJECT}", "timeout_millis": 5000}}


def answer(**fields: object) -> str:
    found = {"version": 1, "success": True, "token_type": JWT, "id_token": SUBJECT, **fields}
    return f"cat <<'END'\n{json.dumps(found)}\nEND"


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("source", ["the output", "a file"])
def test_a_program_is_run_for_each_token(
    google: GoogleStandIn, tmp_path: Path, source: str
) -> None:
    google.lifetime_s = 120
    runs = tmp_path / "runs"
    to = "" if source == "the output" else '> "$GOOGLE_EXTERNAL_ACCOUNT_OUTPUT_FILE"'
    script = f'echo "$GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE" >> {runs}\n{{ {answer()}\n}} {to}'
    given: Any = program(tmp_path / "program", script)
    if to:
        given["executable"]["output_file"] = str(tmp_path / "output")
    text = google.workload_identity(given)
    credentials = GoogleCredentials(of(text))
    for number in (1, 2):
        token = credentials.fetch(5)
        assert_wrapped(token.value, f"ya29.token-{google.issued}", 120)
        forms = [form for path, form in google.asked if path == "/sts"]
        assert (len(forms), forms[-1]["subject_token"]) == (number, SUBJECT)
        assert runs.read_text().splitlines() == [json.loads(text)["audience"]] * number


@pytest.mark.parametrize("value", [None, "", "0", "true"])
def test_a_program_that_is_not_allowed(
    google: GoogleStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """As with Google's library, only 1 allows it."""
    name = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    ran = tmp_path / "ran"
    text = google.workload_identity(program(tmp_path / "program", f"touch {ran}\n{answer()}"))
    says = (
        rf"program to run, {tmp_path}/program, which is not allowed \(if you trust it, set {name}=1"
    )
    with pytest.raises(AuthenticationError, match=says) as refused:
        GoogleCredentials(of(text)).fetch(5)
    assert SUBJECT not in str(refused.value)
    assert not ran.exists()


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    "script",
    [
        f"echo {SUBJECT}; exit 3",
        f"echo {SUBJECT}",
        "exit 0",
        "echo '[1]'",
        answer(success=False, code="401", message=SUBJECT),
        answer(expiration_time=946684800),
        answer(version="1"),
    ],
)
def test_a_program_that_gives_no_token(google: GoogleStandIn, tmp_path: Path, script: str) -> None:
    text = google.workload_identity(program(tmp_path / "program", script))
    says = f"the program {tmp_path}/program gave no token .*exit with code 0"
    with pytest.raises(AuthenticationError, match=says) as refused:
        GoogleCredentials(of(text)).fetch(5)
    assert SUBJECT not in str(refused.value)


@pytest.mark.usefixtures("allowed")
def test_a_program_that_is_missing_or_too_slow(
    google: GoogleStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = program(tmp_path / "program", answer())
    credentials = GoogleCredentials(of(google.workload_identity(given)))
    (tmp_path / "program").unlink()
    with pytest.raises(AuthenticationError, match="cannot be run: No such file or directory"):
        credentials.fetch(5)

    def too_slow(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", too_slow)
    with pytest.raises(UnreachableError, match="program took longer than 5 s") as silent:
        credentials.fetch(5)
    assert silent.value.retriable
    assert SUBJECT not in str(silent.value)


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


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "service_account"}',
        '{"type": "impersonated_service_account"}',
        '{"type": "impersonated_service_account", "source_credentials": {"type": "other"}}',
        '{"type": "external_account"}',
        '{"type": "external_account", "credential_source": null}',
        '{"type": "external_account", "credential_source": {"executable": {}}}',
        '{"type": "external_account", "credential_source": {"executable": {"command": " "}}}',
        '{"type": "other"}',
        "{}",
        "[]",
    ],
)
def test_credentials_that_are_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")
    with pytest.raises(AuthenticationError):
        GoogleCredentials(of(text)).fetch(5)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth.exceptions", None)
    with pytest.raises(PrerequisiteError, match=re.escape(install_extra("gcp"))):
        GoogleCredentials(GoogleSettings()).fetch(5)
