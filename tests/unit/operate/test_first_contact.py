"""How long a command waits for clusters that are not there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from causeway.config.mm2 import load_mm2
from causeway.errors import UnreachableError
from causeway.operate import plan, status

FILE = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
admin.timeout.ms = 300
"""


def test_admin_timeout_bounds_the_first_contact_too(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    for command in (plan.plan, status.status):
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no broker answered in 0\.3 s"):
            command(load_mm2(file))
        assert time.monotonic() - began < 20


def test_a_shorter_time_of_one_client_counts(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE + "A.admin.request.timeout.ms = 200\n")
    (link,) = load_mm2(file).links
    assert link.source_admin.request_timeout_ms == 200
    assert link.target_admin.request_timeout_ms == 300
    assert link.source.request_timeout_ms == link.target.request_timeout_ms == 30_000
