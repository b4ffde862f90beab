"""What can be chosen, and what not: of the origin, by names that mean something and by ids."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import Cluster, ClusterMetadata, OffsetAt, TopicMetadata
from causeway.control import geo_topics
from causeway.errors import AuthorizationError, CausewayError, ConfigError
from causeway.geo import claims, destinations, topics
from causeway.geo.claims import Claim
from causeway.link_topics import (
    THE_LINK,
    DirectivePlan,
    DirectivesRecord,
    EndDirective,
    LinkDirectives,
    OriginDirective,
    ProgressContents,
    Scope,
)
from causeway.model import State, TopicPartition
from causeway.wire import broker_error, codes
from tests.builders import records
from tests.builders.settings import GEO
from tests.harness.directives import replace_writes

SHOP_ID, DC2_ID = "shop's id", "dc2's id"
ORIGIN = OriginDirective(who="anna@ops", at=1, cluster=SHOP_ID)


class Kafka:
    """A cluster with topics, each with the end of its only partition."""

    def __init__(self, cluster_id: str, **ends: int) -> None:
        self.cluster_id = cluster_id
        self.ends = {name.replace("__dot__", "."): end for name, end in ends.items()}
        self.refused: dict[str, CausewayError] = {}

    def __str__(self) -> str:
        return self.cluster_id.removesuffix("'s id")

    def bootstrap_check(self, _: float) -> ClusterMetadata:
        return self.metadata([])

    def metadata(self, names: Collection[str] | None = None) -> ClusterMetadata:
        names = self.ends if names is None else names
        found = {
            name: TopicMetadata(
                name=name,
                topic_id="1" * 32,
                partitions=cast(Any, {0: None}) if name in self.ends else {},
                error=self.refused.get(name)
                or (
                    None
                    if name in self.ends
                    else broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION, "look up topic", name)
                ),
            )
            for name in names
        }
        return ClusterMetadata(cluster_id=self.cluster_id, brokers={}, controller=0, topics=found)

    def list_offsets(
        self, places: Sequence[TopicPartition], _: int
    ) -> dict[TopicPartition, OffsetAt]:
        return {
            at: OffsetAt(offset=self.ends[at.topic], timestamp=-1, leader_epoch=-1) for at in places
        }


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.link = GEO
        self.shop = Kafka(SHOP_ID, orders=9, bills=0, dc2__dot__users=3, legacy__dot__users=3)
        self.dc2 = Kafka(DC2_ID)
        self.directives = LinkDirectives({ORIGIN.key: ORIGIN})
        self.claims: dict[str, list[Claim]] = {SHOP_ID: [], DC2_ID: []}
        self.contents = ProgressContents()
        self.driver: str | None = None

        @contextmanager
        def clusters() -> Iterator[Any]:
            yield lambda client: self.shop if client.alias == "shop" else self.dc2

        for module in (topics, destinations):
            monkeypatch.setattr(module, "clusters", clusters)
            monkeypatch.setattr(module, "DirectiveRequest", self.asking)
        monkeypatch.setattr(geo_topics, "learn", lambda *_: self.directives)
        monkeypatch.setattr(claims, "on", lambda cluster: iter(self.claims[cluster.cluster_id]))
        replace_writes(monkeypatch, lambda _, __, decide: self.write(None, decide))

    def asking(self, link: Any, *_: object) -> Any:
        acted = None if self.driver is None else True
        outcome = SimpleNamespace(driver=self.driver, acted=acted, refused=None)
        return SimpleNamespace(
            link=link, contents=self.contents, write=self.write, outcome=lambda _: outcome
        )

    def write(self, _: object, decide: Any) -> DirectivePlan:
        plan: DirectivePlan = decide(self.directives)
        self.directives = self.directives.with_all(plan.changes)
        return plan

    def add(self, *names: str) -> topics.Done:
        return topics.add_topics(self.link, names, who="anna@ops", wait_s=None)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_topics_are_chosen_once(world: World) -> None:
    done = world.add("orders", "bills", "orders")
    assert [(each.topic, each.target, each.changed) for each in done.topics] == [
        ("orders", "shop.orders", True),
        ("bills", "shop.bills", True),
    ]
    (again,) = world.add("orders").topics
    assert not again.changed
    assert again.before is not None
    assert again.before.who == "anna@ops"
    topics.remove_topics(world.link, ["orders"], wait_s=None)
    assert geo_topics.chosen(world.directives).keys() == {"bills"}
    with pytest.raises(ConfigError, match=r"remove chosen topic bill: .*like it: bills"):
        topics.remove_topics(world.link, ["bills", "bill"], wait_s=None)
    with pytest.raises(ConfigError, match="pause chosen topic orders"):
        topics.pause_topics(world.link, ["orders"], wait_s=None)
    assert geo_topics.chosen(world.directives).keys() == {"bills"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("order", "there is no topic of that name; like it: orders"),
        ("no such", "name each topic"),
        ("ord.*", "name each topic"),
        ("dc2.users", "it came from dc2 .as users.: it would go in a circle"),
        ("legacy.users", "it came from dc2, which is called legacy there"),
        ("__consumer_offsets", "an internal topic"),
        ("x" * 249, "its name on dc2 would have 254 characters"),
    ],
)
def test_what_cannot_be_mirrored_is_refused_and_nothing_is_added(
    world: World, name: str, why: str
) -> None:
    for each in ("__consumer_offsets", "x" * 249):
        world.shop.ends[each] = 1
    world.claims[SHOP_ID] = [
        Claim("legacy", "shop", DC2_ID, "by ben"),
        Claim("orders", "shop", "another cluster", "by ben"),
    ]
    with pytest.raises(ConfigError, match=why):
        world.add("orders", name)
    assert geo_topics.chosen(world.directives) == {}


def test_a_hidden_topic_is_reported_as_hidden(world: World) -> None:
    world.shop.refused["orders"] = AuthorizationError("look up topic", "orders")
    with pytest.raises(AuthorizationError):
        world.add("orders")


def test_a_namesake_with_unknown_records_is_refused(world: World) -> None:
    world.dc2.ends = {"shop.orders": 5, "shop.bills": 0}
    with pytest.raises(ConfigError, match=r"dc2 already has a topic shop\.orders with records"):
        world.add("orders")
    world.add("bills")
    known = records.progress().replace(topic="orders")
    world.contents.partitions[known.source] = known
    world.add("orders")  # goes on where it was


def test_what_has_ended_is_not_begun_again_in_passing(world: World) -> None:
    for scope, what in ((Scope("orders"), "its mirror"), (THE_LINK, "the mirror")):
        end = EndDirective(scope=scope, who="ben@ops", at=1, how=State.PROMOTED)
        world.directives = LinkDirectives({ORIGIN.key: ORIGIN, end.key: end})
        with pytest.raises(ConfigError, match=f"{what} was promoted by ben@ops.*failback"):
            world.add("orders")


def test_topics_go_to_destinations_of_this_very_origin(world: World) -> None:
    world.directives = LinkDirectives()
    with pytest.raises(ConfigError, match="it was never added, or was removed"):
        world.add("orders")
    theirs = ORIGIN.replace(cluster="another", who="ben@ops")
    world.directives = LinkDirectives({theirs.key: theirs})
    with pytest.raises(ConfigError, match=r"this name means the cluster another, by ben@ops"):
        world.add("orders")


def test_adding_a_topic_to_a_destination_that_is_being_removed_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is chosen there: the driver would copy it."""
    write = world.write

    def removed(wish: object, decide: Any) -> DirectivePlan:
        world.directives = LinkDirectives()
        return write(wish, decide)

    monkeypatch.setattr(world, "write", removed)
    with pytest.raises(ConfigError, match="it was never added, or was removed"):
        world.add("orders")
    assert geo_topics.chosen(world.directives) == {}


