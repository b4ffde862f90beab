"""The real operating system does not hear of simulated processes: see tests/simulation/patches.py.

The simulation replaces modules of its process, so it has a process of its own here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

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
