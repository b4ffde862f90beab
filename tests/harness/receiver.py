"""A receiver of webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from causeway.config import Secret, WebhookSettings

TOKEN, SECRET, PATH = "t0ken-of-the-hook", "key-of-the-signature", "/hook/very-secret-path"


class Receiver:
    """Answers with `statuses` one after the other, then with 204; `gate` holds answers up."""

    def __init__(self, *statuses: int) -> None:
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        left = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.gate.wait(30)
                receiver.paths.append(self.path)
                receiver.posts.append(({k.lower(): v for k, v in self.headers.items()}, body))
                status = left.pop(0) if left else 204
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                receiver.paths.append(self.path)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}{PATH}"

    @property
    def settings(self) -> WebhookSettings:
        return WebhookSettings(url=Secret(self.url), token=Secret(TOKEN), secret=Secret(SECRET))

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.posts]

    def events(self) -> list[str]:
        return [each["event"] for body in self.bodies() for each in body["events"]]

    def close(self) -> None:
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    receiver = Receiver(*statuses)
    try:
        yield receiver
    finally:
        receiver.close()
