"""The server's keys: on this machine without more, elsewhere only behind TLS and a right."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import HttpSettings, Secret
from causeway.errors import ConfigError
from causeway.formats import load as load_file

HEAD = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
TOKEN = "0123456789abcdef"


def http(tmp_path: Path, text: str) -> HttpSettings:
    file = tmp_path / "mm2.properties"
    file.write_text(HEAD + text)
    settings = load_file(file)
    assert settings.warnings == ()
    return settings.run.http


def test_by_default_it_serves_this_machine(tmp_path: Path) -> None:
    assert http(tmp_path, "") == HttpSettings(port=8490, host="127.0.0.1")
    assert http(tmp_path, "causeway.http.port = 0").port == 0
    assert http(tmp_path, "causeway.http.port = -1").port is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "::1"])
def test_what_only_this_machine_reaches_needs_nothing_more(tmp_path: Path, host: str) -> None:
    assert http(tmp_path, f"causeway.http.host = {host}").host == host


TLS = "causeway.http.tls.certificate = c.pem\ncauseway.http.tls.key = k.pem\n"


def test_every_key_of_the_server_is_read(tmp_path: Path) -> None:
    text = (
        f"causeway.http.port = 9000\ncauseway.http.host = 0.0.0.0\n{TLS}"
        f"causeway.http.token = {TOKEN}\ncauseway.http.tls.client.ca = ca.pem\n"
    )
    found = http(tmp_path, text)
    assert found == HttpSettings(
        port=9000,
        host="0.0.0.0",
        token=Secret(TOKEN),
        certificate="c.pem",
        key="k.pem",
        client_ca="ca.pem",
    )
    assert TOKEN not in repr(found)


@pytest.mark.parametrize("right", [f"token = {TOKEN}", "tls.client.ca = ca.pem"])
def test_a_token_or_clients_certificates_will_do(tmp_path: Path, right: str) -> None:
    text = f"causeway.http.host = 10.0.0.1\n{TLS}causeway.http.{right}\n"
    assert http(tmp_path, text).host == "10.0.0.1"


HOST = "causeway.http.host = 0.0.0.0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HOST,
            r"causeway\.http\.host \(line 5\) is an address that other machines reach: set"
            r" causeway\.http\.tls\.certificate and causeway\.http\.tls\.key and"
            r" causeway\.http\.token \(or causeway\.http\.tls\.client\.ca\)",
        ),
        (HOST + f"causeway.http.token = {TOKEN}\n", r"set causeway\.http\.tls\.certificate and"),
        (HOST + TLS, r"set causeway\.http\.token \(or"),
        (HOST + TLS + "causeway.http.tls.client.ca = \n", r"set causeway\.http\.token \(or"),
        (HOST + TLS + "causeway.http.token = \n", r"token \(line 8\) must be at least 16"),
        ("causeway.http.host = mirror.example.org\n", r"is an address that other machines reach"),
        ("causeway.http.token = short\n", r"must be at least 16 ASCII characters .*\(hidden\)"),
        ("causeway.http.tls.key = k.pem\n", r"\(line 5\) needs causeway\.http\.tls\.certificate"),
        ("causeway.http.tls.certificate = c.pem\n", r"\(line 5\) needs causeway\.http\.tls\.key"),
        ("causeway.http.tls.client.ca = c.pem\n", r"needs causeway\.http\.tls\.certificate"),
        ("causeway.metrics.port = 8490\n", r"\(line 5\) is also causeway\.http\.port, by default"),
        (
            "causeway.http.port = 9000\ncauseway.metrics.port = 9000\n",
            r"metrics\.port \(line 6\) is also causeway\.http\.port: leave it out",
        ),
        (
            "causeway.metrics.port = 8490\ncauseway.metrics.host = 0.0.0.0\n",
            r"set another port",
        ),
        ("causeway.http.port = 65536\n", "must be 0 to 65535, or -1, not '65536'"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        http(tmp_path, text)


def test_a_missing_token_is_reported_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        http(tmp_path, f"{HOST}{TLS}causeway.http.token = ${{env:CAUSEWAY_NO_SUCH}}\n")
    assert str(caught.value).count("causeway.http") == 1


def test_two_addresses_may_have_one_port(tmp_path: Path) -> None:
    http(tmp_path, "causeway.metrics.port = 8490\ncauseway.metrics.host = 10.0.0.5\n")
    http(tmp_path, "causeway.metrics.port = 8490\ncauseway.http.port = -1\n")


HOOK = "causeway.webhook.url = https://hooks.example/T0/verysecret\n"


def test_a_webhook_and_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(HEAD + HOOK + "causeway.webhook.token = ${env:T}\n")
    found = load_file(file, environment={"T": "the-token"}).run.webhook
    assert found is not None
    assert found.url.reveal() == "https://hooks.example/T0/verysecret"
    assert found.token is not None
    assert found.token.reveal() == "the-token"
    assert "verysecret" not in repr(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("causeway.webhook.url = hooks.example/verysecret\n", r"must be an address .*\(hidden\)"),
        ("causeway.webhook.url = ftp://hooks.example/verysecret\n", r"address .*\(hidden\)"),
        (
            "causeway.webhook.url = http://hooks.example/verysecret\n"
            "causeway.webhook.token = abc\n",
            r"token \(line 6\) would be sent to an http:// address",
        ),
        ("causeway.webhook.token = abc\n", r"\(line 5\) needs causeway\.webhook\.url as well"),
        (HOOK + "causeway.webhook.token = a b\n", r"ASCII characters without blanks"),
    ],
)
def test_webhooks_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        http(tmp_path, text)
    assert "verysecret" not in str(refused.value)
