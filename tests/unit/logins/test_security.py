from __future__ import annotations

import os
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest

from causeway.config import ClientSettings, SaslMechanism, SaslSettings, Secret, TlsSettings
from causeway.errors import AuthenticationError, ConfigError
from causeway.logins import sasl_mechanism, ssl_context
from tests.harness.kafka.certificates import create_certificates


def settings(mechanism: SaslMechanism, username: str, password: str) -> ClientSettings:
    return ClientSettings(
        alias="A",
        bootstrap=(("localhost", 9092),),
        protocol="SASL_PLAINTEXT",
        sasl=SaslSettings(mechanism=mechanism, username=username, password=Secret(password)),
    )


def test_plain_sends_name_and_password() -> None:
    mechanism = sasl_mechanism(settings("PLAIN", "u,=", "p=,"), "localhost", 1)
    assert mechanism.auth_bytes() == b"\0".join([b"u,=", b"u,=", b"p=,"])


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_escapes_the_user_name(mechanism: SaslMechanism) -> None:
    first = sasl_mechanism(settings(mechanism, "a,b=c", "p"), "localhost", 1).auth_bytes()
    assert first.startswith(b"n,,n=a=2Cb=3Dc,r=")


def test_scram_refuses_a_server_that_does_not_know_the_password() -> None:
    mechanism = sasl_mechanism(settings("SCRAM-SHA-256", "u", "p"), "localhost", 1)
    nonce = mechanism.auth_bytes().partition(b"r=")[2]
    mechanism.receive(b"r=" + nonce + b"more,s=c2FsdA==,i=4096")
    mechanism.auth_bytes()
    with pytest.raises(ValueError, match="signature"):
        mechanism.receive(b"v=" + b"A" * 43 + b"=")
    assert not mechanism.is_authenticated()


def test_unusable_certificates_are_refused_in_a_line(tmp_path: Path) -> None:
    mine = create_certificates(tmp_path / "mine")
    other = create_certificates(tmp_path / "other")
    certificate = mine.client_certificate.read_text()
    with pytest.raises(ConfigError, match=r"use the trust store \(ssl.truststore.\*\): no usable"):
        ssl_context(TlsSettings(ca_pem="not a certificate"))
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        ssl_context(TlsSettings(cert_pem=certificate, key_pem=Secret(other.client_key.read_text())))
    with pytest.raises(ConfigError, match="use the key store"):
        ssl_context(TlsSettings(cert_pem=certificate))


def test_a_client_certificate_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = create_certificates(tmp_path / "certificates")
    tls = TlsSettings(
        cert_pem=files.client_certificate.read_text(),
        key_pem=Secret(files.client_key.read_text()),
    )
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    ssl_context.cache_clear()
    ssl_context(tls)
    monkeypatch.delattr(os, "memfd_create")
    ssl_context.cache_clear()
    ssl_context(tls)
    assert list(folder.iterdir()) == []


def test_host_names_are_checked_unless_disabled() -> None:
    assert ssl_context(TlsSettings()).check_hostname
    assert ssl_context(None).check_hostname
    assert not ssl_context(TlsSettings(verify_hostname=False)).check_hostname


@pytest.mark.parametrize("server", [b"i=4095", b"i=1", b"i=4096,i=1", b"i=0", b"i=-5"])
def test_scram_proves_nothing_to_a_server_that_wants_few_iterations(server: bytes) -> None:
    mechanism = sasl_mechanism(settings("SCRAM-SHA-256", "ann", "p"), "localhost", 1)
    nonce = mechanism.auth_bytes().partition(b",r=")[2]
    with pytest.raises(AuthenticationError, match="iterations of SCRAM, fewer than 4096"):
        mechanism.receive(b"r=" + nonce + b"x,s=c2FsdA==," + server)


def test_scram_goes_on_with_4096_iterations() -> None:
    mechanism = sasl_mechanism(settings("SCRAM-SHA-256", "ann", "p"), "localhost", 1)
    nonce = mechanism.auth_bytes().partition(b",r=")[2]
    mechanism.receive(b"r=" + nonce + b"x,s=c2FsdA==,i=4096")
    assert b",p=" in mechanism.auth_bytes()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_only_the_versions_that_are_enabled_are_spoken(tmp_path: Path, version: str) -> None:
    files = create_certificates(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.broker)
    for versions in ((version,), ("TLSv1.2", "TLSv1.3")):
        tls = TlsSettings(ca_pem=files.ca.read_text(), versions=versions)
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=lambda sock=theirs: server.wrap_socket(sock, True))
        thread.start()
        with ssl_context(tls).wrap_socket(ours, server_hostname="localhost") as client:
            assert client.version() == versions[-1]
        thread.join()
