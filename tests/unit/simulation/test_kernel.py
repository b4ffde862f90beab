"""The real operating system does not hear of simulated processes: see tests/simulation/patches.py.

The simulation replaces modules of its process, so it has a process of its own here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.kernel import Kernel

_ROOT: Final = Path(__file__).parents[3]

_SCRIPT: Final = """
import os, subprocess, sys, _socket, _thread

from tests.simulation import patches
patches.install()
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network

kernel = Kernel(1)
patches.use(kernel, Network(kernel))
acts = {
    "fork": os.fork,
    "process": lambda: subprocess.run([sys.executable, "-c", ""]),
    "socket": _socket.socket,
    "thread": lambda: _thread.start_new_thread(print, ()),
}

def run():
    for name, act in acts.items():
        try:
            act()
        except RuntimeError as error:
            print(name, "refused" if "simulated process" in str(error) else error)

kernel.process("driver", "m.sim").start(run)
kernel.run_for(1.0)
sys.stdout.flush()
os._exit(0)
"""


def test_simulated_process_cannot_start_real_processes_threads_or_sockets() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _SCRIPT], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    refused = [f"{each} refused" for each in ("fork", "process", "socket", "thread")]
    assert result.stdout.split("\n") == [*refused, ""], result.stderr


@pytest.mark.parametrize("seconds", [0.25, 20.0])
def test_thread_of_a_long_run_is_late_until_something_happens(seconds: float) -> None:
    kernel = Kernel(1)
    kernel.long = True
    woken: list[float] = []

    def look() -> None:
        while True:
            kernel.wait(seconds)
            woken.append(kernel.elapsed)

    kernel.process("driver", "m.sim").start(look)
    kernel.run_for(60.0)
    assert len(woken) == pytest.approx(60.0 / seconds, abs=1), "it is on time at first"
    kernel.run_for(100_000.0)
    late = woken[-1] - woken[-2]
    assert late == pytest.approx(1_000.0 if seconds < 1 else 18_000.0, abs=1)
    kernel.hurry()
    before = len(woken)
    kernel.run_for(seconds)
    assert len(woken) > before


def test_thread_of_a_long_run_takes_up_its_work_on_time() -> None:
    kernel = Kernel(1)
    kernel.long = True
    kernel.later(1_000.0, lambda: None)
    kernel.run_for(1_000.0)
    woken: list[float] = []

    def send_again() -> None:
        kernel.wait(0.02)
        woken.append(kernel.elapsed)

    kernel.process("lane", "m.sim").start(send_again)
    kernel.run_for(1.0)
    assert woken == pytest.approx([1_000.02], abs=1e-3)
