"""Every way into a secured cluster, by a property file as Java clients have it; and no secret in
sight while it runs."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.dev import Ports
from tests.harness.files import files_below
from tests.harness.kafka.certificates import create_certificates
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import (
    PATIENCE_S,
    Running,
    arguments_of,
    assert_same,
    await_copied,
    mm2_file,
)
from tests.harness.secured import ADMIN, PASSWORD, SecuredCluster
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

MODULES = "org.apache.kafka.common.security"
SPARK_SECRET = "sparks-own-secret"
# What the password, in whatever spelling, and a signed token begin with.
NEW_PASSWORD = "quite-another-one"
PASSWORD_START, TOKEN_START = "pa$$,w", "eyJhbGciOi"
BOTH_WAYS = ("tls_pem", "mtls_jks", "sasltls_scram512", "sasl_oauth", "sasltls_plain")


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredCluster]:
    with SecuredCluster("S", tmp_path / "certificates") as cluster:
        yield cluster


def ways_in(cluster: SecuredCluster) -> dict[str, tuple[str, dict[str, str]]]:
    """By name: the bootstrap server, and the keys that its clients need."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for kind in ("PEM", "JKS", "PKCS12"):
        trust, own = _trust(cluster, kind), _own(cluster, kind)
        found[f"tls_{kind.lower()}"] = _at(cluster, "TLS", trust)
        found[f"mtls_{kind.lower()}"] = _at(cluster, "MTLS", {**trust, **own})
    blind = {**_trust(cluster, "PEM"), "ssl.endpoint.identification.algorithm": ""}
    found["tls_by_address"] = (f"127.0.0.1:{cluster.port('TLS')}", {**blind, **_protocol("SSL")})
    for listener in ("SASL", "SASLTLS"):
        trust = _trust(cluster, "PKCS12") if listener == "SASLTLS" else {}
        for name, keys in _logins(cluster).items():
            found[f"{listener.lower()}_{name}"] = _at(cluster, listener, {**trust, **keys})
    return found


