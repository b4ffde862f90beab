"""A gate before each broker, which lets clients in by IAM alone, as brokers of MSK do.

    gates = Gates(Rules(keys, region="eu-central-1"))
    cluster = LocalCluster("A", advertised=gates)   # clients now log in at the gates

It answers the requests of a login itself and passes on all others: SaslHandshake, SaslAuthenticate
(AWS_MSK_IAM and OAUTHBEARER), the life of a session (KIP-368). The broker behind it is a real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from tests.harness.msk.signatures import DeniedError, Key, payload_key, token_key

MECHANISMS = ["AWS_MSK_IAM", "OAUTHBEARER"]
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE, _REFUSED = 33, 34, 58


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    mechanism: str
    key: Key


class Rules:
    """What all gates of a cluster go by. `session_ms`: the longest session, 0: no limit.
    `busy`: so many logins are refused, as if too many had come in a second. `refused`: why others
    were; `overdue`: requests after the end of a session."""

    def __init__(self, keys: Mapping[str, Key], region: str) -> None:
        self.keys = keys
        self.region = region
        self.session_ms = 0
        self.busy = 0
        self.logins: list[Login] = []
        self.refused: list[str] = []
        self.overdue = 0

    def key(self, mechanism: str, message: bytes, host: str) -> Key:
        """Whose login the message is. Raises DeniedError."""
        now = datetime.now(UTC)
        try:
            if mechanism == "AWS_MSK_IAM":
                key = payload_key(message, host, self.region, self.keys, now)
            else:
                token = message.partition(b"auth=Bearer ")[2].rstrip(b"\1")
                key = token_key(token, self.region, self.keys, now)
        except DeniedError as error:
            self.refused.append(str(error))
            raise
        self.logins.append(Login(mechanism=mechanism, key=key))
        return key

    def session_of(self, key: Key) -> int:
        """The life of a session that begins now, in ms."""
        if not self.session_ms or key.expires is None:
            return self.session_ms
        left_ms = int((key.expires - datetime.now(UTC)).total_seconds() * 1000)
        return min(self.session_ms, left_ms)


class _Session:
    """One connection's logins."""

    def __init__(self, rules: Rules, host: str) -> None:
        self._rules, self._host = rules, host
        self._mechanism = ""
        self._principal = ""
        self._ends_at = float("inf")
        self.failed = False

    def passes(self, api_key: int) -> bool:
        """Whether the broker may have a request of this kind."""
        if api_key == ApiVersionsRequest.API_KEY:
            return True
        if self._principal and time.monotonic() >= self._ends_at:
            self._rules.overdue += 1
            return False
        return bool(self._principal)

    def handshake(self, request: Any) -> Any:
        known = request.mechanism in MECHANISMS
        self._mechanism = request.mechanism if known else ""
        error = 0 if known else _UNSUPPORTED_MECHANISM
        return SaslHandshakeResponse(error_code=error, mechanisms=MECHANISMS)

    def authenticate(self, request: Any) -> Any:
        if not self._mechanism:
            return self._refused(_ILLEGAL_STATE, "no handshake")
        if self._rules.busy:
            self._rules.busy -= 1
            return self._refused(_REFUSED, "[7c9e-42]: Too many connects")
        try:
            key = self._rules.key(self._mechanism, bytes(request.auth_bytes), self._host)
        except DeniedError as error:
            return self._refused(_REFUSED, f"[7c9e-42]: {error}")
        if self._principal not in ("", key.principal):
            change = f"{self._principal} to {key.principal}"
            self._rules.refused.append(change)
            return self._refused(
                _REFUSED, f"Cannot change principals during re-authentication from {change}"
            )
        self._principal, life_ms = key.principal, self._rules.session_of(key)
        self._ends_at = time.monotonic() + life_ms / 1000 if life_ms else float("inf")
        said = {"version": "2020_10_22", "request-id": "7c9e-42"}
        answer = json.dumps(said).encode() if self._mechanism == "AWS_MSK_IAM" else b""
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=answer, session_lifetime_ms=life_ms
        )

    def _refused(self, code: int, text: str) -> Any:
        self.failed = True
        return SaslAuthenticateResponse(
            error_code=code, error_message=text, auth_bytes=b"", session_lifetime_ms=0
        )


class Gates:
    """A gate before each broker, as `LocalCluster`'s `advertised`. With `tls`, its context, clients
    speak TLS to the name `host`. They run in a thread of their own until `close`."""

    def __init__(
        self, rules: Rules, tls: ssl.SSLContext | None = None, host: str = "localhost"
    ) -> None:
        self._rules, self._tls, self._host = rules, tls, host
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def __call__(self, node: int, port: int) -> tuple[str, int]:
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        serve = partial(self._serve, port)
        start = asyncio.start_server(serve, sock=listener, ssl=self._tls)
        asyncio.run_coroutine_threadsafe(start, self._loop).result()
        return self._host, listener.getsockname()[1]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _serve(
        self, port: int, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        broker, to_broker = await asyncio.open_connection("127.0.0.1", port)
        down = asyncio.create_task(_copy(broker, to_client))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await _pass(client, to_client, to_broker, _Session(self._rules, self._host))
        to_broker.close()
        await down
        to_client.close()


async def _pass(
    client: asyncio.StreamReader,
    to_client: asyncio.StreamWriter,
    to_broker: asyncio.StreamWriter,
    session: _Session,
) -> None:
    """Until the client ends the connection, or is refused."""
    while not session.failed:
        head = await client.readexactly(4)
        frame = await client.readexactly(int.from_bytes(head))
        answer = _own_answer(frame, session)
        if answer is not None:
            # No answer of the broker is under way: a login is the client's only request.
            to_client.write(answer)
            await to_client.drain()
        elif session.passes(int.from_bytes(frame[:2])):
            to_broker.write(head + frame)
            await to_broker.drain()
        else:
            return


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(256 * 1024):
            sink.write(chunk)
            await sink.drain()
    sink.close()


def _own_answer(frame: bytes, session: _Session) -> bytes | None:
    """The gate's own answer. None: the request is not for the gate."""
    api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
    answer: Any
    if api_key == SaslHandshakeRequest.API_KEY:
        answer = session.handshake(_request(SaslHandshakeRequest, frame, version))
    elif api_key == SaslAuthenticateRequest.API_KEY:
        answer = session.authenticate(_request(SaslAuthenticateRequest, frame, version))
    else:
        return None
    answer.API_VERSION = version
    answer.with_header(correlation_id=int.from_bytes(frame[4:8]))
    return bytes(answer.encode(header=True, framed=True))


def _request(kind: Any, frame: bytes, version: int) -> Any:
    return kind.decode(frame, version=version, header=True)