def test_what_can_be_chosen_is_what_would_not_be_refused(world: World) -> None:
    world.claims[SHOP_ID] = [Claim("legacy", "shop", DC2_ID, "by ben")]
    world.shop.ends["__consumer_offsets"] = 1
    assert topics.available_topics(world.link) == ("bills", "orders")
    world.add("orders")
    assert topics.available_topics(world.link) == ("bills",)
    assert topics.available_topics(world.link, "ORD") == ()


@pytest.mark.parametrize(
    ("kinds", "reason", "refused"),
    [
        (("mirror",), None, None),
        (("mirror",), "topics were chosen, and its file lets nobody", "topics were chosen, and"),
        (("mirror",), "a fence could not be lifted in time", None),
        (("pause",), None, "runs an older Causeway"),
    ],
)
def test_a_driver_that_does_not_act_is_reported(
    world: World, kinds: tuple[str, ...], reason: str | None, refused: str | None
) -> None:
    world.driver = "ops1"
    told = DirectivesRecord(link="shop->dc2", topic_id="", applied=1, reason=reason, kinds=kinds)
    world.contents.directives = told
    found = world.add("orders").refused
    assert (found is None) if refused is None else refused in str(found)


def test_a_cluster_becomes_a_destination_once(world: World) -> None:
    world.directives = LinkDirectives()
    added = destinations.add_destination(world.link, who="anna@ops")
    assert (added.cluster, added.before, added.topics) == (DC2_ID, None, [])
    origin = world.directives.get(OriginDirective)
    assert origin is not None
    assert origin.cluster == SHOP_ID
    world.add("orders")
    again = destinations.add_destination(world.link, who="ben@ops")
    assert again.before is not None
    assert (again.before.who, again.topics) == ("anna@ops", ["orders"])


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (Claim("shop", "dc2", "another", "by ben"), "this name already means the cluster another"),
        (Claim("shop", "b", "another", "by ben"), "this name already means the cluster another"),
        (Claim("shop", "backup", SHOP_ID, "by ben"), "this cluster is already called backup"),
    ],
)
def test_names_that_are_taken_are_refused(world: World, claim: Claim, why: str) -> None:
    world.claims[DC2_ID] = [Claim("web", "dc2", "a third", "by ben"), claim]
    world.directives = LinkDirectives()
    with pytest.raises(ConfigError, match=why):
        destinations.add_destination(world.link)
    assert world.directives == LinkDirectives()


