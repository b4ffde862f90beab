"""Why a consumer group's offsets are carried over, or not; no broker is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causeway.cluster import Committed, GroupListing
from causeway.config import LinkSettings
from causeway.control import groups as control
from causeway.errors import AuthorizationError
from causeway.formats import load
from causeway.link_topics import Outlet, PartitionProgress, TaskRecord
from causeway.model import Pair, State, TopicPartition
from causeway.operate.explain import Explanation, GroupFacts, explain_group

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders
A->B.sync.group.offsets.enabled = true
A->B.groups.exclude = test-.*
"""
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
OUTLET = Outlet(
    topic="A.orders",
    partition=0,
    topic_id="d" * 32,
    producer_id=1,
    producer_epoch=0,
    pair=Pair(source=0, target=0, sequence=0),
)
PROGRESS = PartitionProgress(
    topic="orders",
    partition=0,
    topic_id="a" * 32,
    leader_epoch=0,
    position=70,
    outlets=(OUTLET,),
    state=State.RUNNING,
)


def listing(state: str = "Empty", protocol: str = "consumer") -> GroupListing:
    return GroupListing(name="app", state=state, type="classic", protocol_type=protocol)


def at(offset: int) -> Committed:
    return Committed(offset=offset)


FACTS = GroupFacts(
    source=listing(),
    asked_source=True,
    commits={ORDERS: at(50)},
    asked_target=True,
    there={TopicPartition("A.orders", 0): at(40)},
    progress={ORDERS: PROGRESS},
)


def link(tmp_path: Path, more: str = "") -> LinkSettings:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE + more)
    return load(file).links[0]


def explain_ahead(tmp_path: Path, **more: Any) -> Explanation:
    return explain(tmp_path, replace(FACTS, ahead=800, **more))


def test_a_group_that_would_skip_records_after_a_move_is_ahead(tmp_path: Path) -> None:
    found = explain_ahead(tmp_path)
    assert (found.code, found.done) == ("ahead", False)
    said = "on B it is at least 800 records ahead of its place on A: a move skips them"
    assert found.answer == said
    assert "--reset-group app" in found.to_do[0]
    off = explain(tmp_path, replace(FACTS, ahead=1), "A->B.sync.group.offsets.enabled = false\n")
    assert (off.code, "1 record ahead" in off.answer) == ("ahead", True)
    assert explain_ahead(tmp_path, target=listing("Stable")).code == "has-members"
    assert explain_ahead(tmp_path, ended=frozenset({ORDERS})).code == "ended"


def explain(
    tmp_path: Path, facts: GroupFacts = FACTS, more: str = "", group: str = "app"
) -> Explanation:
    return explain_group(link(tmp_path, more), group, facts)


def told(one: Explanation, about: str) -> list[str]:
    return [fact.text for fact in one.facts if fact.about == about]


def test_a_group_that_is_synced(tmp_path: Path) -> None:
    one = explain(tmp_path)

    assert (one.code, one.done) == ("synced", True)
    assert str(one.rule) == "the default of groups, pattern .*"
    assert told(one, "orders-0") == ["at 50, on B A.orders-0 at 40"]


@pytest.mark.parametrize(
    ("group", "more", "code", "rule"),
    [
        ("test-1", "", "excluded", "A->B.groups.exclude (line 7), pattern test-.*"),
        ("app", "groups = other\n", "not-included", "groups (line 8)"),
        (
            "app",
            "A->B.sync.group.offsets.enabled = false\nemit.checkpoints.enabled = false\n",
            "off",
            "A->B.sync.group.offsets.enabled (line 8)",
        ),
        (
            "app",
            "A->B.sync.group.offsets.enabled = false\n",
            "checkpoints-only",
            "A->B.sync.group.offsets.enabled (line 8)",
        ),
    ],
)
def test_what_the_file_says(tmp_path: Path, group: str, more: str, code: str, rule: str) -> None:
    one = explain(tmp_path, more=more, group=group)

    assert (one.code, str(one.rule)) == (code, rule)
    assert one.to_do


