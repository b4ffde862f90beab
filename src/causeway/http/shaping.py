"""From the daemon's values to what the API answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from causeway.config import ClientSettings, LinkSettings
from causeway.http import shapes
from causeway.http.totals import totals
from causeway.http.view import LinkView, View
from causeway.link_topics import Directive, TaskRecord, directive_as_json
from causeway.status.snapshot import (
    GroupStatus,
    LaneStatus,
    LinkStatus,
    PartitionStatus,
    TransformStatus,
    Trouble,
)
from causeway.status.states import RANKING
from causeway.status.topics import TopicRow

VERSION = version("causeway")


def overview(view: View) -> shapes.Overview:
    snapshot = view.snapshot
    return shapes.Overview(
        version=VERSION,
        started_at_ms=int(snapshot.started_at * 1000),
        taken_at_ms=view.now_ms,
        bounded=snapshot.bounded,
        draining=snapshot.draining,
        lanes=len(snapshot.lanes),
        lanes_wanted=snapshot.lanes_wanted,
        lane_trouble=snapshot.lane_trouble,
        ranking=list(RANKING),
        links=[link(each) for each in view.links.values()],
    )


def link(each: LinkView) -> shapes.Link:
    status, sums = each.status, totals(each)
    return shapes.Link(
        link=status.name,
        source=status.source,
        target=status.target,
        state=status.state,
        worst=status.worst,
        role=status.role,
        reason=status.reason,
        planned=status.planned,
        topics=len(each.topics),
        partitions=len(status.partitions),
        states=dict(each.states),
        lag_records=sums.lag_records,
        lag_ms=sums.lag_ms,
        records=sums.records,
        records_per_s=sums.records_per_s,
        bytes_per_s=sums.bytes_per_s,
        problems=len(status.troubles),
        tasks_failing=sum(task.reason is not None for task in status.tasks),
        groups=sum(group.followed for group in status.groups),
    )


def topic(link: str, row: TopicRow) -> shapes.Topic:
    return shapes.Topic(
        link=link,
        topic=row.topic,
        target_topic=row.target_topic,
        transform=row.transform,
        state=row.state,
        partitions=row.partitions,
        lag_records=row.lag_records,
        lag_ms=row.lag_ms,
        records=row.records,
        records_per_s=row.records_per_s,
        bytes_per_s=row.bytes_per_s,
    )


def partition(link: LinkStatus, one: PartitionStatus, now_ms: int) -> shapes.Partition:
    lag_bytes = one.lag_bytes
    return shapes.Partition(
        link=link.name,
        topic=one.topic,
        partition=one.partition,
        target_topic=one.target_topic,
        transform=one.transform,
        state=one.state,
        reason=one.reason,
        lane=one.lane,
        source_end=_known(one.source_end),
        high_watermark=_known(one.high_watermark),
        mirrored_to=_known(one.position),
        lag_records=one.lag,
        lag_bytes=None if lag_bytes is None else round(lag_bytes),
        lag_ms=one.lag_ms(now_ms, link.silent_since),
        held_records=one.held,
        held_ms=one.held_ms,
        newest_record_ms=_known(one.last_timestamp),
        records=one.records,
        bytes=one.bytes,
        records_per_s=one.records_per_s,
        bytes_per_s=one.bytes_per_s,
        recoveries=one.recoveries,
        failures=one.failures,
        lost_records=one.lost,
    )


def _known(figure: int) -> int | None:
    return figure if figure >= 0 else None


def group(link: str, one: GroupStatus) -> shapes.Group:
    return shapes.Group(
        link=link,
        group=one.group,
        followed=one.followed,
        partitions=one.partitions,
        reason=one.reason,
    )


def lane(one: LaneStatus) -> shapes.Lane:
    return shapes.Lane(
        lane=one.lane,
        host=one.host,
        pid=one.pid,
        partitions=one.partitions,
        bytes_per_s=one.bytes_per_s,
        rss_bytes=one.rss_bytes,
        cpu_s=one.cpu_s,
    )


def task(link: str, one: TaskRecord) -> shapes.Task:
    return shapes.Task(
        link=link,
        task=one.name,
        reason=one.reason,
        items=dict(one.items),
        figures=dict(one.figures),
        done_at_ms=_known(one.done_at),
    )


def transform(link: str, one: TransformStatus) -> shapes.Transform:
    counts = one.counts
    return shapes.Transform(
        link=link,
        transform=one.name,
        partitions=one.partitions,
        stages=one.stages,
        records_in=counts.records_in,
        records_out=counts.records_out,
        dropped=counts.dropped,
        refused=counts.refused,
        without_spark=counts.without_spark,
        through_spark=counts.through_spark,
        rules=[shapes.Rule(**each._asdict()) for each in one.rules],
        unseen=list(one.unseen),
        troubles=list(one.troubles),
    )


def directive(link: str, one: Directive) -> shapes.Directive:
    return shapes.Directive(link=link, **directive_as_json(one))


def problem(link: str, one: Trouble) -> shapes.Problem:
    return shapes.Problem(link=link, topic=one.topic, reason=one.reason)


def clusters(links: Iterable[LinkSettings]) -> list[shapes.Cluster]:
    """By alias; how they are logged in to is nobody's business here."""
    found: dict[str, shapes.Cluster] = {}
    for each, client, is_source in _ends(links):
        known = found.get(client.alias) or shapes.Cluster(
            alias=client.alias,
            bootstrap=[f"{host}:{port}" for host, port in client.bootstrap],
            security_protocol=client.protocol,
            source_of=[],
            target_of=[],
        )
        (known.source_of if is_source else known.target_of).append(each)
        found[client.alias] = known
    return [found[alias] for alias in sorted(found)]


def _ends(links: Iterable[LinkSettings]) -> Iterator[tuple[str, ClientSettings, bool]]:
    for each in links:
        yield each.name, each.source, True
        yield each.name, each.target, False


def tasks(view: View, link: str | None) -> list[shapes.Task]:
    """Of links, and of pairs of clusters without a flow."""
    by_link: dict[str, Iterable[TaskRecord]] = {
        each.status.name: each.status.tasks for each in view.links.values()
    }
    by_link |= view.snapshot.other_tasks
    return [
        task(name, one) for name, some in by_link.items() if link in (None, name) for one in some
    ]


def statuses(view: View, link: str | None) -> list[LinkStatus]:
    return [each.status for each in view.of(link)]
