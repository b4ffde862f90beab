"""What a plan says about topics that keep their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from causeway.cli import plan as command
from causeway.cli.common import console
from causeway.cluster import EARLIEST, OffsetAt
from causeway.config import LinkSettings, TransformSettings
from causeway.control import Filling, MirroredTopic, preserving
from causeway.daemon import Sides
from causeway.link_topics import ProgressContents
from causeway.model import TopicPartition
from causeway.operate.plan import How, LinkPlan, Plan, Start, TransformPlan, as_json, starts
from causeway.operate.plan import offsets as offsets_plan
from tests.builders import records, settings

TOPIC = replace(records.TOPIC, partitions=2, preserves=True)
IDS = "__transaction_state"
KEEPING = settings.link(offsets="preserve")


@dataclass
class Cluster:
    """Each log goes from `first` to `end`."""

    first: int
    end: int

    def list_offsets(
        self, places: Sequence[TopicPartition], timestamp: int, *, read_committed: bool
    ) -> dict[TopicPartition, OffsetAt]:
        offset = self.first if timestamp == EARLIEST else self.end
        return {at: OffsetAt(offset=offset, timestamp=-1, leader_epoch=-1) for at in places}

    def knows_transactional_id(self, _: str) -> bool:
        return False


def planned_starts(source: Cluster, target: Cluster, there: int) -> starts.Starts:
    quiet = replace(KEEPING.control, mm2_offsets=False)
    link = replace(KEEPING, control=quiet)
    a, b = cast(Any, source), cast(Any, target)
    sides = Sides(source=a, target=b, source_admin=a, target_admin=b)
    return starts.plan(sides, link, [TOPIC], ProgressContents(), {TOPIC.target: there})


def test_a_new_topic_is_filled_up_to_the_source_s_start() -> None:
    found = planned_starts(Cluster(3_000_000, 3_000_500), Cluster(0, 0), there=0)
    assert [(s.how, s.offset, s.fills, s.left_out) for s in found.partitions] == [
        (How.BEGIN, 3_000_000, 3_000_000, 0)
    ] * 2
    assert found.problems == ()


def test_records_that_are_there_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    same = True
    monkeypatch.setattr("causeway.daemon.partitions.others.is_same_log", lambda *_, **__: same)
    found = planned_starts(Cluster(0, 500), Cluster(20, 80), there=2)
    assert [(s.how, s.offset, s.fills) for s in found.partitions] == [(How.GO_ON, 80, 0)] * 2
    same = False
    found = planned_starts(Cluster(0, 500), Cluster(20, 80), there=2)
    assert {s.how for s in found.partitions} == {How.STOP}
    assert all("restart --refill" in str(each.error) for each in found.problems)


@pytest.fixture
def rights(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the target grants."""
    found: dict[str, Any] = {"way": Filling(way="markers"), "topic": None, "denied": False}
    monkeypatch.setattr(preserving, "filling", lambda *_: found["way"])
    monkeypatch.setattr(
        offsets_plan, "topic_rights", lambda _, names: dict.fromkeys(names, found["topic"])
    )
    monkeypatch.setattr(offsets_plan, "denies_transactional_id", lambda *_: found["denied"])
    return found


def starting(*fills: int) -> tuple[Start, ...]:
    return tuple(
        Start(
            topic="orders", partition=n, how=How.BEGIN, offset=each, first=each, end=9, fills=each
        )
        for n, each in enumerate(fills)
    )


def kept(
    *topics: MirroredTopic,
    link: LinkSettings = KEEPING,
    fills: tuple[int, ...] = (0, 0),
    transforms: tuple[TransformPlan, ...] = (),
) -> offsets_plan.OffsetsPlan:
    return offsets_plan.plan(
        link, cast(Any, None), topics or (TOPIC,), starting(*fills), transforms, {IDS}
    )


def test_topics_with_translated_offsets_ask_nothing() -> None:
    assert kept(replace(TOPIC, preserves=False)) == offsets_plan.OffsetsPlan()


def test_what_is_filled_and_how_long_it_takes(
    rights: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    found = kept(fills=(6_000_000, 300_000_000))
    (topic,) = found.topics
    assert (topic.fills, topic.seconds) == (306_000_000, 100)
    whole = LinkPlan(link=KEEPING, mirrored=(TOPIC,), starts=starting(1, 2), offsets=found)
    (shown,) = as_json(Plan(links=(whole,), own=()))["links"]
    assert shown["offset_gaps"] == {"filled_by": "markers", "lacks": None}
    assert shown["mirrored"][0]["keeps_offsets"]
    assert shown["mirrored"][0]["offsets"] == {
        "offsets_to_fill": 306_000_000,
        "seconds_to_fill": 100.0,
        "filler_visible_to_read_uncommitted": False,
    }
    command._show(console(), whole)
    out = " ".join(capsys.readouterr().out.split())
    assert "same offsets" in out
    assert "306,000,000" in out


def test_the_way_and_what_it_lacks_are_notes(rights: dict[str, Any]) -> None:
    assert list(kept().notes) == ["gaps of offsets are filled by markers"]
    rights["way"] = Filling(way="transactions", lacks="CLUSTER_ACTION on the cluster B is missing")
    (note,) = kept().notes
    assert "by transactions, which is slower than markers: CLUSTER_ACTION" in note


def test_filler_that_readers_may_see_is_a_note(rights: dict[str, Any]) -> None:
    compacted = replace(TOPIC, compacted=True)
    assert "read_uncommitted consumers may see" in list(kept(compacted).notes)[1]
    stops = replace(KEEPING, offset_filler="stop")
    assert len(list(kept(compacted, link=stops).notes)) == 1


def test_missing_rights_are_problems(rights: dict[str, Any]) -> None:
    rights["topic"], rights["denied"] = frozenset({"WRITE"}), True
    delete, ids = (each.error for each in kept(fills=(5, 0)).problems)
    assert (delete.exit_code, ids.exit_code) == (5, 5)
    assert delete.remedy == "grant DELETE on A.orders"
    assert "WRITE on transactional ids with the prefix causeway.A.B.offsets" in str(ids.remedy)
    # Without a beginning nothing is deleted, and a new topic has no rights to ask for.
    assert len(kept().problems) == 1
    assert len(kept(replace(TOPIC, target_id=None), fills=(5, 0)).problems) == 1


def test_a_transform_that_routes_or_multiplies_is_a_problem_by_its_plan(
    rights: dict[str, Any],
) -> None:
    one = TransformSettings(name="eu", topics=(), sql="SELECT * EXCEPT (topic), x topic FROM r")
    routes = TransformPlan(settings=one, topics=("orders",), replaces=("topic", "value"))
    (problem,) = kept(transforms=(routes,)).problems
    assert "transform eu chooses the topic of records" in str(problem.error)
    keeps = replace(routes, replaces=("value",))
    assert kept(transforms=(keeps,)).problems == ()
    several = replace(keeps, multiplies=True)
    (problem,) = kept(transforms=(several,)).problems
    assert "transform eu may make several records of one" in str(problem.error)
