"""`status --link` and `--topic`: what is left, and names that are unknown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from causeway.config import RunSettings, Settings
from causeway.errors import ConfigError, UnreachableError
from causeway.link_topics import Directive, LinkDirectives, PauseDirective, Scope, TaskRecord
from causeway.operate import listing
from causeway.operate.listing import narrowed
from causeway.status import LinkProblem, LinkStatus, PartitionStatus, as_json
from tests.builders.settings import A_B, A_C
from tests.builders.status import partition_status
from tests.harness.statuses import ends

SETTINGS = Settings(links=(A_B, A_C), run=RunSettings(), spark={})
DOWN = UnreachableError("reach", "C")


def partition(topic: str) -> PartitionStatus:
    return partition_status(topic, mirrored_to=10, lag_records=0, lag_ms=0)


def pause(topic: str | None) -> Directive:
    return PauseDirective(scope=Scope(topic), who="anna@ops", at=0)


FULL = LinkStatus(
    **ends(A_B),
    driver=None,
    partitions=(partition("bills"), partition("orders")),
    problems=(LinkProblem(topic="odd", reason=str(ConfigError("mirror", "odd", "no name"))),),
    tasks=(
        TaskRecord(
            name="groups",
            items={
                "app on A.orders-0": "denied",
                "app on A.orders.old-0": "denied",
                "shop": "busy",
            },
            figures={"groups": 3},
        ),
    ),
    directives=LinkDirectives.of([pause(None), pause("bills"), pause("orders")]),
)
OTHER = LinkStatus(**ends(A_C), driver=None, partitions=(partition("orders"),), problems=())


@pytest.fixture(autouse=True)
def _clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `status` answers: partitions and problems of the topics that are asked for."""

    def status(settings: Settings, only: Collection[str] | None = None) -> tuple[LinkStatus, ...]:
        found = [{A_B: FULL, A_C: OTHER}[each] for each in settings.links]
        if only is None:
            return tuple(found)
        return tuple(
            replace(
                each,
                partitions=tuple(one for one in each.partitions if one.topic in only),
                problems=tuple(one for one in each.problems if one.topic in only),
            )
            for each in found
        )

    monkeypatch.setattr(listing, "status", status)


def test_all_where_nothing_is_said() -> None:
    assert narrowed(SETTINGS, None, None) == (FULL, OTHER)


def test_one_link() -> None:
    assert narrowed(SETTINGS, "A->C", None) == (OTHER,)


def test_a_topic_on_the_links_that_have_it() -> None:
    assert [each.name for each in narrowed(SETTINGS, None, "orders")] == ["A->B", "A->C"]
    assert [each.name for each in narrowed(SETTINGS, None, "bills")] == ["A->B"]
    assert [each.name for each in narrowed(SETTINGS, None, "odd")] == ["A->B"], "a problem"


def test_nothing_is_said_of_other_topics() -> None:
    (found,) = as_json(narrowed(SETTINGS, "A->B", "orders"))["links"]

    assert [one["topic"] for one in found["partitions"]] == ["orders"]
    assert found["problems"] == []
    assert [(one["topic"]) for one in found["directives"]] == [None, "orders"]
    (task,) = found["tasks"]
    assert task["items"] == {"app on A.orders-0": "denied"}
    assert task["figures"] == {}


def test_names_that_are_unknown_come_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no flow of that name; there is A->B, A->C"):
        narrowed(SETTINGS, "elsewhere", None)
    with pytest.raises(ConfigError, match="no topic of that name; there is bills, odd, orders"):
        narrowed(SETTINGS, None, "zebra")
    with pytest.raises(ConfigError, match="no topic of that name; like it: orders"):
        narrowed(SETTINGS, "A->C", "order")


def test_a_link_that_does_not_answer_may_have_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = LinkStatus(**ends(A_C), driver=None, partitions=(), problems=(), error=DOWN)
    monkeypatch.setattr(listing, "status", lambda *_: (replace(OTHER, partitions=()), silent))

    assert narrowed(SETTINGS, None, "zebra") == (silent,)
