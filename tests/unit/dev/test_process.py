"""Processes that end with us, that outlive us, and that are found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from causeway.dev import Process, spawn
from causeway.dev.process import started_at
from tests.harness.waiting import await_until

_OWNER = """\
import sys, time
from pathlib import Path
from causeway.dev import spawn
folder = Path(sys.argv[1])
child = spawn(["sleep", "60"], output=folder / "output", detached=sys.argv[2] == "detached")
child.write(folder / "pid")
time.sleep(60)
"""


def test_output_and_exit_code(tmp_path: Path) -> None:
    process = spawn(["sh", "-c", "echo out; echo err >&2; exit 3"], output=tmp_path / "output")

    assert process.wait(60)
    assert process.exit_code == 3
    assert (tmp_path / "output").read_text() == "out\nerr\n"


def test_stop_ends_what_sigstop_holds(tmp_path: Path) -> None:
    process = spawn(["sleep", "60"], output=tmp_path / "output")
    process.send(signal.SIGSTOP)

    process.stop(10)

    assert process.exit_code == -signal.SIGTERM


def test_stop_kills_what_will_not_end(tmp_path: Path) -> None:
    deaf = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    process = spawn(["sh", "-c", deaf], output=tmp_path / "output")
    await_until(lambda: (tmp_path / "output").read_text())

    process.stop(0.1)

    assert process.exit_code == -signal.SIGKILL


def test_found_again_by_file(tmp_path: Path) -> None:
    process = spawn(["sleep", "60"], output=tmp_path / "output")
    process.write(tmp_path / "pid")

    found = Process.read(tmp_path / "pid")

    assert found is not None
    assert found.alive()
    found.kill()
    assert not process.alive()
    assert Process.read(tmp_path / "none") is None


def test_a_later_process_with_the_same_id_is_another() -> None:
    assert Process(os.getpid(), started_at(os.getpid()) or "").alive()
    assert not Process(os.getpid(), "1").alive()


@pytest.mark.parametrize("kind", ["attached", "detached"])
def test_a_killed_owner_takes_its_processes_along(tmp_path: Path, kind: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(tmp_path), kind])
    child = await_until(lambda: Process.read(tmp_path / "pid"))
    assert child is not None
    owner.kill()
    owner.wait()

    if kind == "attached":
        assert child.wait(60)
    else:
        assert not child.wait(0.5)
        child.kill()


def test_who_has_ended_is_forgotten(tmp_path: Path) -> None:
    process = spawn(["true"], output=tmp_path / "output")
    guard = process._guard
    assert guard is not None

    assert process.wait(60)

    assert guard.returncode == 0
