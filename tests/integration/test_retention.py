"""Records that the source deletes before they are mirrored, on real brokers: what is not begun
begins later, what had begun stops, and a person or the file has it go on. Lanes are real processes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from causeway.filters import compile_patterns
from causeway.model import State
from causeway.naming import ReplicationPolicy
from causeway.operate.directives import act
from tests.harness.daemon import RunningDaemon, SubprocessEngine, link_apart
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.links import await_records, settings_of
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0
RETENTION_MS, SEGMENT_MS = 40_000, 4_000
A_RECORD = 1_000  # bytes


@pytest.fixture(scope="module")
def forgetful() -> Iterator[LocalCluster]:
    """A source that looks for old segments every half second."""
    quick = {
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.segment.delete.delay.ms": "500",
    }
    with LocalCluster("A", properties=quick) as cluster:
        yield cluster


def fill(kafka: KafkaTools, topic: str, first: int, count: int, partitions: int = 1) -> None:
    kafka.produce(
        topic,
        [
            Outgoing(value=b"%d" % n, key=b"%d" % n, partition=n % partitions)
            for n in range(first, first + count)
        ],
    )


def values(kafka: KafkaTools, topic: str) -> list[int]:
    read = kafka.read(topic).values()
    return sorted(int(record.value or b"") for records in read for record in records)


def passed_over(log: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in log.records if record.message == "passed over what is lost"]


def test_what_had_begun_stops_and_goes_on_when_the_loss_is_acknowledged(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a restart of the driver."""
    caplog.set_level(logging.WARNING, "causeway.link")
    topic = prefix + "begun"
    source.create_topic(topic)
    fill(source, topic, 0, 100)
    mirror = link_apart(source.bootstrap, target.bootstrap, prefix)
    settings = settings_of(mirror)
    name = f"{mirror.source.alias}.{topic}"
    with RunningDaemon(monkeypatch, mirror) as run:
        await_records(target, name, 100)
        act.pause(settings, topic=topic)
        fill(source, topic, 100, 100)
        source.delete_records(topic, 0, 150)
        act.resume(settings, topic=topic)
        status = run.await_state(topic, State.STOPPED)
        assert "offsets 100 to 149" in (status.reason or "")
        assert "causeway restart --adopt" in (status.reason or "")

        (tried,) = act.restart(settings, topic=topic)
        assert tried.acted
        run.await_state(topic, State.STOPPED)
        source.delete_records(topic, 0, 160)  # it goes on while nobody decides
        (found,) = act.restart(settings, topic=topic, adopt=True, who="anna@ops")
        assert found.acted
        await_records(target, name, 140)
        assert values(target, name) == [*range(100), *range(160, 200)]
        run.await_state(topic, State.RUNNING)
        (event,) = passed_over(caplog)
        assert (event.partition, event.offsets) == (f"{topic}-0", "100 to 159")
        fill(source, topic, 200, 50)
        await_records(target, name, 190)
    assert values(target, name) == [*range(100), *range(160, 250)]
    assert run.result == 0


