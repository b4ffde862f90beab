"""OAuth access tokens from a token endpoint: by client credentials, a refresh token or a password
(RFC 6749, 4.3, 4.4 and 6), the client known by a secret, an assertion (RFC 7523) or its name.

No secret leaves this module in any text.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from causeway.config import OAuthSettings
from causeway.errors import AuthenticationError, CausewayError, UnreachableError
from causeway.logins.tokens import Token, Tokens, shared_tokens

MAX_ANSWER_BYTES = 1 << 20


def oauth_tokens(settings: OAuthSettings, ca_pem: str | None) -> Tokens:
    """The tokens of this client, shared by the connections of this process. `ca_pem`: certificates
    that are trusted at the endpoint besides the system's."""
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
    if given := settings.access_token.reveal():
        return shared_tokens(key, lambda: lambda _: Token(value=given, lifetime_s=math.inf))
    return shared_tokens(key, lambda: OAuthEndpoint(settings, ca_pem).fetch)


class OAuthEndpoint:
    """The endpoint, for one client.

    A refresh token that the provider gives with an answer takes the configured one's place (RFC
    6749, 6), in memory: a process that restarts begins with the configured one. Not thread-safe."""

    def __init__(self, settings: OAuthSettings, ca_pem: str | None) -> None:
        self._settings = settings
        self._ca_pem = ca_pem
        self._refresh_token = ""  # from the provider, instead of the configured one

    def fetch(self, timeout_s: float) -> Token:
        """A new token. Without a stated lifetime its lifetime is 0.

        Raises AuthenticationError if the endpoint refuses the client, UnreachableError (retriable)
        if it does not answer in `timeout_s` or has a fault of its own.
        """
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
            lifetime_s = max(0.0, float(answer.get("expires_in") or 0))
        except (TypeError, ValueError):
            lifetime_s = 0.0
        return Token(value=token, lifetime_s=lifetime_s)

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
