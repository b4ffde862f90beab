"""An OAuth 2.0 token endpoint on loopback: client credentials in, signed JWT out.

    POST /token   grant_type=client_credentials, credentials as HTTP Basic or as form fields
    GET  /jwks    the public key, for brokers

RFC 6749 section 4.4, RFC 7519 (JWT, RS256), RFC 7517 (JWK).
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

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER = "causeway-dev"
AUDIENCE = "kafka"
_KEY_ID = "1"


class TokenServer:
    """Runs in a thread from `start` to `stop`. `clients` maps ids to secrets; a token is its
    client's (`sub`) and good for `lifetime_s` seconds. `issued` counts the tokens given."""

    def __init__(self, clients: Mapping[str, str], *, lifetime_s: float = 3600.0) -> None:
        self.clients = dict(clients)
        self.lifetime_s = lifetime_s
        self.issued = 0
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
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": _KEY_ID,
            "n": _encoded(numbers.n.to_bytes(256)).decode(),
            "e": _encoded(numbers.e.to_bytes(3)).decode(),
        }
        return {"keys": [key]}


def _encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


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
            client, secret = self._credentials(form)
            if form.get("grant_type") != "client_credentials":
                self._answer(400, {"error": "unsupported_grant_type"})
            elif not secret or server.clients.get(client) != secret:
                self._answer(401, {"error": "invalid_client"})
            else:
                token = server.token(client, form.get("scope"))
                lifetime = int(server.lifetime_s)
                self._answer(
                    200, {"access_token": token, "token_type": "Bearer", "expires_in": lifetime}
                )

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
