"""OAuth access tokens: given ones, and those from a token endpoint.

An endpoint is asked with client credentials, a refresh token or a password (RFC 6749, 4.3, 4.4 and
6) or an assertion (RFC 7523). The client is known by a secret, an assertion or its name.

No text of this module shows a secret.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from causeway.config import OAuthSettings, Secret
from causeway.errors import AuthenticationError, CausewayError, UnreachableError
from causeway.logins.jwt import expiry_of, signed_assertion
from causeway.logins.no_redirect import NoRedirect
from causeway.logins.tokens import Token, Tokens, shared_tokens

MAX_ANSWER_BYTES = 1 << 20


def oauth_tokens(settings: OAuthSettings, ca_pem: str | None) -> Tokens:
    """Returns the tokens of this client, which the connections of this process share. `ca_pem`:
    certificates that the endpoint may have, besides the system's."""
    if settings.access_token.reveal():
        return Tokens(partial(_given_token, settings))  # no token is cached
    return shared_tokens((settings, ca_pem), lambda: OAuthEndpoint(settings, ca_pem).fetch)


def _given_token(settings: OAuthSettings, timeout_s: float) -> Token:
    """Returns the token that another program got, from its file if this process has the file. Its
    lifetime is 0, so that the file is read each time. Raises AuthenticationError if the token has
    expired."""
    token = _current(settings, "access_token", settings.access_token)
    expires_at = expiry_of(token)
    if expires_at is not None and expires_at <= time.time():
        at = datetime.fromtimestamp(expires_at, UTC)
        raise AuthenticationError(
            "use",
            "the access token",
            f"it expired at {at:%Y-%m-%d %H:%M:%S} UTC",
            remedy="replace the token of sasl.jaas.config, or the file of"
            " sasl.oauthbearer.token.endpoint.url, before it expires",
        )
    return Token(value=token, lifetime_s=0)


def _current(settings: OAuthSettings, name: str, value: Secret) -> str:
    """`value`, or the newer content of its file. A file that is being replaced may be absent."""
    path = settings.files.get(name)
    try:
        return Path(path).read_text("utf-8").strip() if path else value.reveal()
    except (OSError, ValueError):
        return value.reveal()


class OAuthEndpoint:
    """The endpoint, for one client.

    A refresh token that the provider gives with an answer takes the configured one's place (RFC
    6749, 6), in memory: a process that restarts begins with the configured one. Not thread-safe."""

    def __init__(self, settings: OAuthSettings, ca_pem: str | None) -> None:
        self._settings = settings
        self._ca_pem = ca_pem
        self._refresh_token = ""  # from the provider, instead of the configured one

    def fetch(self, timeout_s: float) -> Token:
        """Returns a new token. Without a stated lifetime its lifetime is 0.

        Raises AuthenticationError if the endpoint refuses the client, UnreachableError (retriable)
        if it does not answer in `timeout_s` or has an internal error.
        """
        try:
            answer = self._ask(timeout_s)
        except AuthenticationError:
            if not self._refresh_token:
                raise
            self._refresh_token = ""  # the configured token may still be valid
            answer = self._ask(timeout_s)
        token = answer.get("access_token") or answer.get("id_token")  # as Kafka's clients do
        if not isinstance(token, str) or not token:
            raise self._error(AuthenticationError, "its answer has no access_token")
        renewed = answer.get("refresh_token")
        if self._settings.grant == "refresh_token" and isinstance(renewed, str) and renewed:
            self._refresh_token = renewed
        return Token(value=token, lifetime_s=_lifetime_s(token, answer.get("expires_in")))

    def _ask(self, timeout_s: float) -> dict[str, Any]:
        opener = urllib.request.build_opener(
            NoRedirect, urllib.request.HTTPSHandler(context=self._context())
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
        """Returns a context that trusts the settings' certificates, else the system's certificates
        and the cluster's trust store."""
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
        form |= {name: _current(settings, name, value) for name, value in settings.fields.items()}
        if settings.assertion is not None:
            form[settings.assertion.sent_as] = signed_assertion(settings.assertion)
        if self._refresh_token:
            form["refresh_token"] = self._refresh_token
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        client_id, secret = settings.client_id, settings.client_secret.reveal()
        if secret:
            if settings.is_url_encoded:
                client_id, secret = (urllib.parse.quote_plus(each) for each in (client_id, secret))
            credentials = f"{client_id}:{secret}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(credentials).decode()
        elif client_id:
            form["client_id"] = client_id
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
        return self._error(AuthenticationError, cause, remedy=self._remedy())

    def _remedy(self) -> str:
        signs = self._settings.assertion is not None
        if signs or self._settings.fields.keys() & {"assertion", "client_assertion"}:
            return (
                "check the assertion: its key, claims and expiry; and the client id and the scope"
            )
        return "check the client id, its secret and the scope"

    def _error(
        self,
        kind: type[CausewayError],
        cause: str,
        *,
        remedy: str = "check sasl.oauthbearer.token.endpoint.url",
        retriable: bool = False,
    ) -> CausewayError:
        parts = urllib.parse.urlsplit(self._settings.token_endpoint)
        # Without user information (which the configuration refuses), path and query: each may be a
        # secret.
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return kind("get a token from", url, cause, remedy=remedy, retriable=retriable)


def _lifetime_s(token: str, expires_in: object) -> float:
    """Returns the lifetime in seconds, as the endpoint states it, else as a JWT does. 0 if neither
    does."""
    try:
        stated = float(expires_in) if isinstance(expires_in, int | float | str) else 0.0
    except ValueError:
        stated = 0.0
    expires_at = expiry_of(token)
    if expires_in is None and expires_at is not None:
        stated = expires_at - time.time()
    return max(0.0, stated)
