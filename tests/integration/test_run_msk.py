"""Clusters that let clients in by IAM alone, as Amazon MSK: mirrored by a property file as Java
clients have it, by each command, and by Amazon's own library beside them.

MSK is not there. A gate before a real broker checks the signatures, and loopback services give out
the credentials.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from causeway_producer import DualProducer
from tests.harness.command import causeway
from tests.harness.kafka.certificates import Certificates, create_certificates
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.msk.aws import REGION, Services, aws_services
from tests.harness.msk.gate import MECHANISMS, Gates, Rules
from tests.harness.msk.library import msk_library
from tests.harness.msk.signatures import Key
from tests.harness.running import (
    PATIENCE_S,
    Running,
    arguments_of,
    assert_same,
    await_copied,
    mm2_file,
)
from tests.harness.spark_session import spark_session
from tests.harness.strimzi import mount
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

IAM = "software.amazon.msk.auth.iam"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
ROLE = "arn:aws:iam::123456789012:role/mirror"
SECRET = "own/secret+key=="
SESSION_MS = 4_000
LIFE_S = 15  # of a token; a busy machine needs seconds from the signature to the login


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with aws_services() as running:
        yield running


@pytest.fixture(scope="module")
def rules(services: Services) -> Rules:
    return Rules(services.keys, REGION)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return create_certificates(tmp_path_factory.mktemp("tls"), hostnames=("localhost",))


@pytest.fixture(scope="module")
def msk(rules: Rules, certificates: Certificates) -> Iterator[LocalCluster]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    gates = Gates(rules, context)
    with LocalCluster("M", advertised=gates) as cluster:
        yield cluster
    gates.close()


@pytest.fixture
def environment(services: Services, tmp_path: Path) -> dict[str, str]:
    """Of a pod of EKS with a role, in a region that the brokers' names do not have."""
    return {**services.environment(), **services.web_identity_environment(tmp_path)}


def login(mechanism: str, options: str = "") -> dict[str, str]:
    if mechanism == "AWS_MSK_IAM":
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{IAM}.IAMLoginModule required {options};",
            "sasl.client.callback.handler.class": f"{IAM}.IAMClientCallbackHandler",
        }
    handler = f"{IAM}.IAMOAuthBearerLoginCallbackHandler"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{OAUTH} required {options};",
        "sasl.login.callback.handler.class": handler,
        "sasl.client.callback.handler.class": handler,
    }


def over_tls(certificates: Certificates, keys: Mapping[str, str]) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        **keys,
    }


