"""Logins to real brokers by each kind of token, and their renewal."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from kafka.protocol.metadata import MetadataRequest

from causeway.cluster import Cluster
from causeway.config import (
    AssertionSettings,
    ClientSettings,
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    Secret,
)
from causeway.errors import AuthenticationError
from causeway.logins.jwt import signed_assertion
from causeway.wire import Connection
from tests.harness.delegation_tokens import DelegationToken, create_token, expire_token
from tests.harness.kafka.token_server import AUDIENCE, ISSUER
from tests.harness.secured import ADMIN, PASSWORD, SecuredCluster
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
Algorithm = Literal["RS256", "ES256"]
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def client(secured: SecuredCluster, sasl: SaslSettings, listener: str = "SASL") -> ClientSettings:
    return ClientSettings(
        alias="A",
        bootstrap=(("localhost", secured.port(listener)),),
        protocol="SASL_PLAINTEXT",
        sasl=sasl,
        connect_timeout_ms=20_000,
        request_timeout_ms=20_000,
    )


def enter(settings: ClientSettings) -> None:
    with Cluster(settings) as cluster:
        cluster.bootstrap_check()
        assert cluster.metadata().topics is not None


def by_oauth(oauth: OAuthSettings) -> SaslSettings:
    return SaslSettings(mechanism="OAUTHBEARER", oauth=oauth)


def signer(
    secured: SecuredCluster, algorithm: Algorithm, claims: dict[str, str], **more: Any
) -> AssertionSettings:
    pem = secured.signers[algorithm].private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    given = {"sent_as": "assertion", "header": json.dumps({"kid": algorithm}), **more}
    return AssertionSettings(
        key_pem=Secret(pem.decode()), algorithm=algorithm, claims=json.dumps(claims), **given
    )


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("sent_as", ["assertion", "client_assertion"])
def test_a_token_for_an_assertion(
    secured: SecuredCluster, algorithm: Algorithm, sent_as: Any
) -> None:
    url = secured.tokens.token_url
    by_grant = sent_as == "assertion"
    oauth = OAuthSettings(
        token_endpoint=url,
        grant=JWT_BEARER if by_grant else "client_credentials",
        fields={} if by_grant else {"client_assertion_type": Secret(CLIENT_ASSERTION)},
        assertion=signer(
            secured, algorithm, {"iss": algorithm, "sub": ADMIN, "aud": url}, sent_as=sent_as
        ),
    )
    enter(client(secured, by_oauth(oauth)))


def own_token(secured: SecuredCluster, algorithm: Algorithm = "ES256", *, lasts_s: int) -> str:
    """A token that Causeway's own code signs, for a broker to check."""
    claims = {"iss": ISSUER, "sub": ADMIN, "aud": AUDIENCE}
    return signed_assertion(signer(secured, algorithm, claims, lifetime_s=lasts_s))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_kafkas_own_library_takes_the_signature(
    secured: SecuredCluster, algorithm: Algorithm
) -> None:
    token = own_token(secured, algorithm, lasts_s=300)
    enter(client(secured, by_oauth(OAuthSettings(access_token=Secret(token)))))
    broken = token[:-8] + "AAAAAAAA"
    with pytest.raises(AuthenticationError, match="OAUTHBEARER refused"):
        enter(client(secured, by_oauth(OAuthSettings(access_token=Secret(broken)))))


@contextmanager
def renewed_on_disk(secured: SecuredCluster, file: Path, lasts_s: int) -> Iterator[None]:
    """Another program writes a new token after half of the life of the one before."""
    done = threading.Event()

    def write() -> None:
        new = file.with_suffix(".new")
        new.write_text(own_token(secured, lasts_s=lasts_s))
        os.replace(new, file)

    def renew() -> None:
        while not done.wait(lasts_s / 2):
            write()

    write()
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_connection_outlives_tokens_that_are_renewed_on_disk(
    secured: SecuredCluster, tmp_path: Path
) -> None:
    """Each token lasts for twelve seconds, so the broker ends a session after twelve seconds unless
    the client logs in again with a newer one."""
    file = tmp_path / "token"
    with renewed_on_disk(secured, file, 12):
        oauth = OAuthSettings(access_token=Secret("old"), files={"access_token": str(file)})
        settings = client(secured, by_oauth(oauth))
        with Connection.open(settings, *settings.bootstrap[0]) as connection:
            sessions = set()

            def go_on() -> bool:
                expires_at = connection.session_expires_at
                assert expires_at is not None
                sessions.add(expires_at)
                if time.monotonic() >= expires_at:
                    connection.reauthenticate()
                connection.call(MetadataRequest(topics=[]))
                return len(sessions) >= 2

            await_until(go_on, 60, "a second session of the connection")


def test_a_cluster_outlives_its_tokens_and_the_limit_of_sessions(secured: SecuredCluster) -> None:
    """Tokens of twelve seconds at a listener that wants a login every three seconds."""
    lifetime, secured.tokens.lifetime_s = secured.tokens.lifetime_s, 12.0
    # Another scope, so that no token of another test is in the cache.
    oauth = OAuthSettings(
        token_endpoint=secured.tokens.token_url,
        client_id=ADMIN,
        client_secret=Secret(PASSWORD),
        scope="short",
    )
    try:
        before = secured.tokens.issued
        with Cluster(client(secured, by_oauth(oauth), "SHORT")) as cluster:

            def go_on() -> bool:
                cluster.bootstrap_check()
                return secured.tokens.issued - before >= 2

            await_until(go_on, 60, "a second token")
    finally:
        secured.tokens.lifetime_s = lifetime


def test_a_token_that_nobody_renews(secured: SecuredCluster) -> None:
    token = own_token(secured, lasts_s=0)
    settings = client(secured, by_oauth(OAuthSettings(access_token=Secret(token))))
    with pytest.raises(
        AuthenticationError, match=r"the access token for cluster \w+: it expired at .* UTC"
    ):
        enter(settings)


# -- delegation tokens


def java_client() -> dict[str, str]:
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{ADMIN}" password="{quoted}";',
    }


def by_delegation(token: DelegationToken, mechanism: SaslMechanism) -> SaslSettings:
    return SaslSettings(
        mechanism=mechanism,
        username=token.id,
        password=Secret(token.hmac),
        is_delegation_token=True,
    )


def test_a_delegation_token_until_it_is_withdrawn(secured: SecuredCluster) -> None:
    bootstrap = f"localhost:{secured.port('SASL')}"
    token = create_token(bootstrap, java_client())
    logins = [
        client(secured, by_delegation(token, mechanism))
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    for settings in logins:
        await_until(lambda: enters(settings), 20, "the broker knows the token")  # noqa: B023
    with Connection.open(logins[0], *logins[0].bootstrap[0]) as connection:
        assert connection.session_expires_at is not None  # the session ends with the token
    plain = SaslSettings(mechanism="SCRAM-SHA-256", username=token.id, password=Secret(token.hmac))
    with pytest.raises(AuthenticationError, match="check user name and password"):
        enter(client(secured, plain))

    expire_token(bootstrap, java_client(), token)
    await_until(lambda: not enters(logins[0]), 20, "the broker has forgotten the token")
    with pytest.raises(AuthenticationError, match="delegation token may have expired") as refused:
        enter(logins[0])
    assert token.hmac not in str(refused.value)


def enters(settings: ClientSettings) -> bool:
    try:
        enter(settings)
    except AuthenticationError:
        return False
    return True
