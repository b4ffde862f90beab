"""How a client reaches a cluster.

The settings go to lanes on other machines and hold all that a lane needs: the driver converts key
stores and trust stores to PEM text, so an executor reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from causeway.config.client_keys import ProducerKeys, SecurityProtocol
from causeway.config.values import FrozenMap, Secret, freeze

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """`ca_pem`: trusted certificates, or None for the system's; `cert_pem` (chain) and `key_pem`
    (unencrypted PKCS8 or PKCS1) for mutual TLS. `verify_hostname` is false if
    `ssl.endpoint.identification.algorithm` is empty; `versions`: TLSv1.2, TLSv1.3 or both."""

    ca_pem: str | None = None
    cert_pem: str | None = None
    key_pem: Secret | None = None
    verify_hostname: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """A grant of RFC 6749 at `token_endpoint`; `fields`: more fields of the request, such as a
    refresh token. With an empty secret the client sends only its id. `ca_pem`: the trusted
    certificates of the endpoint; None: those of the system and of the cluster. `access_token`: a
    fixed token; then the other fields are empty and no endpoint is called."""

    token_endpoint: str
    client_id: str
    client_secret: Secret
    grant: Literal["client_credentials", "refresh_token", "password"] = "client_credentials"
    fields: Mapping[str, Secret] = field(default_factory=FrozenMap, repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=FrozenMap, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    access_token: Secret = Secret("")

    def __post_init__(self) -> None:
        freeze(self, "fields", "extensions")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    mechanism: SaslMechanism
    username: str = ""
    password: Secret = Secret("")
    oauth: OAuthSettings | None = None


@dataclass(frozen=True, kw_only=True)
class ClientSettings(ProducerKeys):
    """How one role (source reader, target writer, admin) of one link reaches one cluster."""

    alias: str
    bootstrap: tuple[tuple[str, int], ...]
    protocol: SecurityProtocol = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    cluster_id: str | None = (
        None  # only this cluster may answer; None: the id in the progress topic
    )


def to_wire(settings: ClientSettings) -> dict[str, Any]:
    """`settings` in JSON's types, for the encrypted control socket to the lanes. The secrets are in
    clear text, so the result must not go to a log or a file."""
    wire: dict[str, Any] = msgspec.to_builtins(settings, enc_hook=_revealed)
    return wire


def from_wire(data: Mapping[str, Any]) -> ClientSettings:
    """The value that `to_wire` was given. Raises msgspec.ValidationError for other data."""
    return msgspec.convert(data, ClientSettings, dec_hook=_restored)


def _revealed(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, FrozenMap):
        return dict(value)
    raise NotImplementedError


def _restored(kind: type[Any], value: Any) -> Any:
    return kind(value)
