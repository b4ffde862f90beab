"""Brokers that turn us away: one clear line, the documented exit code, no traceback, no secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.command import Ended, causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.secured import ADMIN, NOBODY, PASSWORD, SecuredCluster

pytestmark = pytest.mark.integration

WRONG = "hunter2-is-secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster("S", tmp_path_factory.mktemp("certificates")) as cluster:
        yield cluster


def password(text: str) -> str:
    """As it stands between quotes in a JAAS line in a property file, which is Latin-1 or ASCII."""
    jaas = text.replace("\\", "\\\\").replace('"', '\\"')
    escaped = jaas.replace("\\", "\\\\")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in escaped)


def login(user: str, secret: str, module: str = PLAIN, mechanism: str = "PLAIN") -> list[str]:
    return [
        "A.security.protocol = SASL_PLAINTEXT",
        f"A.sasl.mechanism = {mechanism}",
        f'A.sasl.jaas.config = {module} required username="{user}" password="{password(secret)}";',
    ]


class Files:
    """Property files of a flow from one listener of the secured broker to the plain target, whose
    alias is these tests' own: others read the progress of A->B there."""

    def __init__(self, secured: SecuredCluster, target: LocalCluster, directory: Path) -> None:
        self._secured, self._target, self._directory = secured, target, directory

    def write(self, listener: str, *lines: str) -> Path:
        path = self._directory / "mm2.properties"
        base = (
            "clusters = A, Z",
            f"A.bootstrap.servers = localhost:{self._secured.port(listener)}",
            f"Z.bootstrap.servers = {self._target.bootstrap}",
            "A->Z.enabled = true",
            "replication.factor = 1",
            *(f"A.{client}.request.timeout.ms = 60000" for client in ("admin", "consumer")),
        )
        path.write_text("\n".join([*base, *lines]) + "\n", encoding="ascii")
        return path


@pytest.fixture
def files(secured: SecuredCluster, target_cluster: LocalCluster, tmp_path: Path) -> Files:
    return Files(secured, target_cluster, tmp_path)


def refused(ended: Ended, code: int, *says: str) -> None:
    assert ended.code == code, ended.err
    lines = [line for line in ended.err.splitlines() if ": warning: " not in line]
    assert len(lines) == 1, ended.err
    assert lines[0].startswith("causeway: error: ")
    for part in says:
        assert part in lines[0]
    assert "Traceback" not in ended.err
    for secret in (WRONG, PASSWORD):
        assert secret not in ended.out + ended.err


@pytest.mark.parametrize("command", ["plan", "status"])
@pytest.mark.parametrize(("module", "mechanism"), [(PLAIN, "PLAIN"), (SCRAM, "SCRAM-SHA-256")])
def test_a_wrong_password(files: Files, command: str, module: str, mechanism: str) -> None:
    path = files.write("SASL", *login(ADMIN, WRONG, module, mechanism))

    refused(causeway(command, path), 4, mechanism)


def test_a_wrong_password_ends_a_run(files: Files) -> None:
    ended = causeway("run", files.write("SASL", *login(ADMIN, WRONG)))

    assert ended.code == 4, ended.err
    assert "Traceback" not in ended.err
    assert WRONG not in ended.err
    assert [line for line in ended.err.splitlines() if line.startswith("causeway: error: ")]


def test_a_broker_whose_authority_nobody_named(files: Files, secured: SecuredCluster) -> None:
    tls = "A.security.protocol = SSL"
    stranger = secured.certificates.stranger

    refused(causeway("plan", files.write("TLS", tls)), 4, "truststore")
    wrong = files.write(
        "TLS", tls, "A.ssl.truststore.type = PEM", f"A.ssl.truststore.location = {stranger}"
    )
    refused(causeway("plan", wrong), 4, "truststore")


def test_a_broker_that_wants_a_certificate(files: Files, secured: SecuredCluster) -> None:
    path = files.write(
        "MTLS",
        "A.security.protocol = SSL",
        "A.ssl.truststore.type = PEM",
        f"A.ssl.truststore.location = {secured.certificates.ca}",
    )

    refused(causeway("plan", path), 4, "ssl.keystore.location")


def grant(secured: SecuredCluster, topic: str, *operations: AclOperation) -> None:
    """Lets NOBODY do `operations` on `topic`."""
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{NOBODY}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for done in admin.create_acls(bindings).values():
        done.result(30)


def test_a_topic_that_is_hidden_is_named_with_the_operation(
    files: Files, secured: SecuredCluster, prefix: str
) -> None:
    topic = prefix + "hidden"
    KafkaTools(secured.bootstrap).create_topic(topic)
    path = files.write("SASL", *login(NOBODY, PASSWORD), f"topics = {topic}")

    refused(causeway("plan", path), 5, "DESCRIBE", f"on topic {topic}")


@pytest.mark.slow
def test_a_topic_that_must_not_be_read_fails_a_run(
    files: Files, secured: SecuredCluster, prefix: str
) -> None:
    topic = prefix + "guarded"
    tools = KafkaTools(secured.bootstrap)
    tools.create_topic(topic)
    tools.produce(topic, [b"x"])
    grant(secured, topic, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    path = files.write("SASL", *login(NOBODY, PASSWORD), f"topics = {topic}", "causeway.lanes = 1")

    ended = causeway("run", path, "--until-caught-up", timeout_s=240)

    assert ended.code in (5, 7), ended.err
    (line,) = [line for line in ended.err.splitlines() if line.startswith("causeway: error: ")]
    assert f"READ on topic {topic}" in line
    assert "Traceback" not in ended.err
    assert PASSWORD not in ended.err
