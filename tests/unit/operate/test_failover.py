"""What is known of a mirror whose source is gone, in figures."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import EARLIEST, Committed, OffsetAt, TopicMetadata
from causeway.config import ClientSettings, LinkSettings
from causeway.control import GroupCommits
from causeway.errors import CausewayError, ConfigError, NobodyLeadsError, UnreachableError
from causeway.filters import compile_patterns
from causeway.link_topics import (
    THE_LINK,
    EndDirective,
    LinkDirectives,
    PartitionProgress,
    ProgressContents,
    Scope,
)
from causeway.model import Dated, State, TopicPartition
from causeway.operate.directives import scopes
from causeway.operate.failover import FailedOver, failed_over_json, failover, last_groups, missing
from causeway.operate.failover import failing_over as failovers
from causeway.operate.failover.missing import SourceAnswer, TopicLoss, Unbegun, look, topics_known
from tests.builders.daemon import row
from tests.builders.settings import links_between
from tests.harness.daemon import link
from tests.harness.raw_batches import Rec, raw_batch

LONG_AGO = 1_700_000_000_000


def known(first_ms: int | None = 5_000, topic: str = "orders") -> TopicLoss:
    """`first_ms` of the first record that is missing, -1 unknown."""
    return TopicLoss(
        topic=topic,
        target=topic,
        partitions=1,
        newest_ms=LONG_AGO,
        missing=0 if first_ms is None else 3,
        exact=True,
        first_ms=first_ms if first_ms is None or first_ms < 0 else LONG_AGO + first_ms,
    )


def found(*topics: TopicLoss) -> FailedOver:
    return FailedOver(
        link="A->B",
        target="B",
        scope=THE_LINK,
        changed=False,
        at_ms=LONG_AGO + 9_000,
        topics=topics,
        failures={},
        cuts={},
    )


def test_missing_records_are_counted_by_the_source_or_by_the_progress() -> None:
    one = row().progress.replace(position=40, source_end=50, last_timestamp=1_000)
    two = one.replace(partition=1, position=45, source_end=45, last_timestamp=7_000)
    (told,) = topics_known([two, one], SourceAnswer())
    assert (told.missing, told.exact, told.newest_ms) == (10, False, 1_000), "what lags counts"
    ends = {TopicPartition(one.topic, 0): 100, TopicPartition(one.topic, 1): 45}
    (told,) = topics_known([two, one], SourceAnswer(ends=ends))
    assert (told.missing, told.exact) == (60, True)
    (told,) = topics_known([one.replace(source_end=-1), two], SourceAnswer())
    assert told.missing is None
    assert topics_known([one.replace(position=50), two], SourceAnswer())[0].newest_ms == 7_000, (
        "none lags"
    )


HOUR = 3_600_000
GONE_MS = LONG_AGO + 4_000  # the source last answered its driver
QUIET = row(State.RUNNING).progress.replace(  # its newest record is an hour old
    position=50, source_end=50, last_timestamp=LONG_AGO - HOUR, written_at=LONG_AGO - HOUR
)


@pytest.mark.parametrize(
    ("progress", "seen", "first_ms"),
    [
        (QUIET, SourceAnswer(ends={QUIET.source: 50}), None),
        (QUIET, SourceAnswer(), GONE_MS),
        (QUIET.replace(last_timestamp=-1, position=0, source_end=0), SourceAnswer(), GONE_MS),
        (QUIET.replace(state=State.PAUSED), SourceAnswer(), QUIET.written_at),
        (QUIET.replace(source_end=60, dated=Dated(50, LONG_AGO)), SourceAnswer(), LONG_AGO),
        (QUIET.replace(source_end=60, dated=Dated(40, LONG_AGO)), SourceAnswer(), LONG_AGO - HOUR),
        (
            QUIET.replace(source_end=60, dated=Dated(50, LONG_AGO)),
            SourceAnswer(ends={QUIET.source: 70}, firsts={QUIET.source: LONG_AGO + 1}),
            LONG_AGO + 1,
        ),
        (QUIET.replace(source_end=-1, last_timestamp=-1), SourceAnswer(), -1),
    ],
    ids=[
        "nothing is missing",
        "nothing was missing until the source was gone",
        "an empty topic is no riddle",
        "while it was paused nobody noted where the source ended",
        "its driver has noted the first record that is missing",
        "it has not since: that record is not older than the newest one mirrored",
        "the source tells",
        "nobody knows",
    ],
)
def test_the_first_record_that_is_missing(
    progress: PartitionProgress, seen: SourceAnswer, first_ms: int | None
) -> None:
    (told,) = topics_known([progress], seen, GONE_MS)
    assert told.first_ms == first_ms


def test_the_rpo_is_the_age_of_the_first_record_that_is_missing_anywhere() -> None:
    assert found(known(5_000), known(8_000)).rpo_ms == 4_000
    assert found(known(None), known(8_000)).rpo_ms == 1_000, "one is whole, surely"
    assert found(known(None)).rpo_ms == 0
    assert found().rpo_ms == 0


def test_a_topic_of_unknown_loss_leaves_the_rpo_of_the_others() -> None:
    over = found(known(-1, "bills"), known(8_000))
    assert (over.rpo_ms, over.rpo_known_ms, over.rpo_unknown) == (None, 1_000, ("bills",))
    assert failed_over_json(over)["rpo_unknown"] == ["bills"]
    alone = found(known(-1))
    assert (alone.rpo_ms, alone.rpo_known_ms) == (None, None)


def test_a_clock_that_is_ahead_does_not_make_it_whole() -> None:
    assert found(known(9_500)).rpo_ms == 1, "0 is said where nothing is missing"


def ending_of(**changes: Any) -> Any:
    """The end of the mirror of A->B, of which nothing has begun, unless `changes` say otherwise."""
    known = {
        "link": link("127.0.0.1:1", "127.0.0.1:2", ".*"),
        "scope": THE_LINK,
        "target": None,
        "say": lambda _: None,
        "end": None,
        "subject": "the link of A->B",
        "sides": None,
        "known_cuts": {},
        "read_only_rules": tuple,
        "lift_read_only": tuple,
        "contents": SimpleNamespace(partitions={}, leases=(), tasks={}),
        "directives": LinkDirectives(),
        "progress": lambda _=None: {},
        "begin": lambda *_: True,
        "finish": lambda *_, **__: True,
        "cuts": lambda **_: {},
    }
    return SimpleNamespace(**{**known, **changes})


def move_of(ending: Any) -> failovers.LinkFailover:
    return failovers.LinkFailover(ending)


@pytest.mark.parametrize(("reason", "times"), [(None, 2), ("gone", 1)])
def test_what_the_source_took_in_while_the_mirror_ended_is_missing_too(
    monkeypatch: pytest.MonkeyPatch, reason: str | None, times: int
) -> None:
    """It was asked beside that, as it may be gone: what it has said then is old."""
    done: list[str] = []

    def ask(*_: object) -> SourceAnswer:
        done.append("asked")
        return SourceAnswer(reason=reason)

    monkeypatch.setattr(missing, "look", ask)
    nothing = last_groups.RememberedGroups(places=(), plan=GroupCommits(commits={}, left_out=()))
    monkeypatch.setattr(last_groups, "remembered", lambda *_: nothing)
    monkeypatch.setattr(last_groups, "commit", lambda *_: {})
    asked = EndDirective(who="anna@ops", at=1, how=State.FAILED_OVER)
    assert move_of(ending_of()).run(asked, 0.0).source == reason
    assert len(done) == times


def test_groups_that_could_not_be_committed_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a second call, and no others: these may have been at work since."""
    refused = {"readers": "coordinator not available", "writers": "not authorized"}
    tried: list[Any] = []
    finished: list[set[str]] = []

    def remembered(_: object, __: object, ___: object, only: Any) -> last_groups.RememberedGroups:
        tried.append(only)
        return last_groups.RememberedGroups(places=(), plan=GroupCommits(commits={}, left_out=()))

    def note_left(scope: Scope, groups: set[str]) -> None:
        assert scope == THE_LINK
        finished.append(groups)

    monkeypatch.setattr(last_groups, "remembered", remembered)
    monkeypatch.setattr(last_groups, "commit", lambda *_: dict(refused))
    end = EndDirective(
        who="anna@ops",
        at=1,
        how=State.FAILED_OVER,
        done=True,
        groups=("readers", "writers"),
    )
    ending = ending_of(end=end, note_left=note_left)
    move = move_of(ending)
    asked = end.replace(done=False)
    assert set(move.look().failures) == {"readers", "writers"}, "nothing is tried without a yes"
    again = move.run(asked, 0.0)
    assert (again.changed, again.failures, finished) == (False, refused, [])
    del refused["readers"]
    assert move.run(asked, 0.0).failures.keys() == {"writers"}
    assert finished == [{"writers"}]
    assert tried == [("readers", "writers")] * 3
    ending.end = end.replace(groups=())
    assert move.run(asked, 0.0).failures == {}
    assert len(tried) == 3


