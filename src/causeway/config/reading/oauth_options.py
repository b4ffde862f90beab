"""Options of an OAuth login module: Kafka's, and those of Strimzi's handler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from causeway.config.settings import Secret

Grant = Literal["client_credentials", "refresh_token", "password"]

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# From an option to the field that the token endpoint is asked with.
_FIELDS = {
    "oauth.refresh.token": "refresh_token",
    "oauth.password.grant.username": "username",
    "oauth.password.grant.password": "password",
    "oauth.client.assertion": "client_assertion",
    "oauth.client.assertion.type": "client_assertion_type",
    "oauth.audience": "audience",
}
TRUST = {
    f"{start}ssl.truststore.{name}": name
    for start in ("", "oauth.")
    for name in ("certificates", "location", "password", "type")
}
"""Options that say what is trusted at the token endpoint: Kafka's handler's, and Strimzi's, whose
later ones win."""

ACCESS_TOKEN = "oauth.access.token"  # noqa: S105 - an option's name

PROOFS = frozenset({"refresh_token", "password", "client_assertion"})
"""Fields that stand in for a client's secret."""

_KNOWN = frozenset(
    (
        *_FIELDS,
        *TRUST,
        ACCESS_TOKEN,
        *("clientId", "clientSecret", "scope"),
        *("oauth.client.id", "oauth.client.secret", "oauth.scope", "oauth.token.endpoint.uri"),
        # How tokens are checked here, waited for or counted: ours to decide.
        *("oauth.access.token.is.jwt", "oauth.connect.timeout.seconds", "oauth.enable.metrics"),
        *("oauth.http.retries", "oauth.http.retry.pause.millis", "oauth.include.accept.header"),
        *("oauth.max.token.expiry.seconds", "oauth.read.timeout.seconds"),
        *("oauth.username.claim", "oauth.fallback.username.claim"),
        "oauth.fallback.username.prefix",
    )
)


def is_known(name: str) -> bool:
    """Whether it is acted on, or changes nothing of whose token is got from where."""
    return name in _KNOWN or name.startswith(("extension_", "unsecuredLogin"))


def grant_of(options: Mapping[str, str]) -> tuple[Grant, dict[str, Secret]]:
    """What to ask for, and with what besides the client's name and secret."""
    fields = {
        field: Secret(value) for name, field in _FIELDS.items() if (value := options.get(name))
    }
    if "client_assertion" in fields:
        fields.setdefault("client_assertion_type", Secret(_ASSERTION_TYPE))
    if "refresh_token" in fields:
        return "refresh_token", fields
    return ("password" if "password" in fields else "client_credentials"), fields
