"""Promotions: the proof that all is mirrored, several links, and commands that fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.errors import ConfigError, ConflictError, PartitionsFailedError
from causeway.link_topics import (
    THE_LINK,
    EndDirective,
    Outlet,
    Scope,
)
from causeway.model import Pair, State, TopicPartition
from causeway.operate.directives import Wanted
from causeway.operate.failover import Promoted
from causeway.operate.failover import promotion as promoting
from causeway.operate.failover.ending import Ending, wish
from causeway.operate.failover.promotion import LinkPromotion, lagging_partitions, refusal
from causeway.operate.failover.results import LaggingPartition
from tests.builders.cluster import StubCluster
from tests.builders.daemon import row
from tests.builders.records import progress
from tests.builders.settings import LINK, links_between
from tests.harness.daemon import link
from tests.harness.raw_batches import Rec
from tests.harness.waiting import await_until
from tests.harness.world import Log

AT, MIRROR = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def outlets_at(mirror: TopicPartition) -> tuple[Outlet, ...]:
    (outlet,) = progress().outlets
    return (outlet.replace(topic=mirror.topic, pair=Pair(source=0, target=0, sequence=0)),)


LATE = LaggingPartition(AT, "mirrored up to 10 of 11")


def promote_with(
    monkeypatch: pytest.MonkeyPatch, clusters: Mapping[str, StubCluster], *links: str
) -> tuple[Promoted, ...]:
    """Promotes `links` between these clusters, which are named by their aliases."""
    monkeypatch.setattr(
        promoting, "clusters", lambda: nullcontext(lambda client: clusters[client.alias])
    )
    return promoting.promote(links_between(*links), wait_s=0)


def test_an_error_of_one_link_names_the_links_that_were_promoted_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lagging, whole = Log(), Log()
    lagging.append([Rec(offset=0)])
    clusters = {
        "A": StubCluster("A", {AT: lagging}),
        "B": StubCluster("B"),
        "C": StubCluster("C", {AT: whole}),
    }
    for each in links_between("C->B", "A->B").links:
        mirror = TopicPartition(f"{each.source.alias}.orders", 0)
        clusters["B"].logs[mirror] = Log()
        clusters["B"].begin(each, progress(position=0, outlets=outlets_at(mirror)))

    with pytest.raises(PartitionsFailedError, match=r"C->B: already promoted; stop the producers"):
        promote_with(monkeypatch, clusters, "C->B", "A->B")
    with pytest.raises(PartitionsFailedError, match=r"mirrored up to 0 of 1 \(stop the producers"):
        promote_with(monkeypatch, clusters, "A->B")


def test_a_link_that_mirrors_nothing_is_left_unless_no_other_is_promoted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters = {
        "A": StubCluster("A"),
        "B": StubCluster("B"),
        "C": StubCluster("C", {AT: Log()}),
    }
    mirror = TopicPartition("C.orders", 0)
    (link,) = links_between("C->B").links
    clusters["B"].logs[mirror] = Log()
    clusters["B"].begin(link, progress(position=0, outlets=outlets_at(mirror)))
    done, left = promote_with(monkeypatch, clusters, "C->B", "A->B")
    assert [(each.link, each.changed, each.left) for each in (done, left)] == [
        ("C->B", True, None),
        ("A->B", False, "it mirrors no topics"),
    ]
    with pytest.raises(ConfigError, match=r"promote the link of A->B: it mirrors no topics"):
        promote_with(monkeypatch, clusters, "A->B")


@pytest.mark.parametrize("looks", [[()], [(LATE,)], [(), (LATE,)]])
def test_records_that_come_before_or_while_groups_are_placed_prevent_a_promotion(
    looks: list[tuple[LaggingPartition, ...]],
) -> None:
    """`looks`: what lags, look by look, once the mirror is held."""
    left = [(), *looks]

    class Source(StubCluster):
        def log_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:  # type: ignore[override]
            lagging = left.pop(0) if left else ()
            return dict.fromkeys(places, 12 if lagging else 11)

    clusters = {"A": Source("A", {AT: Log()}), "B": StubCluster("B", {MIRROR: Log()})}
    target = clusters["B"]
    target.begin(LINK, progress(position=11, outlets=outlets_at(MIRROR)))
    ending = Ending(
        LINK, Scope("orders"), cast(Any, lambda one: clusters[one.alias]), 3.0, lambda _: None
    )
    promotion = LinkPromotion(ending, Wanted(topic="orders", who="anna@ops", wait_s=0))
    if looks == [()]:
        assert promotion.run().changed
        (end,) = ends_of(target)
        assert (end.how, end.done) == (State.PROMOTED, True)
        return
    with pytest.raises(PartitionsFailedError, match="mirrored up to 11 of 12"):
        promotion.run()
    assert not ends_of(target)


def ending_of(target: StubCluster) -> Ending:
    return Ending(LINK, THE_LINK, cast(Any, target), 3.0, lambda _: None)


def ends_of(target: StubCluster) -> list[EndDirective]:
    return list(target.directives(LINK).all(EndDirective))


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), PartitionsFailedError("promote", "orders", "lags")]
)
def test_a_promotion_that_is_interrupted_or_fails_releases_its_mirror(error: BaseException) -> None:
    target = StubCluster()
    ending = ending_of(target)

    def fail() -> None:
        (end,) = ends_of(target)
        assert (end.how, end.until > end.at) == (State.PROMOTING, True)
        raise error

    def promote() -> None:
        with ending.holding(0.0):
            ending.begin(wish(State.PROMOTING, THE_LINK, "anna@ops", None), 0.0)
            fail()

    with pytest.raises(type(error)):
        promote()
    assert not ends_of(target)


def test_a_promotion_renews_itself_and_only_its_newest_command_finishes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command that slept must not write a cut that is true no more."""
    target = StubCluster()
    monkeypatch.setattr("causeway.operate.failover.ending._RENEW_S", 0.001)
    slow, next_call = ending_of(target), ending_of(target)
    asked = wish(State.PROMOTING, THE_LINK, "anna@ops", None)
    with slow.holding(0.0):
        slow.begin(asked, 0.0)
        (before,) = ends_of(target)
        await_until(lambda: ends_of(target)[0].until > before.until, 10)
    with next_call.holding(0.0):
        next_call.begin(asked.replace(who="ben@ops"), 0.0)
        with pytest.raises(ConflictError, match="another command goes on with"):
            slow.finish(State.PROMOTED, {}, done=False)
        next_call.finish(State.PROMOTED, {}, done=False)
    (end,) = ends_of(target)
    assert (end.how, end.who, end.until, end.run) == (State.PROMOTED, "anna@ops", -1, "")


@pytest.mark.parametrize("by_file", [True, False])
def test_a_refusal_names_who_paused_the_lagging_partitions(*, by_file: bool) -> None:
    """And what to do about it: it never catches up while it is paused."""
    anna = "paused by anna@ops since 2026-01-31T12:00:00Z"
    begun = row().progress.replace(position=10, state=State.PAUSED, reason=anna)
    file = {"records_paused": True, "places": {"causeway.paused": "mirror.yaml:7"}}
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*", more=file if by_file else {})
    orders = SimpleNamespace(source="orders", partitions=2)
    ends = dict.fromkeys([AT, TopicPartition("orders", 1)], 11)
    lagging = lagging_partitions(mirror, cast(Any, [orders]), ends, {AT: begun})
    file_says = "paused by the file: mirror.yaml:7"
    assert [str(each) for each in lagging] == [
        f"orders-0: mirrored up to 10 of 11, {file_says if by_file else anna}",
        f"orders-1: not begun{f', {file_says}' if by_file else ''}",
    ]
    refused = refusal("orders of A->B", lagging)
    assert str(refused.remedy).startswith("take the pause back, let it catch up, and try again")
    assert "stop the producers" in str(refusal("the link of A->B", (LATE,)).remedy)
