"""The command itself, without a sub-command."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from causeway.cli.main import main


@pytest.mark.parametrize("asked", ["--version", "version"])
def test_its_version(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([asked])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"causeway {version('causeway')}\n"


def test_a_run_ends_in_one_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a\nB.bootstrap.servers = b\n")
    with pytest.raises(SystemExit) as ended:
        main(["run", str(file), "--until-caught-up", "--finish-in-flight"])

    assert ended.value.code == 2
    assert "give one of them" in capsys.readouterr().err


def test_start_up_imports_no_heavy_package() -> None:
    """A shell's completion imports this module for each keystroke."""
    code = "import sys, causeway.cli.main; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(shown.stdout.split())

    heavy = {"rich.table", "pyspark", "pyarrow", "aiohttp", "causeway.config", "causeway.http"}
    assert not heavy & loaded
