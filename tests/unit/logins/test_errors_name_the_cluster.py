"""Errors of tokens and certificates name the cluster, which the code behind them does not know."""

from __future__ import annotations

import json
import sys

import pytest

from causeway.config import (
    AwsSettings,
    GoogleSettings,
    KerberosSettings,
    OAuthSettings,
    SaslSettings,
    Secret,
    TlsSettings,
)
from causeway.errors import CausewayError, for_cluster
from causeway.logins import ssl_context
from causeway.logins.bearer import bearer_token
from causeway.logins.kerberos import KerberosMechanism

NOWHERE = "http://127.0.0.1:1/"


def bearer(**kind: object) -> SaslSettings:
    return SaslSettings(mechanism="OAUTHBEARER", **kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sasl", "says"),
    [
        (bearer(), "get a token for cluster east: no token endpoint"),
        (
            bearer(oauth=OAuthSettings(token_endpoint=NOWHERE, client_id="me")),
            "get a token from http://127.0.0.1:1 for cluster east: no answer",
        ),
        (
            bearer(google=GoogleSettings(credentials=Secret(json.dumps({"type": "other"})))),
            "get a token from Google for cluster east: the credentials cannot be used",
        ),
    ],
)
def test_a_token_that_cannot_be_had(sasl: SaslSettings, says: str) -> None:
    with pytest.raises(CausewayError) as failure:
        bearer_token(sasl, None, "east", "b-1", 5)
    assert str(failure.value).startswith(says)
    assert str(failure.value) == failure.value.args[0]


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("botocore", "botocore.session", "gssapi"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CausewayError, match="log in by IAM for cluster east: the package botocore"):
        bearer_token(bearer(aws=AwsSettings()), None, "east", "b-1", 5)
    with pytest.raises(CausewayError, match="authenticate to east b-1: the package gssapi"):
        KerberosMechanism(KerberosSettings(service="kafka"), "east", "b-1", 5)


def test_a_trust_store_that_cannot_be_used() -> None:
    wanted = r"use the trust store \(ssl.truststore.\*\) for cluster east: no usable certificate"
    with pytest.raises(CausewayError, match=wanted), for_cluster("east"):
        ssl_context(TlsSettings(ca_pem="not a certificate"))
