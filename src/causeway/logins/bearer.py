"""Tokens of OAUTHBEARER logins, also for other clients that take tokens from a function, such as
librdkafka's `oauth_cb`."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from causeway.config import SaslSettings
from causeway.config.reading import LoginSettings, login_settings
from causeway.errors import AuthenticationError, ConfigError, for_cluster
from causeway.logins.aws import LIFE_S, iam_token
from causeway.logins.aws_credentials import aws_login
from causeway.logins.google import google_tokens
from causeway.logins.jwt import expiry_of
from causeway.logins.oauth import oauth_tokens
from causeway.logins.tokens import Token

_UNKNOWN_LIFE_S = 60.0  # the assumed life of a token that does not state it


def bearer_token(
    sasl: SaslSettings, ca_pem: str | None, alias: str, host: str, timeout_s: float
) -> Token:
    """Returns the token for broker `host` of cluster `alias`. `ca_pem`: certificates that its
    issuer may have, besides the system's. Raises AuthenticationError or UnreachableError if the
    issuer refuses or does not answer within `timeout_s`."""
    if sasl.aws is not None:
        return Token(value=iam_token(sasl.aws, alias, host, timeout_s), lifetime_s=LIFE_S)
    with for_cluster(alias):
        if sasl.google is not None:
            return google_tokens(sasl.google).current(timeout_s)
        if sasl.oauth is None:
            raise AuthenticationError("get a token", "", "no token endpoint is set")
        return oauth_tokens(sasl.oauth, ca_pem).current(timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """`expires_at`: as Unix time. A client asks for the next token before that time."""

    value: str = field(repr=False)
    expires_at: float
    extensions: Mapping[str, str] = field(repr=False)


class BearerLogin:
    """The login of another client, by the keys of Java's clients. AWS_MSK_IAM also has a token: the
    same listeners of MSK accept it by OAUTHBEARER. Thread-safe. Files of keys and credentials are
    read again when they change, unless the new ones cannot be used."""

    def __init__(self, alias: str, keys: Mapping[str, str]) -> None:
        """`keys`: `sasl.…`, the trusted certificates of a token's issuer (`ssl.truststore.…`), and
        `bootstrap.servers`. Raises ConfigError for keys that cannot be used, or if the login has no
        token."""
        self._alias = alias
        self._host = keys.get("bootstrap.servers", "").partition(",")[0].strip()
        self._settings = login_settings(alias, keys)
        self._lock = threading.Lock()
        sasl = self._settings.sasl
        if sasl.mechanism not in ("OAUTHBEARER", "AWS_MSK_IAM"):
            raise ConfigError("get a token for", alias, f"{sasl.mechanism} has no token")
        if sasl.aws is not None:
            aws_login(sasl.aws)  # loads botocore, which takes seconds on a busy machine

    def token(self, timeout_s: float) -> BearerToken:
        """Returns a valid token. Raises like `bearer_token`."""
        settings = self._newest()
        sasl = settings.sasl
        token = bearer_token(sasl, settings.ca_pem, self._alias, self._host, timeout_s)
        now = time.time()
        stated = now + token.lifetime_s if token.lifetime_s else expiry_of(token.value)
        return BearerToken(
            value=token.value,
            expires_at=stated or now + _UNKNOWN_LIFE_S,
            extensions=sasl.oauth.extensions if sasl.oauth else {},
        )

    def _newest(self) -> LoginSettings:
        with self._lock:
            again = self._settings.rereading
            if again is not None and again.stale:
                found, _ = again.attempt()
                if isinstance(found, LoginSettings):
                    self._settings = found
            return self._settings
