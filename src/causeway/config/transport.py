"""ClientSettings as a JSON-able dict and back, for the (encrypted) control socket to the lanes.

The dict holds secrets in clear text: it is for that socket, never for a log or a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causeway.config.settings import (
    ClientSettings,
    OAuthSettings,
    SaslSettings,
    Secret,
    TlsSettings,
)


def to_wire(settings: ClientSettings) -> dict[str, Any]:
    """Everything `from_wire` needs to build an equal value, in JSON's types only."""
    tls, sasl = settings.tls, settings.sasl
    return {
        "alias": settings.alias,
        "bootstrap": [list(address) for address in settings.bootstrap],
        "protocol": settings.protocol,
        "tls": None if tls is None else _tls_to_wire(tls),
        "sasl": None if sasl is None else _sasl_to_wire(sasl),
        "client_id": settings.client_id,
        "connect_timeout_ms": settings.connect_timeout_ms,
        "request_timeout_ms": settings.request_timeout_ms,
        "receive_buffer_bytes": settings.receive_buffer_bytes,
        "send_buffer_bytes": settings.send_buffer_bytes,
        "max_request_bytes": settings.max_request_bytes,
        "cluster_id": settings.cluster_id,
    }


def from_wire(data: Mapping[str, Any]) -> ClientSettings:
    """The value `to_wire` was given. Raises KeyError or TypeError for anything else."""
    fields = dict(data)
    fields["bootstrap"] = tuple((str(host), int(port)) for host, port in fields["bootstrap"])
    fields["tls"] = None if fields["tls"] is None else _tls_from_wire(fields["tls"])
    fields["sasl"] = None if fields["sasl"] is None else _sasl_from_wire(fields["sasl"])
    return ClientSettings(**fields)


def _tls_to_wire(tls: TlsSettings) -> dict[str, Any]:
    return {
        "ca_pem": tls.ca_pem,
        "cert_pem": tls.cert_pem,
        "key_pem": None if tls.key_pem is None else tls.key_pem.reveal(),
        "verify_hostname": tls.verify_hostname,
        "versions": list(tls.versions),
    }


def _tls_from_wire(data: Mapping[str, Any]) -> TlsSettings:
    key = data["key_pem"]
    fields = {**data, "key_pem": None if key is None else Secret(key)}
    return TlsSettings(**{**fields, "versions": tuple(data["versions"])})


def _sasl_to_wire(sasl: SaslSettings) -> dict[str, Any]:
    oauth = sasl.oauth
    return {
        "mechanism": sasl.mechanism,
        "username": sasl.username,
        "password": sasl.password.reveal(),
        "oauth": None
        if oauth is None
        else {
            "token_endpoint": oauth.token_endpoint,
            "client_id": oauth.client_id,
            "client_secret": oauth.client_secret.reveal(),
            "grant": oauth.grant,
            "fields": {name: value.reveal() for name, value in oauth.fields.items()},
            "scope": oauth.scope,
            "extensions": dict(oauth.extensions),
            "ca_pem": oauth.ca_pem,
            "access_token": oauth.access_token.reveal(),
        },
    }


def _sasl_from_wire(data: Mapping[str, Any]) -> SaslSettings:
    oauth = data["oauth"]
    return SaslSettings(
        mechanism=data["mechanism"],
        username=data["username"],
        password=Secret(data["password"]),
        oauth=None
        if oauth is None
        else OAuthSettings(
            **{
                **oauth,
                "client_secret": Secret(oauth["client_secret"]),
                "access_token": Secret(oauth["access_token"]),
                "fields": {name: Secret(value) for name, value in oauth["fields"].items()},
            }
        ),
    )
