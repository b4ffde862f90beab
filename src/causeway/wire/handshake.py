"""The SASL exchange on a fresh (or quiet) connection."""

from __future__ import annotations

from typing import Any, Protocol

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from causeway.config import ClientSettings
from causeway.errors import AuthenticationError
from causeway.wire import codes
from causeway.wire.apis import SASL_HANDSHAKE
from causeway.wire.deadline import Deadline
from causeway.wire.security import sasl_mechanism

_REMEDIES = {
    "PLAIN": "check user name and password in sasl.jaas.config",
    "SCRAM-SHA-256": "check user name and password in sasl.jaas.config",
    "SCRAM-SHA-512": "check user name and password in sasl.jaas.config",
    "OAUTHBEARER": "the broker does not accept the token: check client id, scope and audience",
}


class Peer(Protocol):
    """The broker at the other end; `call` sends a request and awaits its answer."""

    @property
    def settings(self) -> ClientSettings: ...

    @property
    def host(self) -> str: ...

    def call(self, request: Any, timeout_s: float) -> Any: ...


def authenticate(connection: Peer, deadline: Deadline) -> float:
    """Says who we are. Returns the session's lifetime in seconds, 0 for no limit.

    Raises AuthenticationError with what the broker says, UnreachableError if it is gone.
    """
    sasl = connection.settings.sasl
    if sasl is None:
        raise AuthenticationError(
            "authenticate to", str(connection), "no credentials", remedy="set sasl.jaas.config"
        )
    name = sasl.mechanism
    _choose(connection, name, deadline)
    mechanism = sasl_mechanism(connection.settings, connection.host, deadline.left())
    lifetime_ms = 0
    while not mechanism.is_done():
        request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
        answer = connection.call(request, deadline.left())
        if answer.error_code:
            said = answer.error_message or codes.name(answer.error_code)
            raise _refused(connection, name, said)
        lifetime_ms = answer.session_lifetime_ms
        try:
            mechanism.receive(bytes(answer.auth_bytes))
        except (ValueError, KeyError, IndexError):
            # SCRAM proves the broker too: a wrong signature is one that does not know the password.
            raise AuthenticationError(
                "authenticate to",
                str(connection),
                f"the broker's side of {name} is wrong",
                remedy="is it the broker it claims to be?",
            ) from None
    if not mechanism.is_authenticated():
        raise _refused(connection, name, "not authenticated")
    return lifetime_ms / 1000


def _choose(connection: Peer, name: str, deadline: Deadline) -> None:
    answer = connection.call(
        SaslHandshakeRequest(mechanism=name, min_version=SASL_HANDSHAKE.lowest), deadline.left()
    )
    if answer.error_code == codes.ILLEGAL_SASL_STATE:
        raise AuthenticationError(
            "authenticate to",
            str(connection),
            "the listener does not use SASL",
            remedy="check security.protocol and the port",
        )
    if answer.error_code:
        enabled = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationError(
            "authenticate to",
            str(connection),
            f"{name} is not enabled on the listener; it has {enabled}",
            remedy="set sasl.mechanism to one of these",
        )


def _refused(connection: Peer, name: str, said: str) -> AuthenticationError:
    return AuthenticationError(
        "authenticate to",
        str(connection),
        f"{name} refused: {said.rstrip('.')}",
        remedy=_REMEDIES[name],
    )
