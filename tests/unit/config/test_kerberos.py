"""Kerberos in people's files. `gssapi` is replaced: reading asks no KDC."""

from __future__ import annotations

import base64
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from causeway.config import (
    ClientSettings,
    Entry,
    KerberosSettings,
    Problems,
    TicketRenewal,
    from_wire,
    to_wire,
)
from causeway.config.reading import client_settings
from causeway.extras import install_extra
from causeway.formats import load

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
KEYTAB = b"\x05\x02the keys"


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    monkeypatch.delenv("KAFKA_OPTS", raising=False)


@pytest.fixture
def keytab(tmp_path: Path) -> Path:
    path = tmp_path / "client.keytab"
    path.write_bytes(KEYTAB)
    return path


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "krb5.conf"
    path.write_text("[libdefaults]\n default_realm = EXAMPLE.COM\n")
    return path


def read(jaas: str, **keys: str) -> tuple[ClientSettings | None, list[str]]:
    given = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": f"{MODULE} required {jaas};",
        **{name.replace("_", "."): value for name, value in keys.items()},
    }
    entries = {key: Entry(key=f"A.{key}", value=value, line=7) for key, value in given.items()}
    problems = Problems("x")
    return client_settings("A", entries, problems), problems.lines


def kerberos(jaas: str, **keys: str) -> KerberosSettings:
    settings, problems = read(jaas, **keys)
    assert problems == []
    assert settings is not None
    assert settings.sasl is not None
    assert settings.sasl.mechanism == "GSSAPI"
    assert settings.sasl.kerberos is not None
    # A lane has no file, so it renews nothing.
    sasl = replace(settings.sasl, kerberos=replace(settings.sasl.kerberos, renewal=None))
    assert from_wire(to_wire(settings)) == replace(settings, sasl=sasl)
    return settings.sasl.kerberos


def options(keytab: Path, more: str = "") -> str:
    return f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="ann@EXAMPLE.COM" {more}'


def test_a_keytab_goes_to_lanes_as_its_content(keytab: Path, conf: Path) -> None:
    found = kerberos(
        options(keytab), sasl_kerberos_service_name="kafka", causeway_krb5_conf=str(conf)
    )
    assert base64.b64decode(found.keytab.reveal()) == KEYTAB
    assert found.ticket_cache.reveal() == ""
    assert (found.service, found.principal) == ("kafka", "ann@EXAMPLE.COM")
    assert found.krb5_conf == conf.read_text().strip()
    assert found.keytab.reveal() not in repr(found)


@pytest.mark.parametrize("start", ["file:", "FILE:", "file://"])
def test_a_keytab_as_an_address(keytab: Path, conf: Path, start: str) -> None:
    jaas = f'useKeyTab=true keyTab="{start}{keytab}" principal="ann" serviceName="kafka"'
    found = kerberos(jaas, causeway_krb5_conf=str(conf))
    assert base64.b64decode(found.keytab.reveal()) == KEYTAB
    assert found.principal == "ann"


