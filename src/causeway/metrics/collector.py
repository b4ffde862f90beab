"""From a snapshot of the daemon to Prometheus's text, once a scrape.

The text is our own: prometheus_client makes an object for each sample and sorts its labels, which
took four times as long, 1.2 s for 10,000 partitions on a machine where this takes 0.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from causeway.link_topics import TaskRecord, Transformed
from causeway.metrics import catalogue
from causeway.metrics.catalogue import Metric, TimingMetrics
from causeway.status import LinkStatus, PartitionStatus, Role, Snapshot, Timing, TransformStatus

_PROCESS: Final = CollectorRegistry()
ProcessCollector(registry=_PROCESS)
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
# In UTF-8: what is not text, as of a group's name, must not cost the others the scrape.
_CODING: Final = ("utf-8", "backslashreplace")


def text(snapshot: Snapshot | None) -> bytes:
    """All that a scrape shows, in the text format, figures of this process (`process_*`) among
    them; None: before it can be looked at.

    What is unknown has no sample. A counter goes back only if its subject restarted, as when
    this process leads a link once more.
    """
    page = _Page()
    page.add(catalogue.INFO, (version("causeway"),), 1)
    if snapshot is not None:
        _add_process(page, snapshot)
        for link in snapshot.links:
            _add_link(page, link)
        for name, tasks in snapshot.other_tasks.items():
            _add_tasks(page, name, tasks)
    return "".join(page.lines()).encode(*_CODING) + generate_latest(_PROCESS)


class _Page:
    """The samples of one scrape; a later one with the same labels replaces an earlier one, since a
    page that has both is refused as a whole."""

    def __init__(self) -> None:
        self._samples: dict[Metric, dict[tuple[str, ...], float]] = {
            metric: {} for metric in catalogue.metrics()
        }

    def add(self, metric: Metric, labels: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            self._samples[metric][labels] = value

    def add_timing(
        self, metrics: TimingMetrics, labels: tuple[str, ...], timing: Timing | None
    ) -> None:
        if timing is None:
            return
        self.add(metrics.last, labels, timing.last)
        if (recent := timing.recent) is not None:
            self.add(metrics.least, labels, recent.least)
            self.add(metrics.most, labels, recent.most)
            self.add(metrics.mean, labels, recent.total / recent.seen)

    def lines(self) -> Iterator[str]:
        # A partition's samples share their labels.
        written: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        for metric, samples in self._samples.items():
            name = metric.name
            yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
            known = written.setdefault(metric.labels, {})
            for labels, value in samples.items():
                shown = known.get(labels)
                if shown is None:
                    shown = known[labels] = _labels(metric.labels, labels)
                yield f"{name}{shown} {float(value)!r}\n"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = (
        f'{name}="{value.translate(_ESCAPES)}"'
        for name, value in sorted(zip(names, values, strict=True))
    )
    return "{" + ",".join(pairs) + "}"


def _add_process(page: _Page, snapshot: Snapshot) -> None:
    page.add(catalogue.STARTED, (), snapshot.started_at)
    page.add(catalogue.DRAINING, (), snapshot.draining)
    page.add(catalogue.LANES_RUNNING, (), len(snapshot.lanes))
    page.add(catalogue.LANES_WANTED, (), snapshot.lanes_wanted)
    for expiry in snapshot.expiries:
        ends = (expiry.cluster, expiry.which)
        page.add(catalogue.CERTIFICATE_EXPIRY, ends, expiry.at.timestamp())
    for lane in snapshot.lanes:
        labels = (str(lane.lane), lane.host, str(lane.pid))
        page.add(catalogue.LANE_PARTITIONS, labels, lane.partitions)
        page.add(catalogue.LANE_MEMORY, labels, lane.rss_bytes)
        page.add(catalogue.LANE_CPU, labels, lane.cpu_s)


def _add_link(page: _Page, link: LinkStatus) -> None:
    labels = (link.name,)
    page.add(catalogue.LINK_ROLE, (link.name, str(link.role)), 1)
    page.add(catalogue.LINK_PROBLEMS, labels, len(link.problems))
    page.add(catalogue.PROGRESS_WRITES, labels, link.progress_writes)
    page.add(catalogue.PROGRESS_WRITE_FAILURES, labels, link.progress_write_failures)
    page.add(catalogue.TRANSLATION_FALLBACKS, labels, link.translation_fallbacks)
    for transform in link.transforms:
        _add_transform(page, link.name, transform)
    for partition in link.partitions:
        _add_partition(page, link, partition)
    if link.role is not Role.LEADING:
        return  # another process runs its tasks: what ours knows of them is old news
    _add_tasks(page, link.name, link.tasks)
    page.add(catalogue.CHECKPOINTS_UNTIMED, labels, link.checkpoints_untimed)
    for checkpoint in link.checkpoints:
        number = str(checkpoint.partition)
        followed = (link.source, link.target, checkpoint.group, checkpoint.topic, number)
        page.add_timing(catalogue.CHECKPOINT_LATENCY, followed, checkpoint.latency)


def _add_transform(page: _Page, link: str, transform: TransformStatus) -> None:
    labels = (link, transform.name)
    counts = transform.counts or Transformed()
    for outcome, records in (
        ("in", counts.records_in),
        ("out", counts.records_out),
        ("dropped", counts.dropped),
        ("refused", counts.refused),
    ):
        page.add(catalogue.TRANSFORM_RECORDS, (*labels, outcome), records)
    for way, records in (("worker", counts.without_spark), ("spark", counts.through_spark)):
        page.add(catalogue.TRANSFORM_WAYS, (*labels, way), records)
    for rule, found, missing in transform.rules:
        page.add(catalogue.TRANSFORM_RULE_RECORDS, (*labels, rule, "found"), found)
        page.add(catalogue.TRANSFORM_RULE_RECORDS, (*labels, rule, "missing"), missing)
    page.add(catalogue.TRANSFORM_PARTITIONS, labels, transform.partitions)
    page.add(catalogue.TRANSFORM_STAGES, labels, transform.stages)
    page.add(catalogue.TRANSFORM_TROUBLES, labels, len(transform.troubles))
    page.add(catalogue.TRANSFORM_UNSEEN, labels, len(transform.unseen))


def _add_tasks(page: _Page, link: str, tasks: Sequence[TaskRecord]) -> None:
    for task in tasks:
        labels = (link, task.name)
        page.add(catalogue.TASK_FAILING, labels, task.reason is not None)
        page.add(catalogue.TASK_PROBLEMS, labels, len(task.items))
        page.add(catalogue.TASK_SUCCESS, labels, task.done_at / 1000 if task.done_at >= 0 else None)
        for state, number in task.figures.items() if task.name == "schemas" else ():
            page.add(catalogue.SCHEMA_SUBJECTS, (link, state), number)


def _add_partition(page: _Page, link: LinkStatus, partition: PartitionStatus) -> None:
    number = str(partition.partition)
    labels = (link.name, partition.topic, number)
    lag_ms = partition.lag_ms
    page.add(catalogue.LAG_RECORDS, labels, partition.lag_records)
    page.add(catalogue.LAG_BYTES, labels, partition.lag_bytes)
    page.add(catalogue.LAG_SECONDS, labels, None if lag_ms is None else lag_ms / 1000)
    held = partition.held_records
    page.add(catalogue.HELD_RECORDS, labels, held)
    page.add(catalogue.HELD_SECONDS, labels, None if held is None else partition.held_ms / 1000)
    page.add(catalogue.PARTITION_STATE, (*labels, partition.state), 1)
    page.add(catalogue.RECORDS, labels, partition.records)
    page.add(catalogue.BYTES, labels, partition.bytes)
    page.add(catalogue.RECOVERIES, labels, partition.recoveries)
    page.add(catalogue.FAILURES, labels, partition.failures)
    page.add(catalogue.LOST, labels, partition.lost)
    page.add(catalogue.OFFSET_MAP_POINTS, labels, partition.map_points)
    mirrored = (link.source, link.target, partition.target_topic, number)
    page.add(catalogue.RECORD_COUNT, mirrored, partition.records)
    page.add(catalogue.RECORD_RATE, mirrored, partition.records_per_s)
    page.add(catalogue.BYTE_COUNT, mirrored, partition.bytes)
    page.add(catalogue.BYTE_RATE, mirrored, partition.bytes_per_s)
    page.add_timing(catalogue.RECORD_AGE, mirrored, partition.ages)
    page.add_timing(catalogue.REPLICATION_LATENCY, mirrored, partition.latencies)
