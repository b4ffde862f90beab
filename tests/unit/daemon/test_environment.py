"""What a container may have is less than what its machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.daemon.spark.environment import cores


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))


@pytest.mark.parametrize(
    ("says", "wanted"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("1600000 100000", 8),
        ("max 100000", 8),
        ("", 8),
    ],
)
def test_a_limit_of_cpu_counts(tmp_path: Path, says: str, wanted: int) -> None:
    (tmp_path / "cpu.max").write_text(says + "\n")
    assert cores(tmp_path) == wanted


@pytest.mark.parametrize(("quota", "wanted"), [("300000", 3), ("-1", 8)])
def test_so_does_that_of_older_kernels(tmp_path: Path, quota: str, wanted: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert cores(tmp_path) == wanted


def test_without_groups_all_cores_are_there(tmp_path: Path) -> None:
    assert cores(tmp_path / "none") == 8
