"""Tokens for Google's Managed Service for Apache Kafka.

The broker does not accept Google's plain access tokens. It accepts a JWT that has the access token
in place of its signature, as Google's handler for Java clients sends it (`GcpLoginCallbackHandler`
in github.com/googleapis/managedkafka):

    base64url({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"})
    . base64url({"exp": …, "iat": …, "iss": "Google", "scope": "kafka", "sub": <account>})
    . base64url(access token)
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from datetime import UTC
from functools import partial
from typing import Any

from causeway.config import GoogleSettings
from causeway.errors import AuthenticationError, PrerequisiteError, UnreachableError
from causeway.extras import install_extra
from causeway.logins.jwt import claims_of, encoded
from causeway.logins.tokens import Token, Tokens, shared_tokens

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_PROGRAMS_ALLOWED = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
# Errors of the library for contents that it does not expect.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError)


def google_tokens(settings: GoogleSettings) -> Tokens:
    """Returns the tokens of these credentials, shared by the connections of this process."""
    return shared_tokens(settings, lambda: GoogleCredentials(settings).fetch)


class GoogleCredentials:
    """Credentials of the library google-auth. Not thread-safe."""

    def __init__(self, settings: GoogleSettings) -> None:
        self._settings = settings
        self._credentials: Any = None

    def fetch(self, timeout_s: float) -> Token:
        """Returns a new token. Raises AuthenticationError if Google refuses the credentials,
        UnreachableError (retriable) if the token's issuer does not answer in `timeout_s`,
        PrerequisiteError if google-auth is not installed on this machine. A program that gives
        tokens may take as long as its credentials file says."""
        try:
            import google.auth.exceptions as errors  # needed by few
            from google.auth.transport.requests import Request
        except ImportError:
            raise PrerequisiteError(
                "get a token from",
                "Google",
                "the package google-auth is not installed",
                remedy=f"on each machine that connects: {install_extra('gcp')}",
            ) from None
        try:
            if self._credentials is None:
                self._credentials = _load(self._settings.credentials.reveal())
            self._credentials.refresh(partial(Request(), timeout=max(0.1, timeout_s)))
        except errors.GoogleAuthError as error:
            # The texts of Google's library quote answers, and an answer may quote a request.
            if isinstance(error, _MALFORMED):
                raise _refused("the credentials cannot be used") from None
            if error.retryable or isinstance(error, errors.TransportError):
                raise UnreachableError(
                    "get a token from", "Google", "no answer, or a passing fault", retriable=True
                ) from None
            raise _refused("Google refuses the credentials") from None
        except (*_MALFORMED, OSError):
            raise _refused("the credentials cannot be used") from None
        return self._wrapped()

    def _wrapped(self) -> Token:
        account = _account(self._credentials)
        if account is None:
            raise _refused("the credentials do not name an account")
        expires_at = int(self._credentials.expiry.replace(tzinfo=UTC).timestamp())
        now = time.time()
        claims = {
            "exp": expires_at,
            "iat": int(now),
            "iss": "Google",
            "scope": "kafka",
            "sub": account,
        }
        header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
        parts = (json.dumps(header), json.dumps(claims), self._credentials.token)
        value = ".".join(encoded(part.encode()) for part in parts)
        return Token(value=value, lifetime_s=max(0.0, expires_at - now))


def _load(text: str) -> Any:
    """Loads the credentials by their kind. The library's general loader would also ask Google for
    the project of a workload identity."""
    if not text:
        from google.auth.compute_engine import Credentials

        return Credentials()
    info = json.loads(text)
    match info["type"]:
        case "service_account":
            from google.oauth2.service_account import Credentials as OfService

            return OfService.from_service_account_info(info, scopes=[_SCOPE])
        case "impersonated_service_account":
            from google.auth.impersonated_credentials import Credentials as Impersonated

            return Impersonated.from_impersonated_service_account_info(info, scopes=[_SCOPE])
        case "authorized_user":
            from google.oauth2.credentials import Credentials as OfPerson

            return OfPerson.from_authorized_user_info(info)
        case "external_account":
            return _identity(info)
    raise ValueError(info["type"])


def _identity(info: dict[str, Any]) -> Any:
    """Returns a workload identity: a token of AWS, of a program, or of a file or URL."""
    from google.auth import aws, identity_pool

    kind: Any = identity_pool.Credentials
    if info.get("subject_token_type") == "urn:ietf:params:aws:token-type:aws4_request":
        kind = aws.Credentials
    elif "executable" in info.get("credential_source", {}):
        kind = _of_program()
    return kind.from_info(info, scopes=[_SCOPE])


def _of_program() -> Any:
    from google.auth import pluggable

    class OfProgram(pluggable.Credentials):  # type: ignore[misc]
        """Says why a program gives no token. Its output is not shown: it may hold one."""

        def retrieve_subject_token(self, request: Any) -> Any:
            command = shlex.split(self._credential_source["executable"]["command"])
            program = command[0] if command else "without a name"
            if os.environ.get(_PROGRAMS_ALLOWED) != "1":
                raise _refused(
                    f"the credentials name a program to run, {program}, which is not allowed",
                    f"if you trust it, set {_PROGRAMS_ALLOWED}=1 on each machine that connects",
                )
            try:
                return super().retrieve_subject_token(request)
            except subprocess.TimeoutExpired as error:
                cause = f"the program {program} took longer than {error.timeout:g} s"
                raise UnreachableError(
                    "get a token from", "Google", cause, retriable=True
                ) from None
            except OSError as error:
                cause = f"the program {program} cannot be run: {error.strerror}"
            except Exception:
                cause = f"the program {program} gave no token"
            raise _refused(
                cause,
                "it must exist on each machine that connects, exit with code 0, and write Google's"
                " JSON for executable-sourced credentials",
            )

    return OfProgram


def _account(credentials: Any) -> str | None:
    """Returns the name of the service account, else of the person with these credentials."""
    account = getattr(credentials, "service_account_email", None) or getattr(
        credentials, "account", None
    )
    if not account and (person := getattr(credentials, "id_token", None)):
        account = claims_of(person).get("email")
    return account if isinstance(account, str) and account else None


_REMEDY = (
    "check GOOGLE_APPLICATION_CREDENTIALS; a workload identity needs a service account to"
    " impersonate"
)


def _refused(cause: str, remedy: str = _REMEDY) -> AuthenticationError:
    return AuthenticationError("get a token from", "Google", cause, remedy=remedy)
