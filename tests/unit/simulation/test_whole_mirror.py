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


def test_mirror_keeps_its_promises_whatever_fails() -> None:
    """In short runs. Seed 2: the target alone compacts a topic."""
    _simulate("--short", "--seeds", "0-179", "--jobs", "2")


def test_mirror_moves_to_the_other_side_and_back_whatever_fails() -> None:
    """Seed 2: the old source of a partition has only transactions that were rolled back."""
    _simulate("--moves", "--short", "--seeds", "0-19", "--jobs", "2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "seeds"),
    [
        (("--short",), "1000-2999"),
        ((), "3000-3199"),
        (("--long",), "4000-4039"),
        (("--moves",), "5000-5199"),
    ],
    ids=["short", "plain", "long", "moves"],
)
def test_mirror_keeps_its_promises_for_many_seeds(mode: tuple[str, ...], seeds: str) -> None:
    """Plain seed 3016: readers see records of a topic for a moment after its deletion."""
    _simulate(*mode, "--seeds", seeds)


def test_run_follows_from_its_seed() -> None:
    """Event by event. The run of seed 4 depends on the order of a set of objects."""
    _simulate("--again", "--short", "--seeds", "4,", "--jobs", "1")
