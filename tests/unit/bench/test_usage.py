"""CPU time of a process tree, with children that have ended."""

import subprocess
import sys

from bench.usage import cpu_seconds, memory

BURN = """
import subprocess, sys, time
code = "import time\\nwhile time.process_time() < 0.4: pass"
subprocess.run([sys.executable, "-c", code])
while time.process_time() < 0.4: pass
print("burnt", flush=True)
sys.stdin.read()
"""


def test_ended_children_count() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert cpu_seconds([process.pid]) >= 0.75  # clock ticks are coarse
    assert 0 < memory([process.pid]).pss_mb <= memory([process.pid]).rss_mb + 1
    process.communicate()
    assert cpu_seconds([process.pid]) == 0
