"""An OAuth 2.0 token endpoint on loopback: client credentials or assertions in, signed JWT out.

    POST /token   grant_type=client_credentials, credentials as HTTP Basic or as form fields,
                  or client_assertion; grant_type=…:jwt-bearer with an assertion
    GET  /jwks    the public keys, for brokers: the server's own, and those of `trusted`

RFC 6749 section 4.4, RFC 7519 (JWT, RS256 and ES256), RFC 7517 (JWK), RFC 7523 (assertions).
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

ISSUER = "causeway-dev"
AUDIENCE = "kafka"
_KEY_ID = "1"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class TokenServer:
    """Runs in a thread from `start` to `stop`. `clients` maps ids to secrets; a token is its
    client's (`sub`) and good for `lifetime_s` seconds. `trusted` maps the issuers of assertions to
    their keys. `issued` counts the tokens given, `asked` has the fields of all requests."""

    def __init__(self, clients: Mapping[str, str], *, lifetime_s: float = 3600.0) -> None:
        self.clients = dict(clients)
        self.lifetime_s = lifetime_s
        self.trusted: dict[str, PublicKey] = {}
        self.issued = 0
        self.asked: list[dict[str, str]] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def token_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/jwks"

    def start(self) -> TokenServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> TokenServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def token(self, client: str, scope: str | None = None) -> str:
        now = time.time()
        claims: dict[str, object] = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": client,
            "iat": int(now),
            "exp": int(now + self.lifetime_s),
        }
        if scope is not None:
            claims["scope"] = scope
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        signed = b".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = self._key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        self.issued += 1
        return (signed + b"." + _encoded(signature)).decode()

    def keys(self) -> dict[str, object]:
        own = {_KEY_ID: self._key.public_key()}
        return {"keys": [_jwk(name, key) for name, key in {**own, **self.trusted}.items()]}

    def subject(self, assertion: str) -> str | None:
        """Whom a valid assertion is about. None if it is not valid."""
        try:
            head, body, signature = assertion.split(".")
            header, claims = json.loads(_decoded(head)), json.loads(_decoded(body))
            key = self.trusted[claims["iss"]]
            verify(key, header["alg"], f"{head}.{body}".encode(), _decoded(signature))
        except (ValueError, KeyError, InvalidSignature):
            return None
        in_time = claims.get("nbf", 0) <= time.time() < claims["exp"]
        return claims["sub"] if in_time and claims.get("aud") == self.token_url else None


def verify(key: PublicKey, algorithm: str, signed: bytes, signature: bytes) -> None:
    """Raises InvalidSignature."""
    if isinstance(key, rsa.RSAPublicKey) and algorithm == "RS256":
        key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm == "ES256":
        if len(signature) != 64:
            raise InvalidSignature
        numbers = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
        key.verify(encode_dss_signature(*numbers), signed, ec.ECDSA(hashes.SHA256()))
    else:
        raise InvalidSignature


def _jwk(name: str, key: PublicKey) -> dict[str, str]:
    if isinstance(key, rsa.RSAPublicKey):
        rsa_numbers = key.public_numbers()
        kind = {"kty": "RSA", "alg": "RS256"}
        numbers = {"n": rsa_numbers.n.to_bytes(256), "e": rsa_numbers.e.to_bytes(3)}
    else:
        point = key.public_numbers()
        kind = {"kty": "EC", "alg": "ES256", "crv": "P-256"}
        numbers = {"x": point.x.to_bytes(32), "y": point.y.to_bytes(32)}
    encoded = {name: _encoded(number).decode() for name, number in numbers.items()}
    return {"kid": name, "use": "sig", **kind, **encoded}


def _encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _handler(server: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/jwks":
                self._answer(200, server.keys())
            else:
                self._answer(404, {"error": "not_found"})

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            form = {k: v[0] for k, v in parse_qs(self.rfile.read(size).decode()).items()}
            server.asked.append(form)
            grant, client = form.get("grant_type"), self._client(form)
            if grant not in ("client_credentials", _JWT_BEARER):
                self._answer(400, {"error": "unsupported_grant_type"})
            elif client is None:
                code = "invalid_grant" if grant == _JWT_BEARER else "invalid_client"
                self._answer(401, {"error": code})
            else:
                token = server.token(client, form.get("scope"))
                lifetime = int(server.lifetime_s)
                self._answer(
                    200, {"access_token": token, "token_type": "Bearer", "expires_in": lifetime}
                )

        def _client(self, form: Mapping[str, str]) -> str | None:
            """Who asks. None if the proof is wrong."""
            if form.get("grant_type") == _JWT_BEARER:
                return server.subject(form.get("assertion", ""))
            if form.get("client_assertion_type") == _CLIENT_ASSERTION:
                return server.subject(form.get("client_assertion", ""))
            client, secret = self._credentials(form)
            return client if secret and server.clients.get(client) == secret else None

        def _credentials(self, form: Mapping[str, str]) -> tuple[str, str]:
            kind, _, encoded = (self.headers.get("Authorization") or "").partition(" ")
            if kind != "Basic":
                return form.get("client_id", ""), form.get("client_secret", "")
            client, _, secret = base64.b64decode(encoded).decode().partition(":")
            return unquote(client), unquote(secret)

        def _answer(self, status: int, content: Mapping[str, object]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    return Handler
