"""Two drivers of one mirror that keeps offsets: one leads, the other waits, transactions go on.

CAUSEWAY_FIRE_SEED repeats what is written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.battle import SEED
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.same_offsets import assert_same_offsets, await_same_ends
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.timeout(1200)
def test_drivers_are_killed_and_frozen_amid_transactions(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The leader is killed with its lanes, then its successor is frozen beyond its lease and thawed
    while another one leads. It has markers on their way each time."""
    topic = prefix + "t"
    source.create_topic(topic, 2)
    file = mm2_file(
        tmp_path,
        {"K": source_cluster, "B": target_cluster},
        "K->B.enabled = true",
        f"topics = {prefix}.*",
        "causeway.offsets = preserve",
        "causeway.lease.ms = 5000",
        "B.request.timeout.ms = 5000",
    )

    def leads(run: Running) -> Callable[[], bool]:
        return lambda: leader(file) == run.pid

    def await_growth() -> None:
        before = source.offsets(topic)
        await_until(
            lambda: all(target.offsets(f"K.{topic}")[p] > end for p, end in before.items()),
            PATIENCE_S,
            f"both partitions go on beyond {before}",
        )

    with (
        Running("run", file, directory=tmp_path) as first,
        Running("run", file, directory=tmp_path) as second,
        writing(source, topic, 2, seed=SEED, pause_s=0.1) as writer,
    ):
        await_until(lambda: leader(file) in (first.pid, second.pid), PATIENCE_S, "one leads")
        if leader(file) == second.pid:
            first, second = second, first
        await_until(lambda: target.partition_count(f"K.{topic}") == 2, PATIENCE_S, "the mirror")
        await_growth()
        await_until(second.workers, PATIENCE_S, "the second has lanes")
        first.kill()
        await_until(leads(second), PATIENCE_S, "the second leads")
        await_growth()
        with Running("run", file, directory=tmp_path) as third:
            await_until(lambda: len(third.workers()) > 1, PATIENCE_S, "the third has lanes")
            second.freeze()
            await_until(leads(third), PATIENCE_S, "the third leads")
            await_growth()
            second.thaw()
            second.await_log("link not led")
            await_growth()
            third.kill()
        await_until(leads(second), PATIENCE_S, "the second leads again")
        await_growth()
        writer.end()
        source.await_transactions(topic)
        await_same_ends(source, [topic], target, "K.", PATIENCE_S)
        assert second.stop() == 0, second.log
    assert assert_same_offsets(source, topic, target, f"K.{topic}") > 1_000


def leader(file: Path) -> int | None:
    """The process that leads by the newest lease record, whether or not it still lives."""
    (link,) = status_of(file).values()
    return None if link["driver"] is None else int(link["driver"]["owner"].rpartition("/")[2])
