"""What `causeway run` tells Prometheus is what happened on the clusters."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from psutil import NoSuchProcess

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, await_copied, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

SOURCE = "kafka_connect_mirror_mirrorsourceconnector"
CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
Page = dict[str, dict[frozenset[tuple[str, str]], float]]  # by name, then by labels


def scrape(port: int) -> Page:
    """Nothing while nobody answers yet."""
    page: Page = {}
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    except URLError:
        return page
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            page.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return page


def of(page: Page, name: str, **labels: str) -> float | None:
    return page.get(name, {}).get(frozenset(labels.items()))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_counts_are_those_of_the_clusters_and_go_on_over_a_lost_lane(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    port: int,
) -> None:
    """Two partitions and a group are mirrored, and the page agrees with the logs of both clusters;
    then the lanes are killed, more is written, and the counts have gone on from where they were."""
    topic, group = f"{prefix}t", f"{prefix}g"
    source.create_topic(topic, 2)
    source.produce(topic, records(1_000), codec="zstd")
    source.commit_group(group, {(topic, 0): 10})
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        "emit.checkpoints.interval.seconds = 1",
        f"causeway.metrics.port = {port}",
        "causeway.metrics.host = 127.0.0.1",
    )

    with Running("run", file, directory=tmp_path) as run:
        await_copied(source, topic, target, f"A.{topic}")
        page = await_counts(source, target, port, topic)
        assert_caught_up(page, topic)
        at = {"source": "A", "target": "B", "topic": f"A.{topic}", "partition": "0"}
        await_until(
            lambda: of(scrape(port), CHECKPOINT, group=group, **at) is not None,
            PATIENCE_S,
            "the checkpoint's time",
        )
        refused = causeway("run", file)
        assert refused.code == 2
        assert f"serve metrics at 127.0.0.1:{port}" in refused.err
        assert "Traceback" not in refused.err

        for worker in run.workers():
            with suppress(NoSuchProcess):  # one that is idle may end by itself
                worker.kill()
        source.produce(topic, records(500))
        await_copied(source, topic, target, f"A.{topic}")
        await_counts(source, target, port, topic)
        assert run.stop() == 0
    assert scrape(port) == {}


def records(count: int) -> list[Outgoing]:
    """By turns for both partitions."""
    return [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(count)]


def await_counts(source: KafkaTools, target: KafkaTools, port: int, topic: str) -> Page:
    """The page, once each partition's counts are the numbers of records in the logs, and both lanes
    have told of themselves."""
    wanted = {str(partition): end for partition, end in source.offsets(topic).items()}
    assert wanted == {str(p): end for p, end in target.offsets(f"A.{topic}").items()}

    def agreed() -> Page | None:
        page = scrape(port)
        ours = {
            partition: of(
                page,
                "causeway_partition_records_total",
                link="A->B",
                topic=topic,
                partition=partition,
            )
            for partition in wanted
        }
        theirs = {
            partition: of(
                page,
                f"{SOURCE}_record_count",
                source="A",
                target="B",
                topic=f"A.{topic}",
                partition=partition,
            )
            for partition in wanted
        }
        running = of(page, "causeway_lanes_running") == of(page, "causeway_lanes_wanted") == 2
        heard = running and all(page["causeway_lane_resident_memory_bytes"].values())
        return page if ours == theirs == wanted and heard else None

    page = await_until(agreed, PATIENCE_S, f"counts of {wanted}")
    assert page is not None
    return page


def assert_caught_up(page: Page, topic: str) -> None:
    for partition in ("0", "1"):
        at = {"link": "A->B", "topic": topic, "partition": partition}
        assert of(page, "causeway_partition_lag_records", **at) == 0
        assert of(page, "causeway_partition_lag_bytes", **at) == 0
        assert of(page, "causeway_partition_lag_seconds", **at) == 0
        assert of(page, "causeway_partition_state", state="running", **at) == 1
        assert (of(page, "causeway_partition_bytes_total", **at) or 0) > 0
        mirrored = {"source": "A", "target": "B", "topic": f"A.{topic}", "partition": partition}
        least, mean, most = (
            of(page, f"{SOURCE}_replication_latency_ms_{which}", **mirrored) or 0
            for which in ("min", "avg", "max")
        )
        assert 0 < least <= mean <= most
    assert of(page, "causeway_link_role", link="A->B", role="leading") == 1
    assert (of(page, "causeway_link_progress_writes_total", link="A->B") or 0) > 0
    assert of(page, "causeway_link_translation_fallbacks_total", link="A->B") == 0
    assert of(page, "causeway_task_failing", link="A->B", task="offset syncs") == 0
