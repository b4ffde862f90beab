"""Stores made by Java's own keytool, and PEM made by cryptography."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.config import Entry, Problems
from causeway.config.reading import client_settings, stores
from causeway.errors import ConfigError, PrerequisiteError
from causeway.extras import install_extra
from tests.harness.examples import examples
from tests.harness.pems import make_certificate, make_pem

PASSWORD = "store-pass"


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, a key signed by it, and stores of each type holding them."""
    folder = tmp_path_factory.mktemp("stores")
    ca = make_certificate("ca")
    own = make_certificate("own", ca)
    for made in (ca, own):
        (folder / f"{made.name}.crt").write_text(made.cert_pem)
    bundle = pkcs12.serialize_key_and_certificates(
        b"own", own.key, own.cert, [ca.cert], BestAvailableEncryption(PASSWORD.encode())
    )
    (folder / "bundle").write_bytes(bundle)
    trust = ("-keystore", str(folder / "trust.JKS"), "-storetype", "JKS", "-storepass", PASSWORD)
    for name in ("ca", "own"):
        file = str(folder / f"{name}.crt")
        keytool("-importcert", "-noprompt", *trust, "-alias", name, "-file", file)
    for made_from, to, kind in (
        ("trust.JKS", "trust.PKCS12", "PKCS12"),
        ("bundle", "key.JKS", "JKS"),
        ("key.JKS", "key.PKCS12", "PKCS12"),
    ):
        source = ("-srckeystore", str(folder / made_from), "-srcstorepass", PASSWORD)
        target = ("-destkeystore", str(folder / to), "-deststorepass", PASSWORD)
        keytool("-importkeystore", "-noprompt", *source, *target, "-deststoretype", kind)
    return folder


def names(pem: str) -> list[str]:
    return [
        str(cert.subject.rfc4514_string()) for cert in x509.load_pem_x509_certificates(pem.encode())
    ]


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_trust_stores_of_keytool(made: Path, kind: str) -> None:
    pem = stores.trusted_from_store(str(made / f"trust.{kind}"), kind, PASSWORD)
    assert sorted(names(pem)) == ["CN=ca", "CN=own"]


def test_a_jks_trust_store_needs_no_password(made: Path) -> None:
    assert len(names(stores.trusted_from_store(str(made / "trust.JKS"), "JKS", None))) == 2


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_key_stores_of_keytool(made: Path, kind: str) -> None:
    pair = stores.pair_from_store(str(made / f"key.{kind}"), kind, PASSWORD, None)
    assert names(pair.cert_pem) == ["CN=own", "CN=ca"]
    key = load_pem_private_key(pair.key_pem.reveal().encode(), None)
    own = x509.load_pem_x509_certificates(pair.cert_pem.encode())[0]
    assert key.public_key() == own.public_key()
    assert "PRIVATE" not in repr(pair)


def test_java_reads_a_store_by_its_bytes_and_so_do_we(made: Path) -> None:
    assert names(stores.trusted_from_store(str(made / "trust.PKCS12"), "JKS", PASSWORD))
    assert names(stores.trusted_from_store(str(made / "trust.JKS"), "PKCS12", PASSWORD))


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("read", ["trust", "key"])
def test_wrong_passwords(made: Path, kind: str, read: str) -> None:
    path = str(made / f"{read}.{kind}")
    reader: Callable[[], object] = (
        partial(stores.trusted_from_store, path, kind, "hunter2")
        if read == "trust"
        else partial(stores.pair_from_store, path, kind, "hunter2", None)
    )
    with pytest.raises(ConfigError, match="password is wrong") as raised:
        reader()
    assert path in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_wrong_key_password(made: Path) -> None:
    with pytest.raises(ConfigError, match=r"password of key own is wrong \(ssl.key.password\)"):
        stores.pair_from_store(str(made / "key.JKS"), "JKS", PASSWORD, "nope")


