"""What the driver decides, on real brokers: discovery, leading, stopping, taking up again.

Lanes are real processes, Spark is not here (tests/harness/daemon.py).
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace

import pytest

from causeway.cluster import Cluster
from causeway.config import ControlSettings, LinkSettings
from causeway.daemon import Leadership
from causeway.errors import PartitionsFailedError, UnreachableError
from causeway.filters import compile_patterns
from causeway.link_topics import LeadershipLostError, ProgressTopic
from causeway.model import State, TopicPartition
from causeway.status import Role
from tests.harness.control import checkpoints
from tests.harness.daemon import RunningDaemon, SubprocessEngine, link, link_apart, unreachable
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


def fill(kafka: KafkaTools, topic: str, count: int, *, partitions: int = 1, first: int = 0) -> None:
    kafka.produce(
        topic,
        [
            Outgoing(value=b"value %d" % n, key=b"%d" % n, partition=n % partitions)
            for n in range(first, first + count)
        ],
    )


def await_same(
    source: KafkaTools, target: KafkaTools, topic: str, mirror: str | None = None
) -> None:
    await_until(
        lambda: source.digests(topic) == target.digests(mirror or f"A.{topic}"),
        240,
        f"{topic} mirrored",
    )


def test_topics_and_partitions_are_found_while_others_run(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = prefix + "first", prefix + "second"
    source.create_topic(first, 2)
    fill(source, first, 100, partitions=2)
    with RunningDaemon(monkeypatch, link(source.bootstrap, target.bootstrap, prefix + ".*")) as run:
        run.await_state(first, State.RUNNING, 2)
        await_same(source, target, first)
        source.create_topic(second, 3)
        source.add_partitions(first, 4)
        fill(source, second, 30, partitions=3)
        fill(source, first, 100, partitions=4, first=100)
        run.await_state(second, State.RUNNING, 3)
        run.await_state(first, State.RUNNING, 4)
        await_same(source, target, first)
        await_same(source, target, second)
        assert run.partitions()[first, 0].first == 0
    assert run.result == 0


def test_a_bounded_run_ends_by_itself_and_a_second_finds_nothing_to_do(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    source.create_topic(topic, 2)
    fill(source, topic, 500, partitions=2)
    settings = link(source.bootstrap, target.bootstrap, topic)
    for _ in range(2):
        with RunningDaemon(monkeypatch, settings, until_caught_up=True) as run:
            run.join()
        assert run.result == 0
        assert source.digests(topic) == target.digests(f"A.{topic}")


def test_a_bounded_run_that_loses_the_lead_waits_until_it_leads_again(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It mirrors nothing meanwhile, and so it has nothing left to do; which is no success."""
    topic = prefix + "t"
    source.create_topic(topic)
    fill(source, topic, 10)
    lost = threading.Event()
    renew, launch = Leadership.renew, SubprocessEngine.launch

    def fenced_once(leadership: Leadership) -> None:
        if not lost.is_set():
            lost.set()
            raise LeadershipLostError("lead", "A->B", "another driver does")
        renew(leadership)

    def launch_late(engine: SubprocessEngine, lane: int, host: str, port: int) -> None:
        threading.Thread(
            target=lambda: lost.wait(60) and launch(engine, lane, host, port), daemon=True
        ).start()

    monkeypatch.setattr(Leadership, "renew", fenced_once)
    monkeypatch.setattr(SubprocessEngine, "launch", launch_late)
    settings = link(source.bootstrap, target.bootstrap, topic)
    with RunningDaemon(monkeypatch, settings, until_caught_up=True) as run:
        run.join()
        assert run.result == 0
    assert lost.is_set()
    await_same(source, target, topic)


