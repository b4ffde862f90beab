"""A first start while a broker of the target restarts, on three real brokers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from causeway.daemon import startup
from causeway.errors import TooFewBrokersError
from causeway.model import State
from causeway.status import Role
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def three() -> Iterator[LocalCluster]:
    with LocalCluster("three", brokers=3) as cluster:
        yield cluster


def test_a_broker_that_restarts_at_the_first_start_is_waited_for(
    source: KafkaTools,
    three: LocalCluster,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A cluster that really has fewer brokers is told of once the patience is over."""
    caplog.set_level(logging.WARNING, "causeway.link")
    topic = prefix + "one"
    source.create_topic(topic)
    source.produce(topic, [Outgoing(value=b"%d" % n) for n in range(100)])
    target = KafkaTools(three.bootstrap)
    three.kill(3)
    mirror = link(source.bootstrap, three.bootstrap, topic, more={"replication_factor": 3})

    def waits() -> bool:
        assert run.result is None, run.result
        return any("waits for brokers" in record.message for record in caplog.records)

    monkeypatch.setattr(startup, "PATIENCE_S", PATIENCE_S)
    with RunningDaemon(monkeypatch, mirror) as run:
        await_until(waits, PATIENCE_S, "it waits")
        run.await_role(Role.LEADING)
        assert run.result is None
        three.restart(3)
        await_until(lambda: (topic, 0) in run.partitions(), PATIENCE_S, "its topic is made")
        run.await_state(topic, State.RUNNING)
        await_until(lambda: target.offsets(f"A.{topic}") == {0: 100}, PATIENCE_S, "mirrored")
    assert run.result == 0

    three.kill(3)
    monkeypatch.setattr(startup, "PATIENCE_S", 3.0)
    later = prefix + "two"
    source.create_topic(later)
    other = link(source.bootstrap, three.bootstrap, later, more={"replication_factor": 3})
    with RunningDaemon(monkeypatch, other) as run:
        run.join()
    assert isinstance(run.result, TooFewBrokersError)
