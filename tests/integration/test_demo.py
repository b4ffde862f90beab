"""The demo and the benchmark run from beginning to end. What they measure is not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1000)]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_the_demo_proves_that_every_flight_arrived() -> None:
    done = _run("examples.demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equal") == 13  # partitions
    assert "366,213 records: same keys" in done.stdout


@pytest.mark.slow
def test_the_benchmark_measures_and_reports(tmp_path: Path) -> None:
    options = ["--quick", "--rounds", "1", "--only", "json,first", "--systems", "causeway"]
    done = _run("bench", *options, "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "results.json").read_text())
    assert [round_["records"] for round_ in figures["json"]["rounds"]["causeway"]] == [60_000]
    assert "| from the start to the first record |" in (tmp_path / "RESULTS.md").read_text()