def test_stores_without_what_is_wanted(made: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        stores.trusted_from_store(str(tmp_path / "x"), "JKS", None)
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(ConfigError, match="neither JKS nor PKCS12"):
        stores.trusted_from_store(str(tmp_path / "junk"), "JKS", "x")
    with pytest.raises(ConfigError, match="holds no PEM"):
        stores.trusted_from_store(str(made / "trust.JKS"), "PEM", None)
    for kind in ("JKS", "PKCS12"):
        with pytest.raises(ConfigError, match="holds no private key"):
            stores.pair_from_store(str(made / f"trust.{kind}"), kind, PASSWORD, None)


def test_a_password_is_asked_for(made: Path) -> None:
    with pytest.raises(ConfigError, match="needs a password"):
        stores.trusted_from_store(str(made / "trust.PKCS12"), "PKCS12", None)


# -- PEM


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_pem_files(tmp_path: Path, form: PrivateFormat) -> None:
    key, cert = make_pem(NoEncryption(), form)
    path = tmp_path / "client.pem"
    path.write_text(f"some words\n{key}\n{cert}")
    pair = stores.pair_from_store(str(path), "PEM", None, None)
    assert names(pair.cert_pem) == ["CN=pem"]
    assert pair.key_pem.reveal().startswith("-----BEGIN PRIVATE KEY-----")
    assert names(stores.trusted_from_store(str(path), "PEM", None)) == ["CN=pem"]


def test_an_encrypted_pem_key() -> None:
    key, cert = make_pem(BestAvailableEncryption(b"pw"), PrivateFormat.PKCS8)
    assert "ENCRYPTED" in key
    pair = stores.pair_from_pem(key, cert, "it", "pw")
    assert "ENCRYPTED" not in pair.key_pem.reveal()
    with pytest.raises(ConfigError, match=r"encrypted \(set ssl\.key\.password\)"):
        stores.pair_from_pem(key, cert, "it", None)
    with pytest.raises(ConfigError, match=r"ssl\.key\.password is wrong"):
        stores.pair_from_pem(key, cert, "it", "other")


def test_pem_on_one_line_with_blanks() -> None:
    key, cert = make_pem(NoEncryption(), PrivateFormat.PKCS8)
    pair = stores.pair_from_pem(key.replace("\n", " "), cert.replace("\n", " "), "it", None)
    assert names(pair.cert_pem) == ["CN=pem"]
    assert names(stores.trusted_from_pem(cert.replace("\n", " ") * 2, "it")) == ["CN=pem"] * 2


def test_pem_without_what_is_wanted() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(ConfigError, match="holds no certificate"):
        stores.pair_from_pem(pem, pem, "it", None)
    with pytest.raises(ConfigError, match="holds no private key"):
        stores.pair_from_pem("", "", "it", None)
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    with pytest.raises(ConfigError, match="a certificate in it cannot be read"):
        stores.trusted_from_pem(broken, "it")


def test_a_pem_store_declared_as_another(tmp_path: Path) -> None:
    _, cert = make_pem(NoEncryption(), PrivateFormat.PKCS8)
    (tmp_path / "ca.pem").write_text(cert)
    with pytest.raises(ConfigError, match=r"PEM text, not JKS \(set its type to PEM\)"):
        stores.trusted_from_store(str(tmp_path / "ca.pem"), "JKS", None)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_damaged_java_store_raises_our_error(made: Path, data: st.DataObject) -> None:
    damaged = bytearray((made / "key.JKS").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(4, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = made / "damaged"
    path.write_bytes(damaged[: data.draw(st.integers(4, len(damaged)))])
    for password in (PASSWORD, None):
        with suppress(ConfigError):
            stores.trusted_from_store(str(path), "JKS", password)
        with suppress(ConfigError):
            stores.pair_from_store(str(path), "JKS", password, PASSWORD)


def test_a_jks_store_without_its_package_says_what_to_install(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jks", None)
    with pytest.raises(PrerequisiteError, match=re.escape(install_extra("jks")) + ".*PKCS12"):
        stores.trusted_from_store(str(made / "trust.JKS"), "JKS", None)
    lines = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SSL",
        "ssl.truststore.location": str(made / "trust.JKS"),
        "ssl.keystore.location": str(made / "key.JKS"),
        "ssl.keystore.password": PASSWORD,
    }
    entries = {name: Entry(key=f"A.{name}", value=text, line=7) for name, text in lines.items()}
    problems = Problems("x")
    assert client_settings("A", entries, problems) is None
    trusted, own = problems.lines
    assert trusted.startswith(f"A.ssl.truststore.location (line 7): read {made}/trust.JKS: ")
    assert own.startswith(f"A.ssl.keystore.location (line 7): read {made}/key.JKS: ")