def of_alias(alias: str, keys: Mapping[str, str]) -> list[str]:
    return [f"{alias}.{key} = {value}" for key, value in keys.items()]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_goes_on_with_new_credentials_and_new_sessions(
    msk: LocalCluster,
    rules: Rules,
    services: Services,
    certificates: Certificates,
    environment: Mapping[str, str],
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Out of the cluster by AWS_MSK_IAM with a role and keys of the file, and by OAUTHBEARER with
    the role of the pod; into it by the first. Sessions last seconds, and each key of a role is
    renewed while it runs. No request comes after the end of a session, no login is refused, and no
    secret is in sight."""
    rules.session_ms, services.life_s = SESSION_MS, 603  # botocore renews ten minutes before
    services.add("AKIAOWN", SECRET)
    role = f'awsRoleArn="{ROLE}" awsRoleAccessKeyId="AKIAOWN" awsRoleSecretAccessKey="{SECRET}"'
    inside = KafkaTools(msk.internal_bootstrap)
    file = mm2_file(
        tmp_path,
        {"iam": msk, "oauth": msk, "B": target_cluster},
        *of_alias("iam", over_tls(certificates, login("AWS_MSK_IAM", role))),
        *of_alias("oauth", over_tls(certificates, login("OAUTHBEARER"))),
        *(f"{alias}->B.enabled = true" for alias in ("iam", "oauth")),
        *(f"{alias}->B.topics = {prefix}{alias}" for alias in ("iam", "oauth")),
        "B->iam.enabled = true",
        f"B->iam.topics = {prefix}in",
    )
    mirrors = [
        (inside, f"{prefix}iam", target, f"iam.{prefix}iam"),
        (inside, f"{prefix}oauth", target, f"oauth.{prefix}oauth"),
        (target, f"{prefix}in", inside, f"B.{prefix}in"),
    ]
    for source, topic, _, _ in mirrors:
        source.create_topic(topic)
    before, after = ([b"%s-%d" % (when, n) for n in range(100)] for when in (b"before", b"after"))
    for source, topic, _, _ in mirrors:
        source.produce(topic, before)

    rules.busy = 5
    with Running("run", file, directory=tmp_path, environment=environment) as run:
        for mirror in mirrors:
            await_copied(*mirror)

        def renewed() -> bool:
            return all(len(keys_of(rules, mechanism)) > 3 for mechanism in MECHANISMS)

        await_until(renewed, PATIENCE_S, "logins with several keys")
        for source, topic, _, _ in mirrors:
            source.produce(topic, after)
        for mirror in mirrors:
            await_copied(*mirror)
        arguments = "\n".join(map(arguments_of, run.processes()))
        assert run.stop() == 0
    for mirror in mirrors:
        assert_same(*mirror)
    assert (rules.refused, rules.overdue, rules.busy) == ([], 0, 0)
    principals = {each.key.principal.partition("/")[0] for each in rules.logins}
    assert principals == {"mirror", "eks"}
    secrets = {SECRET, services.web_identity}
    secrets |= {part for key in services.keys.values() for part in (key.secret, key.token) if part}
    shown = {secret for secret in secrets if secret in run.log or secret in arguments}
    assert shown == set()


def keys_of(rules: Rules, mechanism: str) -> set[str]:
    return {each.key.id for each in rules.logins if each.mechanism == mechanism}


@pytest.fixture
def calm(rules: Rules, services: Services) -> None:
    rules.session_ms, services.life_s = 0, 3600
    rules.refused.clear()


@pytest.fixture
def orders(msk: LocalCluster, prefix: str) -> str:
    """A topic with 20 records."""
    tools, topic = KafkaTools(msk.internal_bootstrap), f"{prefix}orders"
    tools.create_topic(topic)
    tools.produce(topic, [b"%d" % n for n in range(20)])
    return topic


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
@pytest.mark.timeout(1200)
def test_each_command_logs_in(
    msk: LocalCluster,
    rules: Rules,
    certificates: Certificates,
    environment: Mapping[str, str],
    target: KafkaTools,
    target_cluster: LocalCluster,
    orders: str,
    tmp_path: Path,
) -> None:
    file = mm2_file(
        tmp_path,
        {"MSK": msk, "B": target_cluster},
        *of_alias("MSK", over_tls(certificates, login("AWS_MSK_IAM"))),
        "MSK->B.enabled = true",
        f"MSK->B.topics = {orders}",
    )
    for command in (
        ("run", file, "--until-caught-up"),
        ("status", file),
        ("explain", file, orders),
        ("verify", file),
    ):
        ended = causeway(*command, environment=environment)
        assert ended.code == 0, (command, ended.out, ended.err)
    assert_same(KafkaTools(msk.internal_bootstrap), orders, target, f"MSK.{orders}")
    assert rules.refused == []


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_plan_tries_again_while_brokers_are_busy_and_says_why_a_login_fails(
    msk: LocalCluster,
    rules: Rules,
    certificates: Certificates,
    environment: Mapping[str, str],
    target_cluster: LocalCluster,
    orders: str,
    tmp_path: Path,
    mechanism: str,
) -> None:
    file = mm2_file(
        tmp_path,
        {"MSK": msk, "B": target_cluster},
        *of_alias("MSK", over_tls(certificates, login(mechanism))),
        "MSK->B.enabled = true",
        f"MSK->B.topics = {orders}",
    )
    rules.busy = 3
    ended = causeway("plan", file, environment=environment)
    assert ended.code == 0, ended.err
    assert (rules.refused, rules.busy) == ([], 0)
    ended = causeway("plan", file, environment={**environment, "AWS_REGION": "eu-west-1"})
    assert ended.code == 4
    assert f"{mechanism} refused: [7c9e-42]: " in ended.err
    (tmp_path / "token").write_text("another token")
    ended = causeway("plan", file, environment=environment)
    assert ended.code == 4
    assert "STS refused: InvalidIdentityToken" in ended.err
    assert "another token" not in ended.err


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("form", ["causeway.yaml", "strimzi.yaml"])
def test_each_form_of_file_leads_in(
    msk: LocalCluster,
    rules: Rules,
    certificates: Certificates,
    environment: Mapping[str, str],
    target_cluster: LocalCluster,
    orders: str,
    tmp_path: Path,
    form: str,
) -> None:
    """The property file is in the other tests."""
    before = len(rules.logins)
    keys = login("AWS_MSK_IAM", f'awsRoleArn="{ROLE}"')
    secrets = tmp_path / "secrets"
    mount(secrets / "ca", {"ca.crt": certificates.ca.read_text()})
    file = tmp_path / form
    of_form = causeway_yaml if form == "causeway.yaml" else strimzi
    file.write_text(json.dumps(of_form(msk, target_cluster, certificates, keys, orders)))
    more = () if form == "causeway.yaml" else ("--secrets", secrets)
    ended = causeway("plan", file, *more, environment=environment)
    assert ended.code == 0, ended.err
    assert orders in ended.out
    assert rules.refused == []
    assert rules.logins[before:]


def causeway_yaml(
    msk: LocalCluster,
    target: LocalCluster,
    certificates: Certificates,
    keys: Mapping[str, str],
    topic: str,
) -> dict[str, Any]:
    sasl = {"mechanism": keys["sasl.mechanism"], "jaas-config": keys["sasl.jaas.config"]}
    tls = {"truststore": {"type": "PEM", "location": str(certificates.ca)}}
    security = {"protocol": "SASL_SSL", "sasl": sasl, "tls": tls}
    return {
        "clusters": {
            "MSK": {"bootstrap": msk.bootstrap, "security": security},
            "B": {"bootstrap": target.bootstrap},
        },
        "links": [{"from": "MSK", "to": "B", "topics": [topic], "replication-factor": 1}],
    }


def strimzi(
    msk: LocalCluster,
    target: LocalCluster,
    certificates: Certificates,
    keys: Mapping[str, str],
    topic: str,
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "version": "4.3.1",
        "replicas": 1,
        "target": {
            "alias": "B",
            "bootstrapServers": target.bootstrap,
            "groupId": "g",
            "configStorageTopic": "c",
            "offsetStorageTopic": "o",
            "statusStorageTopic": "s",
        },
        "mirrors": [
            {
                "source": {
                    "alias": "MSK",
                    "bootstrapServers": msk.bootstrap,
                    "tls": {"trustedCertificates": [{"secretName": "ca", "pattern": "*.crt"}]},
                    "authentication": {"type": "custom", "sasl": True, "config": dict(keys)},
                },
                "sourceConnector": {"config": {"replication.factor": -1}},
                "topicsPattern": topic,
            }
        ],
    }
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "m"},
        "spec": spec,
    }


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
def test_sparks_source_and_sink_log_in(
    msk: LocalCluster,
    rules: Rules,
    certificates: Certificates,
    environment: Mapping[str, str],
    orders: str,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The executors' tasks look for credentials themselves."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = {
        f"kafka.{key}": value for key, value in over_tls(certificates, login("AWS_MSK_IAM")).items()
    }
    options["kafka.bootstrap.servers"] = msk.bootstrap
    tools, written = KafkaTools(msk.internal_bootstrap), f"{prefix}written"
    tools.create_topic(written, 2)
    with spark_session() as spark:
        read = spark.read.format("causeway").options(**options, subscribe=orders).load()
        assert read.count() == 20
        rows = read.selectExpr("value", f"'{written}' topic")
        rows.write.format("causeway").mode("append").options(**options).save()
    tools.await_transactions(written)
    assert sum(map(len, tools.read(written, read_committed=True).values())) == 20
    assert rules.refused == []


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_dual_producer_logs_in(
    msk: LocalCluster,
    rules: Rules,
    certificates: Certificates,
    environment: Mapping[str, str],
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mechanism: str,
) -> None:
    """librdkafka gets a token by OAUTHBEARER with both mechanisms. Sessions last for four seconds,
    and tokens for 15: both end while the producer runs."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for module in ("aws", "bearer"):
        monkeypatch.setattr(f"causeway.logins.{module}.LIFE_S", LIFE_S)
    heard: list[object] = []
    side = {
        "bootstrap.servers": msk.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.ca),
        **login(mechanism, f'awsRoleArn="{ROLE}"'),
        "log_level": 0,
        "error_cb": heard.append,
    }
    topic = f"{prefix}both"
    inside = KafkaTools(msk.internal_bootstrap)
    for tools in (inside, target):
        tools.create_topic(topic)
    other = {"bootstrap.servers": target_cluster.bootstrap, "log_level": 0}
    rules.session_ms = SESSION_MS
    with DualProducer(side, other, spool=tmp_path / "spool", settle_s=0.5) as producer:
        producer.produce(topic, b"first")
        assert producer.flush(60) == 0
        before, since = len(rules.logins), time.monotonic()

        def outlived() -> bool:
            producer.produce(topic, b"more")
            assert producer.flush(60) == 0
            return len(rules.logins) > before + 2 and time.monotonic() - since > 3 * LIFE_S

        await_until(outlived, PATIENCE_S, "new sessions with new tokens")
    assert_same(inside, topic, target, topic)
    assert (rules.refused, heard) == ([], [])
    assert {each.mechanism for each in rules.logins[before:]} == {"OAUTHBEARER"}


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
def test_a_dual_producer_goes_on_with_another_session_name(
    msk: LocalCluster,
    rules: Rules,
    services: Services,
    certificates: Certificates,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """EKS Pod Identity gives another name with each renewal. A broker does not take another name on
    an open connection, so librdkafka opens a new one."""
    keys = [services.add(f"AKIA{name}", SECRET) for name in ("ONE", "TWO")]
    for name, value in {**services.environment(), "AWS_REGION": REGION}.items():
        monkeypatch.setenv(name, value)
    for module in ("aws", "bearer"):
        monkeypatch.setattr(f"causeway.logins.{module}.LIFE_S", LIFE_S)
    side = {
        "bootstrap.servers": msk.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.ca),
        "sasl.mechanism": "AWS_MSK_IAM",
        "log_level": 0,
    }
    topic = f"{prefix}names"
    inside = KafkaTools(msk.internal_bootstrap)
    for tools in (inside, target):
        tools.create_topic(topic)
    other = {"bootstrap.servers": target_cluster.bootstrap, "log_level": 0}
    rules.session_ms = SESSION_MS

    def use(key: Key) -> None:
        for name, value in services.environment_of(key).items():
            monkeypatch.setenv(name, value)

    use(keys[0])
    with DualProducer(side, other, spool=tmp_path / "spool", settle_s=0.5) as producer:
        producer.produce(topic, b"first")
        assert producer.flush(60) == 0
        use(keys[1])

        def goes_on() -> bool:
            producer.produce(topic, b"more")
            assert producer.flush(60) == 0
            return rules.logins[-1].key == keys[1]

        await_until(goes_on, PATIENCE_S, "a session of the second key")
        producer.produce(topic, b"last")
        assert producer.close(60)
    assert_same(inside, topic, target, topic)
    assert set(rules.refused) <= {f"{keys[0].principal} to {keys[1].principal}"}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_gate_lets_amazons_library_in(
    msk: LocalCluster,
    rules: Rules,
    services: Services,
    certificates: Certificates,
    tmp_path: Path,
    mechanism: str,
) -> None:
    """So it is no easier and no harder than a broker of MSK."""
    key = services.add("AKIAJAVA", SECRET)
    client = {
        "bootstrap.servers": msk.bootstrap,
        "default.api.timeout.ms": "60000",
        **over_tls(certificates, login(mechanism)),
    }
    properties = {
        "aws.accessKeyId": key.id,
        "aws.secretAccessKey": key.secret,
        "aws.region": REGION,
    }
    with msk_library() as library:
        assert library.node_count(client, properties) == 1
    assert key in [each.key for each in rules.logins if each.mechanism == mechanism]
