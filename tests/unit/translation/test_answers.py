"""Many questions at once: which links answer, and what is said where nobody can."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from causeway.cluster import LATEST, ClusterMetadata, FetchedPartition, OffsetAt, TopicMetadata
from causeway.config import LinkSettings, RunSettings, Settings, TransformSettings
from causeway.errors import ConfigError, UnreachableError
from causeway.filters import compile_patterns
from causeway.link_topics import (
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    ProgressContents,
    read_progress,
)
from causeway.link_topics import progress as progress_topic
from causeway.model import Pair, State, TopicPartition
from causeway.translation import Answer, OffsetNote, Question, answers, counting, logs, translate
from tests.builders.settings import link

IDS = {"orders": "a" * 32, "A.orders": "b" * 32, "other": "c" * 32, "secret": "d" * 32}
SOURCE = TopicPartition("orders", 0)
GONE = UnreachableError("reach", "A", "no broker answers")


class Clusters:
    """Both sides of every link: each log has offsets 0 to 100; a topic's time is its offset."""

    def __init__(self) -> None:
        self.progress: dict[str, ProgressContents] = {}
        self.ids = dict(IDS)
        self.gone = False
        self.start, self.end = 0, 100
        self.ends: dict[str, int] = {}  # by alias, if they are not the same
        self.asked = 0

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        yield lambda client: _Side(self, client.alias)


class _Side:
    def __init__(self, clusters: Clusters, alias: str) -> None:
        self._clusters, self._alias = clusters, alias

    def __str__(self) -> str:
        return self._alias

    def _check(self) -> None:
        self._clusters.asked += 1
        if self._clusters.gone and self._alias == "A":
            raise GONE

    def bootstrap_check(self) -> None:
        self._check()

    def metadata(self, names: Collection[str] | None) -> ClusterMetadata:
        self._check()
        ids = self._clusters.ids
        topics = {
            name: TopicMetadata(
                name=name, topic_id=ids[name], partitions=cast(Any, dict.fromkeys(range(3)))
            )
            for name in (ids if names is None else names)
        }
        return ClusterMetadata(cluster_id="c", brokers={}, controller=1, topics=topics)

    def list_offsets(
        self, places: Collection[TopicPartition], timestamp: int, **_: Any
    ) -> dict[TopicPartition, OffsetAt]:
        self._check()
        known = {
            LATEST: self._clusters.ends.get(self._alias, self._clusters.end),
            -2: self._clusters.start,
        }
        offset = known.get(timestamp, timestamp if timestamp < self._clusters.end else -1)
        return {at: OffsetAt(offset=offset, timestamp=-1, leader_epoch=0) for at in places}

    def fetch(self, *_: Any, **__: Any) -> FetchedPartition:
        """Nothing is shown."""
        self._check()
        end = self._clusters.end
        return FetchedPartition(
            high_watermark=end, last_stable=end, log_start=0, aborted=(), records=b""
        )

    def last_sequences(self, places: Collection[TopicPartition]) -> dict[Any, Any]:
        return {}


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    them = Clusters()

    class Topic:
        def __init__(self, _: Any, topic: str) -> None:
            self._topic = topic

        def exists(self) -> bool:
            return self._topic in them.progress

        def read(self) -> ProgressContents:
            return them.progress[self._topic]

    monkeypatch.setattr(answers, "clusters", them)
    monkeypatch.setattr(progress_topic, "ProgressTopic", Topic)
    return them


def link_to(target: str, **more: Any) -> LinkSettings:
    return link(target=target, topics_exclude="secret", **more)


def settings(*links: LinkSettings) -> Settings:
    return Settings(links=links or (link_to("B"), link_to("C")), run=RunSettings(), spark={})


def outlet(partition: int = 0, **more: Any) -> Outlet:
    known: dict[str, Any] = {
        "topic": "A.orders",
        "partition": partition,
        "topic_id": IDS["A.orders"],
        "producer_id": 1,
        "producer_epoch": 0,
        "pair": Pair(60, 50, 50),
    }
    return Outlet(**known | more)


def progress(*outlets: Outlet, **more: Any) -> PartitionProgress:
    known: dict[str, Any] = {
        "topic": "orders",
        "partition": 0,
        "topic_id": IDS["orders"],
        "leader_epoch": 0,
        "position": 60,
        "outlets": outlets or (outlet(),),
        "state": State.RUNNING,
    }
    return PartitionProgress(**known | more)


