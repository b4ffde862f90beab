"""Every way into a secured broker, and what a person reads who takes the wrong one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka.protocol.metadata import MetadataRequest

from causeway.cluster import Cluster, NewTopic
from causeway.config import (
    ClientSettings,
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    Secret,
    SecurityProtocol,
    TlsSettings,
)
from causeway.errors import AuthenticationError, AuthorizationError, CausewayError, UnreachableError
from causeway.model import TopicPartition
from causeway.wire import Connection
from tests.harness.kafka.certificates import create_certificates
from tests.harness.secured import ADMIN, NOBODY, ODD_USER, PASSWORD, SHORT_SESSION_MS
from tests.harness.secured import SecuredCluster as Secured

pytestmark = pytest.mark.integration


def settings(
    secured: Secured,
    listener: str,
    protocol: SecurityProtocol,
    *,
    sasl: SaslSettings | None = None,
    tls: TlsSettings | None = None,
    host: str = "localhost",
    patience_ms: int = 20_000,
) -> ClientSettings:
    if tls is None and protocol.endswith("SSL"):
        tls = TlsSettings(ca_pem=secured.certificates.ca.read_text())
    return ClientSettings(
        alias="A",
        bootstrap=((host, secured.port(listener)),),
        protocol=protocol,
        tls=tls,
        sasl=sasl,
        connect_timeout_ms=patience_ms,
        request_timeout_ms=patience_ms,
    )


def login(
    mechanism: SaslMechanism, user: str = ADMIN, password: str = PASSWORD, url: str = ""
) -> SaslSettings:
    if mechanism != "OAUTHBEARER":
        return SaslSettings(mechanism=mechanism, username=user, password=Secret(password))
    oauth = OAuthSettings(token_endpoint=url, client_id=user, client_secret=Secret(password))
    return SaslSettings(mechanism=mechanism, oauth=oauth)


def enter(client: ClientSettings) -> None:
    with Cluster(client) as cluster:
        cluster.bootstrap_check()
        assert cluster.metadata().topics is not None


def mutual(secured: Secured, folder: Path | None = None) -> TlsSettings:
    files = create_certificates(folder) if folder else secured.certificates
    return TlsSettings(
        ca_pem=secured.certificates.ca.read_text(),
        cert_pem=files.client_certificate.read_text(),
        key_pem=Secret(files.client_key.read_text()),
    )


def test_tls_with_and_without_a_client_certificate(secured: Secured) -> None:
    enter(settings(secured, "TLS", "SSL"))
    enter(settings(secured, "MTLS", "SSL", tls=mutual(secured)))


def test_tls_without_a_check_of_the_host_name(secured: Secured) -> None:
    tls = TlsSettings(ca_pem=secured.certificates.ca.read_text(), verify_hostname=False)
    enter(settings(secured, "TLS", "SSL", tls=tls, host="127.0.0.1"))


@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_sasl(secured: Secured, listener: str, mechanism: SaslMechanism) -> None:
    protocol: SecurityProtocol = "SASL_PLAINTEXT" if listener == "SASL" else "SASL_SSL"
    right = login(mechanism, url=secured.tokens.token_url)
    enter(settings(secured, listener, protocol, sasl=right))

    wrong = login(mechanism, password="not it", url=secured.tokens.token_url)
    with pytest.raises(AuthenticationError) as caught:
        enter(settings(secured, listener, protocol, sasl=wrong))
    assert not caught.value.retriable
    assert "not it" not in str(caught.value)
    assert ("HTTP 401" if mechanism == "OAUTHBEARER" else mechanism) in str(caught.value)


def test_scram_user_names_with_commas_and_equals_signs(secured: Secured) -> None:
    enter(settings(secured, "SASL", "SASL_PLAINTEXT", sasl=login("SCRAM-SHA-256", ODD_USER)))


def test_a_token_that_the_broker_does_not_accept(secured: Secured) -> None:
    url = secured.tokens.token_url
    # Another scope, so that no token of another test is in the cache.
    oauth = OAuthSettings(
        token_endpoint=url, client_id=ADMIN, client_secret=Secret(PASSWORD), scope="other"
    )
    lifetime, secured.tokens.lifetime_s = secured.tokens.lifetime_s, -3600.0
    try:
        sasl = SaslSettings(mechanism="OAUTHBEARER", oauth=oauth)
        with pytest.raises(AuthenticationError, match=r"OAUTHBEARER refused.*client id, scope"):
            enter(settings(secured, "SASL", "SASL_PLAINTEXT", sasl=sasl))
    finally:
        secured.tokens.lifetime_s = lifetime


WRONG_WAYS: list[tuple[str, SecurityProtocol, type[CausewayError], str]] = [
    ("CLIENT", "SSL", UnreachableError, "closed the connection .*is it a TLS port"),
    ("CLIENT", "SASL_PLAINTEXT", AuthenticationError, "the listener does not use SASL"),
    ("CLIENT", "SASL_SSL", UnreachableError, "closed the connection .*is it a TLS port"),
    ("TLS", "PLAINTEXT", AuthenticationError, "the port speaks TLS"),
    ("TLS", "SASL_SSL", AuthenticationError, "the listener does not use SASL"),
    ("TLS", "SASL_PLAINTEXT", AuthenticationError, "the port speaks TLS"),
    ("MTLS", "SSL", AuthenticationError, "our certificate, or wants one.*ssl.keystore.location"),
    ("SASL", "PLAINTEXT", UnreachableError, "closed the connection .*want TLS or SASL"),
    ("SASL", "SASL_SSL", UnreachableError, "closed the connection .*is it a TLS port"),
    ("SASLTLS", "SASL_PLAINTEXT", AuthenticationError, "the port speaks TLS"),
]


@pytest.mark.parametrize(("listener", "protocol", "kind", "says"), WRONG_WAYS)
def test_the_wrong_protocol(
    secured: Secured,
    listener: str,
    protocol: SecurityProtocol,
    kind: type[CausewayError],
    says: str,
) -> None:
    sasl = login("PLAIN") if protocol.startswith("SASL") else None
    with pytest.raises(kind, match=says) as caught:
        enter(settings(secured, listener, protocol, sasl=sasl, patience_ms=10_000))
    assert "security.protocol" in str(caught.value) or "ssl.keystore" in str(caught.value)


def test_certificates_that_do_not_fit(secured: Secured, tmp_path: Path) -> None:
    stranger = TlsSettings(ca_pem=secured.certificates.stranger.read_text())
    cases = [
        (settings(secured, "TLS", "SSL", tls=stranger), "not trusted.*truststore"),
        (settings(secured, "TLS", "SSL", tls=TlsSettings()), "not trusted.*truststore"),
        (
            settings(secured, "TLS", "SSL", host="127.0.0.1"),
            "is not for 127.0.0.1.*by a name in",
        ),
        (settings(secured, "MTLS", "SSL", tls=mutual(secured, tmp_path)), "our certificate"),
    ]
    for client, says in cases:
        with pytest.raises(AuthenticationError, match=says) as refused:
            enter(client)
        assert "identification" not in str(refused.value), "nobody is told to check less"


def test_a_mechanism_that_is_not_enabled(secured: Secured) -> None:
    client = settings(secured, "SHORT", "SASL_PLAINTEXT", sasl=login("SCRAM-SHA-256"))
    with pytest.raises(AuthenticationError, match=r"SCRAM-SHA-256 is not enabled.*it has PLAIN"):
        enter(client)


def test_a_session_outlives_its_limit_by_authenticating_again(secured: Secured) -> None:
    client = settings(secured, "SHORT", "SASL_PLAINTEXT", sasl=login("PLAIN"))
    with Connection.open(client, *client.bootstrap[0]) as connection:
        first = connection.session_expires_at
        assert first is not None
        assert 0 < first - time.monotonic() <= SHORT_SESSION_MS / 1000
        time.sleep(max(0.0, first - time.monotonic()))
        connection.reauthenticate()
        assert (connection.session_expires_at or 0) > first
        time.sleep(1)  # past the first session's end
        connection.call(MetadataRequest(topics=[]))


def test_a_cluster_goes_on_past_the_limit_of_its_sessions(secured: Secured) -> None:
    with Cluster(settings(secured, "SHORT", "SASL_PLAINTEXT", sasl=login("PLAIN"))) as cluster:
        cluster.bootstrap_check()
        time.sleep(SHORT_SESSION_MS / 1000 + 0.5)
        cluster.bootstrap_check()


def test_missing_acls_name_resource_and_operation(secured: Secured) -> None:
    tp = TopicPartition("guarded", 0)
    with Cluster(settings(secured, "CLIENT", "PLAINTEXT", host="127.0.0.1")) as admin:
        made = admin.create_topics([NewTopic(name="guarded", partitions=1, replication_factor=1)])
        assert made == {"guarded": None}
    nobody = settings(secured, "SASL", "SASL_PLAINTEXT", sasl=login("PLAIN", NOBODY))
    with Cluster(nobody) as cluster:
        results = {
            "DESCRIBE (or READ, or WRITE) on topic guarded": cluster.list_offsets([tp], -1)[tp],
            "CREATE on topic other": cluster.create_topics(
                [NewTopic(name="other", partitions=1, replication_factor=1)]
            )["other"],
            "DELETE on topic guarded": cluster.delete_topics(["guarded"])["guarded"],
            "ALTER on topic guarded": cluster.create_partitions({"guarded": 3})["guarded"],
            "ALTER_CONFIGS on topic guarded": cluster.alter_configs(
                {"guarded": {"retention.ms": "1"}}
            )["guarded"],
            "DESCRIBE_CONFIGS on topic guarded": cluster.describe_configs(["guarded"])["guarded"],
        }
        for acl, error in results.items():
            assert isinstance(error, AuthorizationError), error
            assert acl in str(error)
        with pytest.raises(AuthorizationError, match="IDEMPOTENT_WRITE on the cluster"):
            cluster.init_producer_ids(1)
        with pytest.raises(AuthorizationError, match="on transactional id x"):
            cluster.init_transactional_id("x")
        with pytest.raises(AuthorizationError, match="DESCRIBE_CONFIGS on the cluster"):
            cluster.broker_configs(1)
