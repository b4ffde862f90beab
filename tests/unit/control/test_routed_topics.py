"""Topics that transforms lead to: their names, and what is made for them on the target."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from causeway.cluster import ClusterMetadata, ConfigEntry, NewTopic, TopicMetadata
from causeway.config import (
    INTERNAL,
    MOST_PARTITIONS,
    LinkSettings,
    RouteError,
    Routes,
    most_partitions,
)
from causeway.control import RoutedTopic, RouteNeed
from causeway.control.acls import ObservedAcls as ObservedAcls
from causeway.control.acls import plan as plan_acls
from causeway.control.routed_topics import make_ready, target_of
from causeway.errors import BrokerError, CausewayError
from causeway.filters import compile_patterns
from causeway.naming import ReplicationPolicy
from causeway.wire import broker_error
from causeway.wire.codes import UNKNOWN_TOPIC_OR_PARTITION
from tests.builders.settings import filtered_link
from tests.builders.settings import link as acl_link
from tests.builders.topics import DEFAULTS, acl, entries, entry, mirrored, topic

LINK = filtered_link()


class Cluster:
    """One with these topics, whose partitions it has and counts."""

    def __init__(
        self,
        topics: Mapping[str, int],
        configs: Mapping[str, Mapping[str, ConfigEntry]] = {},
        *,
        denied: Collection[str] = (),
    ) -> None:
        self.topics = dict(topics)
        self.configs = configs
        self.denied = denied
        self.created: list[NewTopic] = []
        self.grown: dict[str, int] = {}

    def metadata(self, names: Iterable[str]) -> ClusterMetadata:
        return ClusterMetadata(
            cluster_id="c",
            brokers={1: ("h", 1)},
            controller=1,
            topics={name: self._topic(name) for name in names},
        )

    def _topic(self, name: str) -> TopicMetadata:
        if name not in self.topics:
            error = broker_error(UNKNOWN_TOPIC_OR_PARTITION, "ask", name)
            return replace(topic(name, 0), error=error)
        return topic(name, self.topics[name])

    def describe_configs(self, names: Iterable[str], _: object = None) -> dict[str, Any]:
        there = {name: self.configs.get(name, entries()) for name in names if name in self.topics}
        return there | {name: self._topic(name).error for name in names if name not in there}

    def broker_configs(self, _: int) -> dict[str, ConfigEntry]:
        names = {"max.message.bytes": "message.max.bytes"}
        return {
            names.get(name, name if name == "compression.type" else f"log.{name}"): entry(value)
            for name, value in DEFAULTS.items()
        }

    def create_topics(
        self, new: Iterable[NewTopic], validate_only: bool
    ) -> dict[str, CausewayError | None]:
        answers: dict[str, CausewayError | None] = {}
        for each in new:
            if each.name in self.denied:
                answers[each.name] = BrokerError("create", each.name, "", code=29, name="DENIED")
                continue
            self.created.append(each)
            self.topics[each.name] = each.partitions
            answers[each.name] = None
        return answers

    def create_partitions(self, wanted: Mapping[str, int]) -> dict[str, None]:
        self.grown |= wanted
        self.topics |= wanted
        return dict.fromkeys(wanted)

    def alter_configs(self, changes: Mapping[str, Any]) -> dict[str, None]:
        return dict.fromkeys(changes)


def ready(
    needs: Mapping[str, RouteNeed], source: Cluster, target: Cluster, link: LinkSettings = LINK
) -> dict[str, RoutedTopic | CausewayError]:
    return make_ready(needs, cast(Any, source), cast(Any, target), link)


def need(*partitions: int, base: str = "orders") -> RouteNeed:
    return RouteNeed(base=base, partitions=frozenset(partitions))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "no legal name"),
        ("a b", "no legal name"),
        ("..", "no legal name"),
        ("ä", "no legal name"),
        ("x" * 248, "249"),
        ("__consumer_offsets", "internal"),
        ("mm2-offset-syncs.B.internal", "internal"),
        ("heartbeats", "internal"),
        ("C.heartbeats", "internal"),
        ("B.orders", "circle"),
    ],
)
def test_where_no_record_may_be_led(name: str, why: str) -> None:
    with pytest.raises(RouteError, match=why):
        target_of(name, LINK)


@pytest.mark.parametrize(
    "name", ["jane@example.org", "__jane", "B.jane", "jane.heartbeats", "jane" * 62]
)
def test_no_reason_contains_the_name(name: str) -> None:
    """It may be what a record holds."""
    with pytest.raises(RouteError) as caught:
        target_of(name, LINK)
    assert "jane" not in str(caught.value)


def test_a_worker_decides_as_the_driver_does() -> None:
    names = ["paid", "a b", "x" * 248, "__consumer_offsets", "C.heartbeats", "B.orders", ""]
    here = Routes.of(LINK)
    there = pickle.loads(pickle.dumps(here.portable()))
    assert [there.why_not(name) for name in names] == [here.why_not(name) for name in names]
    assert [there.why_not(name) is None for name in names] == [name == "paid" for name in names]


def test_a_partition_must_be_one_of_a_thousand_or_of_the_source() -> None:
    assert most_partitions(3) == MOST_PARTITIONS
    assert most_partitions(2 * MOST_PARTITIONS) == 2 * MOST_PARTITIONS + 1
    assert Routes.of(LINK).why_not("__x") == INTERNAL


def test_of_a_policy_of_ones_own_a_worker_asks_nothing() -> None:
    custom = ReplicationPolicy(kind="custom", custom=cast(Any, object()), class_name="x:Y")
    there = pickle.loads(pickle.dumps(Routes.of(filtered_link(policy=custom)).portable()))
    assert there.why_not("paid") is None
    assert there.why_not("a b") is not None
    assert there.why_not("__consumer_offsets") is not None


def test_names_follow_the_replication_policy() -> None:
    assert target_of("paid", LINK) == "A.paid"
    identity = filtered_link(policy=ReplicationPolicy(kind="identity", source_alias="A"))
    assert target_of("paid", identity) == "paid"


def test_a_new_topic_is_like_a_mirror_of_what_is_led_there() -> None:
    source = Cluster(
        {"orders": 3}, {"orders": entries({"retention.ms": "5", "cleanup.policy": "delete"})}
    )
    target = Cluster({})
    found = ready({"paid": need(1)}, source, target)
    assert found["paid"] == RoutedTopic(
        target="A.paid", topic_id=topic("A.paid").topic_id, created=True
    )
    (made,) = target.created
    assert (made.name, made.partitions, made.replication_factor) == ("A.paid", 3, 1)
    assert made.configs["retention.ms"] == "5"


@pytest.mark.parametrize(("wanted", "own", "made"), [(6, 0, 7), (0, 5, 5), (1, 2, 3)])
def test_it_has_as_many_partitions_as_anything_asks_for(wanted: int, own: int, made: int) -> None:
    source = Cluster({"orders": 3} | ({"paid": own} if own else {}))
    target = Cluster({})
    ready({"paid": need(0, wanted)}, source, target)
    assert target.created[0].partitions == made


def test_the_topic_of_its_name_says_how_it_is_configured() -> None:
    configs = {"orders": entries({"retention.ms": "5"}), "paid": entries({"retention.ms": "9"})}
    target = Cluster({})
    ready({"paid": need(0)}, Cluster({"orders": 1, "paid": 1}, configs), target)
    assert target.created[0].configs["retention.ms"] == "9"
    # One that is left out of the mirror says nothing.
    left_out = {name.replace("paid", "secret-paid"): each for name, each in configs.items()}
    target = Cluster({})
    ready({"secret-paid": need(0)}, Cluster({"orders": 1, "secret-paid": 1}, left_out), target)
    assert target.created[0].configs["retention.ms"] == "5"


def test_it_grows_only_where_it_must() -> None:
    source, target = Cluster({"orders": 8}), Cluster({"A.paid": 4, "A.lost": 4})
    found = ready({"paid": need(3), "lost": need(4)}, source, target)
    assert target.grown == {"A.lost": 8}
    assert not target.created
    assert {type(each) for each in found.values()} == {RoutedTopic}


def test_a_partition_number_from_a_record_creates_no_huge_topic() -> None:
    target = Cluster({})
    for number in (MOST_PARTITIONS, -1):
        found = ready({"paid": need(0, number)}, Cluster({"orders": 3}), target)
        assert isinstance(found["paid"], RouteError)
    assert not target.created
    assert isinstance(
        ready({"paid": need(1999)}, Cluster({"orders": 2000}), target)["paid"], RoutedTopic
    )


def test_one_that_fails_keeps_no_other_from_being_made() -> None:
    target = Cluster({}, denied={"A.paid"})
    found = ready(
        {"paid": need(0), "open": need(0), "__x": need(0)}, Cluster({"orders": 1}), target
    )
    assert "DENIED" in str(found["paid"])
    assert isinstance(found["__x"], RouteError)
    assert isinstance(found["open"], RoutedTopic)


def test_acls_go_where_records_are_led_as_well() -> None:
    (orders,) = mirrored("orders")
    paid = replace(orders, target="A.paid")
    reads = acl("ALLOW", "READ", name="orders")
    seen = ObservedAcls(source=frozenset({reads}), target=frozenset())
    planned = plan_acls(seen, [orders, paid], acl_link())
    assert {each.name for each in planned.creates} == {"A.orders", "A.paid"}


def test_nothing_is_led_to_a_mirror_that_keeps_its_offsets() -> None:
    keeping = replace(LINK, preserve_topics=compile_patterns("paid"))
    source, target = Cluster({"orders": 1, "paid": 1}), Cluster({})
    found = ready({"paid": need(0), "other": need(0)}, source, target, keeping)
    assert "keeps its own offsets" in str(found["paid"])
    assert isinstance(found["other"], RoutedTopic)
    # No mirror has that name.
    alone = ready({"paid": need(0)}, Cluster({"orders": 1}), Cluster({}), keeping)
    assert isinstance(alone["paid"], RoutedTopic)