def _at(cluster: SecuredCluster, listener: str, keys: dict[str, str]) -> tuple[str, dict[str, str]]:
    protocols = {"TLS": "SSL", "MTLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}
    return f"localhost:{cluster.port(listener)}", {**_protocol(protocols[listener]), **keys}


def _protocol(name: str) -> dict[str, str]:
    return {"security.protocol": name}


def _trust(cluster: SecuredCluster, kind: str) -> dict[str, str]:
    files = cluster.certificates
    if kind == "PEM":
        return {"ssl.truststore.type": kind, "ssl.truststore.location": str(files.ca)}
    return {
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(files.truststore(kind)),
        "ssl.truststore.password": files.password,
    }


def _own(cluster: SecuredCluster, kind: str) -> dict[str, str]:
    files = cluster.certificates
    if kind == "PEM":
        return {"ssl.keystore.type": kind, "ssl.keystore.location": str(files.client)}
    return {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(files.keystore(kind)),
        "ssl.keystore.password": files.password,
        "ssl.key.password": files.password,
    }


def _logins(cluster: SecuredCluster) -> dict[str, dict[str, str]]:
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    name = f'username="{ADMIN}" password="{password}"'
    oauth = f'clientId="{ADMIN}" clientSecret="{password}"'

    def login(mechanism: str, module: str, options: str) -> dict[str, str]:
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{MODULES}.{module} required {options};",
        }

    return {
        "plain": login("PLAIN", "plain.PlainLoginModule", name),
        "scram256": login("SCRAM-SHA-256", "scram.ScramLoginModule", name),
        "scram512": login("SCRAM-SHA-512", "scram.ScramLoginModule", name),
        "oauth": {
            **login("OAUTHBEARER", "oauthbearer.OAuthBearerLoginModule", oauth),
            "sasl.oauthbearer.token.endpoint.url": cluster.tokens.token_url,
            "sasl.login.callback.handler.class": (
                f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
        },
    }


def _property_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in escaped)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_way_into_a_secured_cluster_and_no_secret_in_sight(
    secured: SecuredCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A flow out of the secured cluster through each of its doors, and one into it through some,
    all in one run. Meanwhile its logs, the arguments of its processes, Spark's pages and all files
    it leaves in temporary directories are searched for passwords, keys and tokens."""
    inside = KafkaTools(secured.bootstrap)
    ways = ways_in(secured)
    lines = [
        f"{way}.{key} = {_property_text(v)}"
        for way, (_, keys) in ways.items()
        for key, v in keys.items()
    ]
    mirrors: list[tuple[KafkaTools, str, KafkaTools, str]] = []
    for way in ways:
        topic = f"{prefix}{way}"
        lines += [f"{way}->B.enabled = true", f"{way}->B.topics = {topic}"]
        mirrors.append((inside, topic, target, f"{way}.{topic}"))
    for way in BOTH_WAYS:
        topic = f"{prefix}to-{way}"
        lines += [f"B->{way}.enabled = true", f"B->{way}.topics = {topic}"]
        mirrors.append((target, topic, inside, f"B.{topic}"))
    for tools in (inside, target):
        tools.create_topics([topic for source, topic, _, _ in mirrors if source is tools])
    for source, topic, _, _ in mirrors:
        source.produce(topic, [b"%d" % n for n in range(100)], codec="zstd")
    temporary, ports = tmp_path / "temporary", Ports()
    temporary.mkdir()
    page = ports.take()
    file = mm2_file(
        tmp_path,
        {**{way: server for way, (server, _) in ways.items()}, "B": target_cluster},
        *lines,
        "spark.ui.enabled = true",
        f"spark.ui.port = {page}",
        f"spark.local.dir = {temporary}",
        f"spark.causeway.test.password = {SPARK_SECRET}",
    )

    environment = {
        "TMPDIR": str(temporary),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}",
    }
    with Running("run", file, directory=tmp_path, environment=environment) as run:
        for mirror in mirrors:
            await_copied(*mirror)
        for mirror in mirrors:
            assert_same(*mirror)
        seen = {
            "arguments": "\n".join(map(arguments_of, run.processes())),
            **spark_pages(page),
            **{str(path): data.decode("latin-1") for path, data in files_below(temporary)},
        }
        secrets = {
            PASSWORD_START,
            TOKEN_START,
            SPARK_SECRET,
            secured.certificates.password,
            secured.certificates.client_key.read_text().splitlines()[1],
            run.workers()[0].environ()["CAUSEWAY_CONTROL_SECRET"],
        }
        assert run.stop() == 0
        seen["log"] = run.log
    ports.release()

    assert "java" in seen["arguments"]
    assert "spark.master" in seen["environment page"]
    assert [
        (place, secret) for place, text in seen.items() for secret in secrets if secret in text
    ] == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_renewed_certificates_and_passwords_are_read_again(
    secured: SecuredCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A new authority and a new password: the cluster refuses driver and lanes, out
    of it (SCRAM over TLS) as into it (client certificate). Once the files are new, the same
    run goes on."""
    inside = KafkaTools(secured.bootstrap)
    out_topic, in_topic = f"{prefix}out", f"{prefix}in"
    inside.create_topic(out_topic)
    target.create_topic(in_topic)
    mine, password = tmp_path / "mine", tmp_path / "password"
    mine.mkdir()
    password.write_text(PASSWORD.replace('"', '\\"'))
    for name in ("ca.pem", "client.pem"):
        shutil.copy(secured.certificates.directory / name, mine / name)
    login = f'username="{ADMIN}" password="${{dir:{tmp_path}:password}}";'
    file = mm2_file(
        tmp_path,
        {
            "S": f"localhost:{secured.port('SASLTLS')}",
            "M": f"localhost:{secured.port('MTLS')}",
            "B": target_cluster,
        },
        "S.security.protocol = SASL_SSL",
        "S.sasl.mechanism = SCRAM-SHA-512",
        f"S.sasl.jaas.config = {MODULES}.scram.ScramLoginModule required {login}",
        "M.security.protocol = SSL",
        *(f"{side}.ssl.truststore.type = PEM" for side in "SM"),
        *(f"{side}.ssl.truststore.location = {mine / 'ca.pem'}" for side in "SM"),
        "M.ssl.keystore.type = PEM",
        f"M.ssl.keystore.location = {mine / 'client.pem'}",
        "S->B.enabled = true",
        f"S->B.topics = {out_topic}",
        "B->M.enabled = true",
        f"B->M.topics = {in_topic}",
    )
    mirrors = [(inside, out_topic, target, f"S.{out_topic}")]
    mirrors += [(target, in_topic, inside, f"B.{in_topic}")]
    before, after = ([b"%s-%d" % (when, n) for n in range(100)] for when in (b"before", b"after"))
    for source, topic, _, _ in mirrors:
        source.produce(topic, before)

    with Running("run", file, directory=tmp_path) as run:
        for mirror in mirrors:
            await_copied(*mirror)

        create_certificates(secured.certificates.directory, hostnames=("localhost",))
        secured.set_password(ADMIN, NEW_PASSWORD)
        secured.restart()
        for source, topic, _, _ in mirrors:
            source.produce(topic, after)
        await_until(lambda: refused(run, "S->B"), PATIENCE_S, "the way out is refused")
        await_until(lambda: refused(run, "B->M"), PATIENCE_S, "the way in is refused")

        password.write_text(NEW_PASSWORD)
        for name in ("ca.pem", "client.pem"):
            shutil.copy(secured.certificates.directory / name, mine / name)
        for mirror in mirrors:
            await_copied(*mirror)
        assert run.stop() == 0
    for mirror in mirrors:
        assert_same(*mirror)
    assert "credentials renewed" in run.log
    assert NEW_PASSWORD not in run.log


def refused(run: Running, link: str) -> bool:
    """Whether its log speaks of a certificate or a password that was not taken."""
    lines = [line for line in run.log.splitlines() if f"link={link}" in line]
    return any("not trusted" in line or "refused" in line for line in lines)


def spark_pages(port: int) -> dict[str, str]:
    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    (application,) = json.loads(get("api/v1/applications"))
    return {
        "environment page": get("environment/"),
        "jobs page": get("jobs/"),
        "executors page": get("executors/"),
        "environment in JSON": get(f"api/v1/applications/{application['id']}/environment"),
    }
