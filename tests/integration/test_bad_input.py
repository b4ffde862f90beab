"""Whatever is wrong with what a person gives: one clear line, the documented exit code, no
traceback, and no secret."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from causeway.cli.main import main
from causeway.dev import Ports
from tests.harness.command import Ended, causeway

SECRET = "hunter2-is-secret"


def refused(ended: Ended, code: int, *says: str) -> str:
    """The one line on stderr, with all of `says` in it."""
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err + ended.out
    assert SECRET not in ended.err + ended.out
    lines = [line for line in ended.err.splitlines() if ": warning: " not in line]
    assert len(lines) == 1, ended.err
    assert lines[0].startswith("causeway: error: ")
    for part in says:
        assert part in lines[0]
    return lines[0]


Command = Callable[..., Ended]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Command:
    """The command inside this process, for the many cases that never get as far as a broker."""

    def run(*arguments: str | Path) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code=int(ended.value.code or 0), out=said.out, err=said.err)

    return run


def properties(directory: Path, *lines: str) -> Path:
    """A file of one flow, A->B, to nowhere; `lines` come after and win."""
    path = directory / "mm2.properties"
    base = (
        "clusters = A, B",
        "A.bootstrap.servers = 127.0.0.1:1",
        "B.bootstrap.servers = 127.0.0.1:1",
        "A->B.enabled = true",
        "causeway.http.port = -1",  # else a run says where it serves
    )
    path.write_text("\n".join([*base, *lines]) + "\n")
    return path


def test_no_file_at_all() -> None:
    refused(causeway("plan"), 2, "FILE")


@pytest.mark.parametrize("command", ["run", "plan", "status"])
def test_a_file_that_is_not_there(command: str, tmp_path: Path) -> None:
    refused(causeway(command, tmp_path / "none.properties"), 2, "none.properties")


def test_a_directory(here: Command, tmp_path: Path) -> None:
    refused(here("plan", tmp_path), 2, str(tmp_path))


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
def test_an_empty_file(here: Command, text: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.properties"
    path.write_text(text)

    refused(here("plan", path), 2, "empty.properties")


def test_no_clusters(here: Command, tmp_path: Path) -> None:
    path = tmp_path / "flows.properties"
    path.write_text("A->B.enabled = true\n")

    refused(here("plan", path), 2, "clusters")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("A->C.enabled = true", "C"),
        ("A->B.topics = orders(", "orders("),
        ("A->B.topics = [a-", "[a-"),
        ("replication.factor = many", "replication.factor"),
        ("A->B.enabled = perhaps", "enabled"),
        ("refresh.topics.interval.seconds = soon", "refresh.topics.interval.seconds"),
        ("A.bootstrap.servers = ", "bootstrap.servers"),
        ("A.bootstrap.servers = nowhere", "nowhere"),
        ("A.security.protocol = MAGIC", "MAGIC"),
        (
            "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = GSSAPI\n"
            "A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule "
            f'required username="u" password="{SECRET}";',
            "GSSAPI",
        ),
        (
            "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
            f'A.sasl.jaas.config = nonsense password="{SECRET}',
            "sasl.jaas.config",
        ),
        (
            "A.security.protocol = SSL\nA.ssl.truststore.location = /nonexistent/trust.jks\n"
            f"A.ssl.truststore.password = {SECRET}",
            "/nonexistent/trust.jks",
        ),
        (
            "B->A.enabled = true\nreplication.policy.class = "
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "B->A",
        ),
        ("replication.policy.class = com.example.Mine", "com.example.Mine"),
        ("causeway.delivery = at-most-once", "causeway.delivery"),
    ],
)
def test_values_that_cannot_be_used(here: Command, line: str, says: str, tmp_path: Path) -> None:
    refused(here("plan", properties(tmp_path, line)), 2, says)


def test_several_faults_are_told_in_one_line(here: Command, tmp_path: Path) -> None:
    path = properties(tmp_path, "replication.factor = many", "A->B.topics = orders(")

    refused(here("plan", path), 2, "replication.factor", "orders(")


@pytest.mark.parametrize("command", ["plan", "status", "run"])
def test_servers_that_nobody_serves_are_given_up_after_a_stated_time(
    command: str, tmp_path: Path
) -> None:
    ports = Ports()
    nobody = f"127.0.0.1:{ports.take()}"
    path = properties(
        tmp_path,
        f"A.bootstrap.servers = {nobody}",
        f"B.bootstrap.servers = {nobody}",
        *(
            f"{alias}.{client}.request.timeout.ms = 2000"
            for alias in ("A", "B")
            for client in ("admin", "consumer", "producer")
        ),
    )
    begun = time.monotonic()

    ended = causeway(command, path)

    assert time.monotonic() - begun < 120
    refused(ended, 3, nobody, "in 2 s")
    ports.release()


@pytest.mark.parametrize("text", ["yesterday", "1960-01-01"])
def test_a_start_time_that_is_none(here: Command, text: str, tmp_path: Path) -> None:
    refused(here("run", properties(tmp_path), "--from", text), 2, "--from")


def test_options_nobody_knows(here: Command) -> None:
    refused(here("plan", "--colour", "x"), 2, "--colour")
    refused(here("fly"), 2, "fly")


def fake_java(directory: Path, version: str) -> dict[str, str]:
    """An environment whose java says it has `version`."""
    home = directory / "java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return {"JAVA_HOME": str(home)}


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_java_that_is_too_old(version: str, tmp_path: Path) -> None:
    ended = causeway("run", properties(tmp_path), environment=fake_java(tmp_path, version))

    refused(ended, 6, version, "17")


def test_no_java(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    environment = {"JAVA_HOME": "", "PATH": str(tmp_path / "bin")}

    refused(causeway("run", properties(tmp_path), environment=environment), 6, "Java")


def test_mirror_maker_1_options_without_an_equivalent(here: Command, tmp_path: Path) -> None:
    path = properties(tmp_path)
    base = ("--consumer.config", path, "--producer.config", path, "--whitelist", ".*")

    refused(here("mirror-maker", *base, "--message.handler", "a.B"), 2, "--message.handler")
    refused(here("mirror-maker", *base, "--num.streams", "x"), 2, "num.streams")
    refused(here("mirror-maker", "--whitelist", ".*"), 2, "--consumer.config")


def test_mirror_maker_1_files_that_are_not_there(here: Command, tmp_path: Path) -> None:
    none = tmp_path / "none.properties"
    ended = here(
        "mirror-maker", "--consumer.config", none, "--producer.config", none, "--include", ".*"
    )

    refused(ended, 2, "none.properties")