class LiveWriter(threading.Thread):
    """Writes to each partition of `topic` its own offsets as values, at `rate` records a second
    each, until it is ended. The first `RETENTION_MS` of them are there at once, with the times that
    they would have had."""

    def __init__(self, kafka: KafkaTools, topic: str, partitions: int, rate: int) -> None:
        super().__init__(daemon=True)
        self._kafka, self._topic, self._partitions, self._rate = kafka, topic, partitions, rate
        self._ended = threading.Event()
        self.written = 0  # to each partition
        now_ms = int(time.time() * 1000)
        self._write(range(now_ms - RETENTION_MS, now_ms, 1000 // rate))

    def run(self) -> None:
        while not self._ended.wait(0.25):
            now_ms = int(time.time() * 1000)
            self._write(range(now_ms - 250, now_ms, 1000 // self._rate))

    def _write(self, times: Sequence[int]) -> None:
        self._kafka.produce(
            self._topic,
            [
                Outgoing(value=(b"%d " % n).ljust(A_RECORD), partition=number, timestamp=timestamp)
                for n, timestamp in enumerate(times, self.written)
                for number in range(self._partitions)
            ],
            settings={"batch.num.messages": 8},  # segments roll between batches
        )
        self.written += len(times)

    def end(self) -> None:
        self._ended.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


@pytest.mark.slow
def test_a_first_copy_outruns_retention_or_begins_later(
    forgetful: LocalCluster,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The source deletes its oldest segments while lanes start, and while they copy them."""
    caplog.set_level(logging.WARNING, "causeway.link")
    source, topic = KafkaTools(forgetful.bootstrap), prefix + "log"
    partitions, rate = 8, 16
    times = {"retention.ms": str(RETENTION_MS), "segment.ms": str(SEGMENT_MS)}
    source.create_topic(topic, partitions, config=times)
    mirror = link_apart(
        source.bootstrap,
        target.bootstrap,
        prefix,
        throttle_bytes_per_s=4 * partitions * rate * A_RECORD,
        config_properties_exclude=compile_patterns("retention.ms"),
    )
    name = f"{mirror.source.alias}.{topic}"
    _start_lanes_late(monkeypatch, 5.0)
    writer = LiveWriter(source, topic, partitions, rate)
    with RunningDaemon(monkeypatch, mirror) as run:
        await_until(lambda: len(run.partitions()) == partitions, PATIENCE_S, "claims")
        firsts = {number: run.partitions()[topic, number].first for number in range(partitions)}
        writer.start()
        await_until(lambda: passed_over(caplog), PATIENCE_S, "a first copy that begins later")
        began = time.monotonic()
        await_until(lambda: time.monotonic() > began + 15, 60)
        writer.end()

        def caught_up() -> bool:
            found = run.partitions().values()
            assert all(each.state is not State.STOPPED for each in found), found
            return all(each.mirrored_to == writer.written for each in found)

        await_until(caught_up, PATIENCE_S, "all is mirrored that is left")
        assert not any(each.lost for each in run.partitions().values()), "of a first copy"
    skipped: dict[str, set[int]] = {}
    for event in passed_over(caplog):
        start, _, last = event.offsets.partition(" to ")
        skipped.setdefault(event.partition, set()).update(range(int(start), int(last) + 1))
    for number, records in target.read(name).items():
        there = [int((record.value or b"").split()[0]) for record in records]
        promised = range(firsts[number], writer.written)
        expected = [n for n in promised if n not in skipped.get(f"{topic}-{number}", set())]
        assert there == expected, f"partition {number}: each once, in order, or told of"


def _start_lanes_late(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """As on Spark, whose executors take their time."""
    launch = SubprocessEngine.launch

    def late(engine: SubprocessEngine, lane: int, host: str, port: int) -> None:
        threading.Timer(seconds, launch, (engine, lane, host, port)).start()

    monkeypatch.setattr(SubprocessEngine, "launch", late)


def test_by_key_and_killed_behind_each_loss_it_goes_on_if_the_file_says_so(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Exactly once, and each loss is counted until a person acknowledges it."""
    caplog.set_level(logging.WARNING, "causeway.link")
    topic = prefix + "keys"
    source.create_topic(topic, 2)
    mirror = link_apart(
        source.bootstrap,
        target.bootstrap,
        prefix,
        partitioning="by-key",
        sole_writer=False,
        on_data_loss="continue",
        policy=ReplicationPolicy(kind="unchanged", source_alias=prefix.partition("-")[0]),
    )
    target.create_topic(topic, 3)
    settings = settings_of(mirror)
    engines: list[SubprocessEngine] = []

    def start(engine: SubprocessEngine) -> None:
        engines.append(engine)

    monkeypatch.setattr(SubprocessEngine, "start", start)
    expected = set(range(100))
    fill(source, topic, 0, 100, 2)
    with RunningDaemon(monkeypatch, mirror) as run:
        await_records(target, topic, 100)
        for turn in range(1, 3):
            first = 100 * turn
            act.pause(settings, topic=topic)
            fill(source, topic, first, 100, 2)
            for number in range(2):
                source.delete_records(topic, number, first // 2 + 20)
            before = len(passed_over(caplog))
            act.resume(settings, topic=topic)
            expected |= set(range(first + 40, first + 100))
            await_until(lambda: len(passed_over(caplog)) >= before + 2, PATIENCE_S, "passed")  # noqa: B023
            for process in engines[0].processes.values():
                process.kill()
            await_records(target, topic, len(expected))
        run.await_state(topic, State.RUNNING, 2)
        assert [run.partitions()[topic, number].lost for number in range(2)] == [40, 40]
        assert "up to 40 records are lost" in (run.partitions()[topic, 0].reason or "")
        (found,) = act.restart(settings, adopt=True)
        assert found.acted
        await_until(lambda: run.partitions()[topic, 0].reason is None, PATIENCE_S, "acknowledged")
        assert [run.partitions()[topic, number].lost for number in range(2)] == [40, 40]
    assert values(target, topic) == sorted(expected)
    for records in target.read(topic).values():
        for number in range(2):
            mine = [n for n in (int(r.value or b"") for r in records) if n % 2 == number]
            assert mine == sorted(mine), "in order"
