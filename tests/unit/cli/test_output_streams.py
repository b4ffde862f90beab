"""Every command's help and output fit every terminal, and a reader may go early."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from causeway.cli.main import app
from tests.harness.command import causeway, command_environment

FILE = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


def commands() -> list[str]:
    return sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_help_fits_a_terminal_without_unicode(encoding: str) -> None:
    """All of it in one process: to start one for each command takes a minute."""
    lines = ["import sys", "from causeway.cli.main import main"]
    for command in ["", *commands()]:
        arguments = [*filter(None, [command]), "--help"]
        lines += ["try:", f"    main({arguments!r})", "except SystemExit as e:"]
        lines += [f"    assert not e.code, ({command!r}, e.code)"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**command_environment(), "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(encoding)
    said = done.stdout.decode(encoding)
    assert "Exit codes" in said
    assert encoding == "latin-1" or "done - 1 internal error" in " ".join(said.split())


def test_json_is_whole_in_a_terminal_without_unicode(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE + "A->B.topics = z\\u00fcrich\n")
    done = causeway("diff", "--json", file, environment={"PYTHONIOENCODING": "ascii"})
    assert done.code == 0, done.err
    assert json.loads(done.out)
    assert done.out.isascii()


@pytest.mark.parametrize("arguments", [("--help",), ("diff", "FILE"), ("diff", "--json", "FILE")])
@pytest.mark.parametrize("both", [False, True])
def test_a_closed_output_ends_as_by_a_broken_pipe(
    arguments: tuple[str, ...], both: bool, tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    reader, writer = os.pipe()
    os.close(reader)
    words = [str(file) if word == "FILE" else word for word in arguments]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "causeway", *words],
            env=command_environment(),
            stdout=writer,
            stderr=writer if both else subprocess.PIPE,
            timeout=240,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 141
    assert not done.stderr
