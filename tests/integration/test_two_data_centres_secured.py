"""causeway_producer, to a cluster with TLS and logins."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from causeway_producer import DualProducer
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.secured import ADMIN, PASSWORD, SecuredCluster
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_LISTENERS = {"TLS": "SSL", "MTLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}
_COUNT = 500


def _way_in(cluster: SecuredCluster, listener: str, mechanism: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": f"localhost:{cluster.port(listener)}",
        "security.protocol": _LISTENERS[listener],
        "log_level": 0,
    }
    if "TLS" in listener:
        found["ssl.ca.location"] = str(cluster.certificates.ca)
    if listener == "MTLS":
        own = str(cluster.certificates.client)
        found |= {"ssl.certificate.location": own, "ssl.key.location": own}
    if mechanism:
        found |= {
            "sasl.mechanism": mechanism,
            "sasl.username": ADMIN,
            "sasl.password": PASSWORD,
        }
    return found


def _oauth(cluster: SecuredCluster) -> list[dict[str, Any]]:
    """Client credentials, an assertion, and a function that returns tokens."""
    tokens = cluster.tokens
    pem = cluster.signers["RS256"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    oidc = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": tokens.token_url,
    }
    return [
        {
            **oidc,
            "sasl.oauthbearer.client.id": ADMIN,
            "sasl.oauthbearer.client.secret": PASSWORD,
        },
        {
            **oidc,
            "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "sasl.oauthbearer.assertion.algorithm": "RS256",
            "sasl.oauthbearer.assertion.private.key.pem": pem.decode(),
            "sasl.oauthbearer.assertion.claim.iss": "RS256",
            "sasl.oauthbearer.assertion.claim.sub": ADMIN,
            "sasl.oauthbearer.assertion.claim.aud": tokens.token_url,
        },
        {
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (tokens.token(ADMIN), time.time() + tokens.lifetime_s),
        },
    ]


def _hear(answers: list[Any], error: Any, _: Any) -> None:
    answers.append(error)


def test_each_way_into_a_secured_cluster(
    target_cluster: LocalCluster, target: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    """Both sides get the same records; and a wrong password on one side does not hold up the other
    side."""
    cluster = SecuredCluster("east", tmp_path / "certificates")
    try:
        cluster.start()
        east = KafkaTools(cluster.bootstrap)
        ways = [
            ("TLS", "", {}),
            ("MTLS", "", {}),
            ("SASL", "PLAIN", {}),
            ("SASL", "SCRAM-SHA-256", {}),
            ("SASLTLS", "SCRAM-SHA-512", {}),
            ("SASLTLS", "SCRAM-SHA-512", {"statistics.interval.ms": 1000, "stats_cb": print}),
            *(("SASL", "", login) for login in _oauth(cluster)),
        ]
        for number, (listener, mechanism, more) in enumerate(ways):
            topic = f"{prefix}{number}"
            for side in (east, target):
                side.create_topic(topic, 3)
            primary = _way_in(cluster, listener, mechanism) | more
            answers: list[Any] = []
            with DualProducer(
                primary,
                {"bootstrap.servers": target_cluster.bootstrap, "log_level": 0},
                spool=tmp_path / topic,
                settle_s=0.5,
            ) as producer:
                for record in range(_COUNT):
                    producer.produce(
                        topic,
                        b"%d" % record,
                        key=b"%d" % (record % 10),
                        on_delivery=partial(_hear, answers),
                    )
                    producer.poll(0)
                assert producer.close(60), (listener, mechanism, producer.stats())
            assert answers == [None] * _COUNT
            logs = east.read(topic)
            assert sum(map(len, logs.values())) == _COUNT
            assert {p: [r.content for r in rs] for p, rs in logs.items()} == {
                p: [r.content for r in rs] for p, rs in target.read(topic).items()
            }
        topic = f"{prefix}wrong"
        for side in (east, target):
            side.create_topic(topic, 3)
        wrong = _way_in(cluster, "SASLTLS", "SCRAM-SHA-512") | {"sasl.password": "wr0ng-pssst"}
        with DualProducer(
            {"bootstrap.servers": target_cluster.bootstrap, "log_level": 0},
            wrong,
            spool=tmp_path / topic,
            policy="primary",
            settle_s=0.5,
        ) as producer:
            for record in range(_COUNT):
                producer.produce(topic, b"%d" % record)
            assert producer.flush(60) == 0
            await_until(lambda: producer.stats()["sides"]["west"]["reason"], 60)
            assert producer.stats()["sides"]["west"]["acknowledged"] == 0
            assert "wr0ng" not in str(producer.stats())
            producer.close(0)
        assert sum(target.offsets(topic).values()) == _COUNT
        assert sum(east.offsets(topic).values()) == 0
    finally:
        cluster.destroy()
