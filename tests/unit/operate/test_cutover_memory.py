"""What one call of a cutover has compared, the next one need not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from causeway.operate.cutover.report import memory
from tests.harness.daemon import link

MIRROR = link("127.0.0.1:1", "127.0.0.1:2", ".*")


def test_it_is_found_again_by_the_next_call_unless_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with memory(MIRROR, ["orders", "bills"]) as first:
        first.write_text("agreed")
    assert first.stat().st_mode & 0o077 == 0
    assert first.parent.stat().st_mode & 0o077 == 0
    with memory(MIRROR, ["bills", "orders"]) as again:
        assert again.read_text() == "agreed"
    with memory(MIRROR, ["orders"]) as other:
        assert other.read_text() == ""
    os.utime(first, (0, 0))
    os.utime(other, (0, 0))
    with memory(MIRROR, ["orders", "bills"]) as anew:
        assert not other.exists(), "nobody goes on with it"
        assert (anew, anew.read_text()) == (first, "")


def test_without_a_cache_it_is_for_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with memory(MIRROR, ["orders"]) as path:
        path.write_text("agreed")
    assert not path.exists()