def test_a_topic_tries_the_groups_again_that_its_link_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that read it: committed for it alone, and left for the other topics of the link."""
    orders, bills = TopicPartition("orders", 0), TopicPartition("bills", 0)
    read = {"both": {orders, bills}, "one": {orders}, "other": {bills}}
    there: dict[str, set[TopicPartition]] = {name: set() for name in read}

    def remembered(
        _: object, __: object, progress: Any, only: tuple[str, ...]
    ) -> last_groups.RememberedGroups:
        parts = {each.source for each in progress}
        wanted = {name: (read[name] & parts) - there[name] for name in only}
        return last_groups.RememberedGroups(
            places=tuple(
                last_groups.GroupPlace(group=name, partition=at, offset=5, there=None, behind=0)
                for name in only
                for at in sorted(read[name] & parts)
            ),
            plan=GroupCommits(
                commits={
                    name: dict.fromkeys(places, Committed(offset=5, metadata=""))
                    for name, places in wanted.items()
                    if places
                },
                left_out=(),
            ),
        )

    def commit(_: object, plan: GroupCommits) -> dict[str, str]:
        for name, places in plan.commits.items():
            there[name] |= places.keys()
        return {}

    monkeypatch.setattr(last_groups, "remembered", remembered)
    monkeypatch.setattr(last_groups, "commit", commit)
    whole = EndDirective(
        who="anna",
        at=1,
        how=State.FAILED_OVER,
        done=True,
        groups=tuple(read),
    )
    own = whole.replace(scope=Scope("orders"), groups=())
    begun = [SimpleNamespace(source=orders), SimpleNamespace(source=bills)]
    noted: list[tuple[Scope, set[str]]] = []
    ending = ending_of(
        scope=own.scope,
        end=own,
        directives=LinkDirectives({each.key: each for each in (whole, own)}),
        progress=lambda scope: {
            each.source: each for each in begun if (scope or own.scope).covers(each.source)
        },
        note_left=lambda *left: noted.append(left),
    )
    move, asked = move_of(ending), own.replace(done=False)
    assert set(move.look().failures) == {"both", "one"}, "nothing is tried without a yes"
    again = move.run(asked, 0.0)
    assert (again.changed, again.failures) == (False, {})
    assert there == {"both": {orders}, "one": {orders}, "other": set()}
    assert noted == [(THE_LINK, {"both", "other"})]


@pytest.mark.parametrize("alone", [False, True])
def test_heartbeats_are_no_loss(monkeypatch: pytest.MonkeyPatch, *, alone: bool) -> None:
    """One is always on its way, and would make an RPO where nothing is missing."""
    beat = ONE.replace(topic="heartbeats", position=49)
    begun = {each.source: each for each in ([beat] if alone else [ONE, beat])}
    answer = SourceAnswer(ends={ONE.source: 50, beat.source: 50})
    monkeypatch.setattr(missing, "look", lambda *_: answer)
    nothing = last_groups.RememberedGroups(places=(), plan=GroupCommits(commits={}, left_out=()))
    monkeypatch.setattr(last_groups, "remembered", lambda *_: nothing)
    found = move_of(ending_of(progress=lambda _=None: begun)).look()
    assert [each.topic for each in found.topics] == ["heartbeats" if alone else "orders"]


class Side:
    """A cluster with these topics, by name their partitions' first offsets and ends."""

    def __init__(self, **topics: list[tuple[int, int]]) -> None:
        self._topics = topics
        self.error: CausewayError | None = None

    def bootstrap_check(self, _: float) -> None:
        if self.error is not None:
            raise self.error

    def fetch(self, *_: object) -> Any:
        batch = raw_batch([Rec(offset=0, timestamp=LONG_AGO)])
        return SimpleNamespace(records=batch)

    def metadata(self, names: list[str] | None) -> Any:
        found = {
            name: TopicMetadata(
                name=name, topic_id="", partitions=cast(Any, dict(enumerate(partitions)))
            )
            for name, partitions in self._topics.items()
            if names is None or name in names
        }
        return SimpleNamespace(topics=found)

    def list_offsets(
        self, places: list[TopicPartition], when: int, **_: object
    ) -> dict[TopicPartition, OffsetAt]:
        found = {at: self._topics[at.topic][at.partition] for at in places}
        return {
            at: OffsetAt(offset=first if when == EARLIEST else end, timestamp=-1, leader_epoch=-1)
            for at, (first, end) in found.items()
        }


