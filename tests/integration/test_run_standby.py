"""Two drivers for one file: one leads, the other waits, and nobody doubles anything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
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

SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_standby_takes_over_and_a_leader_that_wakes_is_fenced(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The leader is killed, then its successor is frozen beyond its lease and thawed again, while
    transactions go on. Each time the other takes over; the one that wakes finds that it no longer
    leads, and waits; and it leads again once the other ends in good order."""
    topic, mirror = prefix + "t", f"L.{prefix}t"
    source.create_topic(topic, 2)
    file = mm2_file(
        tmp_path,
        {"L": source_cluster, "R": target_cluster},
        "L->R.enabled = true",
        f"topics = {prefix}.*",
        "causeway.lease.ms = 10000",
    )

    def leads(run: Running) -> Callable[[], bool]:
        return lambda: _leader(file) == run.pid

    with (
        Running("run", file, directory=tmp_path) as first,
        writing(source, topic, 2, seed=SEED) as writer,
    ):
        await_until(leads(first), PATIENCE_S, "the first leads")
        with Running("run", file, directory=tmp_path) as second:
            await_copied(source, topic, target, mirror)
            assert leads(first)()
            first.kill()
            await_until(leads(second), PATIENCE_S, "the second leads after the first was killed")
            await_copied(source, topic, target, mirror)

            with Running("run", file, directory=tmp_path) as third:
                await_until(lambda: len(third.workers()) > 1, PATIENCE_S, "the third has lanes")
                second.freeze()
                await_until(leads(third), PATIENCE_S, "the third leads while the second sleeps")
                await_copied(source, topic, target, mirror)
                second.thaw()
                second.await_log("link not led")
                await_copied(source, topic, target, mirror)
                assert leads(third)()
                assert third.stop() == 0
            await_until(leads(second), PATIENCE_S, "the second leads again")
            writer.end()
            await_copied(source, topic, target, mirror)
            assert second.stop() == 0

    assert writer.written > 1_000
    assert_same(source, topic, target, mirror)


def _leader(file: Path) -> int | None:
    """The process that leads by the newest lease record, whether or not it still lives."""
    (link,) = status_of(file).values()
    return None if link["driver"] is None else int(link["driver"]["owner"].rpartition("/")[2])