def contents(*known: PartitionProgress) -> ProgressContents:
    """Straight to source offset 20, and from 30 on: there the target is 10 behind."""
    points = (Pair(0, 0, 0), Pair(20, 20, 20), Pair(30, 20, 20))
    maps = {
        one.source: {
            None: OffsetMapRecord(
                topic=one.topic, partition=one.partition, producer_id=1, points=points, since=0
            )
        }
        for one in known
    }
    return ProgressContents(partitions={one.source: one for one in known}, maps=cast(Any, maps))


B, C = "__causeway.A.B.progress", "__causeway.A.C.progress"


def asked(offset: int, topic: str = "orders", partition: int = 0) -> Question:
    return Question(topic=topic, partition=partition, offset=offset)


def one(clusters: Clusters, question: Question, **more: Any) -> Answer:
    (found,) = translate(settings(), [question], **more)
    return found


def test_places_there_and_back(clusters: Clusters) -> None:
    clusters.progress[B] = contents(progress())
    found = translate(settings(), [asked(40), asked(5), asked(25)])
    assert [(each.link, each.exact, each.places[0].offset) for each in found] == [
        ("A->B", True, 30),
        ("A->B", True, 5),
        ("A->B", True, 20),
    ]
    assert found[2].places[0].why is OffsetNote.GAP
    back = one(clusters, asked(30, "A.orders"), back=True)
    assert [(each.topic, each.offset, each.exact) for each in back.places] == [("orders", 40, True)]


def test_each_link_that_has_the_topic_answers(clusters: Clusters) -> None:
    clusters.progress[B] = clusters.progress[C] = contents(progress())
    found = translate(settings(), [asked(40)])
    assert [each.link for each in found] == ["A->B", "A->C"]
    assert [each.link for each in translate(settings(), [asked(40)], link="A->C")] == ["A->C"]
    with pytest.raises(ConfigError, match=r"like it: A->"):
        translate(settings(), [asked(40)], link="A->D")


def test_times_stand_for_offsets(clusters: Clusters) -> None:
    clusters.progress[B] = contents(progress())
    found = one(clusters, Question(topic="orders", partition=0, timestamp=40))
    assert (found.offset, found.places[0].offset) == (40, 30)
    late = one(clusters, Question(topic="orders", partition=0, timestamp=10**12))
    assert (late.offset, late.exact) == (100, False)
    clusters.gone = True
    found = one(clusters, Question(topic="orders", partition=0, timestamp=40))
    assert (found.offset, found.places, found.why) == (None, (), OffsetNote.UNREACHABLE)
    assert "no broker answers" in (found.note or "")


def test_the_source_is_gone(clusters: Clusters) -> None:
    clusters.progress[B], clusters.gone = contents(progress()), True
    assert one(clusters, asked(40)).exact
    unknown = one(clusters, asked(1, "ordrs"))
    assert "like it: orders; A cannot be asked" in (unknown.note or "")


