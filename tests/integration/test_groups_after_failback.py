"""Groups after a promotion and a failback: each goes on at its next record, on both clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from causeway.model import State
from causeway.operate.failover import failback, promote
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import fill, identity, settings_of, turned
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("sole_writer", [True, False])
def test_groups_follow_there_and_back(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    sole_writer: bool,
) -> None:
    """One reads on B meanwhile. Another one goes on behind the cut on A. A third one has not read
    on A all that came back from B, and never ran on B."""
    topic = prefix + "one"
    moves, stays, lags = groups = [prefix + name for name in ("moves", "stays", "lags")]
    link = identity(source, target, prefix, f"{prefix}.*")
    control = replace(link.control, sync_group_offsets_interval_s=0.5)
    link = replace(link, sole_writer=sole_writer, control=control)
    back = replace(turned(link), way_back=True)
    both = settings_of(link, back)

    def await_places(kafka: KafkaTools, *places: int) -> None:
        def there() -> list[int]:
            return [kafka.group_offsets(group).get((topic, 0), -1) for group in groups]

        await_until(lambda: there() == list(places), 30, f"{places}")

    source.create_topic(topic, 1)
    fill(source, topic, 100)
    for group in groups:
        source.commit_group(group, {(topic, 0): 40})
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0) as run:
        await_until(lambda: target.partition_count(topic) == 1, 60)
        await_until(lambda: target.offsets(topic) == {0: 100}, 60)
        run.await_state(topic, State.RUNNING)
        promote(both, link=link.name, wait_s=60)
        await_places(target, 40, 40, 40)
        fill(target, topic, 10, first=1000)
        target.commit_group(moves, {(topic, 0): 105})
        failback(both, link=link.name, wait_s=60)
        await_until(lambda: source.offsets(topic) == {0: 110}, 60)
        await_places(source, 105, 40, 40)
        source.commit_group(stays, {(topic, 0): 110})
        source.commit_group(lags, {(topic, 0): 103})
        failback(both, link=link.name, turn_round=True, wait_s=60)
        fill(source, topic, 6, first=2000)
        await_until(lambda: target.offsets(topic) == {0: 116}, 60)
        source.commit_group(stays, {(topic, 0): 112})
        await_places(target, 105, 112, 103)
