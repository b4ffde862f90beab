"""Names on the target that another topic has, or would have; no broker takes part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.cluster import OffsetAt
from causeway.config import LinkSettings
from causeway.control import ObservedTopics, TopicPlan, collisions
from causeway.control.topics import plan
from causeway.errors import CausewayError
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import Pair, State, TopicPartition
from causeway.naming import ReplicationPolicy
from causeway.renames import parse
from tests.builders.settings import filtered_link as plain_link
from tests.builders.topics import observed as plain_observed

RULES = "orders.* => sales; pay-(.*) => wages.$1; one => A.two"


@dataclass
class Target:
    """Only its ends; `asked`: of which topics."""

    ends: Mapping[str, int]
    asked: set[str] = field(default_factory=set)

    def list_offsets(
        self, places: Collection[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, OffsetAt | CausewayError]:
        assert timestamp == -1
        self.asked |= {at.topic for at in places}
        return {
            at: OffsetAt(offset=self.ends[at.topic], timestamp=-1, leader_epoch=-1) for at in places
        }


def link(rules: str = RULES, **changes: Any) -> LinkSettings:
    policy = ReplicationPolicy(source_alias="A", renames=parse(rules))
    return plain_link(policy=policy, **changes)


def look(
    source: Collection[str], ends: Mapping[str, int], of: LinkSettings, target: Target | None = None
) -> ObservedTopics:
    """`ends`: of the target's topics."""
    seen = plain_observed(dict.fromkeys(source, 1), dict.fromkeys(ends, 1))
    decisions = {name: of.decide_topic(name) for name in seen.source_topics}
    there = cast(Any, target or Target(ends))
    names = collisions.observe(decisions, seen.source_topics, seen.target_topics, there, of)
    return replace(seen, names=names)


def planned(
    source: Collection[str],
    ends: Mapping[str, int] = {},
    begun: Mapping[str, frozenset[str]] = {},
    **changes: Any,
) -> TopicPlan:
    of = link(**changes)
    return plan(look(source, ends, of), of, begun)


def targets(found: TopicPlan) -> dict[str, str]:
    return {topic.source: topic.target for topic in found.mirrored}


def reasons(found: TopicPlan) -> dict[str, str]:
    assert {each.topic for each in found.problems} == {each.topic for each in found.left_out}
    assert {each.code for each in found.left_out} <= {"name-taken"}
    return {each.topic: each.reason for each in found.left_out}


def test_of_two_topics_with_one_name_neither_gets_it_and_the_rest_goes_on() -> None:
    found = planned(["orders-1", "orders-2", "pay-eu"])

    assert targets(found) == {"pay-eu": "wages.eu"}
    assert reasons(found) == {
        "orders-1": "sales on B would be the mirror of orders-2, too",
        "orders-2": "sales on B would be the mirror of orders-1, too",
    }
    assert [change.topic for change in found.changes] == ["wages.eu"]
    assert "change causeway.rename" in str(found.problems[0].error)


def test_whose_records_are_there_keeps_the_name() -> None:
    begun = {"orders-2": frozenset({"sales"})}
    found = planned(["orders-1", "orders-2", "orders-3"], {"sales": 7}, begun)

    assert targets(found) == {"orders-2": "sales"}
    assert set(reasons(found).values()) == {"sales on B is the mirror of orders-2, too"}


def test_a_rule_and_the_policy_can_make_one_name_too() -> None:
    assert set(reasons(planned(["one", "two"]))) == {"one", "two"}


def test_a_topic_that_others_have_filled_is_not_taken_over() -> None:
    found = planned(["orders", "pay-eu"], {"sales": 3, "wages.eu": 0})

    assert targets(found) == {"pay-eu": "wages.eu"}, "an empty one waits for its mirror"
    assert reasons(found) == {
        "orders": "sales is on B already, with records that this link did not mirror"
    }
    assert "A->B.causeway.sole.writer = false" in str(found.problems[0].error)


