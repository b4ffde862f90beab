"""What people ask of a running mirror, on real brokers: it is done, it stands, and nothing is lost
or doubled by it. Lanes are real processes; where a process tree matters, Spark is there too."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from causeway.cluster import Cluster
from causeway.errors import ConfigError, ConflictError, NobodyLeadsError, PartitionsFailedError
from causeway.link_topics import (
    DirectiveLog,
    DirectivePlan,
    LinkDirectives,
    PauseDirective,
    Scope,
    write_directives,
)
from causeway.model import State
from causeway.operate.directives import act
from causeway.status import Role
from tests.harness.command import causeway
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.links import await_mirrored, fill, mirror_of, settings_of
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    mm2_file,
    status_of,
)
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration
_LEASE_S = 60.0  # far longer than a hand-over on the slowest machine


def test_a_topic_is_paused_and_goes_on(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = prefix + "one", prefix + "other"
    for topic in (one, other):
        source.create_topic(topic, 2)
        fill(source, topic, 100, partitions=2)
    mirror, start = mirror_of(source, target, prefix)
    settings = settings_of(mirror)
    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(one, State.RUNNING, 2)
        await_mirrored(source, target, one)
        (found,) = act.pause(settings, topic=one, reason="too loud", who="anna@ops")
        assert (found.changed, found.acted) == (True, True)
        assert {each.state for each in found.seen} == {"paused"}
        status = run.await_state(one, State.PAUSED, 2)
        assert status.reason is not None
        assert "anna@ops" in status.reason
        assert "too loud" in status.reason

        since_ms = int(time.time() * 1000)
        fill(source, one, 100, partitions=2, first=100)
        fill(source, other, 100, partitions=2, first=100)
        await_mirrored(source, target, other)
        await_until(lambda: run.partitions()[one, 0].lag_records == 50, 60, "its lag is measured")
        lagging = await_until(
            lambda: next(
                (each for each in [run.partitions()[one, 0]] if each.lag_ms is not None), None
            ),
            60,
            "the time of the first record that waits",
        )
        assert lagging.newest_record_ms is not None
        assert lagging.newest_record_ms < since_ms
        assert lagging.lag_ms is not None
        assert lagging.lag_ms <= time.time() * 1000 - since_ms
        assert sum(target.offsets(start + one).values()) == 100

        (again,) = act.pause(settings, topic=one, who="ben@ops")
        assert not again.changed
        assert again.before is not None
        assert again.before.who == "anna@ops"

        (found,) = act.resume(settings, topic=one)
        assert (found.changed, found.acted) == (True, True)
        await_mirrored(source, target, one)
    assert run.result == 0


@pytest.mark.slow
def test_a_throttle_holds_and_can_be_changed_and_taken_back(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic on two lanes that lag, no more and hardly less than the limit arrives, for each of
    two limits; without one, all that is left comes at once."""
    topic, size = prefix + "big", 1_000
    source.create_topic(topic, 4)
    count = 60_000
    value = os.urandom(size)
    source.produce(
        topic,
        [Outgoing(value=value, partition=n % 4) for n in range(count)],
        settings={"batch.size": 32_000},  # of an answer, a batch at least is read
    )
    mirror, start = mirror_of(source, target, prefix, throttle_bytes_per_s=1_000_000)
    settings = settings_of(mirror)

    def arrived() -> int:
        return size * sum(target.offsets(start + topic).values())

    def seen() -> tuple[float, int]:
        """What has arrived, and when that was so, as near as can be told."""
        asked = time.monotonic()
        found = arrived()
        return (asked + time.monotonic()) / 2, found

    def rate(seconds: float) -> float:
        began, before = seen()
        await_until(lambda: time.monotonic() > began + seconds, 60)
        ended, after = seen()
        return (after - before) / (ended - began)

    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(topic, State.RUNNING, 4)
        assert arrived() < 20 * size * 1_000, "the file's limit holds from the start"
        (found,) = act.throttle(settings, bytes_per_s=2_000_000, reason="office hours")
        assert found.acted
        rate(1.5)
        assert 0.8 * 2_000_000 < rate(10.0) < 1.2 * 2_000_000
        (found,) = act.throttle(settings, topic=topic, bytes_per_s=500_000)
        assert found.acted
        rate(1.5)
        assert 0.8 * 500_000 < rate(10.0) < 1.2 * 500_000
        assert arrived() < count * size
        act.throttle(settings, topic=topic, bytes_per_s=None, off=True)
        (found,) = act.throttle(settings, bytes_per_s=None)
        assert found.before is not None
        assert found.before.why == "office hours"
        await_mirrored(source, target, topic)
    assert run.result == 0


