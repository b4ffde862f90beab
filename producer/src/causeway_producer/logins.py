"""Logins by tokens that librdkafka does not get itself. Causeway gets these tokens.

A side's configuration has such a login in the keys of Java's clients, as Causeway's files have.
librdkafka gets `sasl.mechanism=OAUTHBEARER` and a function that returns tokens (`oauth_cb`)
instead. It calls the function in a separate thread, for the first token and before each token
expires.

Needs the package causeway.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from causeway_producer.errors import SettingsError

if TYPE_CHECKING:
    from causeway.logins import BearerLogin

_OAUTH: Final = "OAUTHBEARER"
_IAM: Final = "AWS_MSK_IAM"
_CALLBACK: Final = "oauth_cb"
_MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")
_TIMEOUT_S: Final = 9.0  # confluent-kafka waits ten seconds for the first token
# From librdkafka's keys for trusted certificates to Java's, which also hold for a token's issuer.
_TRUSTED: Final = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
}


class TokenLogin:
    """librdkafka's `oauth_cb`. `failed`: why there is no new token; empty if there is one.
    `report`: called with each new reason, like `error_cb`."""

    def __init__(self, login: BearerLogin, report: Callable[[KafkaError], Any] | None) -> None:
        self.failed = ""
        self._login = login
        self._report = report

    def __call__(self, _: object) -> tuple[str, float, str, dict[str, str]]:
        from causeway.errors import CausewayError

        try:
            token = self._login.token(_TIMEOUT_S)
        except Exception as error:
            # Texts of other errors may hold a secret.
            why = str(error) if isinstance(error, CausewayError) else type(error).__name__
            if why != self.failed and self._report is not None:
                self._report(KafkaError(KafkaError._AUTHENTICATION, why))
            self.failed = why
            raise
        self.failed = ""
        return token.value, token.expires_at, "", dict(token.extensions)


def for_librdkafka(side: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the configuration `given` of a side, with a TokenLogin if Causeway gets the tokens.
    Raises SettingsError for a login that cannot be used."""
    mechanism = mechanism_of(given)
    if not _is_causeways(mechanism, given):
        if "sasl.jaas.config" in given and mechanism != "GSSAPI":
            raise SettingsError(
                f"configure DualProducer: sasl.jaas.config of {side}",
                f"librdkafka has no login modules for {mechanism}",
                "set sasl.username and sasl.password"
                if mechanism != _OAUTH
                else "leave out oauth_cb and librdkafka's own keys for tokens",
            )
        return given
    try:
        from causeway.errors import CausewayError
        from causeway.logins import BearerLogin
    except ImportError:
        alone = "" if mechanism == _IAM else " without oauth_cb and sasl.oauthbearer.method=oidc"
        raise SettingsError(
            f"configure DualProducer: sasl.mechanism of {side}",
            f"{mechanism}{alone} is a login of Causeway, and the package causeway is not installed",
            "install its wheel: `make wheel` in a clone of Causeway, then pip install"
            " dist/causeway-*.whl",
        ) from None
    try:
        login = BearerLogin(side, _javas(mechanism, given))
    except CausewayError as error:
        raise SettingsError(f"configure DualProducer: side {side}", str(error)) from None
    report = given.get("error_cb")
    others = {key: value for key, value in given.items() if not key.startswith("sasl.")}
    return {
        **others,
        "sasl.mechanism": _OAUTH,
        _CALLBACK: TokenLogin(login, report if callable(report) else None),
    }


def token_login(settings: Mapping[str, Any]) -> TokenLogin | None:
    found = settings.get(_CALLBACK)
    return found if isinstance(found, TokenLogin) else None


def mechanism_of(settings: Mapping[str, Any]) -> str:
    """Returns the mechanism in capitals. librdkafka's default is GSSAPI."""
    found = (settings[key] for key in _MECHANISMS if settings.get(key))
    return str(next(found, "GSSAPI")).strip().upper()


def remedy_of(settings: Mapping[str, Any]) -> str:
    """Returns the remedy if librdkafka refuses these settings."""
    protocol = str(settings.get("security.protocol", "")).upper()
    if not protocol.startswith("SASL") or mechanism_of(settings) != "GSSAPI":
        return ""
    return (
        "for Kerberos (GSSAPI, librdkafka's default of sasl.mechanism), build confluent-kafka from"
        " source with a librdkafka that has libsasl2, and set sasl.kerberos.*; or set another"
        " sasl.mechanism"
    )


def _is_causeways(mechanism: str, given: Mapping[str, Any]) -> bool:
    if given.get(_CALLBACK) is not None or mechanism not in (_OAUTH, _IAM):
        return False
    by_librdkafka = (
        str(given.get("sasl.oauthbearer.method", "")).lower() == "oidc"
        or str(given.get("enable.sasl.oauthbearer.unsecure.jwt", "")).lower() == "true"
    )
    return mechanism == _IAM or not by_librdkafka


def _javas(mechanism: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Returns the same login in the keys of Java's clients."""
    keys = {
        key: _text(value)
        for key, value in given.items()
        if key == "bootstrap.servers" or key.startswith("sasl.")
    }
    for key in _MECHANISMS:
        keys.pop(key, None)
    keys["sasl.mechanism"] = mechanism
    for key, javas in _TRUSTED.items():
        value = given.get(key)
        if value and (key == "ssl.ca.pem" or os.path.isfile(value)):  # not a folder, nor `probe`
            keys |= {"ssl.truststore.type": "PEM", javas: str(value)}
    return keys


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
