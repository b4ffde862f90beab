"""The SASL exchange on a connection: handshake, conversation, the session's lifetime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from causeway.config import ClientSettings
from causeway.errors import AuthenticationError, UnreachableError
from causeway.logins import remedy, sasl_mechanism
from causeway.wire import codes
from causeway.wire.apis import SASL_HANDSHAKE
from causeway.wire.deadline import Deadline

_TOO_MANY: Final = "Too many connects"  # MSK limits the new connections of each second


def authenticate(
    settings: ClientSettings,
    host: str,
    peer: str,
    call: Callable[[Any, float], Any],
    deadline: Deadline,
) -> float:
    """Runs the SASL exchange. Returns the session's lifetime in seconds, 0 for no limit.

    `peer`: the name of the broker in errors. `call` sends a request and waits for its answer.
    Raises AuthenticationError with the broker's text. Raises UnreachableError if the broker is
    gone, or accepts no more connections for a while.
    """

    def failed(cause: str, remedy: str) -> AuthenticationError:
        return AuthenticationError("authenticate to", peer, cause, remedy=remedy)

    if settings.sasl is None:
        raise failed("no credentials", "set sasl.jaas.config")
    name = settings.sasl.mechanism
    request = SaslHandshakeRequest(mechanism=name, min_version=SASL_HANDSHAKE.lowest)
    answer = call(request, deadline.left())
    if answer.error_code == codes.ILLEGAL_SASL_STATE:
        raise failed("the listener does not use SASL", "check security.protocol and the port")
    if answer.error_code:
        enabled = ", ".join(answer.mechanisms) or "none"
        cause = f"{name} is not enabled on the listener; it has {enabled}"
        raise failed(cause, "set sasl.mechanism to one of these")
    mechanism = sasl_mechanism(settings, host, deadline.left())
    lifetime_ms = 0
    while not mechanism.is_done():
        request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
        answer = call(request, deadline.left())
        if answer.error_code:
            text = answer.error_message or codes.name(answer.error_code)
            if settings.sasl.aws is not None and _TOO_MANY in text:
                raise UnreachableError("authenticate to", peer, text, retriable=True)
            raise failed(f"{name} refused: {text.rstrip('.')}", remedy(settings.sasl))
        lifetime_ms = answer.session_lifetime_ms
        try:
            mechanism.receive(bytes(answer.auth_bytes))
        except (ValueError, KeyError, IndexError):
            # SCRAM also checks the broker: with a wrong signature it does not know the password.
            cause = f"the broker's side of {name} is wrong"
            raise failed(cause, "is it the broker it claims to be?") from None
    if not mechanism.is_authenticated():
        raise failed(f"{name} refused: not authenticated", remedy(settings.sasl))
    return lifetime_ms / 1000
