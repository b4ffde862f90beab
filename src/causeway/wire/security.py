"""TLS contexts, SASL mechanisms and the SASL exchange. No secret leaves this module in any text."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, cast

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import ScramClient
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from causeway.config import ClientSettings, SaslSettings, TlsSettings
from causeway.errors import AuthenticationError, ConfigError
from causeway.private_file import Unlisted
from causeway.wire import codes
from causeway.wire.apis import SASL_HANDSHAKE
from causeway.wire.deadline import Deadline
from causeway.wire.oauth import token_source

_VERSIONS = {
    ("TLSv1.2",): (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
    ("TLSv1.3",): (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
    ("TLSv1.2", "TLSv1.3"): (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.MAXIMUM_SUPPORTED),
}


class Mechanism(Protocol):
    """One SASL conversation, as kafka-python's mechanisms hold it."""

    def auth_bytes(self) -> bytes: ...
    def receive(self, auth_bytes: bytes) -> object: ...
    def is_done(self) -> bool: ...
    def is_authenticated(self) -> bool: ...


@lru_cache(maxsize=32)
def ssl_context(tls: TlsSettings | None) -> ssl.SSLContext:
    """A client context: TLS 1.2, 1.3 or both, the broker's certificate always checked.

    Any certificate in `ca_pem` is an anchor of trust, an intermediate or the broker's own too, as
    in a Java trust store. Raises ConfigError for PEM text that can't be used.
    """
    tls = tls or TlsSettings()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = _VERSIONS[tls.versions]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = tls.verify_hostname
    if tls.ca_pem is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=tls.ca_pem)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                "use", "the trust store", f"no usable certificate in it: {_reason(error)}"
            ) from None
    if tls.cert_pem is not None:
        _load_client_certificate(context, tls)
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: TlsSettings) -> None:
    key = tls.key_pem.reveal() if tls.key_pem else ""
    pem = f"{tls.cert_pem}\n{key}\n".encode()
    try:
        with Unlisted(pem) as path:
            # Without a password function OpenSSL would ask the terminal for one.
            context.load_cert_chain(path, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            "use",
            "the key store",
            f"its certificate and key can't be used: {_reason(error)}",
            remedy="the key must be unencrypted and belong to the first certificate",
        ) from None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or type(error).__name__


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions


class _ScramClient(ScramClient):  # type: ignore[misc]
    """Refuses a broker that asks for too few iterations, which kafka-python's does not."""

    least_iterations = 4096  # RFC 7677's and Java's
    subject = ""

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if iterations < self.least_iterations:
            # A proof made with few of them is cheap to guess the password from.
            raise AuthenticationError(
                "authenticate to",
                self.subject,
                f"it asks for {iterations} iterations of SCRAM, fewer than {self.least_iterations}",
                remedy="is it the broker it claims to be? if so, set the user's password again "
                "with as many iterations",
            )
        super().create_salted_password(salt, iterations)


def sasl_mechanism(settings: ClientSettings, host: str, timeout_s: float) -> Mechanism:
    """A fresh conversation for `settings.sasl`.

    OAUTHBEARER fetches its token here: raises AuthenticationError or UnreachableError if the token
    endpoint refuses or does not answer.
    """
    sasl = settings.sasl or SaslSettings(mechanism="PLAIN")
    options: dict[str, object] = {"sasl_mechanism": sasl.mechanism, "host": host}
    if sasl.mechanism == "OAUTHBEARER":
        if sasl.oauth is None:
            raise AuthenticationError("authenticate to", settings.alias, "no token endpoint is set")
        source = token_source(sasl.oauth, settings.tls.ca_pem if settings.tls else None)
        options["sasl_oauth_token_provider"] = _TokenProvider(
            source.token(timeout_s), dict(sasl.oauth.extensions)
        )
    else:
        username = sasl.username
        if sasl.mechanism.startswith("SCRAM"):
            # RFC 5802's "saslname". Kafka, unlike the RFC, leaves out SASLprep: so do we.
            username = username.replace("=", "=3D").replace(",", "=2C")
        options["sasl_plain_username"] = username
        options["sasl_plain_password"] = sasl.password.reveal()
    mechanism = get_sasl_mechanism(sasl.mechanism)(**options)
    if sasl.mechanism.startswith("SCRAM"):
        client = _ScramClient(username, sasl.password.reveal(), sasl.mechanism)
        client.subject = f"{settings.alias} {host}"
        mechanism._scram_client = client
    return cast(Mechanism, mechanism)


_REMEDIES = {
    "PLAIN": "check user name and password in sasl.jaas.config",
    "SCRAM-SHA-256": "check user name and password in sasl.jaas.config",
    "SCRAM-SHA-512": "check user name and password in sasl.jaas.config",
    "OAUTHBEARER": "the broker does not accept the token: check client id, scope and audience",
}


def authenticate(
    settings: ClientSettings,
    host: str,
    peer: str,
    call: Callable[[Any, float], Any],
    deadline: Deadline,
) -> float:
    """The SASL exchange. Returns the session's lifetime in seconds, 0 for no limit.

    `peer`: the broker, for errors; `call` sends a request and waits for its answer. Raises
    AuthenticationError with the broker's text, UnreachableError if the broker is gone.
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
            raise failed(f"{name} refused: {text.rstrip('.')}", _REMEDIES[name])
        lifetime_ms = answer.session_lifetime_ms
        try:
            mechanism.receive(bytes(answer.auth_bytes))
        except (ValueError, KeyError, IndexError):
            # SCRAM proves the broker, too: a wrong signature means it does not know the password.
            cause = f"the broker's side of {name} is wrong"
            raise failed(cause, "is it the broker it claims to be?") from None
    if not mechanism.is_authenticated():
        raise failed(f"{name} refused: not authenticated", _REMEDIES[name])
    return lifetime_ms / 1000