def test_a_lane_that_is_killed_or_frozen_is_replaced(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    source.create_topic(topic, 4)
    with RunningDaemon(
        monkeypatch, link(source.bootstrap, target.bootstrap, topic), lease_s=2.0
    ) as run:
        run.await_state(topic, State.RUNNING, 4)
        for blow in (signal.SIGKILL, signal.SIGSTOP):
            assert run.snapshot is not None
            victim = run.snapshot.lanes[0].pid
            os.kill(victim, blow)
            fill(source, topic, 100, partitions=4)
            await_same(source, target, topic)
            run.await_state(topic, State.RUNNING, 4)
            await_until(
                lambda victim=victim: (  # type: ignore[misc]
                    run.snapshot is not None
                    and len(run.snapshot.lanes) == SubprocessEngine.lanes
                    and victim not in {lane.pid for lane in run.snapshot.lanes}
                ),
                PATIENCE_S,
                "another lane",
            )
    assert run.result == 0


def test_a_topic_deleted_or_made_anew_stops_alone(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted, remade, healthy = prefix + "deleted", prefix + "remade", prefix + "healthy"
    source.create_topics([deleted, remade, healthy], 1)
    for topic in (deleted, remade, healthy):
        fill(source, topic, 10)
    settings = link(source.bootstrap, target.bootstrap, prefix + ".*")
    with RunningDaemon(monkeypatch, settings) as run:
        for topic in (deleted, remade, healthy):
            run.await_state(topic, State.RUNNING)
            await_same(source, target, topic)
        source.delete_topic(deleted)
        source.recreate_topic(remade)
        fill(source, remade, 5, first=1000)
        assert "deleted" in (run.await_state(deleted, State.STOPPED).reason or "")
        assert "deleted and recreated" in (run.await_state(remade, State.STOPPED).reason or "")
        fill(source, healthy, 10, first=10)
        await_same(source, target, healthy)
        assert run.partitions()[healthy, 0].state is State.RUNNING
    # It stays so, until a person acts.
    with RunningDaemon(monkeypatch, settings, until_caught_up=True) as run:
        run.join()
    assert isinstance(run.result, PartitionsFailedError)
    assert "deleted and recreated" in str(run.result)
    with RunningDaemon(monkeypatch, settings, until_caught_up=True, adopt=True) as run:
        run.join()
    assert run.result == 0
    values = [record.value for record in target.read(f"A.{remade}")[0]]
    assert values == [b"value %d" % n for n in (*range(10), *range(1000, 1005))]


def test_a_deleted_topic_is_shown_no_more_after_a_while_and_never_copied_twice(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the target has what was mirrored of it, whoever else may write there."""
    topic, steady = prefix + "deleted", prefix + "steady"
    source.create_topics([topic, steady], 1)
    fill(source, topic, 100)
    settings = link(source.bootstrap, target.bootstrap, prefix + ".*", more={"sole_writer": False})
    with (
        Cluster(settings.target) as cluster,
        RunningDaemon(monkeypatch, settings, deleted_topics_retention_s=1.0) as run,
    ):
        progress = ProgressTopic(cluster, settings.progress_topic)
        for each in (topic, steady):
            run.await_state(each, State.RUNNING)
        await_same(source, target, topic)
        at = TopicPartition(topic, 0)

        source.delete_topic(topic)
        await_until(lambda: (topic, 0) not in run.partitions(), 120, "it is shown no more")
        await_until(lambda: at not in progress.read().maps, 60, "the offset map is let go")
        assert at in progress.read().partitions, "the claim stays"

        source.create_topic(topic)
        fill(source, topic, 100)
        assert "deleted" in (run.await_state(topic, State.STOPPED).reason or "")
        assert target.digests(f"A.{topic}")[0][0] == 100, "it may be the same that came back"

        source.delete_topic(topic)
        target.delete_topic(f"A.{topic}")
        await_until(lambda: at not in progress.read().partitions, 120, "nothing is left of it")
        source.create_topic(topic)
        fill(source, topic, 50)
        run.await_state(topic, State.RUNNING)
        await_same(source, target, topic)
    assert run.result == 0


def test_nothing_is_said_of_groups_on_a_topic_made_anew(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their offsets are of other records than those that were mirrored."""
    topic, old, new = prefix + "orders", prefix + "old", prefix + "new"
    source.create_topic(topic, 1)
    fill(source, topic, 100)
    source.commit_group(old, {(topic, 0): 80})
    control = ControlSettings(
        groups=compile_patterns(f"{prefix}.*"),
        emit_checkpoints_interval_s=1,
        sync_group_offsets_enabled=True,
        sync_group_offsets_interval_s=1,
    )
    settings = link(source.bootstrap, target.bootstrap, topic, more={"control": control})
    key = old, (f"A.{topic}", 0)
    with RunningDaemon(monkeypatch, settings):
        await_until(lambda: checkpoints(target).get(key), 60, "a checkpoint")
        await_until(lambda: target.group_offsets(old) == {key[1]: 80}, 60, "a commit")
    source.delete_topic(topic)
    source.create_topic(topic, 1)
    fill(source, topic, 150, first=1000)
    source.commit_group(old, {(topic, 0): 30})
    source.commit_group(new, {(topic, 0): 95})
    with RunningDaemon(monkeypatch, settings) as run:
        run.await_state(topic, State.STOPPED)

        def untold() -> str:
            task = next(task for task in run.link().tasks if task.name == "groups")
            return task.items.get(f"{new} on {topic}-0", "")

        assert "has stopped" in await_until(untold, 60, "word of the group")
    assert checkpoints(target)[key].downstream == 80
    assert target.group_offsets(new) == {}


def test_a_target_made_anew_stops_until_a_person_says_from_where(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    source.create_topic(topic, 1)
    fill(source, topic, 10)
    settings = link(source.bootstrap, target.bootstrap, topic)
    with RunningDaemon(monkeypatch, settings) as run:
        run.await_state(topic, State.RUNNING)
        await_same(source, target, topic)
        target.delete_topic(f"A.{topic}")
        assert "deleted on the target" in (run.await_state(topic, State.STOPPED).reason or "")
    assert f"A.{topic}" not in target.topics()
    with RunningDaemon(monkeypatch, settings, start_from=0) as run:
        run.await_state(topic, State.RUNNING)
        await_same(source, target, topic)


def test_data_without_progress_is_taken_over_only_on_request(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, strange = prefix + "orders", prefix + "strange"
    source.create_topics([topic, strange], 1)
    fill(source, topic, 100)
    fill(source, strange, 10)
    settings = link_apart(source.bootstrap, target.bootstrap, prefix)
    alias = settings.source.alias
    with RunningDaemon(monkeypatch, settings, until_caught_up=True) as run:
        run.join()
    assert run.result == 0
    target.delete_topic(settings.progress_topic)
    fill(target, f"{alias}.{strange}", 1, first=77)  # the source never had that one
    fill(source, topic, 50, first=100)
    with RunningDaemon(monkeypatch, settings) as run:
        assert "has data already" in (run.await_state(topic, State.STOPPED).reason or "")
    assert target.digests(f"{alias}.{topic}")[0][0] == 100
    with RunningDaemon(monkeypatch, settings, adopt=True) as run:
        run.await_state(topic, State.RUNNING)
        await_same(source, target, topic, f"{alias}.{topic}")
        reason = run.await_state(strange, State.STOPPED).reason or ""
        assert "last records are not found" in reason


def test_a_shared_target_begins_on_others_data_and_stops_where_its_progress_was_lost(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    source.create_topic(topic, 1)
    target.create_topic(f"L.{topic}", 1)
    fill(source, topic, 100)
    fill(target, f"L.{topic}", 10, first=1000)
    a, b = client("L", source.bootstrap), client("M", target.bootstrap)  # a link of its own
    clusters = {"source": a, "source_admin": a, "target": b, "target_admin": b}
    shared = link(
        source.bootstrap, target.bootstrap, topic, more={**clusters, "sole_writer": False}
    )
    for lost, count in ((False, 110), (True, 110)):
        with RunningDaemon(monkeypatch, shared, until_caught_up=True) as run:
            run.join()
        assert len(target.read(f"L.{topic}")[0]) == count, run.result
        assert isinstance(run.result, PartitionsFailedError if lost else int)
        assert ("its progress topic was lost" in str(run.result)) == lost
        if not lost:
            target.delete_topic(shared.progress_topic)
    fill(source, topic, 10, first=100)
    with RunningDaemon(monkeypatch, shared, until_caught_up=True, start_from=0) as run:
        run.join()
    assert run.result == 0
    assert len(target.read(f"L.{topic}")[0]) == 220


def test_a_progress_topic_deleted_under_a_running_mirror_is_written_again(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what an earlier file had mirrored, and this one leaves out."""
    topic, left_out = prefix + "orders", prefix + "left-out"
    source.create_topic(topic, 2)
    source.create_topic(left_out, 1)
    fill(source, topic, 100, partitions=2)
    fill(source, left_out, 10)
    both = link_apart(source.bootstrap, target.bootstrap, prefix)
    settings = replace(both, topics=compile_patterns(topic))
    mirror = f"{both.source.alias}.{topic}"
    with RunningDaemon(monkeypatch, both, until_caught_up=True) as run:
        run.join()
    with RunningDaemon(monkeypatch, settings) as run:
        run.await_state(topic, State.RUNNING, 2)
        await_same(source, target, topic, mirror)
        with Cluster(settings.target) as cluster:
            lost = progress_topic_id(cluster, settings)
            cluster.delete_topics([settings.progress_topic])
            fill(source, topic, 100, partitions=2, first=100)
            await_same(source, target, topic, mirror)
            await_until(
                lambda: progress_topic_id(cluster, settings) not in (lost, None),
                PATIENCE_S,
                "progress again",
            )
        await_until(lambda: run.link().reason is None, 240, "progress written")
    with Cluster(settings.target) as cluster:
        contents = ProgressTopic(cluster, settings.progress_topic).read()
    assert {at.topic for at in contents.partitions} >= {topic, left_out}
    assert contents.leases[-1].progress_lost
    fill(source, topic, 100, partitions=2, first=200)
    with RunningDaemon(monkeypatch, settings, until_caught_up=True) as run:
        run.join()
    assert run.result == 0
    assert source.digests(topic) == target.digests(mirror)


def progress_topic_id(cluster: Cluster, settings: LinkSettings) -> str | None:
    found = cluster.metadata([settings.progress_topic]).topics.get(settings.progress_topic)
    return None if found is None or found.error else found.topic_id


def test_a_standby_takes_over_and_the_first_does_not_come_back(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    source.create_topic(topic, 2)
    fill(source, topic, 100, partitions=2)
    settings = link(source.bootstrap, target.bootstrap, topic)
    with RunningDaemon(monkeypatch, settings, lease_s=60) as one:
        one.await_state(topic, State.RUNNING, 2)
        with RunningDaemon(monkeypatch, settings, lease_s=60) as two:
            assert "led by" in (two.await_role(Role.STANDBY).reason or "")
            fill(source, topic, 100, partitions=2, first=100)
            await_same(source, target, topic)
            assert two.link().role is Role.STANDBY
            one.stop()
            two.await_state(topic, State.RUNNING, 2)
            fill(source, topic, 100, partitions=2, first=200)
            await_same(source, target, topic)
    assert (one.result, two.result) == (0, 0)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_link_whose_source_is_away_does_not_hold_up_another(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    bounded: bool,
) -> None:
    topic = prefix + "first"
    source.create_topic(topic, 1)
    fill(source, topic, 10)
    with RunningDaemon(
        monkeypatch,
        link(source.bootstrap, target.bootstrap, prefix + ".*"),
        link(
            source.bootstrap,
            target.bootstrap,
            prefix + ".*",
            more={"source": unreachable("X"), "source_admin": unreachable("X")},
        ),
        until_caught_up=bounded,
    ) as run:
        if bounded:  # it could not copy everything, whatever it waits for
            run.join()
        else:
            run.await_state(topic, State.RUNNING)
            await_same(source, target, topic)
            await_until(lambda: "X" in str(run.link("X->B").problems), 60, "its reason is shown")
    assert isinstance(run.result, UnreachableError) if bounded else run.result == 0


def test_without_any_link_whose_clusters_answer_a_run_ends(
    target: KafkaTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, it is rather a wrong address."""
    away = {"source": unreachable("X"), "source_admin": unreachable("X")}
    with RunningDaemon(
        monkeypatch, link(target.bootstrap, target.bootstrap, ".*", more=away)
    ) as run:
        run.join()
    assert isinstance(run.result, UnreachableError)