@pytest.mark.parametrize(
    ("changes", "code", "answer"),
    [
        ({"source": listing(protocol="connect")}, "not-consumers", "of type connect"),
        ({"commits": AuthorizationError("read", "app")}, "unreadable", "cannot be read"),
        ({"commits": None}, "unknown", "A did not show its offsets"),
        ({"commits": {}}, "no-offsets", "committed nothing on A"),
        ({"commits": {}, "source": None}, "missing", "A has no such group"),
        ({"commits": {BILLS: at(1)}}, "nothing-mirrored", "nothing on topics that are mirrored"),
        ({"target": listing("Stable")}, "has-members", "members on B (Stable)"),
        ({"there": AuthorizationError("read", "app")}, "unreadable", "on B cannot be read"),
        ({"there": None}, "unknown", "B did not show its offsets"),
        ({"commits": {ORDERS: at(90)}}, "not-yet", "1 of 1 partitions cannot be carried over"),
        ({"progress": {}}, "not-yet", "1 of 1"),
    ],
)
def test_what_the_clusters_say(
    tmp_path: Path, changes: dict[str, Any], code: str, answer: str
) -> None:
    one = explain(tmp_path, replace(FACTS, **changes))

    assert one.code == code
    assert answer in one.answer
    assert one.done is (None if code == "unknown" else False)


def test_why_a_place_is_not_known_yet(tmp_path: Path) -> None:
    stopped = PROGRESS.replace(state=State.STOPPED, reason="truncated")
    one = explain(
        tmp_path,
        replace(FACTS, commits={ORDERS: at(90), BILLS: at(3)}, progress={ORDERS: stopped}),
    )

    assert told(one, "orders-0") == [
        "at 90, on B A.orders-0 at 40; the group is at 90, and records are mirrored only up to"
        " 70; it is stopped: truncated"
    ]
    assert told(one, "bills") == ["not mirrored: not matched by topics"]


def test_what_the_driver_noted_in_its_last_round(tmp_path: Path) -> None:
    task = TaskRecord(
        name="groups",
        items={"app on orders-0": "its exact place is being looked up"},
        done_at=1000,
    )
    one = explain(tmp_path, replace(FACTS, task=task))

    assert one.code == "not-yet"
    assert one.since_ms == 1000
    assert told(one, "last round") == ["succeeded at 1970-01-01T00:00:01Z"]
    assert "its exact place is being looked up" in told(one, "orders-0")[0]


def test_what_the_running_driver_could_not_do_is_not_called_synced(tmp_path: Path) -> None:
    task = TaskRecord(name="groups", items={"app": "it lies outside what has been mirrored"})

    one = explain(tmp_path, replace(FACTS, task=task))
    assert (one.code, one.done) == ("not-yet", False)
    assert "lies outside" in one.answer
    assert explain(tmp_path, replace(FACTS, task=task, runs=False)).code == "synced"


def test_what_has_no_offsets_on_the_target_is_not_called_synced(tmp_path: Path) -> None:
    one = explain(tmp_path, replace(FACTS, there={}))
    assert (one.code, one.done) == ("not-yet", False)
    assert "no offsets on B in A.orders yet" in one.answer
    assert "no driver runs" in explain(tmp_path, replace(FACTS, there={}, runs=False)).answer


def test_a_group_that_others_records_hold_back(tmp_path: Path) -> None:
    why = control.held_back(
        TopicPartition("A.orders", 0), control.UnreadRecord(40, "a record of others")
    )
    task = TaskRecord(name="groups", items={"app on orders-0": why}, done_at=1)

    one = explain(tmp_path, replace(FACTS, task=task))

    assert (one.code, one.done) == ("held-back", False)
    assert "held back at offset 40 of A.orders-0, before a record of others" in one.answer
    assert one.to_do


def test_a_group_whose_mirrors_have_ended_is_not_synced_any_more(tmp_path: Path) -> None:
    one = explain(tmp_path, replace(FACTS, ended=frozenset({ORDERS})))
    assert (one.code, one.done) == ("ended", True)
    assert "its offsets were committed then" in one.answer


def test_a_group_of_topics_that_both_clusters_write_has_its_price(tmp_path: Path) -> None:
    task = TaskRecord(name="groups", figures={"app": 1200}, done_at=1)

    one = explain(tmp_path, replace(FACTS, task=task))

    assert one.code == "synced"
    assert one.answer.endswith("; on B it would read at most 1,200 records again")
    task = task.replace(figures={"app": 1})
    assert "at most 1 record again" in explain(tmp_path, replace(FACTS, task=task)).answer
    task = task.replace(figures={"other": 5})
    assert "again" not in explain(tmp_path, replace(FACTS, task=task)).answer
