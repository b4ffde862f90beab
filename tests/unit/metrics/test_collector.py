"""What a scrape shows of a snapshot, and that it is one that Prometheus takes."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from causeway.metrics import METRICS, text
from causeway.metrics.reference import markdown
from causeway.model import State
from causeway.status import LinkStatus, Role, Snapshot, Timing, lag
from tests.builders.status import KEPT, LATENCY, NOW, UNKNOWN, at, full, link, partition
from tests.harness.statuses import replace

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
Page = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(scraped: str) -> Page:
    """By name and labels; none may come twice."""
    samples = [s for family in text_string_to_metric_families(scraped) for s in family.samples]
    page = {(s.name, frozenset(s.labels.items())): s.value for s in samples}
    assert len(page) == len(samples)
    return page


def scrape(snapshot: Snapshot | None) -> Page:
    return read(text(snapshot).decode())


def names(page: Page) -> set[str]:
    return {name for name, _ in page if not name.startswith("process_")}


def of(page: Page, name: str, **labels: str) -> float:
    return page[name, frozenset(labels.items())]


def test_a_known_run_has_a_sample_of_every_metric() -> None:
    kept = replace(partition(1, State.STOPPED), preserving=KEPT)
    assert names(scrape(full(link(partition(0), kept)))) == METRICS.keys()


def test_what_was_filled_of_a_partition_that_preserves_offsets() -> None:
    page = scrape(full(link(replace(partition(0), preserving=KEPT))))

    of_it = {"link": "A->B", "topic": "orders", "partition": "0"}
    assert of(page, "causeway_preserving", **of_it) == 1
    assert of(page, "causeway_preserving_offsets_left", **of_it) == 600
    assert of(page, "causeway_gaps_filled_total", **of_it) == 2
    ways = {"beginning": 400, "markers": 5, "transactions": 0, "filler": 0}
    for way, offsets in ways.items():
        assert of(page, "causeway_offsets_filled_total", way=way, **of_it) == offsets


def test_the_names_and_labels_of_mirror_maker_2() -> None:
    page = scrape(full())

    of_it = {"source": "A", "target": "B", "topic": "A.orders", "partition": "0"}
    source = "kafka_connect_mirror_mirrorsourceconnector"
    wanted = {
        "record_count": 90,
        "record_rate": 10,
        "byte_count": 9_000,
        "byte_rate": 1_000,
        "record_age_ms": 5,
        "record_age_ms_min": 2,
        "record_age_ms_max": 15,
        "record_age_ms_avg": 8,
        "replication_latency_ms": 7,
        "replication_latency_ms_min": 3,
        "replication_latency_ms_max": 20,
        "replication_latency_ms_avg": 10,
    }
    assert {name: of(page, f"{source}_{name}", **of_it) for name in wanted} == wanted
    checkpoint = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
    assert of(page, checkpoint, group="readers", **of_it) == 7
    assert of(page, f"{checkpoint}_max", group="readers", **of_it) == 20


def test_our_own() -> None:
    page = scrape(full())

    of_it = {"link": "A->B", "topic": "orders", "partition": "0"}
    assert of(page, "causeway_partition_lag_records", **of_it) == 10
    assert of(page, "causeway_partition_lag_bytes", **of_it) == 1_000
    assert of(page, "causeway_partition_lag_seconds", **of_it) == 5
    assert of(page, "causeway_partition_records_total", **of_it) == 90
    assert of(page, "causeway_partition_recoveries_total", **of_it) == 2
    states = {key for key in page if key[0] == "causeway_partition_state"}
    assert {dict(labels)["state"] for _, labels in states} == {"running", "stopped"}
    assert len(states) == 2, "one a partition"
    assert of(page, "causeway_link_role", link="A->B", role="leading") == 1
    assert of(page, "causeway_task_failing", link="A->B", task="groups") == 0
    assert of(page, "causeway_task_failing", link="A->B", task="ACLs") == 1
    assert of(page, "causeway_task_problems", link="A->B", task="groups") == 1
    assert of(page, "causeway_task_failing", link="B->A", task="heartbeats") == 0
    assert of(page, "causeway_lanes_running") == 1
    assert of(page, "causeway_lanes_wanted") == 2
    assert of(page, "causeway_lane_cpu_seconds_total", lane="0", host="worker", pid="17") == 1.5


def test_what_is_unknown_has_no_sample() -> None:
    new = replace(
        partition(0),
        state=State.WAITING,
        **UNKNOWN,
        records=0,
        bytes=0,
        ages=None,
        latencies=Timing(last=7.0, recent=None),
    )
    page = scrape(full(replace(link(new), tasks=(), checkpoints=())))

    missing = METRICS.keys() - names(page)
    assert missing == {
        "causeway_partition_lag_records",
        "causeway_partition_lag_bytes",
        "causeway_partition_lag_seconds",
        "causeway_partition_held_records",
        "causeway_partition_held_seconds",
        "causeway_schema_subjects",
        "causeway_preserving",
        "causeway_preserving_offsets_left",
        "causeway_gaps_filled_total",
        "causeway_offsets_filled_total",
        *(name for name in METRICS if "record_age_ms" in name or "checkpoint_latency" in name),
        *(name for name in METRICS if "replication_latency_ms_" in name),
    }
    assert names(scrape(None)) == {"causeway_info"}, "before the daemon has looked at itself"


def test_who_no_longer_leads_tells_nothing_of_tasks() -> None:
    page = scrape(replace(full(replace(link(), role=Role.STANDBY)), other_tasks={}))
    assert of(page, "causeway_link_role", link="A->B", role="standby") == 1
    assert not [name for name in names(page) if "_task_" in name or "checkpoint" in name]


def test_a_partition_without_lag_is_behind_by_nothing() -> None:
    done = replace(partition(0), **at(100), records=0, bytes=0, newest_record_ms=None)
    page = scrape(full(link(done)))

    of_it = {"link": "A->B", "topic": "orders", "partition": "0"}
    for unit in ("records", "bytes", "seconds"):
        assert of(page, f"causeway_partition_lag_{unit}", **of_it) == 0


def test_a_lane_and_its_successor_of_one_moment_are_one_series() -> None:
    once = full()
    twice = replace(once, lanes=(*once.lanes, replace(once.lanes[0], cpu_s=2.0)))

    page = scrape(twice)

    assert of(page, "causeway_lane_cpu_seconds_total", lane="0", host="worker", pid="17") == 2


def test_labels_may_hold_anything() -> None:
    odd: LinkStatus = replace(
        link(),
        name='A"->\nB\\',
        checkpoints=(
            replace(link().checkpoints[0], group='a "group"\\n\n{x="y"}', latency=LATENCY),
        ),
    )
    found = {dict(labels).get("group") for _, labels in scrape(full(odd))}
    assert 'a "group"\\n\n{x="y"}' in found


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == markdown(), (
        "python -m causeway.metrics.reference > docs/reference/metrics.md"
    )


def test_what_an_open_transaction_holds_back_is_no_lag() -> None:
    page = scrape(full(link(partition(0), replace(partition(1), high_watermark=None))))
    of_it = {"link": "A->B", "topic": "orders", "partition": "0"}
    assert of(page, "causeway_partition_lag_records", **of_it) == 10
    assert of(page, "causeway_partition_held_records", **of_it) == 40
    assert of(page, "causeway_partition_held_seconds", **of_it) == 90
    unknown = frozenset((of_it | {"partition": "1"}).items())
    assert ("causeway_partition_held_records", unknown) not in page


def test_what_transforms_do() -> None:
    page = scrape(full())
    labels = {"link": "A->B", "transform": "pii"}

    found = {
        outcome: of(page, "causeway_transform_records_total", outcome=outcome, **labels)
        for outcome in ("in", "out", "dropped", "refused")
    }
    assert found == {"in": 100, "out": 120, "dropped": 7, "refused": 3}
    ways = {
        way: of(page, "causeway_transform_ways_total", way=way, **labels)
        for way in ("worker", "spark")
    }
    assert ways == {"worker": 88, "spark": 12}
    assert of(page, "causeway_transform_partitions", **labels) == 2
    assert of(page, "causeway_transform_stages", **labels) == 1
    assert of(page, "causeway_transform_troubles", **labels) == 1
    assert of(page, "causeway_transform_unseen_rules", **labels) == 2
    rule = {**labels, "rule": "1 hash value.name"}
    assert of(page, "causeway_transform_rule_records_total", path="missing", **rule) == 60
    assert of(page, "causeway_transform_rule_records_total", path="found", **rule) == 0


def test_names_of_any_kind_are_exported_unchanged() -> None:
    evil = 'a"b\\n\n{}=,\\'
    page = scrape(full(link(replace(partition(0), topic=evil, target_topic=evil))))
    assert of(page, "causeway_partition_lag_records", link="A->B", topic=evil, partition="0") == 10


def test_a_name_that_is_no_text_does_not_break_the_scrape() -> None:
    page = scrape(full(link(replace(partition(0), topic="\udcff", target_topic="t"))))
    assert [labels for name, labels in page if name == "causeway_partition_lag_records"]


def test_prometheus_client_would_write_the_same() -> None:
    """What it reads of the text, and writes again, is read as the same."""
    scraped = text(full()).decode()
    families = list(text_string_to_metric_families(scraped))
    registry = CollectorRegistry()

    class Again(Collector):
        def collect(self) -> list[PrometheusMetric]:
            return families

    registry.register(Again())
    assert read(generate_latest(registry).decode()) == read(scraped)
    kinds = {family.name: family.type for family in families}
    assert kinds["causeway_partition_records"] == "counter"
    assert kinds["causeway_partition_lag_records"] == "gauge"


def test_a_record_time_in_other_units_tells_no_lag() -> None:
    """Seconds and nanoseconds since 1970, as some producers write them: no sample, in place of a
    lag of decades, or of none at all."""
    for first in (int(NOW), int(NOW) * 10**9):
        odd = replace(partition(0), lag_ms=lag.lag_ms(10, first, int(NOW * 1000)))
        assert "causeway_partition_lag_seconds" not in names(scrape(full(link(odd))))
        assert "causeway_partition_lag_records" in names(scrape(full(link(odd))))