def test_a_target_that_is_down_keeps_no_other_from_answering(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters.progress[B] = contents(progress())
    real = read_progress
    down = {"A->C"}

    def read(one: LinkSettings, connect: Any) -> Any:
        if one.name in down:
            raise UnreachableError("reach", "C", "no broker answers")
        return real(one, connect)

    monkeypatch.setattr(answers, "read_progress", read)
    good, bad = translate(settings(), [asked(40)])
    assert (good.link, good.exact) == ("A->B", True)
    assert (bad.link, bad.why, bad.exact) == ("A->C", OffsetNote.UNREACHABLE, False)
    assert "C cannot be asked" in (bad.note or "")
    (hidden,) = translate(settings(), [asked(40, "secret")])
    assert hidden.link == "A->B", "the file says that neither mirrors it"
    (back,) = translate(settings(), [asked(30, "A.orders")], back=True)
    assert (back.link, back.exact) == ("A->B", True)
    (lost,) = translate(settings(), [asked(30, "A.bills")], back=True)
    assert lost.why is OffsetNote.UNREACHABLE, "C may have it"
    with pytest.raises(UnreachableError):
        translate(settings(), [asked(40)], link="A->C")
    down.add("A->B")
    with pytest.raises(UnreachableError):
        translate(settings(), [asked(40)])


def test_an_answer_comes_within_the_time_that_the_caller_allows(clusters: Clusters) -> None:
    clusters.progress[B] = contents(progress())
    late = one(clusters, asked(80), patience_s=0.0)
    assert (late.places[0].offset, late.exact) == (50, False)
    assert "longer than 0.0 s" in (late.places[0].note or "")
    assert one(clusters, asked(40), patience_s=0.0).exact


@pytest.mark.parametrize(
    ("question", "back", "why", "note"),
    [
        (asked(1, "ordrs"), False, OffsetNote.UNKNOWN, "like it: orders"),
        (asked(1, "orders", 7), False, OffsetNote.UNKNOWN, "has 3 partitions"),
        (asked(1, "secret"), False, OffsetNote.NOT_MIRRORED, "topics.exclude"),
        (asked(1, "orders", 2), False, OffsetNote.NOT_BEGUN, "no driver has begun"),
        (asked(1, "other"), False, OffsetNote.NOT_BEGUN, "no driver has begun"),
        (asked(1, "B.orders"), True, OffsetNote.UNKNOWN, "like it: A.orders"),
    ],
)
def test_what_is_not_mirrored(
    clusters: Clusters, question: Question, back: bool, why: OffsetNote, note: str
) -> None:
    clusters.progress[B] = contents(progress())
    found = one(clusters, question, back=back)
    assert (found.why, found.places, found.exact) == (why, (), False)
    assert note in (found.note or "")


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (progress(topic_id="e" * 32), OffsetNote.RECREATED),
        (progress(outlet(topic_id="e" * 32)), OffsetNote.RECREATED),
        (progress(state=State.STOPPED, reason="truncated"), OffsetNote.STOPPED),
        (progress(outlet(pair=Pair(200, 190, 190))), OffsetNote.LOST),
        (progress(outlet(), outlet(1)), OffsetNote.BY_KEY),
        (progress(outlet(producer_id=-1)), OffsetNote.AT_LEAST_ONCE),
        (progress().replace(outlets=(), position=-1), OffsetNote.NOT_BEGUN),
    ],
)
def test_what_keeps_a_place_from_being_exact(
    clusters: Clusters, known: PartitionProgress, why: OffsetNote
) -> None:
    clusters.progress[B] = contents(known)
    found = one(clusters, asked(40))
    assert not found.exact
    assert why in (found.why, *(each.why for each in found.places))
    if why is OffsetNote.RECREATED:
        assert found.places[0].offset is None


def test_several_outlets_of_a_transform(clusters: Clusters) -> None:
    """Nothing is counted: what lies between two known places may have been dropped, or doubled."""
    routed = outlet(1, producer_id=2, pair=Pair(60, 7, 7), routed="paid")
    clusters.progress[B] = contents(progress(outlet(), routed, transform="x"))
    found = one(clusters, asked(60))
    assert [(each.partition, each.offset, each.exact) for each in found.places] == [
        (0, 50, True),
        (1, 7, True),
    ]
    assert "each has its own offset" in (found.note or "")
    between = one(clusters, asked(40)).places
    assert [(each.offset, each.why) for each in between] == [
        (20, OffsetNote.TRANSFORMED),
        (0, OffsetNote.BEFORE),
    ]


def test_what_came_before_the_first_record_of_an_outlet_went_elsewhere(
    clusters: Clusters,
) -> None:
    routed = outlet(1, producer_id=2, pair=Pair(60, 12, 7), routed="paid")
    known = contents(progress(outlet(), routed, transform="x"))
    to = TopicPartition("A.orders", 1)
    known.maps[TopicPartition("orders", 0)][to] = OffsetMapRecord(
        topic="orders", partition=0, producer_id=2, points=(Pair(30, 5, 0),), to=to, since=10
    )
    clusters.progress[B] = known
    for offset, exact in ((5, False), (10, True), (29, True), (30, True)):
        place = one(clusters, asked(offset)).places[1]
        assert (place.offset, place.exact) == (5 if exact else 0, exact), offset


