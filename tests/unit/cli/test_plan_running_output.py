"""What `plan --running` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causeway.cli import plan
from causeway.cli.common import console
from causeway.cli.plan_running import show
from causeway.config import Applies, SettingChange
from causeway.control import CreateTopic, TopicProblem
from causeway.errors import CausewayError, ConfigError
from causeway.operate.plan import How, LinkPlan, Plan, Start
from causeway.operate.running import (
    FlowDifference,
    RunningDifference,
    TopicDifference,
    TopicStep,
)
from tests.builders.plans import planned


def change(key: str, before: str | None, after: str | None, **more: Any) -> SettingChange:
    fields = {"scope": "flow", "name": "A->B", "applies": Applies(), **more}
    return SettingChange(key=key, before=before, after=after, **fields)


def flow(name: str = "A->B", **more: Any) -> FlowDifference:
    return FlowDifference(**{"name": name, "runs": True, "planned": True, **more})


def printed(
    capsys: pytest.CaptureFixture[str],
    *flows: FlowDifference,
    changes: tuple[SettingChange, ...] = (),
    of: LinkPlan | None = None,
) -> list[str]:
    whole = Plan(links=(of or planned(),), own=())
    found = RunningDifference(
        url="http://127.0.0.1:8490", changes=changes, flows=flows or (flow(),), plan=whole
    )
    show(console(), found)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_an_address_is_for_the_running_mirror_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="add --running"):
        plan.command(tmp_path / "none.properties", url="http://127.0.0.1:8490")


def test_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == [
        "compared with the running mirror at http://127.0.0.1:8490",
        "A->B: no topic begins or ends",
        "the running mirror has the settings of the file",
    ]


def test_settings_and_when_they_apply(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(
        capsys,
        changes=(
            change("topics", "orders", "orders,payments"),
            change("causeway.offsets", "translate", "preserve", applies=Applies(as_start=True)),
            change("causeway.throttle.bytes.per.second", None, "1000"),
            change("causeway.transform.x.sql", "SELECT\n" + "a" * 100, None),
        ),
    )
    rows = [line.split("  ")[0] for line in out[2:-1]]
    assert rows == [
        "setting",
        "A->B.topics",
        "A->B.causeway.offsets",
        "A->B.causeway.throttle.bytes.per.second",
        "A->B.causeway.transform.x.sql",
    ]
    assert out[4].endswith("at once, by the rules of a start: the flow compares it with its claims")
    assert "–" in out[5]
    assert f"SELECT\\n{'a' * 52}…" in out[6]
    assert out[-1] == "the running mirror can take the file over without a restart"


def test_long_values_show_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    before = ",".join(f"topic-{number}" for number in range(100, 120))
    out = printed(capsys, changes=(change("topics", before, f"{before},new"),))
    assert out[3].split() == [
        "A->B.topics",
        "…c-118,topic-119",
        "…c-118,topic-119,new",
        "at",
        "once",
    ]
    middle = before.replace("110", "999")
    out = printed(capsys, changes=(change("topics", before, middle),))
    assert "…opic-109,topic-110,topic-111," in out[3]
    assert "…opic-109,topic-999,topic-111," in out[3]


def test_a_restart_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    why = Applies(restart="Spark reads its settings when it starts")
    spark = change("spark.master", "local[2]", "local[4]", scope="process", name="", applies=why)
    out = printed(capsys, changes=(change("groups", "a", "b"), spark))
    assert any(
        line.endswith("after a restart: Spark reads its settings when it starts") for line in out
    )
    assert out[-1] == (
        "restart needed for spark.master: until then the running mirror keeps all of its settings"
    )


def test_topics_and_groups(capsys: pytest.CaptureFixture[str]) -> None:
    topics = (
        TopicDifference(topic="payments", step=TopicStep.BEGINS, after="A.payments"),
        TopicDifference(topic="audit", step=TopicStep.ENDS, before="A.audit"),
        TopicDifference(topic="moved", step=TopicStep.MOVES, before="A.moved", after="moved"),
        TopicDifference(
            topic="masked",
            step=TopicStep.TRANSFORMED,
            before="A.masked",
            after="A.masked",
            transforms=(None, "mask"),
        ),
    )
    start = Start(topic="payments", partition=0, how=How.BEGIN, offset=0, first=0, end=5)
    create = CreateTopic(topic="A.payments", partitions=3, replication_factor=2, configs=())
    error = CausewayError("create topic", "A.x", "no right")
    found = planned(
        starts=(start,), changes=(create,), problems=(TopicProblem(topic="x", error=error),)
    )
    out = printed(
        capsys,
        flow(topics=topics, groups_begin=("billing",), groups_end=("old\x1b",), notes=("note it",)),
        of=found,
    )
    assert out[1] == "A->B: 1 topic begins, 1 topic ends, 2 topics change"
    assert [line.split("  ")[0] for line in out[3:7]] == ["payments", "audit", "moved", "masked"]
    assert out[3].endswith("from the first record; create: 3 partitions, 2 replicas")
    assert out[4].endswith("the mirrored topic stays as it is")
    assert out[5].endswith("now it is A.moved")
    assert out[6].endswith("transform: none → mask")
    assert out[7:11] == [
        "groups followed: billing",
        "groups no longer followed: old\\x1b",
        "note note it",
        "problem x: create topic A.x: no right",
    ]


def test_flows_begin_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, flow(runs=False), flow("B->A", planned=False))
    assert out[1:3] == [
        "A->B: the flow begins",
        "B->A: the flow ends; its topics stay on the target",
    ]
