"""Google's login handler: the credentials of a program, by Google's own rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.config import ClientSettings, Entry, GoogleSettings, Problems, from_wire, to_wire
from causeway.config.reading import client_settings, google
from causeway.extras import install_extra

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HANDLER = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
KEY = json.dumps({"type": "service_account", "private_key": "hunter2"})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLOUDSDK_CONFIG", raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setattr(google, "is_installed", lambda: True)
    return tmp_path


def read(module: str | None = f"{MODULE};") -> tuple[ClientSettings | None, str]:
    lines = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": HANDLER,
    }
    if module:
        lines["sasl.jaas.config"] = module
    entries = {name: Entry(key=f"A.{name}", value=text, line=7) for name, text in lines.items()}
    problems = Problems("x")
    return client_settings("A", entries, problems), "\n".join(problems.lines)


def settings(module: str | None = f"{MODULE};") -> GoogleSettings:
    found, problems = read(module)
    assert problems == ""
    assert found is not None
    assert found.sasl is not None
    assert found.sasl.google is not None
    assert "hunter2" not in repr(found)
    assert from_wire(json.loads(json.dumps(to_wire(found)))) == found
    return found.sasl.google


@pytest.mark.parametrize("module", [f"{MODULE};", None])
def test_without_a_file_the_machine_knows_who_it_is(module: str | None) -> None:
    assert settings(module) == GoogleSettings()


@pytest.mark.parametrize("way", ["named", "gcloud", "gcloud elsewhere"])
def test_the_file_of_the_credentials(home: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Lanes on other machines get its content."""
    file = home / ".config" / "gcloud" / "application_default_credentials.json"
    if way == "named":
        file = home / "key.json"
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    elif way == "gcloud elsewhere":
        file = home / "own" / file.name
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(file.parent))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(KEY)
    assert settings().credentials.reveal() == KEY


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "GOOGLE_APPLICATION_CREDENTIALS: read "),
        ("{", "key.json is not a credentials file of Google"),
        ("[]", "key.json is not a credentials file of Google"),
        ('{"type": "gdch_service_account"}', "service_account, impersonated_service_account"),
    ],
)
def test_a_file_that_is_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, says: str
) -> None:
    file = home / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    if text is not None:
        file.write_text(text)
    found, problems = read()
    assert found is None
    assert says in problems
    assert "A.sasl.login.callback.handler.class (line 7)" in problems


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google, "is_installed", lambda: False)
    found, problems = read()
    assert found is None
    assert problems == (
        "A.sasl.login.callback.handler.class (line 7): Google's logins need the package"
        f" google-auth: {install_extra('gcp')}"
    )


def test_options_that_the_handler_does_not_have() -> None:
    found, problems = read(f'{MODULE} clientId="me" clientSecret="hunter2";')
    assert found is None
    assert "has no options, such as clientId, clientSecret" in problems
    assert "hunter2" not in problems
