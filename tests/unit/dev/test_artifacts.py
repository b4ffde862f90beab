"""Fetching, with a stand-in for Java that plays Ivy."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from causeway.dev import DEFAULT_VERSION, TESTED, artifacts, broker_classpath, kafka_version
from causeway.errors import PrerequisiteError
from tests.harness.kafka.jars import _CONNECT, connect_classpath

# $runs gets a line a run. The last word but none is -retrieve's pattern, whose folder Ivy fills.
_JAVA = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.15"' >&2; exit; fi
echo run >> {runs}
for pattern; do :; done
{ivy}
"""
_FILLS = """\
mkdir -p "$(dirname "$pattern")"
echo '	found org.apache.kafka#kafka-clients;4.3.0 in public'
echo '.... (1024kB)'
echo '	[SUCCESSFUL ] org.apache.kafka#kafka-clients;4.3.0!kafka-clients.jar (9ms)'
touch "$(dirname "$pattern")/kafka-clients-4.3.0.jar"
"""
_FAILS = """\
echo '		:: problems summary ::'
echo '	SERVER ERROR: Bad Gateway url=https://repository.invalid/some/kafka-clients-4.3.0.pom'
exit 1
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAUSEWAY_KAFKA_VERSION", raising=False)
    monkeypatch.setattr(artifacts, "_PINS", tmp_path / "pins")
    monkeypatch.setattr(artifacts, "_PAUSES_S", (0, 0, 0))
    (tmp_path / "pins").write_text("# none\n")
    return tmp_path / "cache" / "causeway" / "kafka" / "4.3.0"


def _play(ivy: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = runs.parent / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(_JAVA.format(runs=runs, ivy=ivy))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))


def test_fetches_once_each(cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _play(_FILLS, runs, monkeypatch)

    assert broker_classpath() == f"{cache}/lib/*"
    assert broker_classpath() == f"{cache}/lib/*"
    assert connect_classpath() == f"{cache}/connect-lib/*"

    assert (cache / "lib" / "kafka-clients-4.3.0.jar").exists()
    assert runs.read_text().count("run") == 2


def test_another_version(cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _play(_FILLS, runs, monkeypatch)
    monkeypatch.setenv("CAUSEWAY_KAFKA_VERSION", "4.1.0")

    assert broker_classpath() == f"{cache.with_name('4.1.0')}/lib/*"


def test_two_at_once_fetch_once(cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _play("sleep 0.3\n" + _FILLS, runs, monkeypatch)

    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(broker_classpath) for _ in range(2))

    assert first.result() == second.result()
    assert runs.read_text() == "run\n"


def test_hiccup(cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_once = f"if [ $(wc -l < {runs}) = 1 ]; then\n{_FAILS}fi\n{_FILLS}"
    _play(fails_once, runs, monkeypatch)

    assert broker_classpath() == f"{cache}/lib/*"
    assert runs.read_text() == "run\nrun\n"


def test_failure(cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _play(_FAILS, runs, monkeypatch)

    with pytest.raises(PrerequisiteError) as failure:
        broker_classpath()

    text = str(failure.value)
    assert text.startswith("fetch Apache Kafka 4.3.0: SERVER ERROR: Bad Gateway url=kafka-clients")
    assert "CAUSEWAY_IVY_SETTINGS" in text
    assert "repository.invalid" not in text
    assert not list(cache.iterdir())


def test_a_version_that_is_not_there(
    cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for once, not again and again, and the tested ones are named."""
    _play(
        "echo '\t\tmodule not found: org.apache.kafka#kafka_2.13;3.9.77'\nexit 1",
        runs,
        monkeypatch,
    )
    with pytest.raises(PrerequisiteError, match=r"no such version.*2\.8, 3\.3"):
        broker_classpath(kafka_version("3.9.77"))
    assert runs.read_text() == "run\n"


def test_a_version_may_be_there_where_the_registry_did_not_answer(
    cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "echo '\t\tmodule not found: org.apache.kafka#kafka_2.13;4.3.0'\n"
    _play(missing + "echo 'Host repository.invalid not found.'\nexit 1", runs, monkeypatch)
    with pytest.raises(PrerequisiteError, match="CAUSEWAY_IVY_SETTINGS"):
        broker_classpath()
    assert runs.read_text() == "run\n" * 4


def test_old_brokers_get_what_they_log_with(
    cache: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = f"while [ $# -gt 1 ]; do [ $1 = -ivy ] && cp $2 {tmp_path}/recipe; shift; done\n"
    _play(keep + _FILLS, runs, monkeypatch)
    for version, logging in (("3.9", "slf4j-reload4j"), ("4.0", "log4j-slf4j-impl")):
        broker_classpath(kafka_version(version))
        recipe = (tmp_path / "recipe").read_text()
        assert [name for name in ("slf4j-reload4j", "log4j-slf4j-impl") if name in recipe] == [
            logging
        ]


EMPTY = hashlib.sha512(b"").hexdigest()
ROOT = "0" * 128 + "  kafka_2.13-4.3.0.jar\n"


def test_a_jar_of_a_tested_version_is_what_was_tested(
    cache: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _play(_FILLS, runs, monkeypatch)
    for pins in (ROOT, f"{ROOT}{'1' * 128}  kafka-clients-4.3.0.jar\n"):
        (tmp_path / "pins").write_text(pins)
        with pytest.raises(PrerequisiteError, match=r"kafka-clients-4.3.0.jar is not the tested"):
            broker_classpath()
        assert not (cache / "lib").exists()
    (tmp_path / "pins").write_text(f"{ROOT}{EMPTY}  kafka-clients-4.3.0.jar\n")
    assert broker_classpath() == f"{cache}/lib/*"


def test_a_version_that_is_not_pinned_is_reported(
    cache: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _play(_FILLS, runs, monkeypatch)
    broker_classpath()
    assert "Apache Kafka 4.3.0 is not pinned by hash" in capsys.readouterr().err


def test_what_dev_up_fetches_is_pinned() -> None:
    pinned = Path(artifacts.__file__).with_name("jars.sha512").read_text()
    assert f"  {_CONNECT.roots[0]}-{DEFAULT_VERSION}.jar\n" in pinned
    for version in TESTED.values():
        assert f"  {artifacts._BROKER.roots[0]}-{version}.jar\n" in pinned
