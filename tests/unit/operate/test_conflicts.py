"""Two flows of a file that would write to one topic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from causeway.formats import load
from causeway.operate.plan import LinkPlan
from causeway.operate.plan.conflicts import with_other_writers
from tests.builders.records import TOPIC

FILE = """\
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->C.enabled = true
B->C.enabled = true
causeway.rename = orders => sales
"""


def problems(tmp_path: Path, more: str = "") -> dict[str, list[str]]:
    """Of the flows, which both mirror orders and pay."""
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + more)
    planned = [
        LinkPlan(
            link=link,
            mirrored=tuple(
                replace(TOPIC, source=name, target=str(link.decide_topic(name).target_name))
                for name in ("orders", "pay")
            ),
        )
        for link in load(path).links
    ]
    return {
        each.link.name: [f"{one.topic}: {one.error.cause}" for one in each.problems]
        for each in with_other_writers(planned)
    }


def test_a_topic_that_two_flows_would_write_to_is_a_problem_of_both(tmp_path: Path) -> None:
    text = (
        "orders: sales on C would also be the mirror of orders by {}, and a record of another"
        " writer"
    )
    found = problems(tmp_path)
    assert [one.partition(" stops")[0] for one in found["A->C"]] == [text.format("B->C")]
    assert [one.partition(" stops")[0] for one in found["B->C"]] == [text.format("A->C")]


def test_flows_that_may_share_a_target_have_no_conflict(tmp_path: Path) -> None:
    found = problems(tmp_path, "A->C.causeway.sole.writer = false\n")
    assert (len(found["A->C"]), len(found["B->C"])) == (0, 1)
    assert not any(problems(tmp_path, "causeway.sole.writer = false\n").values())


def test_other_names_are_none(tmp_path: Path) -> None:
    assert not any(problems(tmp_path, "A->C.causeway.rename = orders => o\n").values())
