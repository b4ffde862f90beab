"""What `causeway diff` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.cli.main import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
        "A->B.enabled = true\ntasks.max = 3\n"
    )
    return file


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_table(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "diff", file)
    assert ": A->B; 5 keys, of which 4 act as in MirrorMaker 2" in shown
    lines = shown.splitlines()
    (tasks,) = (line.split() for line in lines if line.startswith("tasks.max"))
    assert tasks[:4] == ["tasks.max", "5", "without", "meaning"]
    assert not [line for line in lines if line.startswith("A.bootstrap")]
    assert [line for line in lines if line.startswith("delivery") and "exactly once" in line]
    assert "A.bootstrap.servers" in said(capsys, "diff", file, "--all")
    assert "docs/reference/brokers.md" in lines[-1], "no cluster is asked here"


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "diff", file, "--json"))
    assert found["flows"] == ["A->B"]
    assert found["brokers"] == "docs/reference/brokers.md"
    assert [key["use"] for key in found["keys"]] == ["acts"] * 4 + ["without meaning"]
    assert {"what", "flows", "mirror_maker_2", "causeway", "key"} == found["differences"][0].keys()


def test_kept_offsets_are_a_difference(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def differences() -> list[str]:
        found = json.loads(said(capsys, "diff", file, "--json"))["differences"]
        return [one["what"] for one in found if one["what"].startswith("offsets of the records")]

    assert differences() == []
    text = file.read_text()
    file.write_text(text + "A->B.causeway.offsets.preserve.topics = pay.*\n")
    assert differences() == ["offsets of the records of pay.*"]
    file.write_text(text + "A->B.causeway.offsets = preserve\n")
    assert differences() == ["offsets of the records of each topic"]
