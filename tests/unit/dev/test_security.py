"""Security set-ups: what does not fit is refused; stores and tokens open with what we say."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request

import jks
import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from causeway.dev import kafka_version
from causeway.errors import ConfigError
from tests.harness.kafka.certificates import Certificates, create_certificates
from tests.harness.kafka.security import Mechanism, Protocol, Security
from tests.harness.kafka.token_server import TokenServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return create_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("protocol", "mechanisms", "mutual", "acl", "problem"),
    [
        ("SSL", (), False, False, "certificates go with"),
        ("SASL_PLAINTEXT", (), False, False, "mechanisms go with"),
        ("PLAINTEXT", ("PLAIN",), False, False, "mechanisms go with"),
        ("SASL_PLAINTEXT", ("OAUTHBEARER",), False, False, "tokens go with"),
        ("PLAINTEXT", (), False, True, "who say who they are"),
    ],
)
def test_what_does_not_fit(
    protocol: Protocol, mechanisms: tuple[Mechanism, ...], mutual: bool, acl: bool, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Security(protocol=protocol, mechanisms=mechanisms, mutual=mutual, acl=acl)


def test_passwords_do_not_show() -> None:
    security = Security(
        protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users={"alice": "alice-secret"}
    )

    assert "alice-secret" not in repr(security)
    properties = security.broker_properties(kafka_version())
    assert 'user_alice="alice-secret"' in "".join(properties.values())
    assert security.librdkafka("alice")["sasl.password"] == "alice-secret"


def test_the_broker_is_trusted_by_its_authority_alone(certificates: Certificates) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.broker)

    assert _handshake(server, ssl.create_default_context(cafile=certificates.ca), "localhost")
    for trusted, name in ((certificates.stranger, "localhost"), (certificates.ca, "elsewhere")):
        with pytest.raises(ssl.SSLCertVerificationError):
            _handshake(server, ssl.create_default_context(cafile=trusted), name)


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bool:
    """In memory: each side's output is the other's input, until both are through."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(down, up, server_hostname=name),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(5):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
    return not sides


def test_encrypted_key_and_java_stores(certificates: Certificates) -> None:
    password = certificates.password
    key = certificates.client_key_encrypted.read_bytes()
    assert load_pem_private_key(key, password.encode()) is not None

    store = jks.KeyStore.load(str(certificates.keystore("JKS")), password)
    assert list(store.private_keys) == ["client"]
    trusted = jks.KeyStore.load(str(certificates.truststore("JKS")), password)
    assert list(trusted.certs) == ["ca"]

    pfx = certificates.keystore("PKCS12").read_bytes()
    found = pkcs12.load_pkcs12(pfx, password.encode())
    assert found.key is not None
    assert len(found.additional_certs) == 1


def test_tokens() -> None:
    with TokenServer({"robot": "wort:mit=zeichen"}, lifetime_s=60) as server:
        token = _ask(server, "robot", "wort:mit=zeichen")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _ask(server, "robot", "wrong")
        with urllib.request.urlopen(server.keys_url) as answer:
            (key,) = json.load(answer)["keys"]

    signed, _, signature = token.rpartition(".")
    numbers = rsa.RSAPublicNumbers(*(int.from_bytes(_decoded(key[part])) for part in "en"))
    numbers.public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), SHA256())
    claims = json.loads(_decoded(signed.split(".")[1]))
    assert claims["sub"] == "robot"
    assert claims["exp"] - claims["iat"] == 60
    assert server.issued == 1


def _ask(server: TokenServer, client: str, secret: str) -> str:
    credentials = ":".join(urllib.parse.quote(part, safe="") for part in (client, secret))
    request = urllib.request.Request(
        server.token_url,
        data=b"grant_type=client_credentials",
        headers={"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"},
    )
    with urllib.request.urlopen(request) as answer:
        token: str = json.load(answer)["access_token"]
    return token


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
