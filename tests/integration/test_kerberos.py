"""Kerberos in all clients: a run with its lanes, commands, and `format("causeway")`.

Tickets live for seconds, and the broker wants a new login every few seconds.
"""

from __future__ import annotations

import base64
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.logins.ticket_cache import ticket_of
from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.kdc import Kdc, require_kerberos
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, arguments_of, assert_same, await_copied, mm2_file
from tests.harness.spark_session import spark_session
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

LIFE_S, SESSION_MS = 8, 4_000
RENEWED_LIFE_S = 40  # longer than a run takes to begin


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    require_kerberos()
    with Kdc(tmp_path_factory.mktemp("kdc"), skew_s=2) as kdc:
        kdc.add("kafka/localhost")
        kdc.add("causeway", life_s=LIFE_S)
        kdc.add("renewed", life_s=RENEWED_LIFE_S)
        yield kdc


@pytest.fixture(scope="module")
def kerberized(kdc: Kdc) -> Iterator[LocalCluster]:
    security = Security(
        protocol="SASL_PLAINTEXT",
        mechanisms=("GSSAPI",),
        kdc=kdc,
        acl=True,
        super_users=("causeway", "renewed"),
    )
    properties = {"listener.name.client.gssapi.connections.max.reauth.ms": str(SESSION_MS)}
    with LocalCluster("K", security=security, properties=properties) as cluster:
        yield cluster


def logins(kdc: Kdc, folder: Path) -> dict[str, str]:
    """Java's keys, and files of one's own."""
    (folder / "krb5.conf").write_text(kdc.krb5_conf.read_text())
    keytab = folder / "causeway.keytab"
    keytab.write_bytes(kdc.keytab("causeway", "causeway").read_bytes())
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        f' storeKey=true keyTab="{keytab}" principal="causeway@{kdc.realm}";',
    }