def seen(
    source: Side, target: Side, *progress: PartitionProgress, topics: str = ".*"
) -> SourceAnswer:
    known = {each.source: each for each in progress}
    mirror = link("127.0.0.1:1", "127.0.0.1:2", topics)
    sides = SimpleNamespace(source_admin=source)
    ending: Any = SimpleNamespace(link=mirror, scope=THE_LINK, sides=sides, target=target)
    return look(ending, known, 1.0)


ONE = row(State.RUNNING).progress.replace(position=50, source_end=50, last_timestamp=1_000)


def test_what_has_not_begun_is_missing_as_a_whole() -> None:
    source = Side(orders=[(0, 50), (3, 10)], bills=[(0, 4)])
    found = seen(source, Side(), ONE)
    assert found.reason is None
    bills, orders = topics_known([ONE], found)
    assert (orders.partitions, orders.unbegun, orders.missing, orders.exact) == (2, 1, 7, True)
    assert orders.newest_ms == -1, "of that partition nothing is mirrored"
    assert (bills.topic, bills.target, bills.missing) == ("bills", "A.bills", 4)
    assert bills.first_ms == orders.first_ms == LONG_AGO, "the first record that the source has"
    (alone,) = topics_known(
        [ONE, ONE.replace(partition=1, position=10)], SourceAnswer(ends=found.ends)
    )
    assert (alone.unbegun, alone.missing) == (0, 0), "it has begun since"
    (empty,) = topics_known(
        [ONE],
        SourceAnswer(
            ends=found.ends, unbegun={TopicPartition("orders", 1): Unbegun("A.orders", 0)}
        ),
    )
    assert (empty.missing, empty.newest_ms, empty.first_ms) == (0, 1_000, None), "it holds nothing"


