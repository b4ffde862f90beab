"""The services that give out AWS credentials, on loopback.

| service | asked with |
|---|---|
| instance metadata, version 2 alone | PUT /latest/api/token, then GET with this token |
| container metadata | GET /container with the header Authorization |
| STS | POST / with AssumeRole, AssumeRoleWithWebIdentity or GetCallerIdentity |

Each answer has a new key, and `Services.keys` has all of them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.harness.msk.signatures import Key

REGION = "eu-central-1"
_STS = "https://sts.amazonaws.com/doc/2011-06-15/"
_ROLE_PATH = "/latest/meta-data/iam/security-credentials/"


class Services:
    """`life_s`: how long the next keys are valid. `failures`: so many requests are answered with
    status 500. `asked`: the requests, by name. `web_identity`: the token that a web identity must
    have; `container_token`: the header of the container's requests."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, Key] = {}
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.life_s = 3600.0
        self.failures = 0
        self.refuses_roles = False
        self.web_identity = "web-identity-token"
        self.container_token = "container-token"
        self._session_token = "metadata-session"

    def add(self, id: str, secret: str, token: str | None = None) -> Key:
        """A key that is valid for ever."""
        key = Key(id=id, secret=secret, token=token, principal=f"user/{id}")
        self.keys[id] = key
        return key

    def environment(self) -> dict[str, str]:
        """Variables that lead AWS's tools to these services, and to no other place."""
        return {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url,
            "AWS_ENDPOINT_URL_STS": self.url,
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }

    def environment_of(self, key: Key) -> dict[str, str]:
        token = {"AWS_SESSION_TOKEN": key.token} if key.token else {}
        return {"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret, **token}

    def web_identity_environment(self, folder: Path) -> dict[str, str]:
        """As EKS sets it for a service account with a role."""
        file = folder / "token"
        file.write_text(self.web_identity)
        return {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(file),
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/eks",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }

    def container_environment(self) -> dict[str, str]:
        """As ECS and EKS set it."""
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/container",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": self.container_token,
        }

    def issue(self, principal: str) -> Key:
        number = len(self.keys) + 1
        key = Key(
            id=f"ASIA{number:016}",
            secret=f"secret/{number}+==",
            token=f"session/{number}+==",
            principal=principal,
            expires=(datetime.now(UTC) + timedelta(seconds=self.life_s)).replace(microsecond=0),
        )
        self.keys[key.id] = key
        return key

    def put(self, path: str) -> tuple[int, str]:
        self.asked.append(f"PUT {path}")
        return (200, self._session_token) if path == "/latest/api/token" else (404, "")

    def get(self, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        self.asked.append(f"GET {path}")
        if self.failures:
            self.failures -= 1
            return 500, ""
        if path == "/container":
            if headers.get("Authorization") != self.container_token:
                return 401, ""
            return 200, json.dumps(_as_json(self.issue("container"), "Token"))
        if headers.get("x-aws-ec2-metadata-token") != self._session_token:
            return 401, ""
        if path == _ROLE_PATH:
            return 200, "node"
        if path == f"{_ROLE_PATH}node":
            return 200, json.dumps({"Code": "Success", **_as_json(self.issue("node"), "Token")})
        if path == "/latest/meta-data/placement/availability-zone/":
            return 200, f"{REGION}a"
        return 404, ""

    def post(self, form: dict[str, str], headers: Mapping[str, str]) -> tuple[int, str]:
        action = form["Action"]
        self.asked.append(action)
        self.forms.append(form)
        if self.failures:
            self.failures -= 1
            return 500, ""
        if action == "AssumeRoleWithWebIdentity":
            if form["WebIdentityToken"] != self.web_identity:
                return 400, _error("InvalidIdentityToken", f"no token {form['WebIdentityToken']}")
            return 200, _assumed(action, self._assume(form))
        signer = headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        if (key := self.keys.get(signer)) is None or self.refuses_roles:
            return 403, _error("AccessDenied", f"secret text about {signer}")
        if action == "AssumeRole":
            return 200, _assumed(action, self._assume(form))
        return 200, _answer(action, f"<Arn>arn:aws:sts::1:{key.principal}</Arn>")

    def _assume(self, form: Mapping[str, str]) -> Key:
        role = form["RoleArn"].rpartition("/")[2]
        return self.issue(f"{role}/{form['RoleSessionName']}")


def _as_json(key: Key, token: str) -> dict[str, str]:
    assert key.token
    assert key.expires
    return {
        "AccessKeyId": key.id,
        "SecretAccessKey": key.secret,
        token: key.token,
        "Expiration": key.expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _assumed(action: str, key: Key) -> str:
    fields = "".join(f"<{k}>{v}</{k}>" for k, v in _as_json(key, "SessionToken").items())
    arn = f"<Arn>arn:aws:sts::1:assumed-role/{key.principal}</Arn>"
    user = f"<AssumedRoleUser><AssumedRoleId>A:s</AssumedRoleId>{arn}</AssumedRoleUser>"
    return _answer(action, f"<Credentials>{fields}</Credentials>{user}")


def _answer(action: str, result: str) -> str:
    inner = f"<{action}Result>{result}</{action}Result>"
    return f'<{action}Response xmlns="{_STS}">{inner}</{action}Response>'


def _error(code: str, text: str) -> str:
    inner = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{text}</Message></Error>"
    return f'<ErrorResponse xmlns="{_STS}">{inner}</ErrorResponse>'


@contextmanager
def aws_services() -> Iterator[Services]:
    services = Services()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._send(services.put(self.path))

        def do_GET(self) -> None:
            self._send(services.get(urlsplit(self.path).path, dict(self.headers)))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._send(services.post(form, dict(self.headers)))

        def _send(self, answer: tuple[int, str]) -> None:
            status, text = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    services.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield services
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
