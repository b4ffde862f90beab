"""What a driver and `plan` decide about topics that keep their offsets, on real brokers.

Lanes are real processes, Spark is not here (tests/harness/daemon.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from causeway.config import LinkSettings
from causeway.model import State
from causeway.naming import ReplicationPolicy
from causeway.operate import directives
from causeway.operate.plan import How, LinkPlan, plan
from tests.builders.settings import settings_of
from tests.harness.daemon import RunningDaemon, link_apart
from tests.harness.kafka_tools import KafkaTools, Outgoing, Record
from tests.harness.lanes import client
from tests.harness.mirror import FOREVER, by_offset
from tests.harness.same_offsets import begin_at
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
START = 400_437


@pytest.fixture
def kept(source: KafkaTools, target: KafkaTools, prefix: str) -> LinkSettings:
    """Names and offsets stay."""
    a = prefix.partition("-")[0]
    identity = ReplicationPolicy(kind="identity", source_alias=a)
    return link_apart(
        source.bootstrap,
        target.bootstrap,
        prefix,
        offsets="preserve",
        policy=identity,
        sole_writer=False,
        stops_on_data=True,
        sync_topic_configs_interval_s=1.0,
    )


def planned(link: LinkSettings) -> LinkPlan:
    (found,) = plan(settings_of(link)).links
    return found


def by_offsets(records: Mapping[int, list[Record]]) -> dict[int, list[tuple[object, ...]]]:
    return {n: by_offset(each) for n, each in records.items()}


def is_same(source: KafkaTools, target: KafkaTools, topic: str) -> bool:
    count = target.partition_count(topic)
    if count != source.partition_count(topic) or source.offsets(topic) != target.offsets(topic):
        return False
    return by_offsets(source.read(topic)) == by_offsets(target.read(topic))


def await_same(source: KafkaTools, target: KafkaTools, topic: str) -> None:
    await_until(lambda: is_same(source, target, topic), 120, f"{topic} with the same offsets")


def test_new_topics_of_all_kinds_are_planned_and_filled(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    kept: LinkSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dense, late, compacted = (prefix + name for name in ("dense", "late", "compacted"))
    source.create_topic(dense, 2, config=FOREVER)
    source.produce(dense, [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(100)])
    source.create_topic(late, config=FOREVER)
    begin_at(client("A", source.bootstrap), late, START)
    source.produce(late, [b"%d" % n for n in range(100)])
    source.create_topic(compacted, config={**FOREVER, "cleanup.policy": "compact,delete"})
    begin_at(client("A", source.bootstrap), compacted, START, keyed=True)
    source.produce(compacted, [Outgoing(key=b"%d" % n, value=b"%d" % n) for n in range(100)])
    source.set_topic_config(compacted, {"cleanup.policy": "compact"})

    found = planned(kept)

    assert found.problems == ()
    fills = {each.topic: each.fills for each in found.offsets.topics}
    assert fills == {dense: 0, late: START, compacted: START}
    assert found.offsets.filling is not None
    assert found.offsets.filling.way == "markers"
    with RunningDaemon(monkeypatch, kept) as run:
        for topic in (dense, late, compacted):
            await_same(source, target, topic)
        await_until(
            lambda: run.partitions()[late, 0].mirrored_to == START + 100, 60, "its position"
        )
        await_until(
            lambda: target.topic_config(compacted)["cleanup.policy"] == "compact",
            60,
            "the beginning's configs are taken back",
        )
        # Partitions and topics that come later are filled as well.
        source.add_partitions(dense, 3)
        source.produce(dense, [Outgoing(value=b"%d" % n, partition=2) for n in range(10)])
        later = prefix + "later"
        source.create_topic(later)
        source.produce(later, [b"1", b"2"])
        await_same(source, target, dense)
        await_same(source, target, later)
    assert run.result == 0


def test_a_target_with_the_same_log_goes_on_and_another_one_stops(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    kept: LinkSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same, other = prefix + "same", prefix + "other"
    for topic in (same, other):
        for kafka in (source, target):
            kafka.create_topic(topic, config=FOREVER)
        source.produce(topic, [Outgoing(value=b"%d" % n, timestamp=n + 1) for n in range(50)])
    target.produce(same, [Outgoing(value=b"%d" % n, timestamp=n + 1) for n in range(30)])
    target.produce(other, [Outgoing(value=b"%d" % n, timestamp=n + 2) for n in range(30)])

    found = planned(kept)

    assert {s.topic: (s.how, s.offset) for s in found.starts} == {
        same: (How.GO_ON, 30),
        other: (How.STOP, None),
    }
    (problem,) = found.problems
    assert f"causeway restart --refill {other}" in str(problem.error)
    with RunningDaemon(monkeypatch, kept) as run:
        await_same(source, target, same)
        stopped = run.await_state(other, State.STOPPED)
        assert "not those of" in str(stopped.reason)
        assert target.offsets(other) == {0: 30}


def test_both_modes_follow_each_other_where_the_logs_are_the_same(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    kept: LinkSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dense, gaps = prefix + "dense", prefix + "gaps"
    translated = replace(kept, offsets="translate", stops_on_data=False)
    source.create_topic(dense, config=FOREVER)
    source.create_topic(gaps, config=FOREVER)
    sent = 0

    def send() -> None:
        nonlocal sent
        source.produce(dense, [b"%d" % n for n in range(sent, sent + 20)])
        sent += 20

    send()
    with source.transactional(gaps) as writes:
        writes.begin()
        writes.send(gaps, b"1")
        writes.commit()
    source.produce(gaps, [b"2"])
    values = {0: [b"1", b"2"]}

    def has(topic: str, count: int) -> bool:
        if target.partition_count(topic) is None:
            return False
        return [len(each) for each in target.read(topic).values()] == [count]

    with RunningDaemon(monkeypatch, translated):
        await_until(lambda: has(dense, sent) and has(gaps, 2), 120, "all translated")
    send()
    with RunningDaemon(monkeypatch, kept) as run:
        await_same(source, target, dense)
        stopped = run.await_state(gaps, State.STOPPED)
        assert "translated offsets" in str(stopped.reason)
    assert {n: [r.value for r in each] for n, each in target.read(gaps).items()} == values
    send()
    with RunningDaemon(monkeypatch, translated):
        await_until(lambda: has(dense, sent), 120, "all translated")
        assert is_same(source, target, dense)


def test_what_the_source_deleted_becomes_a_gap(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    kept: LinkSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = prefix + "t"
    source.create_topic(topic, config=FOREVER)
    source.produce(topic, [b"%d" % n for n in range(20)])
    with RunningDaemon(monkeypatch, kept):
        await_same(source, target, topic)
    source.produce(topic, [b"%d" % n for n in range(20, 60)])
    source.delete_records(topic, 0, 40)
    with RunningDaemon(monkeypatch, kept) as run:
        stopped = run.await_state(topic, State.STOPPED)
        assert "deleted" in str(stopped.reason)
    accepts = replace(kept, on_data_loss="continue")
    with RunningDaemon(monkeypatch, accepts) as run:
        await_until(lambda: target.offsets(topic) == {0: 60}, 60, "all mirrored")
        assert run.await_state(topic, State.RUNNING).lost == 20
    (found,) = by_offsets(target.read(topic)).values()
    assert [offset for offset, *_ in found] == [*range(20), *range(40, 60)]
    assert found[20:] == by_offsets(source.read(topic))[0]


def stopped_by_a_foreign_record(
    source: KafkaTools, target: KafkaTools, topic: str, kept: LinkSettings, patch: Any
) -> None:
    """The mirror of `topic` has another record at offset 20 than the source."""
    source.create_topic(topic, config=FOREVER)
    source.produce(topic, [Outgoing(value=b"%d" % n, timestamp=n + 1) for n in range(20)])
    with RunningDaemon(patch, kept):
        await_same(source, target, topic)
    target.produce(topic, [b"foreign"])
    source.produce(topic, [Outgoing(value=b"%d" % n, timestamp=n + 1) for n in range(20, 40)])


def test_a_stopped_topic_is_filled_again(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    kept: LinkSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = prefix + "t"
    stopped_by_a_foreign_record(source, target, topic, kept, monkeypatch)
    with RunningDaemon(monkeypatch, kept) as run:
        stopped = run.await_state(topic, State.STOPPED)
        assert "--refill" in str(stopped.reason)
        shown = directives.refill(settings_of(kept), topic=topic, dry_run=True)
        assert (shown.offsets, shown.fills, shown.outcome) == (40, 0, None)
        assert 40 * 10 < shown.size < 40 * 200
        assert target.offsets(topic) == {0: 21}
        done = directives.refill(settings_of(kept), topic=topic)
        assert done.outcome is not None
        assert done.outcome.acted
        await_same(source, target, topic)
    with RunningDaemon(monkeypatch, kept) as run:  # the request is not repeated
        source.produce(topic, [b"more"])
        await_same(source, target, topic)
        assert run.await_state(topic, State.RUNNING).first == 40


def test_a_stopped_topic_goes_on_translated_also_after_the_next_start(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    kept: LinkSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = prefix + "t"
    source.create_topic(topic, config=FOREVER)
    target.create_topic(topic, config=FOREVER)
    records = [Outgoing(value=b"%d" % n, timestamp=n + 1) for n in range(30)]
    source.produce(topic, records)
    target.produce(topic, [b"other", *records[:20]])  # one offset too far
    with RunningDaemon(monkeypatch, kept) as run:
        run.await_state(topic, State.STOPPED)
        (done,) = directives.restart(settings_of(kept), topic=topic, translate=True)
        assert done.acted
        await_until(lambda: target.offsets(topic) == {0: 31}, 60, "the rest is mirrored")
    source.produce(topic, [b"more"])
    with RunningDaemon(monkeypatch, kept):
        await_until(lambda: target.offsets(topic) == {0: 32}, 60, "the rest is mirrored")
    values = [record.value for record in target.read(topic)[0]]
    assert values == [b"other", *(b"%d" % n for n in range(30)), b"more"]
