"""Logins with Google's credentials to a real broker that checks tokens as Google's brokers do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.cluster import Cluster
from causeway.config import ClientSettings, GoogleSettings, OAuthSettings, SaslSettings, Secret
from causeway.errors import AuthenticationError
from causeway.wire import Connection
from tests.harness.google_cluster import google_cluster, has_compiler
from tests.harness.google_stand_in import GoogleStandIn, google_stand_in
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
pytest.importorskip("google.auth")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    if not has_compiler():
        pytest.skip("needs a JDK")
    running = google_cluster("G", tmp_path_factory.mktemp("validator"))
    try:
        running.start()
        yield running
    finally:
        running.destroy()


@pytest.fixture
def google() -> Iterator[GoogleStandIn]:
    with google_stand_in() as running:
        yield running


def client(cluster: LocalCluster, sasl: SaslSettings) -> ClientSettings:
    host, _, port = cluster.bootstrap.partition(":")
    return ClientSettings(
        alias="G", bootstrap=((host, int(port)),), protocol="SASL_PLAINTEXT", sasl=sasl
    )


def by_key(google: GoogleStandIn) -> SaslSettings:
    text = google.key_of_service_account()
    return SaslSettings(mechanism="OAUTHBEARER", google=GoogleSettings(credentials=Secret(text)))


def test_a_service_account(cluster: LocalCluster, google: GoogleStandIn) -> None:
    settings = client(cluster, by_key(google))
    with Cluster(settings) as logged_in:
        logged_in.bootstrap_check()
    with Connection.open(settings, *settings.bootstrap[0]) as connection:
        assert connection.session_expires_at is not None
        assert connection.session_expires_at - time.monotonic() > 3000
    assert google.issued == 1


def test_an_impersonated_account(
    cluster: LocalCluster, google: GoogleStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.auth import iam

    monkeypatch.setattr(iam, "_IAM_ENDPOINT", google.impersonation)
    enter(cluster, google.impersonated(google.key_of_service_account()))
    assert len(google.impersonators) == 1


def test_a_workload_identity_with_a_program(
    cluster: LocalCluster, google: GoogleStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = {"version": 1, "success": True, "id_token": "x"}
    token["token_type"] = "urn:ietf:params:oauth:token-type:jwt"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(token)}'\n")
    program.chmod(0o700)
    text = google.workload_identity({"executable": {"command": str(program)}})
    with pytest.raises(AuthenticationError, match="GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1"):
        enter(cluster, text)
    monkeypatch.setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")
    enter(cluster, text)
    assert len(google.impersonators) == 1


def enter(cluster: LocalCluster, credentials: str) -> None:
    google = GoogleSettings(credentials=Secret(credentials))
    with Cluster(client(cluster, SaslSettings(mechanism="OAUTHBEARER", google=google))) as entered:
        entered.bootstrap_check()


def test_an_access_token_alone_is_refused(cluster: LocalCluster) -> None:
    plain = SaslSettings(
        mechanism="OAUTHBEARER", oauth=OAuthSettings(access_token=Secret("ya29.token"))
    )
    with (
        pytest.raises(AuthenticationError, match="OAUTHBEARER refused"),
        Cluster(client(cluster, plain)) as refused,
    ):
        refused.bootstrap_check()


def test_sessions_outlive_their_tokens(cluster: LocalCluster, google: GoogleStandIn) -> None:
    google.lifetime_s = 12
    with Cluster(client(cluster, by_key(google))) as logged_in:

        def go_on() -> bool:
            logged_in.bootstrap_check()
            return google.issued >= 2

        await_until(go_on, 60, "a second token")
