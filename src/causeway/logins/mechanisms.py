"""The SASL mechanisms: each login as one conversation with a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from causeway.config import AwsSettings, ClientSettings, SaslSettings
from causeway.errors import AuthenticationError
from causeway.logins.aws import IamMechanism, iam_payload
from causeway.logins.bearer import bearer_token
from causeway.logins.kerberos import KerberosMechanism
from causeway.logins.scram import StrictScramClient


class Mechanism(Protocol):
    """One SASL conversation, with the interface of kafka-python's mechanisms."""

    def auth_bytes(self) -> bytes: ...
    def receive(self, auth_bytes: bytes) -> object: ...
    def is_done(self) -> bool: ...
    def is_authenticated(self) -> bool: ...


def sasl_mechanism(settings: ClientSettings, host: str, timeout_s: float) -> Mechanism:
    """Begins a conversation with broker `host` for `settings.sasl`.

    A login by token gets its token here: raises AuthenticationError or UnreachableError if the
    token's issuer refuses or does not answer within `timeout_s`.
    """
    sasl = settings.sasl or SaslSettings(mechanism="PLAIN")
    return _MECHANISMS[sasl.mechanism](settings, sasl, host, timeout_s)


def remedy(sasl: SaslSettings) -> str:
    """Returns the remedy if a broker refuses this login."""
    if sasl.is_delegation_token:
        return (
            "the delegation token may have expired or been withdrawn: create a new one, and set its"
            " id and its HMAC in sasl.jaas.config"
        )
    if sasl.aws is not None:
        return (
            "check that the identity's policy allows kafka-cluster:Connect, the region, and this"
            " machine's clock; awsDebugCreds=true shows the identity"
        )
    return _REMEDIES.get(sasl.mechanism, "check user name and password in sasl.jaas.config")


_REMEDIES = {
    "OAUTHBEARER": "the broker does not accept the token: check client id, scope and audience",
    "GSSAPI": "check the keytab of the broker, and the clocks",
}


def _plain(settings: ClientSettings, sasl: SaslSettings, host: str, timeout_s: float) -> Mechanism:
    return _of_library(
        sasl, host, sasl_plain_username=sasl.username, sasl_plain_password=sasl.password.reveal()
    )


def _scram(settings: ClientSettings, sasl: SaslSettings, host: str, timeout_s: float) -> Mechanism:
    # RFC 5802's "saslname". Unlike the RFC, Kafka and Causeway leave out SASLprep.
    username = sasl.username.replace("=", "=3D").replace(",", "=2C")
    password = sasl.password.reveal()
    mechanism = _of_library(sasl, host, sasl_plain_username=username, sasl_plain_password=password)
    client = StrictScramClient(username, password, sasl.mechanism)
    client.subject = f"{settings.alias} {host}"
    client.is_delegation_token = sasl.is_delegation_token
    mechanism._scram_client = client  # type: ignore[attr-defined]
    return mechanism


def _bearer(settings: ClientSettings, sasl: SaslSettings, host: str, timeout_s: float) -> Mechanism:
    ca_pem = settings.tls.ca_pem if settings.tls else None
    token = bearer_token(sasl, ca_pem, settings.alias, host, timeout_s)
    provider = _TokenProvider(token.value, dict(sasl.oauth.extensions) if sasl.oauth else {})
    return _of_library(sasl, host, sasl_oauth_token_provider=provider)


def _msk_iam(
    settings: ClientSettings, sasl: SaslSettings, host: str, timeout_s: float
) -> Mechanism:
    return IamMechanism(iam_payload(sasl.aws or AwsSettings(), settings.alias, host, timeout_s))


def _kerberos(
    settings: ClientSettings, sasl: SaslSettings, host: str, timeout_s: float
) -> Mechanism:
    if sasl.kerberos is None:
        raise AuthenticationError("authenticate to", settings.alias, "no principal is set")
    return KerberosMechanism(sasl.kerberos, settings.alias, host, timeout_s)


def _of_library(sasl: SaslSettings, host: str, **options: object) -> Mechanism:
    kind = get_sasl_mechanism(sasl.mechanism)
    return cast(Mechanism, kind(sasl_mechanism=sasl.mechanism, host=host, **options))


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions


_MECHANISMS: Mapping[str, Callable[[ClientSettings, SaslSettings, str, float], Mechanism]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _bearer,
    "AWS_MSK_IAM": _msk_iam,
    "GSSAPI": _kerberos,
}
