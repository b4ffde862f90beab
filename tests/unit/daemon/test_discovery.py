"""What counts as deleted, and for how long a person's wish stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import ClusterMetadata, PartitionMetadata, TopicMetadata
from causeway.config import LinkSettings, RunSettings
from causeway.control import CreateTopic, MirroredTopic, Transforms, topics
from causeway.daemon import Sides
from causeway.daemon.partitions import claiming, discovery, reconcile
from causeway.daemon.partitions.claiming import Claimer
from causeway.daemon.partitions.decisions import (
    RunOptions,
    Wish,
)
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.reconcile import Reconciler
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import Row
from causeway.errors import CausewayError
from causeway.link_topics import THE_LINK, ClusterIds, PartitionProgress, ProgressContents
from causeway.model import NO_TOPIC_ID, State, TopicPartition
from causeway.wire import broker_error, codes
from tests.builders import records, settings
from tests.builders.daemon import new_link

LEADER_NOT_AVAILABLE, TOPIC_AUTHORIZATION_FAILED = 5, 29


class Brokers:
    """Asked for a topic by its name, they answer with its error."""

    timeout_s = 30.0

    def __init__(self, errors: dict[str, CausewayError | None], topic_id: str = "") -> None:
        self.errors, self.topic_id = errors, topic_id

    def metadata(self, names: Collection[str]) -> ClusterMetadata:
        topics = {
            name: TopicMetadata(
                name=name, topic_id=self.topic_id, partitions={}, error=self.errors.get(name)
            )
            for name in names
        }
        return ClusterMetadata(cluster_id="c", brokers={}, controller=1, topics=topics)


def test_a_topic_missing_in_a_list_is_deleted_only_if_no_broker_knows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker's list leaves out what we may not see, or what it has not heard of yet."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    by_name = {
        "deleted": codes.UNKNOWN_TOPIC_OR_PARTITION,
        "hidden": TOPIC_AUTHORIZATION_FAILED,
        "electing": LEADER_NOT_AVAILABLE,
    }
    brokers = Brokers({name: broker_error(code, "ask", name) for name, code in by_name.items()})
    brokers.errors["there"] = None
    found = Found(counts={"listed": 1})

    gone = discovery.absent(cast(Any, brokers), brokers.errors, found, again=True)

    assert gone == {"deleted"}
    assert {trouble.topic for trouble in found.problems} == {"hidden", "electing", "there"}
    assert found.unfinished


def test_a_target_that_gives_new_topics_no_id_is_refused() -> None:
    new = MirroredTopic(
        source="t",
        target="A.t",
        partitions=0,
        source_id="a" * 32,
        target_id=None,
        target_partitions=0,
        max_message_bytes=1,
    )
    found = Found(mirrored={"t": new})

    discovery.await_new(cast(Any, Brokers({"A.t": None}, topic_id=NO_TOPIC_ID)), found)

    assert not found.mirrored
    assert "no topic id" in found.problems[0].reason


@pytest.fixture
def claimer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Wish], Claimer]:
    nothing = cast(Any, None)

    def make(wish: Wish) -> Claimer:
        made = Claimer(nothing, nothing, wish, nothing, nothing)
        monkeypatch.setattr(made, "_first", {"old": 2})
        monkeypatch.setattr(made, "_decided", {TopicPartition("old", 0)})
        return made

    return make


def test_a_start_wish_counts_once_for_the_topics_of_the_first_look(
    claimer: Callable[[Wish], Claimer],
) -> None:
    wish = Wish(start_from=1)
    wish_of = claimer(wish).wish_of
    assert wish_of(TopicPartition("old", 1)) == wish, "it could not be asked yet"
    for at in (TopicPartition("old", 0), TopicPartition("old", 2), TopicPartition("new", 0)):
        assert not wish_of(at).acts, at


class Quiet:
    """A fleet, and a leadership, of which nothing is wanted here."""

    alone_at, progress_lost = 0.0, False
    clusters = ClusterIds()

    @property
    def alone_in_s(self) -> float:
        return max(0.0, self.alone_at - time.monotonic())

    def on_lanes(self, keys: Collection[Any]) -> set[Any]:
        return set()

    def add(self, assignments: Iterable[Any]) -> None:
        assert not list(assignments)

    def remove(self, keys: Collection[Any], lease_s: float) -> bool:
        return True


def _intake(
    monkeypatch: pytest.MonkeyPatch,
    registry: Registry,
    topic: MirroredTopic,
    *absent: str,
    wish: Wish = Wish(),  # noqa: B008  it is frozen
    link: LinkSettings = settings.LINK,
) -> Reconciler:
    """Of a link with this one topic, where the target lacks some topics."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    number = PartitionMetadata(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
    there = TopicMetadata(name="orders", topic_id=topic.source_id, partitions={0: number})
    observed = topics.ObservedTopics(
        source_topics={"orders": there},
        source_configs={},
        target_topics={},
        target_configs={},
        target_defaults={},
        target_brokers=1,
    )
    anew = CreateTopic(topic="A.orders", partitions=1, replication_factor=1, configs=())
    changes = () if topic.target_id else (anew,)
    planned = topics.TopicPlan(mirrored=(topic,), left_out=(), changes=changes, problems=())
    monkeypatch.setattr(topics, "observe", lambda *_: observed)
    monkeypatch.setattr(topics, "plan", lambda *_: planned)
    monkeypatch.setattr(reconcile, "settle_clusters", lambda _, __, known: known)
    error = broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION, "ask", "it")
    both = cast(Any, Brokers(dict.fromkeys((*absent, "mm2-offsets.A.internal"), error)))
    return Reconciler(
        link,
        RunOptions(settings=RunSettings(), wish=wish, bounded=True),
        Sides(source=both, target=both, source_admin=both, target_admin=both),
        cast(Any, Quiet()),
        registry,
        cast(Any, Quiet()),
        Transforms(link, {}),
    )