def test_the_loss_of_a_partition_that_had_not_begun_is_unknown_without_the_source() -> None:
    source = Side()
    source.error = UnreachableError("reach", "A")
    target = Side(**{"A.orders": [(0, 50), (0, 0)], "A.bills": [(0, 0)], "own": [(0, 9)]})
    refused = ONE.replace(topic="gifts", outlets=(), position=-1, state=State.STOPPED)
    told = seen(source, target, ONE, refused)
    assert told.reason is not None
    assert {at: each.records for at, each in told.unbegun.items()} == {
        TopicPartition("orders", 1): None,
        TopicPartition("bills", 0): None,
        TopicPartition("gifts", 0): None,
    }
    known = topics_known([ONE], told, GONE_MS)
    assert [(each.topic, each.missing) for each in known] == [
        ("bills", None),
        ("gifts", None),
        ("orders", None),
    ]
    over = found(*known)
    assert (over.rpo_ms, over.rpo_unknown) == (None, ("bills", "gifts", "orders"))


def test_the_topics_of_mirrors_themselves_are_no_mirrors() -> None:
    source = Side()
    source.error = UnreachableError("reach", "A")
    own = (
        "A.checkpoints.internal",
        "mm2-offset-syncs.A.internal",
        "mm2-offsets.A.internal",
        "__causeway.A.B.progress",
        "__causeway.A.B.directives",
        "__consumer_offsets",
    )
    target = Side(**{"A.orders": [(0, 50)]}, **{name: [(0, 9)] for name in own})
    told = seen(source, target, ONE)
    assert told.unbegun == {}
    begun = ONE.replace(last_timestamp=LONG_AGO)
    assert found(*topics_known([begun], told, GONE_MS)).rpo_ms == 5_000


