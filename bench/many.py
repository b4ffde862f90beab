"""Many transforms in one link, each for topics of its own: memory, and whether all arrives."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.stage import TIMEOUT_S, Run, Stage, create_topics, delete_topics
from bench.systems import System, system
from bench.usage import Meter, Usage
from causeway.errors import CausewayError

_RECORDS_EACH = 10
_TIMEOUT_S = 400.0
_POLL_S = 0.5
_MEMORY_S = 4.0  # reading it of a hundred processes takes a while

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Many:
    """`usage.seconds`: from the start of the process until every topic has all its records."""

    transforms: int
    topics: int
    records: int
    usage: Usage


def measure(stage: Stage, name: str, transforms: int, topics_each: int, say: Say) -> Many:
    with stage.run("many", 1) as run:
        target = AdminClient({"bootstrap.servers": stage.target.internal_bootstrap, "log_level": 2})
        topics = [
            f"{run.topic}-{number}-{topic}"
            for number in range(transforms)
            for topic in range(topics_each)
        ]
        say(f"{len(topics):,} topics for {transforms} transforms")
        create_topics(stage.source.internal_bootstrap, topics)
        try:
            _write(stage.source.internal_bootstrap, topics)
            mirror = system(name, stage, run, flow=_keys(run, transforms))
            with Meter(mirror.roots, stage.broker_pids, interval_s=_MEMORY_S) as meter:
                meter.start()
                begun = time.monotonic()
                with mirror:
                    _await(target, {f"{run.alias}.{topic}" for topic in topics}, mirror)
                    seconds = time.monotonic() - begun
                    time.sleep(2 * _MEMORY_S)  # the most comes when all of them are there
                    usage = meter.stop(seconds=seconds)
        finally:
            delete_topics(stage.source.internal_bootstrap, topics)
            delete_topics(
                stage.target.internal_bootstrap, [f"{run.alias}.{topic}" for topic in topics]
            )
    say(f"{usage.seconds:.1f} s, {usage.cpu_s:.1f} s of CPU, {usage.pss_mb:,.0f} MB")
    records = len(topics) * _RECORDS_EACH
    return Many(transforms=transforms, topics=len(topics), records=records, usage=usage)


def _keys(run: Run, transforms: int) -> dict[str, str]:
    names = [f"t{number}" for number in range(transforms)]
    keys = {
        f"{run.alias}->target.topics": f"{re.escape(run.topic)}-.*",
        "causeway.transforms": ", ".join(names),
    }
    for number, name in enumerate(names):
        keys[f"causeway.transform.{name}.topics"] = f"{re.escape(run.topic)}-{number}-.*"
        keys[f"causeway.transform.{name}.rules"] = f"mask value.$.name keep first {number + 1}"
    return keys


def _write(bootstrap: str, topics: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    for topic in topics:
        for number in range(_RECORDS_EACH):
            value = json.dumps({"number": number, "name": "Ada Lovelace" * 10})
            producer.produce(topic, value.encode(), partition=0)
    if producer.flush(_TIMEOUT_S):
        raise CausewayError("write to", topics[0], "not all records were acknowledged")


def _await(admin: AdminClient, topics: set[str], mirror: System) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    left = set(topics)
    while True:
        there = left & set(admin.list_topics(timeout=TIMEOUT_S).topics)
        asked = {TopicPartition(topic, 0): OffsetSpec.latest() for topic in there}
        if asked:
            answers = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
            for partition, answer in answers.items():
                # A topic that was made just now may have no leader yet.
                if answer.exception(TIMEOUT_S) is None and answer.result().offset >= _RECORDS_EACH:
                    left.discard(partition.topic)
        if not left:
            return
        mirror.check()
        if time.monotonic() > deadline:
            cause = f"{len(left):,} of {len(topics):,} topics are not complete: {min(left)}"
            raise CausewayError("mirror", "many transforms", cause)
        time.sleep(_POLL_S)
