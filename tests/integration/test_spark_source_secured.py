"""`format("causeway")` through TLS and SASL, and where its secrets can be seen: nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.secured import ADMIN, PASSWORD, SecuredCluster
from tests.harness.spark_session import spark_session

pytestmark = pytest.mark.integration

MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(events: Path) -> Iterator[Any]:
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(events),
    }
    with spark_session(conf) as session:
        yield session


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster("S", tmp_path_factory.mktemp("certificates")) as cluster:
        yield cluster


@pytest.mark.slow
def test_records_go_in_and_out_and_no_secret_is_in_a_plan_or_an_event(
    spark: Any, secured: SecuredCluster, events: Path, tmp_path: Path
) -> None:
    """By SCRAM with a password from a file, by a client certificate of a key store, and by a token
    in a file."""
    tools = KafkaTools(secured.bootstrap)
    tools.create_topic("plain", 2)
    tools.create_topic("written", 2)
    tools.produce("plain", [Outgoing(value=b"%d" % n) for n in range(20)])
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "password").write_text(PASSWORD.replace("\\", "\\\\").replace('"', '\\"'))
    scram = {
        "kafka.bootstrap.servers": f"localhost:{secured.port('SASLTLS')}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(secured.certificates.ca),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required"
        f' username="{ADMIN}" password="${{dir:{secrets}:password}}";',
    }
    read = spark.read.format("causeway").options(**scram, subscribe="plain").load()
    wanted = read.selectExpr("value", "'written' topic")
    read.explain(mode="extended")
    shown = read._jdf.queryExecution().toString() + wanted._jdf.queryExecution().toString()
    wanted.write.format("causeway").mode("append").options(**scram).save()
    tools.await_transactions("written")
    found = tools.read("written", read_committed=True)
    assert sum(map(len, found.values())) == 20
    certificate = {
        "kafka.bootstrap.servers": f"localhost:{secured.port('MTLS')}",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(secured.certificates.ca),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(secured.certificates.client),
        "subscribe": "written",
    }
    assert spark.read.format("causeway").options(**certificate).load().count() == 20
    token = secured.tokens.token(ADMIN)
    (tmp_path / "token").write_text(token)
    by_token = {
        "kafka.bootstrap.servers": f"localhost:{secured.port('SASL')}",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
        "subscribe": "written",
    }
    assert spark.read.format("causeway").options(**by_token).load().count() == 20
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    logged = "".join(file.read_text() for file in events.rglob("*") if file.is_file())
    assert "SparkListenerSQLExecutionStart" in logged
    for place in (shown, logged):
        assert PASSWORD not in place
        assert PASSWORD[:6] not in place
        assert token not in place