@pytest.fixture
def acted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Links that were failed over. Only clusters B and C answer; A->C has mirrored nothing, and the
    driver of C->B goes on."""
    done: list[str] = []

    class Move:
        def __init__(self, ending: Any, *_: object) -> None:
            self.ending = ending

        def run(self, *_: object) -> FailedOver:
            link = self.ending.link
            if link.name == "C->B":
                raise NobodyLeadsError("end the mirror", "C->B", "a driver goes on")
            done.append(link.name)
            return replace(found(), link=link.name, target=link.target.alias)

    def ending(link: LinkSettings, *_: object) -> Any:
        return SimpleNamespace(link=link, progress=lambda: link.name != "A->C")

    def connect(client: ClientSettings) -> Any:
        side = Side()
        side.error = None if client.alias in "BC" else UnreachableError("reach", client.alias)
        return side

    monkeypatch.setattr(failovers, "clusters", lambda: nullcontext(connect))
    contents = ProgressContents(partitions={TopicPartition("orders", 0): ONE})
    log = SimpleNamespace(look=lambda: None, directives=LinkDirectives())
    monkeypatch.setattr(failovers, "Ending", ending)
    monkeypatch.setattr(failovers, "LinkFailover", Move)
    monkeypatch.setattr(
        scopes,
        "ProgressTopic",
        lambda *_: SimpleNamespace(exists=lambda: True, read=lambda: contents),
    )
    monkeypatch.setattr(scopes, "DirectiveLog", lambda *_: log)
    return done


def test_a_link_to_the_cluster_that_is_gone_keeps_no_other_from_ending(acted: list[str]) -> None:
    one, back = failover(links_between("A->B", "B->A"), yes=True)
    assert (acted, one.left) == (["A->B"], None)
    assert back.left == "its target does not answer: reach A"
    assert not back.late, "there is nothing to end on a cluster that is gone"
    *_, other = failover(links_between("A->B", "B->D"), yes=True)
    assert other.late, "it ends nothing that its target still takes"
    _, third = failover(links_between("A->B", "A->C"), yes=True)
    assert (third.left, third.late) == ("nothing has been mirrored yet", False)


def test_a_cluster_that_a_topic_never_goes_to_is_no_matter(acted: list[str]) -> None:
    settings = links_between("A->B", "C->D")
    one, other = settings.links
    settings = replace(settings, links=(one, replace(other, topics=compile_patterns("bills"))))
    (found,) = failover(settings, topic="orders", yes=True)
    assert (found.link, acted) == ("A->B", ["A->B"])


def test_a_link_that_cannot_be_ended_keeps_no_other_from_it(acted: list[str]) -> None:
    failed, one = failover(links_between("C->B", "A->B"), yes=True)
    assert (acted, one.error) == (["A->B"], None)
    assert (failed.changed, failed.left) == (False, "end the mirror C->B: a driver goes on")
    assert isinstance(failed.error, NobodyLeadsError)
    assert [failed_over_json(each)["failed"] for each in (failed, one)] == [True, False]
    with pytest.raises(NobodyLeadsError):
        failover(links_between("C->B"), yes=True)


def test_where_nothing_can_be_ended_that_is_an_error(acted: list[str]) -> None:
    with pytest.raises(UnreachableError):
        failover(links_between("B->A", "C->A"), yes=True)
    with pytest.raises(ConfigError, match=r"nothing has been .* yet; C->A: reach A"):
        failover(links_between("A->C", "C->A"), yes=True)
    assert not acted
