"""Outlets as transforms want them: made ready, claimed durably, and only then used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from causeway.cluster import OffsetAt
from causeway.config import INTERNAL, RouteError
from causeway.control import RoutedTopic, RouteNeed, routed_topics
from causeway.daemon import Sides
from causeway.daemon.partitions import Registry, Row, led_topics, outlets
from causeway.daemon.partitions.outlets import Outlets
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import Entry, LeadershipLostError, PartitionProgress
from causeway.model import Pair, State, TopicPartition
from causeway.relay import OutletWanted
from tests.builders.daemon import says
from tests.builders.records import TOPIC, progress
from tests.builders.settings import LINK

AT = TopicPartition("orders", 0)
PAID = TopicPartition("paid", 0)


class Target:
    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.ids = 900

    def list_offsets(self, places: Sequence[TopicPartition], _: int) -> dict[Any, Any]:
        return {
            at: OffsetAt(offset=self.ends.get(at, 7), timestamp=-1, leader_epoch=-1)
            for at in places
        }

    def init_producer_ids(self, count: int) -> list[tuple[int, int]]:
        self.ids += count
        return [(self.ids - count + n, 0) for n in range(count)]


class World:
    """A link's driver but for what is tested; `said` in the order in which it happened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registry = Registry("A->B")
        self.target = Target()
        self.said: list[Any] = []
        self.ready: dict[str, RoutedTopic | CausewayError] = {}
        self.needs: Mapping[str, RouteNeed] = {}
        self.stuck: set[TopicPartition] = set()
        self.refuses: CausewayError | None = None
        self.assigned: dict[TopicPartition, tuple[Row, bool]] = {}
        monkeypatch.setattr(routed_topics, "make_ready", self._make_ready)
        both = cast(Any, self.target)
        self.outlets = Outlets(
            LINK,
            Sides(source=both, target=both, source_admin=both, target_admin=both),
            self.registry,
            cast(Any, self),
            recall=self._recall,
            revoke=lambda places: self.said.extend(("revoke", at) for at in places),
            assign=self._assign,
            on_created=lambda: self.said.append("created"),
        )

    def _make_ready(
        self, needs: Mapping[str, RouteNeed], *_: object
    ) -> dict[str, RoutedTopic | CausewayError]:
        self.needs = needs
        return {name: self.ready[name] for name in needs}

    def _recall(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, bool]:
        free = {at: True for at in places if at not in self.stuck}
        self.said += [("recall", at) for at in free]
        return free

    def _assign(self, rows: Sequence[Row], settled: Mapping[TopicPartition, bool]) -> None:
        for row in rows:
            self.said.append(("assign", row.progress.source))
            self.assigned[row.progress.source] = row, settled[row.progress.source]

    def write(self, entries: Sequence[Entry]) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.said += [("write", e.source) for e in entries if isinstance(e, PartitionProgress)]

    def add(self, name: str = "orders", **changes: Any) -> Row:
        topic = replace(TOPIC, source=name, target=f"A.{name}")
        known = progress(topic=name, transform="now", **changes)
        own = known.outlets[0].replace(topic=topic.target)
        row = Row(topic=topic, progress=known.replace(outlets=(own,)), first=0)
        self.registry.add([row])
        return row

    def wants(self, row: Row, *wants: OutletWanted, state: State = State.RECOVERING) -> None:
        told = says(state, 100)
        report = told.report.replace(
            topic=row.progress.topic, outlets=row.progress.outlets, wants=wants
        )
        self.registry.take_reports([told.replace(report=report)])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def there(name: str, *, created: bool = False) -> RoutedTopic:
    return RoutedTopic(target=f"A.{name}", topic_id="ee" * 16, created=created)


def test_an_outlet_is_durable_before_a_lane_has_it(world: World) -> None:
    row = world.add()
    world.ready = {"paid": there("paid")}
    world.target.ends[TopicPartition("A.paid", 2)] = 31
    world.wants(row, OutletWanted(topic="paid", partition=2, offset=93))
    assert world.registry.wanted.is_set()

    assert world.outlets.supply()

    assert world.said == [("recall", AT), ("write", AT), ("assign", AT)]
    assert world.needs == {"paid": RouteNeed(base="orders", partitions=frozenset({2}))}
    assert len(row.progress.outlets) == 2
    own, new = row.progress.outlets
    assert own.producer_id == 5
    assert own.exclusive
    assert (new.topic, new.partition, new.routed) == ("A.paid", 2, "paid")
    assert new.pair == Pair(source=93, target=31, sequence=0)
    assert new.producer_id == 900
    assert not new.exclusive
    assert new.topic_id == "ee" * 16
    assert world.assigned[AT] == (row, True)
    assert not world.registry.wanting()