def test_rules_keep_each_record_so_what_is_straight_is_exact(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Transforms:
        def __init__(self, *_: Any) -> None: ...

        def identity_of(self, _: str) -> str:
            return "now"

    monkeypatch.setattr(logs, "Transforms", Transforms)
    rules = TransformSettings(name="r", topics=compile_patterns(".*"), rules="drop value.x")
    of_rules = settings(link_to("B", transforms=(rules,)))
    for transform, exact in (("now", True), ("before", False)):
        clusters.progress[B] = contents(progress(transform=transform))
        (found,) = translate(of_rules, [asked(40)])
        assert found.exact is exact


def test_several_partitions_feed_one(clusters: Clusters) -> None:
    other = progress(outlet(producer_id=2, pair=Pair(9, 50, 4)), partition=1)
    clusters.progress[B] = contents(progress(), other)
    assert one(clusters, asked(40)).places[0].why is OffsetNote.SHARED
    back = one(clusters, asked(50, "A.orders"), back=True)
    assert [(each.partition, each.offset, each.exact) for each in back.places] == [
        (0, 60, True),
        (1, 9, True),
    ]


@pytest.mark.parametrize(
    "question",
    [
        Question(topic="orders", partition=0),
        Question(topic="orders", partition=0, offset=1, timestamp=1),
        asked(-1),
        asked(1 << 63),
        asked(1, partition=-1),
    ],
)
def test_what_makes_no_sense(clusters: Clusters, question: Question) -> None:
    with pytest.raises(ConfigError, match="orders-"):
        translate(settings(), [question])


def test_many_questions_ask_the_clusters_no_more_often(clusters: Clusters) -> None:
    clusters.progress[B] = contents(progress())
    one(clusters, asked(40))
    once, clusters.asked = clusters.asked, 0
    translate(settings(), [asked(offset) for offset in range(60)])
    assert clusters.asked == once


def preserving(position: int = 60, **more: Any) -> PartitionProgress:
    """Each record from offset 30 on has the same offset on both sides."""
    same = outlet(pair=Pair(position, position, 7))
    return progress(same, position=position, **{"offsets_from": 30, **more})


@pytest.mark.parametrize("back", [False, True])
def test_preserved_offsets_are_the_same_in_both_directions(clusters: Clusters, back: bool) -> None:
    clusters.progress[B] = ProgressContents(partitions={SOURCE: preserving()})
    topic = "A.orders" if back else "orders"

    offsets = [30, 45, 60, 80, 100]  # the driver reported 60; the target's log ends at 100
    found = translate(settings(), [asked(offset, topic) for offset in offsets], back=back)

    assert [(each.exact, each.places[0].offset) for each in found] == [
        (True, offset) for offset in offsets
    ]


def test_an_offset_before_the_preserved_ones_leads_to_the_first(clusters: Clusters) -> None:
    clusters.progress[B] = ProgressContents(partitions={SOURCE: preserving()})
    clusters.start = 30

    (there,) = one(clusters, asked(12)).places
    (back,) = one(clusters, asked(12, "A.orders"), back=True).places

    assert (there.offset, there.why) == (30, OffsetNote.GAP), "the source has nothing in between"
    assert (back.offset, back.why) == (30, OffsetNote.BEFORE)


def test_an_offset_before_the_preserved_ones_stays_where_the_target_has_earlier_records(
    clusters: Clusters,
) -> None:
    """After a failback they are those that the target had before, at the same offsets."""
    clusters.progress[B] = ProgressContents(partitions={SOURCE: preserving()})
    clusters.start = 5

    (there,) = one(clusters, asked(12)).places

    assert there.offset == 12
    assert not there.exact


def test_no_offset_is_answered_while_the_beginning_is_filled(clusters: Clusters) -> None:
    clusters.progress[B] = ProgressContents(partitions={SOURCE: preserving(12)})

    (place,) = one(clusters, asked(40)).places

    assert (place.offset, place.why) == (None, OffsetNote.NOT_YET)
    assert "is being filled" in (place.note or "")


def test_preserved_offsets_behind_the_end_of_the_target_are_not_mirrored_yet(
    clusters: Clusters,
) -> None:
    clusters.progress[B] = ProgressContents(partitions={SOURCE: preserving()})
    clusters.end = 70

    found = [one(clusters, asked(offset)).places[0] for offset in (70, 71)]

    assert [(each.offset, each.why) for each in found] == [(70, None), (70, OffsetNote.BEYOND_END)]


def test_records_that_others_wrote_behind_the_preserved_ones_have_no_offset_on_the_source(
    clusters: Clusters,
) -> None:
    clusters.progress[B] = ProgressContents(partitions={SOURCE: preserving()})
    clusters.ends["A"] = 70
    found = [one(clusters, asked(offset)).places[0] for offset in (70, 80)]
    assert [(each.offset, each.why) for each in found] == [(70, None), (70, OffsetNote.BEYOND_END)]


def test_where_a_mirror_ended_its_target_goes_on_with_other_offsets(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters.progress[B] = ProgressContents(partitions={SOURCE: preserving(state=State.PROMOTED)})
    monkeypatch.setattr(counting, "behind_last", lambda *_: 65)  # the last report is older
    monkeypatch.setattr(counting, "first_relayed", lambda *_, **__: 65)
    found = [one(clusters, asked(offset)).places[0] for offset in (65, 80)]
    assert [(each.offset, each.why) for each in found] == [(65, None), (65, OffsetNote.NOT_YET)]
