"""Records that the source deletes before they are mirrored, on real brokers: what is not begun
begins later, what had begun stops, and a person or the file has it go on. Lanes are real processes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from causeway.config.settings import LinkSettings, RunSettings, Settings
from causeway.dev.cluster import LocalCluster
from causeway.model import State
from causeway.naming import ReplicationPolicy
from causeway.operate import directives
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
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


def mirror_of(source: KafkaTools, target: KafkaTools, prefix: str, **more: Any) -> LinkSettings:
    """A link of this test's own: what is asked of one stands for whoever leads it next."""
    alias = prefix.partition("-")[0]
    a = client(alias, source.bootstrap)
    own = {"source": a, "source_admin": a, "policy": ReplicationPolicy(source_alias=alias)}
    return link(source.bootstrap, target.bootstrap, prefix + ".*", more={**own, **more})


def settings_of(mirror: LinkSettings) -> Settings:
    return Settings(links=(mirror,), run=RunSettings(), spark={})


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


def await_records(kafka: KafkaTools, topic: str, count: int) -> None:
    def there() -> bool:
        partitions = kafka.partition_count(topic)
        return partitions is not None and sum(kafka.offsets(topic).values()) >= count

    await_until(there, PATIENCE_S, f"{count} records in {topic}")


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
    mirror = mirror_of(source, target, prefix)
    settings = settings_of(mirror)
    name = f"{mirror.source.alias}.{topic}"
    with RunningDaemon(monkeypatch, mirror) as run:
        await_records(target, name, 100)
        directives.pause(settings, topic=topic)
        fill(source, topic, 100, 100)
        source.delete_records(topic, 0, 150)
        directives.resume(settings, topic=topic)
        status = run.await_state(topic, State.STOPPED)
        assert "offsets 100 to 149" in (status.reason or "")
        assert "causeway restart --adopt" in (status.reason or "")

        (tried,) = directives.restart(settings, topic=topic)
        assert tried.acted
        run.await_state(topic, State.STOPPED)
        source.delete_records(topic, 0, 160)  # it goes on while nobody decides
        (found,) = directives.restart(settings, topic=topic, adopt=True, who="anna@ops")
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
