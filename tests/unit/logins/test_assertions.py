"""Assertions that a client signs, and tokens that another program gets."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from causeway.config import AssertionSettings, OAuthSettings, Secret
from causeway.errors import AuthenticationError
from causeway.logins.jwt import claims_of, encoded, expiry_of, signed_assertion
from causeway.logins.oauth import OAuthEndpoint, oauth_tokens
from tests.harness.kafka.token_server import TokenServer

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
Algorithm = Literal["RS256", "ES256"]


@pytest.fixture(scope="module")
def keys() -> dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey]:
    return {
        "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
    }


@pytest.fixture
def server(
    keys: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey],
) -> Iterator[TokenServer]:
    with TokenServer({}) as running:
        running.trusted = {name: key.public_key() for name, key in keys.items()}
        yield running


def signed_by(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    algorithm: Algorithm,
    audience: str,
    **more: Any,
) -> AssertionSettings:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    claims = {"iss": algorithm, "sub": "robot", "aud": audience}
    given = {"sent_as": "assertion", "header": '{"kid": "1"}', **more}
    return AssertionSettings(
        key_pem=Secret(pem), algorithm=algorithm, claims=json.dumps(claims), **given
    )


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("sent_as", ["assertion", "client_assertion"])
def test_a_token_for_an_assertion(
    server: TokenServer, keys: dict[str, Any], algorithm: Algorithm, sent_as: Any
) -> None:
    """Each request has an assertion of its own."""
    by_grant = sent_as == "assertion"
    fields = {} if by_grant else {"client_assertion_type": Secret(CLIENT_ASSERTION)}
    assertion = signed_by(
        keys[algorithm], algorithm, server.token_url, sent_as=sent_as, has_id=True
    )
    settings = OAuthSettings(
        token_endpoint=server.token_url,
        grant=JWT_BEARER if by_grant else "client_credentials",
        fields=fields,
        assertion=assertion,
        scope="kafka",
    )
    endpoint = OAuthEndpoint(settings, None)
    token = endpoint.fetch(5)
    endpoint.fetch(5)
    assert claims_of(token.value)["sub"] == "robot"
    assert token.lifetime_s == 3600
    first, second = server.asked
    assert first.keys() == {"grant_type", "scope", sent_as, *fields}
    ids = {claims_of(form[sent_as])["jti"] for form in (first, second)}
    assert len(ids) == 2


def test_what_an_assertion_says(keys: dict[str, Any]) -> None:
    settings = signed_by(
        keys["ES256"],
        "ES256",
        "https://idp",
        header='{"kid": "k", "alg": "none"}',
        lifetime_s=600,
        not_before_s=30,
    )
    token = signed_assertion(settings)
    header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    claims = claims_of(token)
    assert header == {"kid": "k", "alg": "ES256", "typ": "JWT"}
    assert {"iss", "sub", "aud", "iat", "exp", "nbf"} == claims.keys()
    assert abs(claims["iat"] - time.time()) < 60
    assert claims["exp"] - claims["iat"] == 600
    assert claims["iat"] - claims["nbf"] == 30
    assert expiry_of(token) == claims["exp"]


def test_an_assertion_that_the_endpoint_refuses(server: TokenServer, keys: dict[str, Any]) -> None:
    settings = OAuthSettings(
        token_endpoint=server.token_url,
        grant=JWT_BEARER,
        assertion=signed_by(keys["RS256"], "RS256", "https://elsewhere"),
    )
    with pytest.raises(AuthenticationError, match=r"invalid_grant.*check the assertion") as caught:
        OAuthEndpoint(settings, None).fetch(5)
    assert "eyJ" not in str(caught.value)
    assert "PRIVATE" not in repr(settings)


@pytest.mark.parametrize("name", ["assertion", "client_assertion", "refresh_token"])
def test_a_file_is_read_again_for_each_request(
    server: TokenServer, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "file"
    settings = OAuthSettings(
        token_endpoint=server.token_url,
        fields={name: Secret("old")},
        files={name: str(file)},
    )
    endpoint = OAuthEndpoint(settings, None)
    for content in ("new", "newer"):
        file.write_text(f"{content}\n")
        with pytest.raises(AuthenticationError):
            endpoint.fetch(5)
        assert server.asked[-1][name] == content
    file.unlink()  # while it is replaced
    with pytest.raises(AuthenticationError):
        endpoint.fetch(5)
    assert server.asked[-1][name] == "old"


def jwt_until(at: float) -> str:
    return f"e30.{encoded(json.dumps({'exp': at}).encode())}.x"


def test_a_token_in_a_file_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = OAuthSettings(access_token=Secret("old"), files={"access_token": str(file)})
    tokens = oauth_tokens(settings, None)
    assert tokens.token(5) == "old"
    for text in ("new", jwt_until(time.time() + 60)):
        file.write_text(text)
        assert tokens.token(5) == text


def test_a_given_token_that_has_expired() -> None:
    settings = OAuthSettings(access_token=Secret(jwt_until(946684800.0)))
    says = r"use the access token: it expired at 2000-01-01 00:00:00 UTC \(replace"
    with pytest.raises(AuthenticationError, match=says):
        oauth_tokens(settings, None).token(5)


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c", f"a.{encoded(b'[1]')}.c", f"a.{encoded(b'[' * 99999)}.c"]
)
def test_tokens_that_are_no_jwt(token: str) -> None:
    assert claims_of(token) == {}
    assert expiry_of(token) is None


@pytest.mark.parametrize("exp", ["soon", True, None, [1]])
def test_an_expiry_that_is_none(exp: object) -> None:
    token = f"a.{encoded(json.dumps({'exp': exp}).encode())}.c"
    assert expiry_of(token) is None
