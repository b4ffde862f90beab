"""The whole mirror in simulated time, for some seeds: see tests/simulation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[3]
_SIMULATION: Final = (sys.executable, "-m", "tests.simulation")


def _simulate(*given: str) -> None:
    result = subprocess.run(
        [*_SIMULATION, *given], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    # The output has the seeds that failed, and the command that runs one of them again.
    assert result.returncode == 0, result.stdout + result.stderr


# A seed once gave another run in another checkout, and the cause is not known. So this test may
# meet a new fault on another machine, of the mirror or of the simulation.
@pytest.mark.slow
def test_mirror_keeps_its_promises_whatever_fails() -> None:
    _simulate("--seeds", "1,21,46", "--jobs", "2")


@pytest.mark.slow
def test_mirror_keeps_its_promises_for_many_seeds() -> None:
    _simulate("--seeds", "1000-2999")


def test_run_follows_from_its_seed() -> None:
    """Event by event, also with other paths, addresses of objects and variables."""
    _simulate("--again", "--seeds", "50,104")
