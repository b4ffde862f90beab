"""Which Java is taken, and what is said when none will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.dev.java import find_java, java_identity, kafka_jvm_options, parse_java_version
from causeway.errors import PrerequisiteError


def _java_home(folder: Path, says: str) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    binary.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("says", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "21" 2023-09-19', 21),
        ("command not understood", None),
    ],
)
def test_version(says: str, major: int | None) -> None:
    assert parse_java_version(says) == major


def test_java_home_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_home(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_java() == home / "bin" / "java"


def test_builds_of_java_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identities = set()
    for build in ("21.0.1", "21.0.2"):
        home = _java_home(tmp_path / build, f'openjdk version "{build}"')
        monkeypatch.setenv("JAVA_HOME", str(home))
        identities.add(java_identity())

    assert len(identities) == 2


def test_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_home(tmp_path, 'java version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(home))

    with pytest.raises(PrerequisiteError, match=r"version 11, older than 17 \(install Java 17"):
        find_java()


def test_unusable_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PrerequisiteError, match=r"No such file or directory \(from JAVA_HOME\)"):
        find_java()


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PrerequisiteError, match="find Java: it is not on the PATH"):
        find_java()


def test_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_home(tmp_path, 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(home))

    with pytest.raises(PrerequisiteError, match="there is no keytool beside"):
        find_java("keytool")


def test_options_of_kafka_s_scripts_stand_in_for_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HEAP_OPTS", raising=False)
    monkeypatch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", "-XX:+UseG1GC '-Dname=two words'")

    options = kafka_jvm_options("-Xms1m -Xmx2m", "-XX:+UseSerialGC")

    assert options == ["-Xms1m", "-Xmx2m", "-XX:+UseG1GC", "-Dname=two words"]
