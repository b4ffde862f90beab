"""Topics that match the file's patterns and cannot be mirrored: each view of the mirror says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import Running, await_copied, mm2_file

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_a_name_that_is_too_long_for_the_target_is_a_problem_in_each_view(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Kafka allows 249 characters, and the mirror's name has `A.` before them."""
    long, orders = prefix.ljust(249, "x"), prefix + "orders"
    source.create_topics([long, orders])
    source.produce(orders, [b"1", b"2"])
    clusters = {"A": source_cluster, "B": target_cluster}
    file = mm2_file(tmp_path, clusters, "A->B.enabled = true", f"topics = {prefix}.*")
    words = "its name on B would have 251 characters, and Kafka allows 249"

    with Running("run", file, directory=tmp_path) as run:
        await_copied(source, orders, target, f"A.{orders}")
        run.await_log(words)
        assert long in run.log
        checked = causeway("status", file, "--check", "--json")
        assert checked.code == 7, (checked.out, checked.err)
        (link,) = checked.json["links"]
        (problem,) = link["problems"]
        assert problem["topic"] == long
        assert words in str(problem)
        waited = causeway("wait", file, "--link", "A->B", "--timeout", "5")
        assert waited.code == 7, (waited.out, waited.err)
        assert words in waited.out + waited.err
        assert run.stop() == 0
