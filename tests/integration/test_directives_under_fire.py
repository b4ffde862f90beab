"""People who ask for anything at any time, while lanes die: nothing is lost or doubled by it."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress

import psutil
import pytest

from causeway.config import Settings
from causeway.errors import NobodyLeadsError
from causeway.model import State
from causeway.operate.directives import act
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import mirror_of, settings_of
from tests.harness.running import arguments_of, assert_same, await_copied
from tests.harness.writers import writing

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
TURNS = 30


def test_whatever_is_asked_all_arrives_once(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links, topics and partitions are paused, resumed, restarted and throttled, the lead is handed
    over and taken again, half of it without waiting for what came before, and lanes are killed.
    Once all is taken back, both topics are as on the source."""
    print(f"seed {SEED}")
    topics = [prefix + "a", prefix + "b"]
    for topic in topics:
        source.create_topic(topic, 3)
    mirror, start = mirror_of(source, target, prefix)
    settings = settings_of(mirror)
    chance = random.Random(SEED)
    with (
        writing(source, topics[0], 3, seed=SEED, pause_s=0.02) as one,
        writing(source, topics[1], 3, seed=SEED + 1, pause_s=0.02) as other,
        RunningDaemon(monkeypatch, mirror) as run,
    ):
        run.await_state(topics[0], State.RUNNING, 3)
        for _ in range(TURNS):
            ask(settings, chance, topics)
            time.sleep(chance.random())
        take_all_back(settings, topics)
        one.end()
        other.end()
        for topic in topics:
            await_copied(source, topic, target, start + topic)
            run.await_state(topic, State.RUNNING, 3)
    assert run.result == 0
    for topic in topics:
        assert_same(source, topic, target, start + topic)


def ask(settings: Settings, chance: random.Random, topics: list[str]) -> None:
    topic = chance.choice([None, *topics])
    partition = None if topic is None else chance.choice([None, 0, 2])
    wait_s = chance.choice([None, 5.0])
    match chance.choice(["pause", "resume", "restart", "throttle", "step down", "kill"]):
        case "pause":
            act.pause(settings, topic=topic, partition=partition, wait_s=wait_s)
        case "resume":
            act.resume(settings, topic=topic, partition=partition, wait_s=wait_s)
        case "restart":
            act.restart(settings, topic=topic, partition=partition, wait_s=wait_s)
        case "throttle":
            rate = chance.choice([None, 50_000, 500_000])
            act.throttle(settings, topic=topic, bytes_per_s=rate, wait_s=wait_s)
        case "step down":
            with suppress(NobodyLeadsError):  # it has just stepped down
                act.step_down(settings, wait_s=wait_s)
        case _:
            children = psutil.Process().children(recursive=True)
            forks = [each for each in children if "lane_forks" in arguments_of(each)]
            lanes = [each for each in forks if each.ppid() != os.getpid()]
            if lanes:
                chance.choice(lanes).kill()


def take_all_back(settings: Settings, topics: list[str]) -> None:
    for topic in (*topics, None):
        act.throttle(settings, topic=topic, bytes_per_s=None, off=True, wait_s=None)
        if topic is not None:
            for partition in range(3):
                act.resume(settings, topic=topic, partition=partition, wait_s=None)
        act.resume(settings, topic=topic)
