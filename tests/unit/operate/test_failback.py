"""What the old source alone has, where a mirror the other way begins, and when it must not."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import OffsetAt
from causeway.config import (
    RunSettings,
    Settings,
    TransformSettings,
    TreatmentSettings,
)
from causeway.daemon import Sides
from causeway.errors import ConfigError, PartitionsFailedError
from causeway.filters import compile_patterns
from causeway.link_topics import (
    THE_LINK,
    Cut,
    CutPoint,
    EndDirective,
    LinkDirectives,
    Scope,
    cuts_of,
)
from causeway.model import State, TopicPartition
from causeway.naming import ReplicationPolicy
from causeway.operate.directives import Wanted
from causeway.operate.failover import FailbackStep, reverse_link, unmirrored
from causeway.operate.failover import failing_back as failbacks
from causeway.operate.failover.failing_back import LinkFailback
from causeway.operate.failover.keeping import ReturningOffsets, returning_offsets
from causeway.operate.failover.unmirrored import UnmirroredRecords
from tests.builders.cluster import StubCluster
from tests.builders.records import TOPIC as MIRRORED
from tests.builders.settings import BACK, LINK, settings_of
from tests.harness.raw_batches import Rec
from tests.harness.world import Log

TOPIC = replace(MIRRORED, target="orders", partitions=2, target_partitions=2)
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def cut(**changes: Any) -> Cut:
    points = tuple(
        CutPoint(partition=at.partition, source=70, targets=((at, 50),), exact=True)
        for at in (FIRST, SECOND)
    )
    found = Cut(
        target="orders",
        source_id=TOPIC.source_id,
        target_id=TOPIC.target_id or "",
        points=points,
    )
    return found.replace(**changes)


def log(end: int, start: int, stable: int | None) -> Log:
    found = Log()
    while found.end < end:
        found.append([Rec(offset=found.end)])
    found.start, found.stable = start, stable
    return found


def look(
    ends: tuple[int, int], starts: int = 0, stable: int | None = None, **changes: Any
) -> UnmirroredRecords:
    """Of an old source that begins and ends so, and shows up to `stable` to committed reads. The
    target begins there too."""
    both = zip((FIRST, SECOND), ends, strict=True)
    source = StubCluster("A", {at: log(end, starts, stable) for at, end in both})
    target = StubCluster("B", {at: log(0, starts, None) for at in (FIRST, SECOND)})
    sides = Sides(source=source, target=target, source_admin=source, target_admin=target)
    return unmirrored.find_unmirrored(
        LINK, sides, {"orders": TOPIC}, {"orders": cut(**changes)}, {}
    )


def test_the_way_back_begins_at_the_cut() -> None:
    found = look((70, 75))
    assert found.starts == {FIRST: 50, SECOND: 50}
    (only,) = found.unmirrored
    assert (only.at, only.first, only.end, only.records, only.surely) == (SECOND, 70, 75, 5, True)


def test_a_partition_that_had_not_begun_holds_nothing() -> None:
    found = look((70, 75), points=cut().points[:1])
    assert found.starts == {FIRST: 50, SECOND: 0}
    assert [(each.at, each.first) for each in found.unmirrored] == [(SECOND, 0)]


def test_records_that_the_old_source_has_deleted_are_counted() -> None:
    """Its retention goes on once it is there again."""
    found = look((70, 90), starts=85)
    (only,) = found.unmirrored
    assert (only.at, only.first, only.records, only.deleted) == (SECOND, 85, 5, 15)
    (all_of_it,) = look((70, 90), starts=90).unmirrored
    assert (all_of_it.first, all_of_it.records, all_of_it.deleted) == (90, 0, 20)
    assert not look((70, 70), starts=60).unmirrored


def test_what_a_transaction_holds_back_is_not_passed_over() -> None:
    with pytest.raises(PartitionsFailedError, match=r"orders-1: .* open there from offset 72 on"):
        look((70, 75), stable=72)
    assert look((70, 75), stable=75).unmirrored


def test_a_recreated_topic_comes_back_as_a_whole() -> None:
    found = look((0, 3), source_id="cc" * 16)
    assert found.starts == {FIRST: 0, SECOND: 0}
    assert [(each.at, each.first, each.end) for each in found.unmirrored] == [(SECOND, 0, 3)]
    found = look((70, 70), target_id="cc" * 16)
    assert found.starts == {FIRST: 0, SECOND: 0}, "the cut is of another topic"
    assert [(each.first, each.end) for each in found.unmirrored] == [(0, 70), (0, 70)]
    assert found.lost == ()
    assert look((70, 70), starts=60).gone == {FIRST: 10, SECOND: 10}


def test_so_does_a_partition_that_lost_all() -> None:
    found = look((0, 70))
    assert found.starts == {FIRST: 0, SECOND: 50}
    assert found.lost == (FIRST,)


def test_a_topic_that_is_missing_is_not_passed_over() -> None:
    stub = StubCluster()
    sides = Sides(source=stub, target=stub, source_admin=stub, target_admin=stub)
    with pytest.raises(ConfigError, match=r"A lacks it, or the file.*--create-topics"):
        unmirrored.find_unmirrored(LINK, sides, {}, {"orders": cut()}, {})


def test_a_way_back_has_to_bring_all_back_under_its_name() -> None:
    cuts = {"orders": cut()}
    reverse_link.check(LINK, BACK, cuts)
    narrow = replace(BACK, topics=compile_patterns("bills"))
    with pytest.raises(ConfigError, match=r"B->A does not bring it back"):
        reverse_link.check(LINK, narrow, {**cuts, "bills": cut(points=())})
    renamed = replace(BACK, policy=ReplicationPolicy(source_alias="B"))
    with pytest.raises(ConfigError, match=r"orders of A->B"):
        reverse_link.check(LINK, renamed, cuts)


def test_a_way_back_that_was_failed_over_is_not_turned_round() -> None:
    end = EndDirective(who="anna@ops", at=0, how=State.FAILED_OVER, done=True)
    with pytest.raises(ConfigError, match=r'failed over by anna@ops.*--link "B->A"'):
        reverse_link.check_end(LINK, BACK, end)
    reverse_link.check_end(LINK, BACK, end.replace(how=State.PROMOTED))
    reverse_link.check_end(LINK, BACK, None)


def test_an_unknown_topic_is_refused_with_names_that_are_like_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = StubCluster("A", {TopicPartition("orders", 0): Log()})
    clusters = {"A": source, "B": StubCluster("B")}
    monkeypatch.setattr(
        failbacks, "clusters", lambda: nullcontext(lambda client: clusters[client.alias])
    )
    with pytest.raises(ConfigError, match=r"topic odrers.*orders"):
        failbacks.failback(settings_of(LINK), topic="odrers")


def test_a_topic_does_not_go_back_by_a_link_that_has_ended_as_a_whole() -> None:
    """As it has since it was turned round: the topic would wait for ever."""
    end = EndDirective(who="anna@ops", at=0, how=State.PROMOTED, done=True)
    directives = LinkDirectives().with_all([(end.key, end)])
    with pytest.raises(ConfigError, match=r"B->A was promoted as a whole by anna@ops.*A->B, by"):
        reverse_link.check_whole(LINK, BACK, directives, Scope("orders"))
    reverse_link.check_whole(LINK, BACK, directives, THE_LINK)
    ended = end.replace(scope=Scope("orders"))
    directives = LinkDirectives().with_all([(ended.key, ended)])
    reverse_link.check_whole(LINK, BACK, directives, Scope("orders"))


def test_what_a_transform_led_elsewhere_has_no_way_back() -> None:
    reverse_link.check(LINK, BACK, {"orders": cut()})
    led = CutPoint(
        partition=0, source=70, targets=((TopicPartition("orders-eu", 0), 5),), exact=True
    )
    with pytest.raises(ConfigError, match="routed its records to orders-eu"):
        reverse_link.check(LINK, BACK, {"orders": cut(points=(led,))})


def test_what_a_link_keeps_from_its_target_is_not_saved_there() -> None:
    reverse_link.check_keep(LINK, ["orders"], "spare")
    with pytest.raises(ConfigError, match=r"mirrored back to A, which would have .* twice"):
        reverse_link.check_keep(LINK, ["orders"], "orders")
    pii = TransformSettings(name="pii", topics=compile_patterns("orders"), sql="SELECT 1")
    skip = TreatmentSettings(kind="skip", decides={"header": "secret"}, text="")
    reverse_link.check_keep(replace(LINK, transforms=(pii,)), ["bills"], "spare")
    for more in ({"transforms": (pii,)}, {"treatments": (skip,)}):
        with pytest.raises(ConfigError, match=r"--save-topic for orders of A->B.*--save PATH"):
            reverse_link.check_keep(replace(LINK, **cast(Any, more)), ["orders"], "spare")


@pytest.mark.parametrize("mingles", [True, False])
def test_where_both_sides_lie_in_one_topic_the_link_goes_on_where_it_was(*, mingles: bool) -> None:
    """The way back ran all the time: told to begin at the cut it would double what it has sent."""
    provenance = TreatmentSettings(kind="provenance", decides={}, text="")
    link = replace(LINK, policy=ReplicationPolicy(kind="identity", source_alias="A"))
    link = replace(link, treatments=(provenance,) if mingles else ())
    assert link.mingles is mingles
    end = EndDirective(who="anna@ops", at=1, how=State.FAILED_OVER, done=True)
    directives = LinkDirectives().with_all([(end.key, end)])
    of_topic = end.replace(scope=Scope("orders"), cut=cut())
    directives = directives.with_all([(of_topic.key, of_topic)])
    taken_back: list[float] = []

    def at_the_cut(places: Iterable[TopicPartition], _: int) -> dict[TopicPartition, OffsetAt]:
        return dict.fromkeys(places, OffsetAt(offset=50, timestamp=-1, leader_epoch=0))

    ending = SimpleNamespace(
        link=link,
        scope=THE_LINK,
        directives=directives,
        known_cuts=cuts_of(directives, THE_LINK),
        sides=SimpleNamespace(target=SimpleNamespace(list_offsets=at_the_cut)),
        take_back=taken_back.append,
    )
    settings = Settings(links=(link,), run=RunSettings(), spark={})
    move = LinkFailback(settings, cast(Any, ending), cast(Any, None), Wanted(wait_s=0))
    found = move.run(create=False, turn_round=False)
    assert found.step is (FailbackStep.GOES_ON if mingles else FailbackStep.NO_WAY_BACK)
    assert taken_back == ([0] if mingles else [])


KEPT = replace(BACK, offsets="preserve")
SAME = tuple(
    CutPoint(partition=at.partition, source=50, targets=((at, 50),), exact=True)
    for at in (FIRST, SECOND)
)


def keeps(ends: tuple[int, int], **changes: Any) -> ReturningOffsets:
    same: dict[str, Any] = {"points": SAME, "preserves": True}
    cuts = {"orders": cut(**same, **changes)}
    return returning_offsets(KEPT, cuts, look(ends, **same, **changes))


def test_the_way_back_keeps_offsets_where_the_old_source_ends_at_the_cut() -> None:
    assert keeps((50, 50)) == ReturningOffsets(topics=frozenset({"orders"}))


def test_a_log_that_goes_beyond_the_cut_cannot_go_on_with_its_offsets() -> None:
    found = keeps((50, 57))
    assert found.beyond == {SECOND: 7}
    assert found.blocked == frozenset({"orders"})


def test_an_empty_topic_is_filled_with_the_same_offsets() -> None:
    """It was deleted and created again since."""
    assert keeps((0, 0), source_id="cc" * 16) == ReturningOffsets(topics=frozenset({"orders"}))


def test_what_the_old_target_has_deleted_since_leaves_a_gap_that_is_not_filled() -> None:
    found = look((50, 50), points=SAME, preserves=True)
    deleted = replace(found, gone={FIRST: 3})
    kept = returning_offsets(KEPT, {"orders": cut(points=SAME, preserves=True)}, deleted)
    assert not kept.beyond
    assert kept.blocked == frozenset({"orders"})


def test_offsets_that_were_translated_are_not_kept_on_the_way_back() -> None:
    sighting = look((70, 75))
    assert returning_offsets(KEPT, {"orders": cut()}, sighting) == ReturningOffsets()
    assert returning_offsets(BACK, {"orders": cut(preserves=True)}, sighting) == ReturningOffsets()