def test_a_target_deleted_while_no_driver_led_stops_its_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nobody hears of it, and a run until it is caught up is content."""
    registry, known = Registry("A->B"), records.progress()
    registry.begin(ProgressContents(partitions={known.source: known}))
    topic = replace(records.TOPIC, target_id=None, partitions=1)
    intake = _intake(monkeypatch, registry, topic, "A.orders")

    for _ in range(2):
        intake.look()
        (row,) = registry.status()
        assert row.state is State.STOPPED
        assert "A.orders was deleted on the target" in (row.reason or "")
    (entry,) = registry.take_dirty()[1]
    assert entry == known.replace(state=State.STOPPED, reason=row.reason), "the claim stays"


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_bounded_run_does_not_end_while_a_list_leaves_out_what_it_has_mirrored(
    monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """It has no partition of that then, and would have done all of nothing."""
    link = new_link(RunSettings())
    registry, known = link.registry, records.progress()
    registry.begin(ProgressContents(partitions={known.source: known}))
    target_id = None if side == "target" else records.TOPIC.target_id
    topic = replace(records.TOPIC, partitions=1, target_id=target_id)
    intake = _intake(monkeypatch, registry, topic)
    if side == "source":
        listed = replace(topics.observe(*[cast(Any, None)] * 3), source_topics={})
        planned = topics.TopicPlan(mirrored=(), left_out=(), changes=(), problems=())
        monkeypatch.setattr(topics, "observe", lambda *_: listed)
        monkeypatch.setattr(topics, "plan", lambda *_: planned)

    found = intake.look()
    link._note(found)

    assert registry.status() == ()
    assert found.unfinished, "and it is looked again soon"
    assert not link.is_settled(60)
    assert link.is_settled(0)
    assert "left it out, though it is there" in link.status().problems[0].reason


def _led_to(*names: str) -> PartitionProgress:
    """Progress of a partition whose transform leads it to these topics, too."""
    known = records.progress()
    (own,) = known.outlets
    alike = own.replace(exclusive=False)
    led = [alike.replace(topic=f"A.{name}", routed=name) for name in names]
    return known.replace(outlets=(own, *led))


@pytest.mark.parametrize("runs", [True, False])
def test_a_topic_that_a_transform_led_to_and_that_is_gone_stops_the_partition(
    monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """Whether it ran meanwhile, or nobody led."""
    registry, known = Registry("A->B"), _led_to("eu", "us")
    topic = replace(records.TOPIC, partitions=1)
    if runs:
        registry.add([Row(topic=topic, progress=known, first=0)])
    else:
        registry.begin(ProgressContents(partitions={known.source: known}))
    intake = _intake(monkeypatch, registry, topic, "A.us")
    monkeypatch.setattr(discovery, "find_places", lambda *_: {known.source: records.BEGUN})
    cast(Any, intake._sides.target).errors |= {"A.eu": None}

    found = intake.look()

    assert found.lost_led == {"A.us"}
    (row,) = registry.status()
    assert row.state is State.STOPPED
    assert (
        "A.us, to which its transform leads, was deleted on the target (`causeway restart"
        in str(row.reason)
    )
    (entry,) = registry.take_dirty()[1]
    assert entry == known.replace(state=State.STOPPED, reason=row.reason), "the claim stays"
    assert not intake.look().lost_led, "nobody needs it any more"


def test_a_topic_that_is_chosen_no_more_is_let_go_of_and_taken_up_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is no trouble, its place is written, and a link that lets nobody choose keeps what it
    mirrors."""
    link = replace(settings.LINK, geo=True, topics=())
    registry, known = Registry("A->B"), records.progress().replace(state=State.RUNNING)
    registry.chosen = frozenset({"orders"})
    topic = replace(records.TOPIC, partitions=1)
    registry.add([Row(topic=topic, progress=known, first=0)])
    intake = _intake(monkeypatch, registry, topic, link=link)
    written: list[Any] = []
    monkeypatch.setattr(intake, "_leadership", SimpleNamespace(write=written.extend))
    found = Found()
    intake._leave(found)
    assert len(registry.status()) == 1
    registry.chosen = frozenset()
    intake._leave(found)
    assert registry.status() == ()
    assert written == [known]
    assert registry.known() == {known.source: known}
    assert not found.problems


