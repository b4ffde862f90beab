"""The simulations find deliberate breaks of the mirror: each within the runs that it states."""

from __future__ import annotations

import subprocess
import sys

import pytest

_QUICK = (
    "several batches are in flight before the broker knows the producer",
    "a pair is reported ahead of the acknowledged record",
    "data goes on over a gap",
    "the first marker does not wait until no earlier one can arrive",
    "the first marker of a lane has no higher epoch",
    "a recovery ends all doubt about late markers",
    "one answer proves that all markers of a request were written",
    "brokers without a required API are accepted",
    "fetches do not name the epoch of the last record",
)


def _check(*names: str, timeout_s: float) -> None:
    words = [sys.executable, "-m", "tests.simulation", "--mutations", *names]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not found" not in done.stdout
    assert all(f"| {name} |" in done.stdout for name in names)


def test_some_are_found_at_once() -> None:
    _check(*_QUICK, timeout_s=300)


@pytest.mark.slow
def test_all_are_found() -> None:
    _check(timeout_s=6 * 3600)
