"""What importing the doors of transforms loads: lanes, commands and workers pay for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pyspark", "pyarrow", "pandas", "fastavro", "google.protobuf")


@pytest.mark.parametrize(
    ("door", "absent"),
    [
        ("causeway.transform", (*HEAVY, "numpy", "urllib.request")),
        ("causeway.transform.rules", HEAVY),
        ("causeway.transform.queries", HEAVY),
        # A worker sets Arrow's memory pool before it imports Arrow.
        ("causeway.transform.stage", HEAVY),
    ],
)
def test_a_door_does_not_load_heavy_packages(door: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {door}; print(*[name for name in {absent} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.split() == []


def test_what_a_worker_of_a_stage_needs_is_loaded_before_it_is_forked() -> None:
    """Else each worker would import it anew, and share no memory for it."""
    code = """
import sys
import causeway.transform.stage.preload
before = set(sys.modules)
import causeway.transform.stage.direct
import causeway.transform.stage.outcome
import causeway.transform.stage.workers
print(*(set(sys.modules) - before))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.split() == []
