"""causeway_producer with tokens that Causeway gets. Tokens and sessions end while it runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from causeway.config import AssertionSettings, Secret
from causeway.logins.jwt import signed_assertion
from causeway_producer import DualProducer
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.token_server import AUDIENCE, ISSUER
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import assert_same
from tests.harness.secured import ADMIN, PASSWORD, SecuredCluster
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

OAUTH = "org.apache.kafka.common.security.oauthbearer"
LIFE_S = 6
RUNS_S = 20.0
OF_CONNECTIONS = {KafkaError._AUTHENTICATION, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredCluster]:
    cluster = SecuredCluster("S", tmp_path / "certificates")
    cluster.tokens.lifetime_s = LIFE_S
    with cluster:
        yield cluster


def ways_in(secured: SecuredCluster, folder: Path) -> dict[str, dict[str, str]]:
    """Client and secret, an assertion, and a file that another program renews."""
    url, start = secured.tokens.token_url, "sasl.oauthbearer"
    client = f"{start}.client.credentials.client"
    for name, key in secured.signers.items():
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.pem").write_bytes(pem)
    return {
        "secret": {
            f"{start}.token.endpoint.url": url,
            f"{client}.id": ADMIN,
            f"{client}.secret": PASSWORD,
        },
        "assertion": {
            "sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
            f"{start}.token.endpoint.url": url,
            f"{start}.jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever",
            f"{start}.assertion.algorithm": "ES256",
            f"{start}.assertion.private.key.file": str(folder / "ES256.pem"),
            f"{start}.assertion.claim.iss": "ES256",
            f"{start}.assertion.claim.sub": ADMIN,
            f"{start}.assertion.claim.aud": url,
        },
        "file": {f"{start}.token.endpoint.url": (folder / "token").as_uri()},
    }


def renew(secured: SecuredCluster, file: Path) -> None:
    pem = secured.signers["ES256"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    settings = AssertionSettings(
        sent_as="assertion",
        key_pem=Secret(pem.decode()),
        algorithm="ES256",
        header='{"kid": "ES256"}',
        claims=json.dumps({"iss": ISSUER, "sub": ADMIN, "aud": AUDIENCE}),
        lifetime_s=LIFE_S,
    )
    new = file.with_suffix(".new")
    new.write_text(signed_assertion(settings))
    os.replace(new, file)


def side(secured: SecuredCluster, login: Mapping[str, str], listener: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"localhost:{secured.port(listener)}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "log_level": 0,
        **login,
    }


@pytest.mark.parametrize("listener", ["SASL", "SHORT"])
def test_a_dual_producer_outlives_its_tokens(
    secured: SecuredCluster,
    target_cluster: LocalCluster,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
    listener: str,
) -> None:
    """Tokens last for six seconds. The listener SHORT also wants a login every three seconds. Each
    record is on both sides once. A broker refuses a second login within a second, which librdkafka
    attempts at the end of so short a life; then librdkafka opens a new connection."""
    east, token = KafkaTools(secured.bootstrap), tmp_path / "token"
    renew(secured, token)
    other = {"bootstrap.servers": target_cluster.bootstrap, "log_level": 0}
    producers: dict[str, DualProducer] = {}
    heard: list[KafkaError] = []
    try:
        for way, login in ways_in(secured, tmp_path).items():
            for tools in (east, target):
                tools.create_topic(f"{prefix}{way}")
            spool = tmp_path / f"spool-{way}"
            primary = {**side(secured, login, listener), "error_cb": heard.append}
            producers[way] = DualProducer(primary, other, spool=spool, settle_s=0.5)
            renew(secured, token)
        sent = 0

        def send() -> None:
            nonlocal sent
            sent += 1
            renew(secured, token)
            for way, producer in producers.items():
                producer.produce(f"{prefix}{way}", b"%d" % sent)
            for way, producer in producers.items():
                assert producer.flush(60) == 0, (way, producer.stats())

        send()
        issued, until = secured.tokens.issued, time.monotonic() + RUNS_S

        def outlived() -> bool:
            send()
            return time.monotonic() > until and secured.tokens.issued >= issued + 4

        await_until(outlived, 120, "several tokens")
        for way, producer in producers.items():
            assert producer.close(60), (way, producer.stats())
            assert_same(east, f"{prefix}{way}", target, f"{prefix}{way}")
            assert sum(east.offsets(f"{prefix}{way}").values()) == sent
        assert {each.code() for each in heard} <= OF_CONNECTIONS
    finally:
        for producer in producers.values():
            producer.close(0)
