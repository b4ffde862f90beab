"""How far chosen topics are, in a line each."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from causeway.config import LinkSettings, RunSettings, Settings
from causeway.errors import ConfigError
from causeway.geo import destination_status
from causeway.geo.destination_status import Destination, chosen_topics
from causeway.link_topics import Directive, DirectiveKind, LinkDirectives, Scope
from causeway.status import NO_DRIVER, LinkProblem, LinkStatus, PartitionStatus
from tests.builders.settings import GEO
from tests.harness.directives import directive
from tests.harness.lanes import client
from tests.harness.statuses import ends

SHOP, DC2 = client("shop", "one:1"), client("dc2", "two:1")


def part(number: int, state: str = "running", *, lag: int | None = 0) -> PartitionStatus:
    return PartitionStatus(
        topic="orders",
        partition=number,
        target_topic="shop.orders",
        source_end=10,
        mirrored_to=10,
        lag_records=lag,
        lag_ms=lag,
        state=state,
        reason="why" if state in ("stopped", "failed") else None,
    )


def wish(kind: DirectiveKind, topic: str = "orders") -> Directive:
    return directive(kind, Scope(topic))


def status(*parts: PartitionStatus, unavailable: str | None = None) -> LinkStatus:
    problem = LinkProblem(
        topic="bills", reason=str(ConfigError("create topic", "shop.bills", "too few"))
    )
    return LinkStatus(
        **ends(GEO), driver=None, partitions=parts, problems=(problem,), unavailable=unavailable
    )


@pytest.mark.parametrize(
    ("parts", "paused", "state", "lag"),
    [
        ((part(0), part(1)), False, "running", 0),
        ((part(0), part(1, "failed", lag=5)), False, "failed", 5),
        ((part(0, lag=3), part(1, lag=None)), False, "running", None),
        ((part(0, NO_DRIVER, lag=3),), False, NO_DRIVER, 3),
        ((part(0, NO_DRIVER, lag=3),), True, "paused", 3),
        ((part(0, "stopped"), part(1, "paused")), True, "stopped", 0),
        ((), False, "missing", None),
    ],
)
def test_a_topic_has_the_state_of_its_worst_partition(
    parts: tuple[PartitionStatus, ...], paused: bool, state: str, lag: int | None
) -> None:
    wishes = [
        wish(DirectiveKind.MIRROR),
        *([wish(DirectiveKind.PAUSE)] if paused else []),
    ]
    directives = LinkDirectives({each.key: each for each in wishes})
    (found,) = chosen_topics(GEO, directives, status(*parts))
    assert (found.topic, found.target) == ("orders", "shop.orders")
    assert (found.state, found.lag_records) == (state, lag)
    assert (found.paused is not None) == paused


def test_the_reason_why_a_topic_is_missing_is_shown() -> None:
    wishes = [wish(DirectiveKind.MIRROR, "bills"), wish(DirectiveKind.MIRROR)]
    directives = LinkDirectives({each.key: each for each in wishes})
    bills, orders = chosen_topics(GEO, directives, status(unavailable="no broker answered"))
    assert (bills.state, orders.state) == ("unknown", "unknown")
    assert bills.reasons == ("create topic shop.bills: too few",)
    assert orders.reasons == ("no broker answered",)
    found = Destination(name="dc2", link=GEO, topics=(bills, orders)).as_json()
    assert [each["topic"] for each in found["topics"]] == ["bills", "orders"]
    assert found["topics"][0]["who"] == "anna@ops"


def test_destinations_are_asked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not answer for long holds up no other."""
    links = tuple(replace(GEO, target=replace(GEO.target, alias=f"dc{n}")) for n in range(3))
    both = threading.Barrier(len(links))

    def ask(link: LinkSettings, _: object) -> Destination:
        both.wait(60)  # for as long as not all of them are being asked
        return Destination(name=link.target.alias, link=link)

    monkeypatch.setattr(destination_status, "_look", ask)
    found = destination_status.look_at(Settings(links=links, run=RunSettings(), spark={}))
    assert [each.name for each in found] == ["dc0", "dc1", "dc2"]
    assert destination_status.look_at(Settings(links=(), run=RunSettings(), spark={})) == ()
