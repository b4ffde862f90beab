"""Google on loopback: the metadata server of a machine, and the token endpoint for keys of service
accounts, users and workload identities.

    GET  /computeMetadata/v1/instance/service-accounts/default/[?recursive=true | token]
    POST /token, /sts, /impersonate/serviceAccounts/ACCOUNT:generateAccessToken
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

ACCOUNT = "mirror@project.iam.gserviceaccount.com"


class GoogleStandIn:
    """Gives `ya29.token-1`, `ya29.token-2` and so on, each for `lifetime_s` seconds. `status`: what
    it answers instead of 200. `asked`: the paths, and the fields of requests with fields.
    `impersonators`: the access tokens with which it was asked to impersonate the account."""

    def __init__(self) -> None:
        self.port = 0
        self.status = 200
        self.lifetime_s = 3600
        self.issued = 0
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.impersonators: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def key_of_service_account(self) -> str:
        """The JSON text of a key file."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return json.dumps(
            {
                "type": "service_account",
                "client_email": ACCOUNT,
                "private_key": pem,
                "private_key_id": "1",
                "token_uri": f"{self.url}/token",
            }
        )

    def login_of_a_person(self) -> str:
        """The JSON text of the file that `gcloud auth application-default login` writes."""
        return json.dumps(
            {
                "type": "authorized_user",
                "client_id": "gcloud",
                "client_secret": "x",
                "refresh_token": "r",
            }
        )

    @property
    def impersonation(self) -> str:
        """The URL to impersonate an account, whose name takes the place of `{}`."""
        return f"{self.url}/impersonate/serviceAccounts/{{}}:generateAccessToken"

    def impersonated(self, source: str) -> str:
        """The JSON text of the file that `gcloud auth application-default login
        --impersonate-service-account` writes. `source`: the JSON text of the credentials that may
        impersonate the account."""
        return json.dumps(
            {
                "type": "impersonated_service_account",
                "source_credentials": json.loads(source),
                "service_account_impersonation_url": self.impersonation.format(ACCOUNT),
                "delegates": [],
            }
        )

    def workload_identity(
        self, source: str | Mapping[str, object], *, impersonates: bool = True
    ) -> str:
        """The JSON text of a file of a workload identity. `source`: of the token of another issuer,
        or the file that has this token."""
        found: dict[str, Any] = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{self.url}/sts",
            "credential_source": {"file": source} if isinstance(source, str) else source,
        }
        if impersonates:
            found["service_account_impersonation_url"] = self.impersonation.format(ACCOUNT)
        return json.dumps(found)

    def answer(
        self, path: str, form: dict[str, Any], authorization: str
    ) -> Mapping[str, object] | str:
        self.asked.append((path, form))
        if path.startswith("/computeMetadata"):
            if "token" not in path:
                return {"email": ACCOUNT, "scopes": [], "aliases": ["default"]}
            return self._token()
        if path.startswith("/impersonate"):
            self.impersonators.append(authorization.removeprefix("Bearer "))
            until = datetime.fromtimestamp(time.time() + self.lifetime_s, UTC)
            found = self._token()
            return {
                "accessToken": found["access_token"],
                "expireTime": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        answer = {**self._token(), "issued_token_type": "access_token", "token_type": "Bearer"}
        if form.get("grant_type") == "refresh_token":
            person = base64.urlsafe_b64encode(json.dumps({"email": ACCOUNT}).encode())
            answer["id_token"] = f"e30.{person.decode().rstrip('=')}.x"
        return answer

    def _token(self) -> dict[str, object]:
        self.issued += 1
        return {"access_token": f"ya29.token-{self.issued}", "expires_in": self.lifetime_s}


@contextmanager
def google_stand_in() -> Iterator[GoogleStandIn]:
    stand_in = GoogleStandIn()

    class GoogleHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if self.headers["Content-Type"] == "application/json":
                self._reply(json.loads(body))
            else:
                self._reply({name: values[0] for name, values in parse_qs(body).items()})

        def _reply(self, form: dict[str, Any]) -> None:
            found = stand_in.answer(self.path, form, self.headers["Authorization"] or "")
            body = json.dumps(found if stand_in.status == 200 else {"error": "s3cret"}).encode()
            self.send_response(stand_in.status)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), GoogleHandler)
    stand_in.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
