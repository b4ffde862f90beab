"""What changes if a running mirror takes a file over: topics, groups, flows and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from causeway.config import (
    LinkSettings,
    RunSettings,
    SettingRows,
    Settings,
    TransformSettings,
    rows_of,
)
from causeway.control import MirroredTopic
from causeway.errors import UnreachableError
from causeway.filters import compile_patterns
from causeway.operate.plan import LinkPlan, Plan, TransformPlan
from causeway.operate.running import (
    FlowDifference,
    RunningDifference,
    RunningDriver,
    TopicStep,
    as_json,
    compare,
    comparison,
)
from causeway.operate.running.driver import RunningLink, RunningTopic
from tests.builders.settings import link


class Driver:
    """A running driver that leads flows; `topics`: by flow."""

    url = "http://127.0.0.1:8490"

    def __init__(self, running: Settings, topics: Mapping[str, Mapping[str, str]]) -> None:
        self._running, self._topics = running, topics
        self.role, self.planned = "leading", True

    def settings(self, _: SettingRows) -> SettingRows:
        return rows_of(self._running)

    def links(self) -> dict[str, RunningLink]:
        reason = None if self.role == "leading" else "led by another"
        return {
            name: RunningLink(link=name, role=self.role, planned=self.planned, reason=reason)
            for name in self._topics
        }

    def topics(self, name: str) -> dict[str, RunningTopic]:
        return {
            topic: RunningTopic(topic=topic, target_topic=target)
            for topic, target in self._topics[name].items()
        }


def settings(*links: LinkSettings, **run: Any) -> Settings:
    return Settings(links=links, run=RunSettings(**run), spark={})


def mirrored(name: str, target: str | None = None) -> MirroredTopic:
    return MirroredTopic(
        source=name,
        target=target or f"A.{name}",
        partitions=1,
        source_id="0" * 32,
        target_id=None,
        target_partitions=1,
        max_message_bytes=1,
    )


def compared(
    driver: Driver, wanted: Settings, *plans: LinkPlan
) -> tuple[RunningDifference, dict[str, FlowDifference]]:
    found = compare(wanted, cast(RunningDriver, driver), lambda: Plan(links=plans, own=()))
    return found, {each.name: each for each in found.flows}


RUNNING = link(topics="orders, payments")


def steps(flow: FlowDifference) -> list[tuple[str, TopicStep, str | None, str | None]]:
    return [(each.topic, each.step, each.before, each.after) for each in flow.topics]


def test_topics_begin_and_end() -> None:
    wanted = link(topics="orders, invoices")
    driver = Driver(settings(RUNNING), {"A->B": {"orders": "A.orders", "payments": "A.payments"}})
    plan = LinkPlan(link=wanted, mirrored=(mirrored("orders"), mirrored("invoices")))
    found, flows = compared(driver, settings(wanted), plan)
    assert steps(flows["A->B"]) == [
        ("invoices", TopicStep.BEGINS, None, "A.invoices"),
        ("payments", TopicStep.ENDS, "A.payments", None),
    ]
    assert [(each.place, each.before, each.after) for each in found.changes] == [
        ("A->B.topics", "orders,payments", "orders,invoices")
    ]
    assert not found.restarts


def test_a_topic_that_the_source_lost_does_not_end_by_the_file() -> None:
    driver = Driver(settings(RUNNING), {"A->B": {"orders": "A.orders"}})
    _, flows = compared(driver, settings(RUNNING), LinkPlan(link=RUNNING))
    assert flows["A->B"].topics == ()


def test_topics_with_other_names_and_transforms() -> None:
    driver = Driver(settings(RUNNING), {"A->B": {"orders": "A.orders", "payments": "A.payments"}})
    mask = TransformPlan(settings=TransformSettings(name="mask"), topics=("payments",))
    plan = LinkPlan(
        link=RUNNING,
        mirrored=(mirrored("orders", "orders"), mirrored("payments")),
        transforms=(mask,),
    )
    _, flows = compared(driver, settings(RUNNING), plan)
    moved, treated = flows["A->B"].topics
    assert (moved.step, moved.before, moved.after) == (TopicStep.MOVES, "A.orders", "orders")
    assert (treated.step, treated.transforms) == (TopicStep.TRANSFORMED, (None, "mask"))


def test_flows_begin_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    back = link("B", "A", topics="x")
    driver = Driver(settings(RUNNING), {"A->B": {"orders": "A.orders"}})
    groups_are(monkeypatch, "billing")
    _, flows = compared(
        driver, settings(back), LinkPlan(link=back, mirrored=(mirrored("x", "B.x"),))
    )
    assert (flows["A->B"].runs, flows["A->B"].planned) == (True, False)
    assert steps(flows["A->B"]) == [("orders", TopicStep.ENDS, "A.orders", None)]
    assert (flows["B->A"].runs, flows["B->A"].planned) == (False, True)
    assert steps(flows["B->A"]) == [("x", TopicStep.BEGINS, None, "B.x")]
    assert flows["B->A"].groups_begin == ("billing",)


def groups_are(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    from causeway.cluster import Cluster, GroupListing

    def listed(_: Cluster) -> dict[str, GroupListing]:
        return {
            name: GroupListing(name=name, state="Empty", type="classic", protocol_type="consumer")
            for name in names
        }

    monkeypatch.setattr(Cluster, "list_groups", listed)


def with_groups(groups: str, **more: Any) -> LinkSettings:
    control = replace(RUNNING.control, groups=compile_patterns(groups), **more)
    return replace(RUNNING, control=control)


def test_groups_begin_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    groups_are(monkeypatch, "audit", "billing", "shop")
    wanted = with_groups("billing, shop")
    driver = Driver(settings(with_groups("audit, billing")), {"A->B": {}})
    _, flows = compared(driver, settings(wanted), LinkPlan(link=wanted))
    assert flows["A->B"].groups_begin == ("shop",)
    assert flows["A->B"].groups_end == ("audit",)

    wanted = with_groups("audit, billing", emit_checkpoints_enabled=False)
    _, flows = compared(driver, settings(wanted), LinkPlan(link=wanted))
    assert flows["A->B"].groups_end == ("audit", "billing")


def test_groups_that_cannot_be_listed_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise UnreachableError("list groups", "A", "no answer")

    monkeypatch.setattr(comparison.Cluster, "list_groups", fail)
    wanted = with_groups("audit")
    driver = Driver(settings(RUNNING), {"A->B": {}})
    _, flows = compared(driver, settings(wanted), LinkPlan(link=wanted))
    assert flows["A->B"].notes == ("its groups are not compared: list groups A: no answer",)


@pytest.mark.parametrize(
    ("role", "planned", "note"),
    [
        ("standby", True, "the running mirror does not lead it: led by another"),
        ("leading", False, "the running mirror still reads its topics"),
    ],
)
def test_topics_that_are_not_known_are_a_note(role: str, planned: bool, note: str) -> None:
    driver = Driver(settings(RUNNING), {"A->B": {}})
    driver.role, driver.planned = role, planned
    plan = LinkPlan(link=RUNNING, mirrored=(mirrored("orders"),))
    _, flows = compared(driver, settings(RUNNING), plan)
    assert flows["A->B"].topics == ()
    assert flows["A->B"].notes == (f"its topics are not compared: {note}",)


def test_what_machines_read() -> None:
    wanted = link(topics="orders", offsets="preserve")
    driver = Driver(settings(RUNNING), {"A->B": {"orders": "A.orders", "payments": "A.payments"}})
    plan = LinkPlan(link=wanted, mirrored=(mirrored("orders"),))
    found, _ = compared(driver, settings(wanted, lanes=3), plan)
    assert found.restarts
    told = as_json(found)
    assert told.pop("plan")["links"][0]["link"] == "A->B"
    assert told == {
        "running": "http://127.0.0.1:8490",
        "needs_restart": True,
        "settings": [
            {
                "scope": "process",
                "name": "",
                "key": "causeway.lanes",
                "before": None,
                "after": "3",
                "applies": "restart",
                "reason": "Spark's cores for lanes are set when it starts",
            },
            {
                "scope": "flow",
                "name": "A->B",
                "key": "topics",
                "before": "orders,payments",
                "after": "orders",
                "applies": "live",
                "reason": None,
            },
            {
                "scope": "flow",
                "name": "A->B",
                "key": "causeway.offsets",
                "before": "translate",
                "after": "preserve",
                "applies": "as-at-start",
                "reason": None,
            },
        ],
        "links": [
            {
                "link": "A->B",
                "runs": True,
                "planned": True,
                "topics": [
                    {
                        "topic": "payments",
                        "change": "ends",
                        "target_topic_before": "A.payments",
                        "target_topic": None,
                        "transform_before": None,
                        "transform": None,
                    }
                ],
                "groups_begin": [],
                "groups_end": [],
                "notes": [],
            }
        ],
    }