def test_a_restart_that_adopts_holds_through_a_reload_before_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No other executor carries it out again. With a new term, all directives are read again."""
    registry, known = Registry("A->B"), records.progress().replace(state=State.STOPPED)
    topic = replace(records.TOPIC, partitions=1)
    registry.add([Row(topic=topic, progress=known, first=0)])
    intake = _intake(monkeypatch, registry, topic)
    assert intake.restart({THE_LINK}, {THE_LINK})
    wishes: list[Wish] = []

    def find_places(*given: Any) -> dict[TopicPartition, Any]:
        wishes.append(given[3](known.source))
        return {}

    monkeypatch.setattr(discovery, "find_places", find_places)
    later = _intake(monkeypatch, registry, topic)
    later.follow(intake)
    later.look()
    assert wishes == [Wish(adopt=True)]
    later.begin()
    later.look()
    assert wishes[1:] == [Wish()]


@pytest.mark.parametrize("on_lane", [True, False])
def test_a_changed_transform_waits_for_lanes_that_still_have_the_partition(
    monkeypatch: pytest.MonkeyPatch, on_lane: bool
) -> None:
    """A term that ended at once does not wait for its lanes, which may still send."""
    registry, known = Registry("A->B"), records.progress().replace(transform="ff")
    registry.begin(ProgressContents(partitions={known.source: known}))
    if on_lane:
        monkeypatch.setattr(Quiet, "on_lanes", lambda _, keys: set(keys))
    places = {known.source: records.EMPTY}
    monkeypatch.setattr(discovery, "find_places", lambda *_: places)
    looked: list[Any] = []

    def places_behind(changed: Any, *_: Any, **__: Any) -> dict[TopicPartition, None]:
        looked.append(changed)
        return {known.source: None}

    monkeypatch.setattr(claiming, "places_behind", places_behind)
    found = _intake(monkeypatch, registry, replace(records.TOPIC, partitions=1)).look()
    assert bool(looked) is not on_lane
    assert [each.topic for each in found.problems] == ([str(known.source)] if on_lane else [])


def _fail(_: object) -> None:
    raise CausewayError("write", "progress", "its broker is gone", retriable=True)


@pytest.mark.parametrize("asked", ["restart", "leave"])
def test_a_partition_that_a_lane_released_late_is_placed_again(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """By then it runs, or is chosen again. It is on no lane, and would be on none for ever."""
    link = replace(settings.LINK, geo=True, topics=())
    registry, known = Registry("A->B"), records.progress()
    registry.chosen = frozenset({"orders"})
    failed = known.replace(state=State.FAILED)
    registry.add([Row(topic=records.TOPIC, progress=failed, first=0)])
    intake = _intake(monkeypatch, registry, records.TOPIC, link=link)
    monkeypatch.setattr(intake, "_leadership", SimpleNamespace(write=list))
    answers = [False, True, True, True]
    monkeypatch.setattr(intake, "_fleet", SimpleNamespace(remove=lambda *_: answers.pop(0)))
    if asked == "restart":
        assert not intake.restart({THE_LINK})
    else:
        registry.chosen = frozenset()
        intake._leave(Found())
    assert not registry.lacks(known.source), "its lane has it yet"

    (row,) = registry.rows(lambda _: True)
    row.progress = known  # its lane says at last
    registry.chosen = frozenset({"orders"})
    if asked == "restart":
        assert intake.restart({THE_LINK})
    with monkeypatch.context() as patch:
        patch.setattr(intake, "_leadership", SimpleNamespace(write=_fail))
        with pytest.raises(CausewayError):
            intake._leave(Found())
    intake._leave(Found())

    assert registry.lacks(known.source), "so that this look takes it up"
    assert registry.known() == {known.source: known}
    intake._leave(Found())  # and no lane is asked once more


@pytest.mark.parametrize("chosen", [True, False])
def test_what_is_paused_and_chosen_no_more_is_not_resumed(
    monkeypatch: pytest.MonkeyPatch, chosen: bool
) -> None:
    """The look that follows lets go of it."""
    registry, known = Registry("A->B"), records.progress()
    topic = replace(records.TOPIC, partitions=1)
    paused = known.replace(state=State.PAUSED)
    registry.add([Row(topic=topic, progress=paused, first=0)])
    registry.chosen = frozenset({"orders"} if chosen else ())
    link = replace(settings.LINK, geo=True, topics=())
    intake = _intake(monkeypatch, registry, topic, link=link)
    monkeypatch.setattr(intake.pauses, "over", lambda: [known.source])
    monkeypatch.setattr(intake, "_assign", lambda *_: None)
    monkeypatch.setattr(intake, "_recall", lambda _: {})
    intake.resume()
    (row,) = registry.status()
    assert (row.state is State.PAUSED) == (not chosen)