def test_the_claim_that_was_not_written_is_not_used(world: World) -> None:
    """Also at the second try nothing is taken for claimed that is not."""
    row = world.add()
    world.ready = {"paid": there("paid", created=True)}
    world.wants(row, OutletWanted(topic="paid", partition=0, offset=93))
    world.refuses = BrokerError("write", "", "", code=7, name="TIMED_OUT", retriable=True)
    with pytest.raises(BrokerError):
        world.outlets.supply()
    assert len(row.progress.outlets) == 1
    assert ("assign", AT) not in world.said

    world.refuses = None
    world.said.clear()
    assert world.outlets.supply()
    assert [each for each in world.said if each != ("recall", AT)] == [
        ("write", AT),
        ("assign", AT),
        "created",
    ]
    (new,) = [outlet for outlet in row.progress.outlets if outlet.routed]
    assert new.pair == Pair(source=93, target=0, sequence=0), "it is empty"


def test_who_leads_no_more_claims_nothing(world: World) -> None:
    row = world.add()
    world.ready = {"paid": there("paid")}
    world.wants(row, OutletWanted(topic="paid", partition=0, offset=93))
    world.refuses = LeadershipLostError("write progress", "", "another driver")
    with pytest.raises(LeadershipLostError):
        world.outlets.supply()
    assert not world.assigned


def test_what_is_there_meanwhile_needs_no_claim_of_its_own(world: World) -> None:
    row = world.add()
    want = OutletWanted(topic="paid", partition=0, offset=93)
    world.ready = {"paid": there("paid")}
    world.wants(row, want)
    assert world.outlets.supply()
    world.wants(row, want)  # a lane's last word from before
    assert world.outlets.supply()
    assert len(row.progress.outlets) == 2
    assert world.target.ids == 901
    assert world.said.count(("assign", AT)) == 2


def test_a_mirror_that_records_are_led_to_is_alone_no_more_before_they_come(world: World) -> None:
    row, mirror = world.add(), world.add("paid")
    world.ready = {"paid": there("paid")}
    world.wants(row, OutletWanted(topic="paid", partition=0, offset=93))

    assert world.outlets.supply()

    first = world.said.index(("write", AT))
    assert ("recall", PAID) in world.said[:first]
    assert ("assign", PAID) in world.said[first:]
    assert [outlet.exclusive for outlet in mirror.progress.outlets] == [False]
    assert [outlet.exclusive for outlet in row.progress.outlets] == [True, False]


def test_nothing_is_led_where_a_lane_takes_itself_to_be_alone(world: World) -> None:
    row, mirror = world.add(), world.add("paid")
    world.ready = {"paid": there("paid")}
    world.wants(row, OutletWanted(topic="paid", partition=0, offset=93))
    world.stuck = {PAID}
    assert not world.outlets.supply()
    assert len(row.progress.outlets) == 1
    assert not world.assigned
    world.stuck = set()
    assert world.outlets.supply()
    assert set(world.assigned) == {AT, PAID}
    assert not mirror.progress.outlets[0].exclusive


def test_a_claim_that_was_recalled_late_is_given_back_without_other_wants(
    world: World,
) -> None:
    row, mirror = world.add(), world.add("paid")
    world.ready = {"paid": there("paid")}
    world.wants(row, OutletWanted(topic="paid", partition=0, offset=93))
    world.stuck = {PAID}
    assert not world.outlets.supply()
    world.registry.stop({AT: "deleted"})
    assert not world.outlets.supply(), "its lane has it still"
    world.stuck = set()
    assert world.outlets.supply()
    assert set(world.assigned) == {PAID}
    assert world.assigned[PAID][0] is mirror