def test_a_topic_can_be_paused_before_it_comes(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a driver, and before the topic: it holds when both come. A partition of it can go on
    by itself."""
    topic = prefix + "later"
    mirror, start = mirror_of(source, target, prefix)
    settings = settings_of(mirror)
    with pytest.raises(ConfigError, match="no topic of that name"):
        act.pause(settings, topic=topic)
    (found,) = act.pause(settings, topic=topic, ahead=True)
    assert (found.changed, found.driver, found.acted) == (True, None, None)
    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_role(Role.LEADING)
        source.create_topic(topic, 2)
        fill(source, topic, 10, partitions=2)
        run.await_state(topic, State.PAUSED, 2)
        with pytest.raises(ConfigError, match=f"like it: {topic}"):
            act.resume(settings, topic=topic + "x")
        (found,) = act.resume(settings, topic=topic, partition=1)
        assert found.acted
        await_until(lambda: target.offsets(start + topic).get(1) == 5, 60, "partition 1 goes on")
        assert run.partitions()[topic, 0].state is State.PAUSED
        assert target.offsets(start + topic)[0] == 0
        act.resume(settings)
        run.await_state(topic, State.PAUSED)
        act.resume(settings, topic=topic)
        await_mirrored(source, target, topic)
    assert run.result == 0


def test_a_bounded_run_waits_for_nothing_that_is_paused(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It copies the rest, and ends with what it left and who wanted it so."""
    one, other = prefix + "one", prefix + "other"
    for topic in (one, other):
        source.create_topic(topic, 1)
        fill(source, topic, 10)
    mirror, start = mirror_of(source, target, prefix)
    act.pause(settings_of(mirror), topic=one, who="anna@ops", reason="audit")
    with RunningDaemon(monkeypatch, mirror, until_caught_up=True) as run:
        run.join()
    assert isinstance(run.result, PartitionsFailedError)
    assert f"{one}-0 paused: paused by anna@ops since" in str(run.result)
    await_mirrored(source, target, other)
    assert target.offsets(start + one) == {0: 0}


def test_what_stopped_is_tried_again(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all the checks of a first try: it stops again as long as the reason lasts, and goes on
    once that is mended."""
    topic = prefix + "orders"
    mirror, start = mirror_of(source, target, prefix)
    mirrored = start + topic
    source.create_topic(topic, 1)
    fill(source, topic, 20)
    target.create_topic(mirrored, 1)
    fill(target, mirrored, 3)
    settings = settings_of(mirror)
    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(topic, State.STOPPED)
        (found,) = act.restart(settings, topic=topic)
        assert found.acted
        assert [each.state for each in found.seen] == ["stopped"]
        assert target.offsets(mirrored) == {0: 3}
        target.delete_topic(mirrored)
        (found,) = act.restart(settings, topic=topic)
        assert found.acted
        await_mirrored(source, target, topic)
        run.await_state(topic, State.RUNNING)
    assert run.result == 0


def test_two_at_once(source: KafkaTools, target: KafkaTools, prefix: str) -> None:
    """Whoever comes while another one is amid it wins; the other is told, and nothing of his is
    there."""
    mirror, _ = mirror_of(source, target, prefix)
    target_cluster = Cluster(mirror.target)

    def amid(directives: LinkDirectives) -> DirectivePlan:
        assert not directives.by_key
        act.pause(settings_of(mirror), reason="mine", who="ben@ops", wait_s=None)
        wish = PauseDirective(scope=Scope("orders"), who="anna@ops", at=1)
        return DirectivePlan(changes=((wish.key, wish),))

    try:
        with pytest.raises(ConflictError, match="concurrent administrative request"):
            write_directives(target_cluster, mirror, amid)
        log = DirectiveLog(target_cluster, mirror.directives_topic)
        log.look()
        assert [(each.scope, each.who) for each in log.directives] == [(Scope(), "ben@ops")]
    finally:
        target_cluster.close()


def test_a_leader_steps_down(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a standby it leads again; with one, that leads, and the mirror stands still for a
    moment only."""
    topic = prefix + "t"
    source.create_topic(topic, 2)
    mirror, start = mirror_of(source, target, prefix)
    settings = settings_of(mirror)
    with pytest.raises(NobodyLeadsError):
        act.step_down(settings)
    with RunningDaemon(monkeypatch, mirror, lease_s=_LEASE_S) as first:
        first.await_state(topic, State.RUNNING, 2)
        (found,) = act.step_down(settings)
        assert found.acted
        first.await_state(topic, State.RUNNING, 2)
        with (
            RunningDaemon(monkeypatch, mirror, lease_s=_LEASE_S) as second,
            writing(source, topic, 2, seed=1, pause_s=0.01) as writer,
        ):
            second.await_role(Role.STANDBY)
            with Arrivals(target, start + topic) as arrivals:
                await_until(lambda: arrivals.count > 50, 60, "records arrive")
                (found,) = act.step_down(settings, reason="upgrade", who="anna@ops")
                assert found.acted
                second.await_role(Role.LEADING)
                reason = first.await_role(Role.STANDBY).reason
                second.await_state(topic, State.RUNNING, 2)
                seen = arrivals.count
                await_until(lambda: arrivals.count > seen + 50, 60, "records go on to arrive")
            writer.end()
            await_copied(source, topic, target, start + topic)
            assert second.link().role is Role.LEADING
            assert first.link().role is Role.STANDBY
    assert reason is not None
    # It says who asked, until it knows who leads.
    assert "anna@ops" in reason or reason.startswith("led by")
    # Without a word to the standby, the lease would run out first. How long it takes: make bench.
    assert arrivals.longest_s < _LEASE_S / 2, f"{found.gap_ms} ms of it without a leader"
    assert_same(source, topic, target, start + topic)


@pytest.mark.slow
def test_a_pause_outlives_the_driver(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A link is paused by command while transactions go on; its driver is killed and another one
    started: it stays paused, and says by whom. Once resumed, all is there, once and in order."""
    alias = prefix.partition("-")[0]
    topic, mirrored = prefix + "t", f"{alias}.{prefix}t"
    source.create_topic(topic, 2)
    file = mm2_file(
        tmp_path,
        {alias: source_cluster, "R": target_cluster},
        f"{alias}->R.enabled = true",
        f"topics = {prefix}.*",
        "causeway.lease.ms = 3000",
    )

    def states() -> set[str]:
        (found,) = status_of(file).values()
        return {one["state"] for one in found["partitions"]}

    with writing(source, topic, 2, seed=7, pause_s=0.05) as writer:
        with Running("run", file, directory=tmp_path) as first:
            await_until(lambda: writer.written > 50, PATIENCE_S)
            await_copied(source, topic, target, mirrored)
            paused = causeway("pause", file, "--reason", "moving house")
            assert paused.code == 0, paused.err
            assert "2 paused" in paused.out
            assert states() == {"paused"}
            first.kill()
        before = target.offsets(mirrored)
        with Running("run", file, directory=tmp_path) as second:
            await_until(lambda: states() == {"paused"}, PATIENCE_S, "it is paused by the next one")
            second.await_log("lanes ready")
            shown = causeway("status", file)
            assert "moving house" in shown.out
            assert target.offsets(mirrored) == before
            resumed = causeway("resume", file, "--json")
            assert resumed.code == 0, resumed.err
            (found,) = resumed.json["links"]
            assert (found["changed"], found["acted"]) == (True, True)
            writer.end()
            await_copied(source, topic, target, mirrored)
            assert second.stop() == 0
    assert writer.written > 100
    assert_same(source, topic, target, mirrored)
    unknown = causeway("pause", file, "--topic", topic + "s")
    assert unknown.code == 2
    assert f"like it: {topic}" in unknown.err
    nobody = causeway("step-down", file)
    assert nobody.code == 9
    assert "no driver leads" in nobody.err


class Arrivals(threading.Thread):
    """Watches a topic grow: how many records came, and the longest time in which none did."""

    def __init__(self, kafka: KafkaTools, topic: str) -> None:
        super().__init__(daemon=True)
        self._kafka, self._topic = kafka, topic
        self._over = threading.Event()
        self.count, self.longest_s = 0, 0.0

    def __enter__(self) -> Arrivals:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        first = before = sum(self._kafka.offsets(self._topic).values())
        grew_at = time.monotonic()
        while not self._over.wait(0.02):
            now = sum(self._kafka.offsets(self._topic).values())
            if now > before:
                self.longest_s = max(self.longest_s, time.monotonic() - grew_at)
                grew_at, before = time.monotonic(), now
                self.count = now - first