def test_a_ticket_cache(tmp_path: Path, conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(b"tickets")
    for jaas in (f'useTicketCache=true ticketCache="{cache}"', "useTicketCache=true renewTGT=true"):
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
        found = kerberos(f"{jaas} serviceName=kafka", causeway_krb5_conf=str(conf))
        assert base64.b64decode(found.ticket_cache.reveal()) == b"tickets"
        assert found.principal is None
        assert found.renewal == TicketRenewal(path=str(cache))


def test_the_renewal_of_a_ticket_cache(tmp_path: Path, conf: Path, keytab: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(b"tickets")
    keys = {
        "sasl_kerberos_kinit_cmd": "/opt/kinit",
        "sasl_kerberos_ticket_renew_window_factor": "0.50",
        "sasl_kerberos_ticket_renew_jitter": "0",
        "sasl_kerberos_min_time_before_relogin": "1000",
        "causeway_krb5_conf": str(conf),
    }
    jaas = f'useTicketCache=true ticketCache="{cache}" serviceName=kafka'
    assert kerberos(jaas, **keys).renewal == TicketRenewal(
        path=str(cache), command="/opt/kinit", window=0.5, jitter=0, least_ms=1000
    )
    assert kerberos(options(keytab, "serviceName=kafka"), **keys).renewal is None
    for wrong in ("1.5", "-0.1", "much", "nan"):
        _, problems = read(jaas, **keys | {"sasl_kerberos_ticket_renew_jitter": wrong})
        (problem,) = problems
        assert problem.endswith(f"jitter (line 7): must be a number from 0 to 1, not {wrong}")


def test_kafkas_scripts_name_the_configuration(
    keytab: Path, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("causeway.config.reading.kerberos._KRB5_CONFIG", None)
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g '-Djava.security.krb5.conf={conf}'")
    found = kerberos(options(keytab), sasl_kerberos_service_name="kafka")
    assert "EXAMPLE.COM" in found.krb5_conf
    monkeypatch.setattr("causeway.config.reading.kerberos._KRB5_CONFIG", f"{conf}:{conf}")
    found = kerberos(options(keytab), sasl_kerberos_service_name="kafka")
    assert found.krb5_conf.count("EXAMPLE.COM") == 2


JAAS_FILE = """\
// The brokers' own
KafkaServer {{
    org.example.Other required a="}} KafkaClient {{";
}};
KafkaClient {{ /* ours */
    com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true
    keyTab="{keytab}"
    serviceName="kafka"
    principal="ann@EXAMPLE.COM";
}};
"""


def without_module(**keys: str) -> tuple[ClientSettings | None, list[str]]:
    return read("", sasl_jaas_config="", **keys)


@pytest.mark.parametrize("start", ["", "=", "file:", "file://"])
def test_the_login_module_in_a_file_of_java(
    keytab: Path, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(JAAS_FILE.format(keytab=keytab))
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={start}{file}")
    settings, problems = without_module(causeway_krb5_conf=str(conf))
    assert problems == []
    assert settings is not None
    assert settings.sasl is not None
    assert settings.sasl.kerberos is not None
    assert settings.sasl.kerberos.principal == "ann@EXAMPLE.COM"
    # The key of the file wins.
    found = kerberos(options(keytab, "serviceName=other"), causeway_krb5_conf=str(conf))
    assert found.service == "other"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KafkaServer { a.B required; };", "it has no section KafkaClient"),
        ("KafkaClient {", "it has no section KafkaClient"),
        ("KafkaClient { a.B required hunter2; };", "option number 1 is not written"),
        (None, "there is no such file"),
    ],
)
def test_files_of_java_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    file = tmp_path / "jaas.conf"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    settings, problems = without_module()
    assert settings is None
    assert any(message in line for line in problems), problems
    assert "hunter2" not in "".join(problems)


def test_included_files_come_along(keytab: Path, tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "east").write_text("[realms]\n EAST = {\n  kdc = e\n }\n")
    (folder / "west.conf").write_text("[realms]\n WEST = {\n  kdc = w\n }\n")
    (folder / "old.rpmsave").write_text("[realms]\n OLD = {\n }\n")
    (folder / ".west.conf").write_text("[realms]\n HIDDEN = {\n }\n")
    (tmp_path / "more").write_text("[domain_realm]\n .east = EAST\n")
    conf = tmp_path / "krb5.conf"
    conf.write_text(
        f"include {tmp_path / 'more'}\n[libdefaults]\nincludedir {folder}/\n default_realm = EAST\n"
    )
    text = kerberos(options(keytab, "serviceName=kafka"), causeway_krb5_conf=str(conf)).krb5_conf
    assert "include" not in text
    assert "OLD" not in text
    assert "HIDDEN" not in text
    assert [line for line in text.splitlines() if line][:2] == ["[domain_realm]", " .east = EAST"]
    assert text.endswith("[libdefaults]\n default_realm = EAST")


def test_files_that_include_one_another(keytab: Path, tmp_path: Path) -> None:
    conf = tmp_path / "krb5.conf"
    conf.write_text(f"include {conf}\n")
    _, problems = read(options(keytab, "serviceName=kafka"), causeway_krb5_conf=str(conf))
    assert problems == [
        f"A.causeway.krb5.conf (line 7): read {conf}: too many files include one another"
    ]


@pytest.mark.parametrize(
    ("jaas", "keys", "message"),
    [
        ("", {}, "needs useKeyTab=true or useTicketCache=true"),
        ("useKeyTab=true", {}, "useKeyTab needs keyTab and principal in the login module"),
        ("useKeyTab=true keyTab=/k", {}, "useKeyTab needs principal"),
        ("useKeyTab=true keyTab=/no/k principal=x", {}, "its keyTab cannot be read: there is no"),
        ("useTicketCache=true ticketCache=/no/c", {}, r"ticket cache \(run kinit\) cannot be read"),
        ("useTicketCache=true useSmartCard=true", {}, "not supported: useSmartCard"),
        ("useTicketCache=true", {"sasl_kerberos_service_name": ""}, "the brokers' principals"),
        ("useTicketCache=true serviceName=a", {}, "in the login module says another name"),
        ("useTicketCache=true", {"causeway_krb5_conf": "/no/conf"}, "read /no/conf: there is no"),
    ],
)
def test_what_is_refused(jaas: str, keys: dict[str, str], message: str, conf: Path) -> None:
    given = {"sasl_kerberos_service_name": "kafka", "causeway_krb5_conf": str(conf), **keys}
    settings, problems = read(jaas, **given)
    assert settings is None
    assert any(re.search(message, line) for line in problems), problems


def test_without_the_extra(keytab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    settings, (problem,) = read(options(keytab, "serviceName=kafka"))
    assert settings is None
    assert install_extra("kerberos") in problem
    assert "\n" not in problem


@pytest.mark.parametrize("name", ["client.keytab", "krb5.conf"])
def test_a_changed_file_is_read_again(keytab: Path, conf: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"""\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A.security.protocol = SASL_PLAINTEXT
A.sasl.kerberos.service.name = kafka
A.sasl.jaas.config = {MODULE} required {options(keytab)};
causeway.krb5.conf = {conf}
""")
    before = load(file)
    assert before.rereading is not None
    assert not before.rereading.stale
    (tmp_path / name).write_bytes(b"[libdefaults]\n# another content\n")
    assert before.rereading.stale
    (link,), (old,) = before.rereading.read().links, before.links
    assert link.source.sasl != old.source.sasl


def test_in_causeway_yaml(keytab: Path, conf: Path, tmp_path: Path) -> None:
    file = tmp_path / "causeway.yaml"
    file.write_text(f"""\
clusters:
  A:
    bootstrap: a:1
    security:
      protocol: SASL_PLAINTEXT
      sasl:
        mechanism: GSSAPI
        jaas-config: {MODULE} required useKeyTab=true keyTab="{keytab}" principal="ann";
        kerberos:
          service-name: kafka
          krb5-conf: {conf}
  B:
    bootstrap: b:1
links:
  - from: A
    to: B
    topics: [orders]
""")
    (link,) = load(file).links
    assert link.source.sasl is not None
    found = link.source.sasl.kerberos
    assert found is not None
    assert (found.service, found.principal) == ("kafka", "ann")
    assert "EXAMPLE.COM" in found.krb5_conf


def test_in_a_resource_of_strimzi(keytab: Path, conf: Path, tmp_path: Path) -> None:
    """Kerberos is `custom` there; a Secret is mounted as a file, which the login module names."""
    file = tmp_path / "mirror.yaml"
    file.write_text(f"""\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {{name: mirror}}
spec:
  target:
    alias: B
    bootstrapServers: b:1
    groupId: g
    configStorageTopic: c
    offsetStorageTopic: o
    statusStorageTopic: s
    config:
      causeway.krb5.conf: {conf}
  mirrors:
    - source:
        alias: A
        bootstrapServers: a:1
        authentication:
          type: custom
          sasl: true
          config:
            sasl.mechanism: GSSAPI
            sasl.kerberos.service.name: kafka
            sasl.jaas.config: {MODULE} required useKeyTab=true keyTab="{keytab}" principal="ann";
      topicsPattern: orders
      sourceConnector: {{}}
""")
    (link,) = load(file).links
    assert link.source.sasl is not None
    found = link.source.sasl.kerberos
    assert found is not None
    assert "EXAMPLE.COM" in found.krb5_conf
