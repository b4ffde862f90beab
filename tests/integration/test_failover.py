"""Failing over with the source gone: with a driver that obeys, with one that is dead or mute, and
with a command that is killed between any two of its steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from causeway.cluster import Cluster
from causeway.config import LinkSettings, RunSettings, Settings
from causeway.control import acls
from causeway.daemon import Leadership
from causeway.errors import ConfigError, NobodyLeadsError
from causeway.link_topics import LeadershipLostError, ProgressTopic
from causeway.model import Pair, State, TopicPartition
from causeway.operate.directives import act
from causeway.operate.failover import FailbackStep, Keep, failback, failover, last_groups, promote
from causeway.operate.failover.ending import Ending
from causeway.status import status
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import (
    KilledError,
    await_mirrored,
    await_same,
    fill,
    identity,
    kill_after,
    mirror_of,
    turned,
)
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalCluster]:
    """A source that dies, and comes back for the next test."""
    with LocalCluster("mortal") as cluster:
        yield cluster


@pytest.fixture
def origin(mortal: LocalCluster) -> KafkaTools:
    if mortal.brokers[1].pid is None:
        mortal.restart()
    return KafkaTools(mortal.bootstrap)


def settings_of(link: LinkSettings) -> Settings:
    return Settings(links=(link,), run=RunSettings(lease_s=2.0), spark={})


def hurried(settings: Settings) -> Settings:
    """With a source that is not waited for long."""
    (found,) = settings.links
    source = replace(found.source_admin, request_timeout_ms=2000)
    return replace(settings, links=(replace(found, source_admin=source),))


def lags(settings: Settings) -> list[int | None]:
    (told,) = status(settings)
    return [each.lag_records for each in told.partitions]


def mirror_once(
    link: LinkSettings,
    prefix: str,
    source: KafkaTools,
    target: KafkaTools,
    patch: pytest.MonkeyPatch,
) -> str:
    """A topic with 100 records, mirrored by a driver that has ended since."""
    topic = prefix + "one"
    source.create_topic(topic, 1)
    fill(source, topic, 100)
    with RunningDaemon(patch, link, lease_s=2.0):
        await_same(source, target, topic)
    return topic


def test_the_source_is_gone_and_its_driver_obeys(
    mortal: LocalCluster,
    origin: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, group = prefix + "one", prefix + "readers"
    origin.create_topic(one, 2)
    fill(origin, one, 100, partitions=2)
    link = identity(origin, target, prefix, group)
    settings = settings_of(link)
    with RunningDaemon(monkeypatch, link) as run:
        await_same(origin, target, one)
        # Of a source that is gone no more is known than its driver has written by then.
        await_until(lambda: lags(settings) == [0, 0], 60, "the progress of both")
        origin.commit_group(group, {(one, 0): 20, (one, 1): 50})
        checkpoints = link.policy.checkpoints_topic(link.source.alias)

        def followed() -> bool:
            there = target.partition_count(checkpoints) is not None
            return there and sum(target.offsets(checkpoints).values()) >= 2

        await_until(followed, 60, "checkpoints")
        mortal.kill()
        (shown,) = failover(settings, yes=False)
        assert not shown.changed
        assert shown.source is not None, "it does not answer"
        (known,) = shown.topics
        assert (known.topic, known.missing, known.exact) == (one, 0, False)
        assert shown.rpo_ms is not None, "the source may have taken in more since"
        assert {(p.partition.partition, p.offset, p.behind) for p in shown.groups} == {
            (0, 20, 30),
            (1, 50, 0),
        }
        run.await_state(one, State.FAILED, 2)
        await_until(lambda: run.link().state == "source unavailable", 60, "it is said so")
        (told,) = status(hurried(settings))
        assert told.state == "source unavailable"
        assert {each.state for each in told.partitions} == {"source unavailable"}
        # The file has the way back as well, which is to the cluster that is gone.
        both = replace(settings, links=(link, turned(link)))
        done, left = failover(both, yes=True, who="anna@ops", reason="the site burns")
        assert done.changed
        assert left.left is not None
        assert (left.changed, left.late) == (False, False)
        assert "its target does not answer" in left.left
        assert [(p.source, p.targets, p.exact) for p in done.cuts[one].points] == [
            (50, ((TopicPartition(one, number), 50),), True) for number in (0, 1)
        ]
        places = target.group_offsets(group)
        assert (places[one, 0], places[one, 1]) == (20, 50)
        run.await_state(one, State.FAILED_OVER, 2)
        assert run.link().state == "failed over"
        (told,) = status(hurried(settings))
        assert {told.state, *(each.state for each in told.partitions)} == {"failed over"}
        # Life goes on at B; the old source comes back, and nothing of it comes over.
        fill(target, one, 10, partitions=2)
        mortal.restart()
        fill(origin, one, 30, partitions=2)
        (again,) = failover(settings, yes=True, who="ben@ops")
        assert not again.changed
        assert again.before is not None
        assert again.before.by.startswith("by anna@ops at ")
        (late,) = promote(settings, topic=one, wait_s=0)
        assert late.before is not None
        assert late.before.by == again.before.by, "there is nothing left to promote"
    with RunningDaemon(monkeypatch, link) as run:
        shown_by = run.await_state(one, State.FAILED_OVER, 2)
        assert "the site burns" in str(shown_by.reason)
    assert target.offsets(one) == {0: 55, 1: 55}
    assert target.group_offsets(group) == places, "a second call commits nothing"


@pytest.mark.slow
def test_a_second_call_commits_the_groups_that_could_not_be(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, group = prefix + "one", prefix + "readers"
    source.create_topic(one, 1)
    fill(source, one, 100)
    link = identity(source, target, prefix, group)
    settings = settings_of(link)
    with RunningDaemon(monkeypatch, link):
        await_same(source, target, one)
        source.commit_group(group, {(one, 0): 20})
        checkpoints = link.policy.checkpoints_topic(link.source.alias)

        def followed() -> bool:
            there = target.partition_count(checkpoints) is not None
            return there and sum(target.offsets(checkpoints).values()) >= 1

        await_until(followed, 60, "a checkpoint")
        with monkeypatch.context() as patch:
            patch.setattr(last_groups, "commit", lambda *_: {group: "its coordinator is away"})
            (failed,) = failover(settings, yes=True, who="anna@ops")
        assert failed.failures.keys() == {group}
        (shown,) = failover(settings, yes=False)
        assert shown.failures.keys() == {group}
        (again,) = failover(settings, yes=True, who="ben@ops")
        assert (again.changed, again.failures) == (False, {})
        assert target.group_offsets(group)[one, 0] == 20
        (third,) = failover(settings, yes=True)
        assert (third.groups, third.failures) == ((), {})


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(Ending, "begin", marks=pytest.mark.slow),
        (Ending, "finish"),
        pytest.param(last_groups, "commit", marks=pytest.mark.slow),
        pytest.param(acls, "remove_denials", marks=pytest.mark.slow),
    ],
    ids=["ended", "cut", "committed", "lifted"],
)
def test_a_command_that_was_killed_is_gone_on_with(
    owner: object,
    name: str,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = identity(source, target, prefix)
    topic = mirror_once(link, prefix, source, target, monkeypatch)
    settings = settings_of(link)
    with monkeypatch.context() as patch:
        kill_after(patch, owner, name)
        with pytest.raises(KilledError):
            failover(settings, yes=True, who="anna@ops")
    with RunningDaemon(monkeypatch, link, lease_s=2.0) as run:
        run.await_state(topic, State.FAILED_OVER)
        fill(source, topic, 5)
        (found,) = failover(settings, yes=True, who="ben@ops")
        assert found.changed
        assert found.cuts[topic].points[0].targets == ((TopicPartition(topic, 0), 100),)
        (again,) = failover(settings, yes=True)
        assert not again.changed
        assert again.before is not None
        assert again.before.who == "anna@ops", "who began it"
    assert target.offsets(topic) == {0: 100}


def leading(link: LinkSettings) -> Leadership:
    """Of a driver that reads no directives."""
    found = Leadership(Cluster(link.target), Cluster(link.target), link, 2.0)
    assert found.acquire(threading.Event(), lambda _: None) is not None
    return found


def test_a_driver_that_is_silent_cannot_go_on(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = identity(source, target, prefix)
    topic = mirror_once(link, prefix, source, target, monkeypatch)
    frozen = leading(link)
    (found,) = failover(settings_of(link), yes=True, wait_s=0.5)
    assert found.changed
    assert found.cuts[topic].points[0].exact, "the target's log shows that it had said all"
    with pytest.raises(LeadershipLostError):
        frozen.renew()


@pytest.mark.slow
def test_a_driver_that_goes_on_in_spite_of_it_is_named(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = identity(source, target, prefix)
    topic = mirror_once(link, prefix, source, target, monkeypatch)
    deaf, over = leading(link), threading.Event()

    def renew() -> None:
        while not over.wait(0.3):
            deaf.renew()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    with pytest.raises(NobodyLeadsError, match="leads, renews its lease and has not acted"):
        failover(settings_of(link), yes=True, wait_s=0.5)
    over.set()
    thread.join()
    deaf.release()
    (found,) = failover(settings_of(link), yes=True, wait_s=0.5)
    assert found.changed
    assert found.cuts[topic].points[0].source == 100


def test_a_mirror_with_a_name_of_its_own_goes_on_where_it_was(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it can be given back, and what was never mirrored comes then."""
    link, start = mirror_of(source, target, prefix)
    settings, topic = settings_of(link), prefix + "one"
    source.create_topic(topic, 1)
    fill(source, topic, 100)
    with RunningDaemon(monkeypatch, link, lease_s=2.0) as run:
        run.await_state(topic, State.RUNNING)
        await_mirrored(source, target, topic)
        (found,) = failover(settings, yes=True)
        assert found.cuts[topic].target == start + topic
        fill(source, topic, 20, first=100)
        assert failback(settings, dry_run=True).step is FailbackStep.GOES_ON
        run.await_state(topic, State.FAILED_OVER)
        back = failback(settings)
        assert (back.step, back.changed) == (FailbackStep.GOES_ON, True)
        await_mirrored(source, target, topic)
        again = failback(settings)
        assert (again.step, again.changed) == (FailbackStep.GOES_ON, False)
        # Where others wrote to the mirror itself, there is no way on.
        failover(settings, yes=True)
        target.produce(start + topic, [b"of B"])
        with pytest.raises(ConfigError, match="others have written to"):
            failback(settings)


