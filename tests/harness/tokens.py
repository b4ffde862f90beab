"""A token endpoint that says what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs


class TokenEndpoint:
    """Answers with `status`, `headers` and `answer` after `delay_s`; without `answer` it grants
    `token-1`, `token-2` and so on, each for `lifetime_s` seconds. `rotates`: the refresh token that
    holds; each answer has the next one, and the one before ceases."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.answer: bytes | None = None
        self.lifetime_s = 60.0
        self.delay_s = 0.0
        self.rotates = ""
        self.requests: list[tuple[str, dict[str, list[str]]]] = []

    def take(self, authorization: str, form: dict[str, list[str]]) -> bytes:
        self.requests.append((authorization, form))
        time.sleep(self.delay_s)
        if self.answer is not None:
            return self.answer
        granted: dict[str, object] = {
            "access_token": f"token-{len(self.requests)}",
            "expires_in": self.lifetime_s,
        }
        if self.rotates:
            if form["refresh_token"] != [self.rotates]:
                self.status = 400
                return b'{"error": "invalid_grant"}'
            self.rotates = granted["refresh_token"] = f"refresh-{len(self.requests)}"
            self.status = 200
        return json.dumps(granted).encode()


@contextmanager
def token_endpoint(certificate: Path | None = None) -> Iterator[TokenEndpoint]:
    """`certificate`: a PEM file with its key, to be https."""
    endpoint = TokenEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            answer = endpoint.take(self.headers["Authorization"] or "", parse_qs(body))
            self.send_response(endpoint.status)
            for name, value in endpoint.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scheme = "http" if certificate is None else "https"
    endpoint.url = f"{scheme}://127.0.0.1:{server.server_port}/token"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