def test_a_name_that_was_another_cluster_s_is_not_taken_from_it_in_silence(world: World) -> None:
    """What is chosen there would be copied no more, and nobody would know."""
    world.directives = LinkDirectives()
    with pytest.raises(ConfigError, match=r"this name means the cluster old.*remove dc2"):
        destinations.add_destination(world.link, known="old")
    assert world.directives == LinkDirectives()
    destinations.add_destination(world.link, known=DC2_ID)


def test_the_origin_is_no_destination_of_its_own(world: World) -> None:
    world.dc2.cluster_id = SHOP_ID
    with pytest.raises(ConfigError, match="it is the origin shop itself"):
        destinations.add_destination(world.link)


def test_a_destination_with_topics_is_removed_only_if_one_means_it(world: World) -> None:
    world.add("orders", "bills")
    with pytest.raises(ConfigError, match=r"topics are copied there: bills, orders .*--yes"):
        destinations.remove_destination(world.link, confirmed=False, wait_s=None)
    done = destinations.remove_destination(world.link, confirmed=True, wait_s=None)
    assert [each.topic for each in done.topics] == ["bills", "orders"]
    assert world.directives == LinkDirectives()


def test_a_cluster_without_an_id_is_refused() -> None:
    nameless = Kafka("")
    with pytest.raises(CausewayError, match="it does not give its cluster id"):
        claims.cluster_id(cast(Cluster, nameless))
