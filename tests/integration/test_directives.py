"""What people ask of a running mirror, on real brokers: it is done, it stands, and nothing is lost
or doubled by it. Lanes are real processes; where a process tree matters, Spark is there too."""

from __future__ import annotations

import os
import time

import pytest

from causeway.config.settings import LinkSettings, RunSettings, Settings
from causeway.model import State
from causeway.operate import directives
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka_tools import KafkaTools, Outgoing
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


def await_same(source: KafkaTools, target: KafkaTools, topic: str) -> None:
    await_until(
        lambda: source.digests(topic) == target.digests(f"A.{topic}"), 60, f"{topic} mirrored"
    )


def settings_of(*links: LinkSettings) -> Settings:
    return Settings(links=links, run=RunSettings(), spark={})


def test_a_topic_is_paused_and_goes_on(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = prefix + "one", prefix + "other"
    for topic in (one, other):
        source.create_topic(topic, 2)
        fill(source, topic, 100, partitions=2)
    mirror = link(source.bootstrap, target.bootstrap, prefix + ".*")
    settings = settings_of(mirror)
    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(one, State.RUNNING, 2)
        await_same(source, target, one)
        (found,) = directives.pause(settings, topic=one, reason="too loud", who="anna@ops")
        assert (found.changed, found.acted) == (True, True)
        assert {each.state for each in found.seen} == {"paused"}
        status = run.await_state(one, State.PAUSED, 2)
        assert status.reason is not None
        assert "anna@ops" in status.reason
        assert "too loud" in status.reason

        fill(source, one, 100, partitions=2, first=100)
        fill(source, other, 100, partitions=2, first=100)
        await_same(source, target, other)
        await_until(lambda: run.partitions()[one, 0].lag == 50, 60, "its lag is measured")
        assert sum(target.offsets(f"A.{one}").values()) == 100

        (again,) = directives.pause(settings, topic=one, who="ben@ops")
        assert not again.changed
        assert again.before is not None
        assert again.before.who == "anna@ops"

        (found,) = directives.resume(settings, topic=one)
        assert (found.changed, found.acted) == (True, True)
        await_same(source, target, one)
    assert run.result == 0


def test_a_throttle_holds_and_can_be_changed_and_taken_back(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic on two lanes that lag, no more and hardly less than the limit arrives, for each of
    two limits; without one, all that is left comes at once."""
    topic, size = prefix + "big", 1_000
    source.create_topic(topic, 4)
    count = 60_000
    value = os.urandom(size)
    source.produce(topic, [Outgoing(value=value, partition=n % 4) for n in range(count)])
    mirror = link(
        source.bootstrap, target.bootstrap, topic, more={"throttle_bytes_per_s": 1_000_000}
    )
    settings = settings_of(mirror)

    def arrived() -> int:
        return size * sum(target.offsets(f"A.{topic}").values())

    def rate(seconds: float) -> float:
        began, before = time.monotonic(), arrived()
        await_until(lambda: time.monotonic() > began + seconds, 60)
        return (arrived() - before) / (time.monotonic() - began)

    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(topic, State.RUNNING, 4)
        assert arrived() < 20 * size * 1_000, "the file's limit holds from the start"
        (found,) = directives.throttle(settings, bytes_per_s=2_000_000, reason="office hours")
        assert found.acted
        rate(2.0)
        assert 0.9 * 2_000_000 < rate(8.0) < 1.1 * 2_000_000
        (found,) = directives.throttle(settings, topic=topic, bytes_per_s=500_000)
        assert found.acted
        rate(2.0)
        assert 0.9 * 500_000 < rate(8.0) < 1.1 * 500_000
        assert arrived() < count * size
        directives.throttle(settings, topic=topic, bytes_per_s=None, off=True)
        (found,) = directives.throttle(settings, bytes_per_s=None)
        assert found.before is not None
        assert found.before.why == "office hours"
        await_same(source, target, topic)
    assert run.result == 0
