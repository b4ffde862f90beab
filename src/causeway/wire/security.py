"""TLS contexts, SASL mechanisms and the SASL exchange. No secret leaves this module in any text.

OAuth access tokens are cached and refreshed: by client credentials, a refresh token or a password
(RFC 6749, 4.3, 4.4 and 6), the client known by a secret, an assertion (RFC 7523) or its name.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, cast

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import ScramClient
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from causeway.config import ClientSettings, OAuthSettings, SaslSettings, TlsSettings
from causeway.errors import AuthenticationError, CausewayError, ConfigError, UnreachableError
from causeway.private_file import Unlisted
from causeway.wire import codes
from causeway.wire.apis import SASL_HANDSHAKE
from causeway.wire.deadline import Deadline

# A token is replaced when this share of its life is over.
REFRESH_AT = 0.8
MAX_ANSWER_BYTES = 1 << 20


class TokenSource:
    """One client's tokens. Thread-safe: one request is under way at a time.

    A refresh token that the provider gives with an answer takes the configured one's place (RFC
    6749, 6), in memory: a process that restarts begins with the configured one."""

    def __init__(self, settings: OAuthSettings, ca_pem: str | None) -> None:
        self._settings = settings
        self._ca_pem = ca_pem
        self._lock = threading.Lock()
        self._token = ""
        self._refresh_token = ""  # from the provider, instead of the configured one
        self._refresh_at = 0.0  # monotonic

    def token(self, timeout_s: float) -> str:
        """A token with at least a fifth of its life left, or the one that was given.

        Raises AuthenticationError if the endpoint refuses the client, UnreachableError (retriable)
        if it does not answer in `timeout_s` or has a fault of its own.
        """
        if given := self._settings.access_token.reveal():
            return given
        with self._lock:
            if time.monotonic() >= self._refresh_at:
                asked_at = time.monotonic()
                self._token, lifetime_s = self._fetch(timeout_s)
                self._refresh_at = asked_at + lifetime_s * REFRESH_AT
            return self._token

    def _fetch(self, timeout_s: float) -> tuple[str, float]:
        try:
            answer = self._ask(timeout_s)
        except AuthenticationError:
            if not self._refresh_token:
                raise
            self._refresh_token = ""  # the configured one may still hold
            answer = self._ask(timeout_s)
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise self._error(AuthenticationError, "its answer has no access_token")
        renewed = answer.get("refresh_token")
        if self._settings.grant == "refresh_token" and isinstance(renewed, str) and renewed:
            self._refresh_token = renewed
        try:
            # A token with no stated lifetime is used once.
            lifetime_s = max(0.0, float(answer.get("expires_in") or 0))
        except (TypeError, ValueError):
            lifetime_s = 0.0
        return token, lifetime_s

    def _ask(self, timeout_s: float) -> dict[str, Any]:
        opener = urllib.request.build_opener(
            _SameHostOnly(), urllib.request.HTTPSHandler(context=self._context())
        )
        try:
            request = self._request()
            with opener.open(request, timeout=max(0.1, timeout_s)) as response:
                answer = json.loads(response.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise self._error(
                    AuthenticationError, f"its certificate is not trusted: {reason.verify_message}"
                ) from None
            raise self._error(UnreachableError, f"no answer: {reason}", retriable=True) from None
        except http.client.HTTPException:
            raise self._error(UnreachableError, "its answer is not HTTP") from None
        except (ValueError, RecursionError):
            raise self._error(UnreachableError, "its answer is not JSON") from None
        if not isinstance(answer, dict):
            raise self._error(UnreachableError, "its answer is not a JSON object")
        return answer

    def _context(self) -> ssl.SSLContext:
        """Trusts what the settings name, else the system's certificates, and the cluster's trust
        store in addition."""
        if self._settings.ca_pem is not None:
            return ssl.create_default_context(cadata=self._settings.ca_pem)
        context = ssl.create_default_context()
        if self._ca_pem is not None:
            context.load_verify_locations(cadata=self._ca_pem)
        return context

    def _request(self) -> urllib.request.Request:
        settings = self._settings
        form: dict[str, str] = {"grant_type": settings.grant}
        if settings.scope:
            form["scope"] = settings.scope
        form |= {name: value.reveal() for name, value in settings.fields.items()}
        if self._refresh_token:
            form["refresh_token"] = self._refresh_token
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        if secret := settings.client_secret.reveal():
            credentials = f"{settings.client_id}:{secret}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(credentials).decode()
        else:
            form["client_id"] = settings.client_id
        return urllib.request.Request(  # noqa: S310 - the configuration admits http and https only
            settings.token_endpoint,
            data=urllib.parse.urlencode(form).encode(),
            headers=headers,
        )

    def _refused(self, error: urllib.error.HTTPError) -> CausewayError:
        cause = f"HTTP {error.code}"
        try:
            code = json.loads(error.read(MAX_ANSWER_BYTES)).get("error")
        except (ValueError, AttributeError, OSError, RecursionError, http.client.HTTPException):
            code = None
        # RFC 6749, 5.2: a short ASCII word. The description next to it may quote the request.
        if isinstance(code, str) and code.replace("_", "").isalnum():
            cause += f", {code}"
        if error.code >= 500 or error.code == 429:
            return self._error(UnreachableError, cause, retriable=True)
        return self._error(
            AuthenticationError, cause, remedy="check the client id, its secret and the scope"
        )

    def _error(
        self,
        kind: type[CausewayError],
        cause: str,
        *,
        remedy: str = "check sasl.oauthbearer.token.endpoint.url",
        retriable: bool = False,
    ) -> CausewayError:
        parts = urllib.parse.urlsplit(self._settings.token_endpoint)
        # Neither user information, which the configuration refuses, nor path and query: each may
        # hold a secret.
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return kind("get a token from", url, cause, remedy=remedy, retriable=retriable)


class _SameHostOnly(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the client's secret to another host."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None


_sources: dict[tuple[object, ...], TokenSource] = {}
_sources_lock = threading.Lock()


def token_source(settings: OAuthSettings, ca_pem: str | None) -> TokenSource:
    """The only source of this process for these credentials, so that connections share tokens."""
    key = (
        settings.token_endpoint,
        settings.client_id,
        settings.client_secret,
        settings.grant,
        tuple(sorted((name, value.reveal()) for name, value in settings.fields.items())),
        settings.scope,
        settings.ca_pem or ca_pem,
        settings.access_token,
    )
    with _sources_lock:
        return _sources.setdefault(key, TokenSource(settings, ca_pem))


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
