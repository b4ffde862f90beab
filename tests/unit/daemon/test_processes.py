"""Processes told apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from causeway.daemon import processes


def test_a_process_that_ended_is_known_to_have() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    start = processes.started_at(child.pid)
    assert start
    name = f"{processes.here()}/{child.pid}/{start}"
    assert not processes.has_ended(name)
    assert processes.has_ended(f"{processes.here()}/{child.pid}/1")  # its number was reused
    processes.kill(child.pid, "1")
    assert child.poll() is None
    processes.kill(child.pid, start)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.started_at(child.pid) is None  # a zombie by now
    child.wait()
    assert processes.has_ended(name)


def test_a_process_that_is_hidden_from_us_is_not_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another user's, where /proc is mounted with hidepid."""
    start = processes.started_at(1)
    shown = Path.read_text

    def hidden(path: Path) -> str:
        if str(path) == "/proc/1/stat":
            raise FileNotFoundError(path)
        return shown(path)

    monkeypatch.setattr(Path, "read_text", hidden)
    assert processes.started_at(1) == ""
    assert not processes.is_gone(1, str(start))
    assert not processes.has_ended(f"{processes.here()}/1/{start}#a")


def test_another_machines_process_may_always_live() -> None:
    assert not processes.has_ended("another-boot/4026531836/1/1")
    assert not processes.has_ended("")
    assert not processes.has_ended(processes.fingerprint())
