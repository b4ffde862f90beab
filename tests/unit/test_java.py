"""Which Java is taken, and what is said when none will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.errors import PrerequisiteError
from causeway.java import find_java, java_identity, java_version


def _java_home(folder: Path, says: str) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    binary.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("says", "feature"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "21" 2023-09-19', 21),
    ],
)
def test_the_version_is_read_from_what_java_prints(tmp_path: Path, says: str, feature: int) -> None:
    assert java_version(_java_home(tmp_path, says) / "bin" / "java") == feature


def test_the_version_is_read_from_the_release_file(tmp_path: Path) -> None:
    home = _java_home(tmp_path, "this Java was started")
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')

    assert java_version(home / "bin" / "java") == 17


def test_a_java_that_does_not_say_its_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java_home(tmp_path, "hello")))

    with pytest.raises(PrerequisiteError, match="does not say its version"):
        find_java()


def test_java_home_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_home(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_java() == home / "bin" / "java"


def test_builds_of_java_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identities = set()
    for build in ("21.0.1", "21.0.2"):
        home = _java_home(tmp_path / build, f'openjdk version "{build}"')
        monkeypatch.setenv("JAVA_HOME", str(home))
        identities.add(java_identity())

    assert len(identities) == 2


def test_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_home(tmp_path, 'java version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(home))

    too_old = r"version 11\.0\.2, older than 17 \(install Java 17"
    with pytest.raises(PrerequisiteError, match=too_old):
        find_java()


def test_unusable_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PrerequisiteError, match=r"is not a program \(from JAVA_HOME\)"):
        find_java()


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PrerequisiteError, match="find Java: it is not on the PATH"):
        find_java()


def test_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_home(tmp_path, 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(home))

    with pytest.raises(PrerequisiteError, match="there is no keytool next to"):
        find_java("keytool")