def test_where_a_silent_driver_had_come_is_found_again(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only the old source has is told exactly, although nobody said where the mirror ended."""
    link = identity(source, target, prefix)
    topic, spare = mirror_once(link, prefix, source, target, monkeypatch), prefix + "spare"
    driver = leading(link)  # and dead once it has said less than it had mirrored
    (known,) = ProgressTopic(Cluster(link.target), link.progress_topic).read().partitions.values()
    (outlet,) = known.outlets
    older = outlet.replace(pair=Pair(source=60, target=60, sequence=60))
    driver.write([known.replace(position=60, outlets=(older,))])
    fill(source, topic, 20, first=100)
    fill(target, topic, 10, first=1000)  # life goes on at B already
    (found,) = failover(settings_of(link), yes=True, wait_s=0.5)
    (point,) = found.cuts[topic].points
    assert (point.source, point.targets, point.exact) == (
        60,
        ((TopicPartition(topic, 0), 100),),
        False,
    )
    both = Settings(links=(link, turned(link)), run=RunSettings(lease_s=2.0), spark={})
    assert failback(settings_of(link)).step is FailbackStep.NO_WAY_BACK
    shown = failback(both, link=link.name, wait_s=0)
    assert shown.step is FailbackStep.UNDECIDED
    (only,) = shown.unmirrored
    assert (only.first, only.end, only.records, only.surely) == (100, 120, 20, True)
    begun = failback(both, link=link.name, keep=Keep(topic=spare), wait_s=0)
    assert (begun.step, begun.changed, begun.lag) == (FailbackStep.BACK, True, None)
    (saved,) = target.read(spare).values()
    assert [record.value for record in saved] == [b"value %d" % n for n in range(100, 120)]
    again = failback(both, link=link.name, wait_s=0)
    assert (again.step, again.changed) == (FailbackStep.BACK, False)


@pytest.mark.slow
def test_a_mirror_that_has_failed_over_stays_so_if_the_directives_are_lost(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops, and each remedy that the reason names works."""
    link = identity(source, target, prefix, prefix + "readers")
    settings = settings_of(link)
    topic = mirror = mirror_once(link, prefix, source, target, monkeypatch)
    (done,) = failover(settings, yes=True, who="anna@ops")
    assert done.changed
    with RunningDaemon(monkeypatch, link) as run:
        run.await_state(topic, State.FAILED_OVER)
    fill(source, topic, 10, first=100)

    target.delete_topic(link.directives_topic)
    with RunningDaemon(monkeypatch, link) as run:
        reason = run.await_state(topic, State.STOPPED).reason or ""
        assert "anna@ops" in reason
        assert "causeway failover" in reason
        assert "causeway restart --adopt" in reason
    assert target.offsets(mirror) == {0: 100}
    with RunningDaemon(monkeypatch, link) as run:  # also the next one
        run.await_state(topic, State.STOPPED)
        (again,) = failover(settings, yes=True, who="ben@ops")
        assert again.changed
        assert again.cuts[topic].points[0].source == 100
        run.await_state(topic, State.FAILED_OVER)

    target.delete_topic(link.directives_topic)
    with RunningDaemon(monkeypatch, link) as run:
        run.await_state(topic, State.STOPPED)
        assert target.offsets(mirror) == {0: 100}
        (asked,) = act.restart(settings, adopt=True)
        assert asked.acted
        await_until(lambda: target.offsets(mirror) == {0: 110}, 120, "it is mirrored again")
