"""`causeway convert`: where the text goes, and whom it may not harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.cli.main import main

PROPERTIES = """# Ours.
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
YAML = """# Ours.
clusters:
  A:
    bootstrap: ['a:1']
  B:
    bootstrap: ['b:1']

links:
  - from: A
    to: B
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mm2.properties").write_text(PROPERTIES)
    return Path("mm2.properties")


def convert(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["convert", *arguments])
    return int(ended.value.code or 0)


def test_it_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(str(file)) == 0
    assert capsys.readouterr() == (YAML, "")


def test_there_and_back(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(str(file), "-o", "causeway.yaml") == 0
    assert convert("causeway.yaml", "-o", "back.properties") == 0

    assert Path("causeway.yaml").read_text() == YAML
    assert [line for line in Path("back.properties").read_text().splitlines() if line] == (
        PROPERTIES.splitlines()
    )
    assert capsys.readouterr() == ("", "")


def test_nothing_is_written_over_unless_asked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("causeway.yaml").write_text("mine")

    assert convert(str(file), "-o", "causeway.yaml") == 2
    assert Path("causeway.yaml").read_text() == "mine"
    assert "causeway.yaml: the file exists (--force overwrites it)" in capsys.readouterr().err
    assert convert(str(file), "-o", "causeway.yaml", "--force") == 0
    assert Path("causeway.yaml").read_text() == YAML


def test_who_may_not_read_the_one_may_not_read_the_other(file: Path) -> None:
    file.chmod(0o600)
    Path("there.yaml").touch(0o644)

    convert(str(file), "-o", "causeway.yaml")
    convert(str(file), "-o", "there.yaml", "--force")

    assert Path("causeway.yaml").stat().st_mode & 0o777 == 0o600
    assert Path("there.yaml").stat().st_mode & 0o777 == 0o600


def test_a_name_that_would_be_read_as_the_other_form_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(str(file), "-o", "causeway.conf") == 2
    assert "it becomes a causeway.yaml, but the name causeway.conf is for another format" in (
        capsys.readouterr().err
    )


def test_what_has_no_place_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(PROPERTIES + "no.such.key = 1\n")

    assert convert(str(file)) == 0
    out, err = capsys.readouterr()
    assert out.endswith("\nproperties:\n  no.such.key: 1\n")
    assert err == ("causeway: warning: kept unchanged under properties: no.such.key\n")


def test_files_that_would_be_looked_for_elsewhere_are_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "A->B.causeway.transforms = x\nA->B.causeway.transform.x.sql.file = x.sql\n"
    file.write_text(PROPERTIES + more)
    Path("else").mkdir()

    assert convert(str(file), "-o", "else/causeway.yaml") == 0
    assert "A->B.causeway.transform.x.sql.file" in capsys.readouterr().err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("--schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "causeway.yaml"


def test_it_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert convert() == 2
    assert "FILE is missing" in capsys.readouterr().err


def test_an_unknown_form_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("helm", "strimzi"):
        assert convert(str(file), "--to", form) == 2
        assert "must be one of properties, causeway" in capsys.readouterr().err
