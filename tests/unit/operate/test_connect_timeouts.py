"""How long a command waits for clusters that are not there."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from causeway.config import Settings
from causeway.errors import UnreachableError
from causeway.formats import load_mm2
from causeway.operate.directives import act
from causeway.operate.failover import failover
from causeway.operate.plan import plan
from causeway.status import from_clusters
from tests.harness.black_hole import black_hole

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
    for command in (plan, from_clusters.status):
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


@pytest.mark.parametrize("accepts", [True, False])
@pytest.mark.parametrize(
    "ask",
    [
        from_clusters.status,
        plan,
        act.pause,
        partial(act.pause, topic="orders"),
        partial(failover, yes=False),
        partial(failover, yes=True, topic="orders"),
    ],
    ids=["status", "plan", "pause", "pause a topic", "failover", "failover of a topic"],
)
def test_clusters_that_never_answer_are_waited_for_at_the_same_time(
    ask: Callable[[Settings], object], accepts: bool, tmp_path: Path
) -> None:
    """Four links among three such clusters take one time-out, not one each."""
    with ExitStack() as stack:
        lines = ["clusters = A, B, C", "admin.timeout.ms = 500"]
        for alias in "ABC":
            address = stack.enter_context(black_hole(accepts=accepts))
            lines.append(f"{alias}.bootstrap.servers = {address}")
        lines += [f"{link}.enabled = true" for link in ("A->B", "B->A", "A->C", "C->B")]
        file = tmp_path / "mm2.properties"
        file.write_text("\n".join(lines))
        settings = load_mm2(file)
        began = time.monotonic()
        with pytest.raises(UnreachableError, match="no broker answered in"):
            ask(settings)
        assert time.monotonic() - began < 1.5, "four time-outs are 2 s"