@pytest.mark.slow
def test_a_run_outlives_its_tickets_and_needs_no_file_of_the_driver(
    kdc: Kdc,
    kerberized: LocalCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Out of a cluster with Kerberos and into it. Once both ways work, keytab and krb5.conf are
    deleted. New records arrive after all tickets and sessions of the start have ended, and after a
    restart of the broker."""
    inside = KafkaTools(kerberized.internal_bootstrap)
    out_topic, in_topic = f"{prefix}out", f"{prefix}in"
    inside.create_topic(out_topic, 2)
    target.create_topic(in_topic, 2)
    keys = logins(kdc, tmp_path)
    file = mm2_file(
        tmp_path,
        {"K": kerberized, "B": target_cluster},
        *(f"K.{key} = {value}" for key, value in keys.items()),
        f"causeway.krb5.conf = {tmp_path / 'krb5.conf'}",
        "K->B.enabled = true",
        f"K->B.topics = {out_topic}",
        "B->K.enabled = true",
        f"B->K.topics = {in_topic}",
    )
    mirrors = [(inside, out_topic, target, f"K.{out_topic}")]
    mirrors += [(target, in_topic, inside, f"B.{in_topic}")]

    def send(word: bytes) -> None:
        for source, topic, _, _ in mirrors:
            source.produce(topic, [b"%s-%d" % (word, n) for n in range(50)])

    send(b"first")
    planned = causeway("plan", str(file))
    assert planned.code == 0, planned.err
    assert out_topic in planned.out
    keytab = (tmp_path / "causeway.keytab").read_bytes()
    with Running("run", file, directory=tmp_path) as run:
        for mirror in mirrors:
            await_copied(*mirror)
        (tmp_path / "causeway.keytab").unlink()
        (tmp_path / "krb5.conf").unlink()
        time.sleep(LIFE_S + SESSION_MS / 1000)
        send(b"second")
        for mirror in mirrors:
            await_copied(*mirror)
        kerberized.restart()
        send(b"third")
        for mirror in mirrors:
            await_copied(*mirror)
        seen = run.log + "\n".join(map(arguments_of, run.processes()))
        assert run.stop() == 0
    for mirror in mirrors:
        assert_same(*mirror)
    assert base64.b64encode(keytab).decode()[:40] not in seen


@pytest.mark.slow
def test_a_run_outlives_the_ticket_of_its_ticket_cache(
    kdc: Kdc,
    kerberized: LocalCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The driver renews it, and the lanes get it. Records arrive after the first ticket's life, and
    after the sessions that began with it."""
    inside = KafkaTools(kerberized.internal_bootstrap)
    topic = f"{prefix}renewed"
    inside.create_topic(topic, 2)
    cache = kdc.ticket_cache("renewed", "renewed", "-r", "1h")
    first = ticket_of(cache.read_bytes())
    keys = logins(kdc, tmp_path) | {
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required"
        f' useTicketCache=true ticketCache="{cache}";',
        "sasl.kerberos.kinit.cmd": shutil.which("kinit"),
        "sasl.kerberos.ticket.renew.window.factor": "0.2",
        "sasl.kerberos.min.time.before.relogin": "1000",
    }
    file = mm2_file(
        tmp_path,
        {"K": kerberized, "B": target_cluster},
        *(f"K.{key} = {value}" for key, value in keys.items()),
        f"causeway.krb5.conf = {tmp_path / 'krb5.conf'}",
        "K->B.enabled = true",
        f"K->B.topics = {topic}",
    )
    mirror = inside, topic, target, f"K.{topic}"
    inside.produce(topic, [b"first-%d" % n for n in range(50)])
    with Running("run", file, directory=tmp_path) as run:
        await_copied(*mirror)
        later = first.end + 2 * SESSION_MS / 1000
        await_until(
            lambda: ticket_of(cache.read_bytes()).start > later,
            3 * RENEWED_LIFE_S,
            "the ticket is renewed after the first one has expired",
        )
        inside.produce(topic, [b"second-%d" % n for n in range(50)])
        await_copied(*mirror)
        assert run.stop() == 0
    assert_same(*mirror)
    assert "the ticket of the ticket cache is renewed" in run.log


def test_other_forms_of_files(
    kdc: Kdc, kerberized: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """causeway.yaml, Strimzi's resource, and a login module in the file that KAFKA_OPTS names."""
    topic = f"{prefix}topic"
    KafkaTools(kerberized.internal_bootstrap).create_topic(topic)
    keys = logins(kdc, tmp_path)
    conf = tmp_path / "krb5.conf"
    jaas = keys.pop("sasl.jaas.config")
    where = {"K": kerberized, "B": target_cluster}
    flow = ("K->B.enabled = true", f"K->B.topics = {topic}")
    lines = [f"K.{key} = {value}" for key, value in keys.items()]
    full = mm2_file(
        tmp_path,
        where,
        *lines,
        f"K.sasl.jaas.config = {jaas}",
        f"K.causeway.krb5.conf = {conf}",
        *flow,
    )
    converted = causeway("convert", full)
    assert converted.code == 0, converted.err
    own = tmp_path / "causeway.yaml"
    own.write_text(converted.out)
    resource = tmp_path / "resource.yaml"
    resource.write_text(
        RESOURCE.format(
            source=kerberized.bootstrap,
            target=target_cluster.bootstrap,
            conf=conf,
            jaas=jaas,
            topic=topic,
        )
    )
    static = tmp_path / "jaas.conf"
    static.write_text(f"KafkaClient {{\n  {jaas}\n}};\n")
    opts = f"-Djava.security.auth.login.config={static} -Djava.security.krb5.conf={conf}"
    forms = [(own, ""), (resource, ""), (mm2_file(tmp_path, where, *lines, *flow), opts)]
    for file, given in forms:
        planned = causeway("plan", file, environment={"KAFKA_OPTS": given})
        assert planned.code == 0, planned.err
        assert f"K.{topic}" in planned.out


RESOURCE = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {{name: mirror}}
spec:
  target:
    alias: B
    bootstrapServers: {target}
    groupId: g
    configStorageTopic: c
    offsetStorageTopic: o
    statusStorageTopic: s
    config:
      causeway.krb5.conf: {conf}
  mirrors:
    - source:
        alias: K
        bootstrapServers: {source}
        authentication:
          type: custom
          sasl: true
          config:
            sasl.mechanism: GSSAPI
            sasl.kerberos.service.name: kafka
            sasl.jaas.config: {jaas}
      topicsPattern: {topic}
      sourceConnector:
        config:
          replication.factor: 1
"""


def test_a_command_says_what_is_wrong(
    kdc: Kdc, kerberized: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    keys = logins(kdc, tmp_path)
    wrong = {
        "principal": keys["sasl.jaas.config"].replace("causeway@", "stranger@"),
        "service": keys["sasl.jaas.config"].replace("useKeyTab", "serviceName=kafak useKeyTab"),
    }
    says = {"principal": "no key of stranger@", "service": "kafak/localhost@"}
    for what, jaas in wrong.items():
        mine = {**keys, "sasl.jaas.config": jaas}
        if what == "service":
            del mine["sasl.kerberos.service.name"]
        file = mm2_file(
            tmp_path,
            {"K": kerberized, "B": target_cluster},
            *(f"K.{key} = {value}" for key, value in mine.items()),
            f"causeway.krb5.conf = {tmp_path / 'krb5.conf'}",
            "K->B.enabled = true",
            f"K->B.topics = {prefix}x",
        )
        planned = causeway("plan", str(file))
        assert planned.code == 4, planned.out + planned.err
        assert says[what] in planned.err
        assert "Traceback" not in planned.err


def test_the_source_of_spark(
    kdc: Kdc, kerberized: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    tools = KafkaTools(kerberized.internal_bootstrap)
    topic, written = f"{prefix}read", f"{prefix}written"
    tools.create_topics([topic, written])
    tools.produce(topic, [Outgoing(value=b"%d" % n) for n in range(20)])
    options = {
        "kafka.bootstrap.servers": kerberized.bootstrap,
        **{f"kafka.{key}": value for key, value in logins(kdc, tmp_path).items()},
        "kafka.causeway.krb5.conf": str(tmp_path / "krb5.conf"),
    }
    with spark_session({}) as spark:
        read = spark.read.format("causeway").options(**options, subscribe=topic).load()
        wanted = read.selectExpr("value", f"'{written}' topic")
        wanted.write.format("causeway").mode("append").options(**options).save()
    tools.await_transactions(written)
    found = tools.read(written, read_committed=True)
    assert sum(map(len, found.values())) == 20