def test_the_topic_itself_may_be_led_to_in_another_partition(world: World) -> None:
    row = world.add()
    world.ready = {"orders": there("orders")}
    world.wants(row, OutletWanted(topic="orders", partition=1, offset=93))
    assert world.outlets.supply()
    assert [(o.topic, o.partition, o.routed) for o in row.progress.outlets] == [
        ("A.orders", 0, None),
        ("A.orders", 1, "orders"),
    ]


def test_a_forbidden_topic_stops_the_partition_alone(world: World) -> None:
    bad, good = world.add(), world.add("lines")
    world.ready = {"mm2-x.internal": RouteError("lead a record on", "", INTERNAL)}
    world.ready["paid"] = there("paid")
    world.wants(bad, OutletWanted(topic="mm2-x.internal", partition=0, offset=93))
    world.wants(good, OutletWanted(topic="paid", partition=0, offset=93))
    assert world.outlets.supply()
    assert bad.progress.state is State.STOPPED
    assert INTERNAL in (bad.progress.reason or "")
    assert ("revoke", AT) in world.said
    assert set(world.assigned) == {TopicPartition("lines", 0)}


def test_an_outlet_that_is_not_available_yet_is_reported_and_tried_again(world: World) -> None:
    row = world.add()
    want = OutletWanted(topic="paid", partition=0, offset=93)
    world.ready = {"paid": BrokerError("create", "A.paid", "", code=29, name="CREATE_DENIED")}
    world.wants(row, want)
    assert not world.outlets.supply()
    assert row.progress.state is State.FAILED
    assert "CREATE_DENIED" in (row.progress.reason or "")
    assert "paid" not in (row.progress.reason or ""), "a record may hold it as its secret"
    world.wants(row, want)
    assert row.progress.state is State.FAILED, "whatever its lane says while it waits"
    assert row.failed_at is not None, "a bounded run does not wait for it for ever"
    world.ready = {"paid": there("paid")}
    assert world.outlets.supply()
    world.wants(row, state=State.RUNNING)
    assert [each.state for each in world.registry.status()] == [State.RUNNING]


def test_without_wants_no_cluster_is_asked(world: World) -> None:
    world.add()
    world.target = cast(Any, None)
    assert world.outlets.supply()
    assert not world.said


def test_a_led_to_topic_takes_after_the_first_that_feeds_it(world: World) -> None:
    one, two = world.add("b"), world.add("a")
    world.ready = {"paid": there("paid")}
    world.wants(one, OutletWanted(topic="paid", partition=0, offset=93))
    assert world.outlets.supply()
    assert [(t.source, t.target) for t in led_topics(world.registry)] == [("b", "A.paid")]
    world.wants(two, OutletWanted(topic="paid", partition=0, offset=94))
    assert world.outlets.supply()
    assert world.needs["paid"].base == "a"
    assert [(t.source, t.target) for t in led_topics(world.registry)] == [("a", "A.paid")]
    world.add("paid")
    assert not led_topics(world.registry), "it mirrors a topic itself"


def test_names_out_of_records_do_not_drown_the_target(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlets, "MOST_OUTLETS", 2)
    world.ready = {"a": there("a"), "b": there("b")}
    row, other = world.add(), world.add("others")
    world.wants(row, *(OutletWanted(topic=name, partition=0, offset=9) for name in "ab"))
    world.wants(other, OutletWanted(topic="a", partition=0, offset=9))

    assert world.outlets.supply()

    assert row.progress.state is State.STOPPED
    assert "more than 2 target partitions" in (row.progress.reason or "")
    assert len(row.progress.outlets) == 1
    assert len(other.progress.outlets) == 2, "it holds up no other"
    assert world.needs.keys() == {"a"}, "what is refused is not made"


def test_a_partition_that_keeps_its_offsets_feeds_no_other(world: World) -> None:
    world.ready = {"a": there("a")}
    row, other = world.add(), world.add("others")
    row.progress = row.progress.replace(offsets_from=0)
    for each in (row, other):
        world.wants(each, OutletWanted(topic="a", partition=0, offset=9))

    assert world.outlets.supply()

    assert row.progress.state is State.STOPPED
    assert "it keeps its offsets" in (row.progress.reason or "")
    assert len(row.progress.outlets) == 1
    assert len(other.progress.outlets) == 2