def test_a_topic_that_is_its_mirror_stays_so() -> None:
    assert targets(planned(["orders"], {"sales": 3}, {"orders": frozenset({"sales"})}))
    earlier = {"orders": frozenset({"A.orders"})}
    assert not targets(planned(["orders"], {"sales": 3, "A.orders": 3}, earlier))


def test_a_link_that_is_not_the_sole_writer_shares_the_topic() -> None:
    assert targets(planned(["orders"], {"sales": 3}, joins=True)) == {"orders": "sales"}
    assert not targets(planned(["orders", "orders-2"], joins=True)), "not two of one link"


def test_the_policy_s_own_names_are_not_asked_about() -> None:
    target = Target({"A.payments": 9, "wages.eu": 0})
    of = link()
    seen = look(["payments", "pay-eu"], target.ends, of, target)

    assert targets(plan(seen, of)) == {"payments": "A.payments", "pay-eu": "wages.eu"}
    assert target.asked == {"wages.eu"}
    look(["payments"], {"A.payments": 9}, plain_link(), none := Target({}))
    assert not none.asked


def test_a_topic_is_not_mirrored_onto_itself() -> None:
    """Both aliases are one cluster's."""
    found = planned(["same"], {"same": 5}, {"same": frozenset({"same"})}, rules="(.*) => $1")
    assert reasons(found) == {"same": "same on B is this topic itself"}


@pytest.mark.parametrize("kind", ["identity", "unchanged", "custom"])
def test_nor_is_it_by_a_policy_that_keeps_names(kind: str) -> None:
    """By other addresses, so that the file could not show it."""
    policy = ReplicationPolicy(kind=cast(Any, kind), source_alias="A", custom=cast(Any, Keeping()))
    of = plain_link(policy=policy, sole_writer=False)
    found = plan(look(["same"], {"same": 5, "else": 1}, of), of)
    assert reasons(found) == {"same": "same on B is this topic itself"}
    assert "are one cluster" in str(found.problems[0].error)


class Keeping:
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic

    def topic_source(self, topic: str) -> str | None:
        return None

    def upstream_topic(self, topic: str) -> str | None:
        return None


def outlet(topic: str, routed: str | None = None) -> Outlet:
    return Outlet(
        topic=topic,
        partition=0,
        topic_id="bb" * 16,
        producer_id=1,
        producer_epoch=0,
        pair=Pair(source=0, target=0, sequence=0),
        routed=routed,
    )


def progress(topic: str, *outlets: Outlet) -> PartitionProgress:
    return PartitionProgress(
        topic=topic,
        partition=0,
        topic_id="aa" * 16,
        leader_epoch=0,
        position=0,
        state=State.RUNNING,
        outlets=outlets,
    )


def test_what_has_begun_is_what_has_outlets_of_its_own() -> None:
    known = [
        progress("orders", outlet("sales"), outlet("eu", routed="eu")),
        progress("waiting"),
        progress("orders", outlet("sales")),
    ]
    assert collisions.begun_by(known) == {"orders": frozenset({"sales"})}


@given(
    source=st.sets(st.sampled_from(["orders", "orders-1", "pay-a", "pay-b", "one", "two", "x"])),
    ends=st.dictionaries(st.sampled_from(["sales", "wages.a", "A.two", "A.x"]), st.integers(0, 2)),
    begun=st.dictionaries(
        st.sampled_from(["orders", "pay-a", "two"]), st.just(frozenset({"sales", "A.two"}))
    ),
)
def test_no_two_topics_ever_share_a_name(
    source: set[str], ends: dict[str, int], begun: dict[str, frozenset[str]]
) -> None:
    """And each topic is mirrored or left out with a reason."""
    found = planned(source, ends, begun)

    names = list(targets(found).values())
    assert len(names) == len(set(names))
    assert {*targets(found), *reasons(found)} == source
    for name, target in targets(found).items():
        renamed = not target.endswith(f".{name}")
        assert not renamed or not ends.get(target) or target in begun.get(name, ())
