"""Finds the ids, starts and ends of the logs of a link's courses on both clusters, for a
command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from causeway.cluster import EARLIEST, LATEST, Cluster, Connect, OffsetAt
from causeway.config import ClientSettings, LinkSettings, Settings
from causeway.control import Transforms, only_treated
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import (
    OffsetMap,
    Outlet,
    PartitionProgress,
    ProgressContents,
    offset_maps_of,
)
from causeway.model import Pair, State, TopicPartition, same_topic
from causeway.records import SEQUENCE_SPACE, advance, distance
from causeway.relay import Becomes, Topics, steps_become, unchanged
from causeway.translation.counting import Check
from causeway.translation.course import Course, shared_by
from causeway.translation.values import BEGINS, OffsetNote
from causeway.wire import codes

_MOST_MS = 10_000  # to wait for a cluster that may be gone
PATIENCE_S = 3.0  # the wait for partitions without a leader


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLogs:
    """One cluster of a link. `error`: why it does not answer. Offsets of logs that did not answer
    are missing. `gone`: topics that the cluster does not have. `hidden`: topics about which it does
    not answer. `sequences`: in logs that others write to, the last sequence of each producer that
    the brokers remember."""

    cluster: Cluster
    error: CausewayError | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    hidden: Mapping[str, CausewayError] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    sequences: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)

    def unreadable(self, topic: str) -> str | None:
        """Returns why a log of the topic cannot be read; None if it can."""
        if self.error is not None:
            return str(self.error)
        if topic in self.hidden:
            return str(self.hidden[topic])
        return f"{self.cluster} no longer has {topic}" if topic in self.gone else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLogs:
    """`check`: see Check. `read_committed`: whether the link reads only committed records."""

    source: ClusterLogs
    target: ClusterLogs
    check: Check
    read_committed: bool


@dataclass(frozen=True, slots=True)
class CourseProblem:
    """Why no offset of a course is exact. `other_log`: an offset may even belong to another log
    than the mirrored one."""

    why: OffsetNote
    note: str
    other_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedCourse:
    """A course and its offset map. `shared`: other courses feed the same target partition.
    `becomes`: the function that applies the treatment of the link to relayed batches. A course with
    a treatment but no transform is not `transformed`: a record becomes one record or none."""

    course: Course
    map: OffsetMap
    shared: bool = False
    problem: CourseProblem | None = None
    becomes: Becomes = unchanged

    @property
    def end(self) -> Pair:
        """The pair that the mirror has reached."""
        return self.map.points[-1]


def mapped_courses(
    link: LinkSettings,
    settings: Settings,
    contents: ProgressContents,
    known: Iterable[PartitionProgress],
    logs: LinkLogs,
) -> dict[TopicPartition, list[MappedCourse]]:
    """Returns courses by source partition. Courses whose offsets cannot be mapped are missing."""
    shared = shared_by(
        Course.of(each, outlet) for each in contents.partitions.values() for outlet in each.outlets
    )
    found: dict[TopicPartition, list[MappedCourse]] = defaultdict(list)
    for progress in known:
        at = progress.source
        multiplied = _may_multiply(link, settings, progress)
        maps = offset_maps_of(progress, contents.maps.get(at, {}), multiplied=multiplied)
        steps = only_treated(link.treatments_of(at.topic), progress)
        for outlet in progress.outlets:
            if outlet.at in maps:
                course = Course.of(progress, outlet)
                found[at].append(
                    MappedCourse(
                        course=course if steps is None else course.replace(transformed=False),
                        map=maps[outlet.at],
                        shared=outlet.at in shared,
                        problem=problem_of(progress, outlet, logs),
                        becomes=steps_become(steps or (), Topics(at.topic, outlet.topic)),
                    )
                )
    return found


def _may_multiply(link: LinkSettings, settings: Settings, progress: PartitionProgress) -> bool:
    """Returns whether one source record may have become several. Only rules never make several, and
    only if the partition goes through the rules of the file."""
    if progress.transform is None:
        return False
    now = link.transform_of(progress.topic)
    if now is not None and now.rules is None:
        return True
    try:
        transforms = Transforms(link, settings.spark)
    except CausewayError:
        return True
    return transforms.identity_of(progress.topic) != progress.transform


def logs_of(
    link: LinkSettings, connect: Connect, known: Collection[PartitionProgress], check: Check
) -> LinkLogs:
    """Returns the logs of these partitions and of their target partitions."""
    sources = {progress.source for progress in known}
    outlets = [outlet for progress in known for outlet in progress.outlets]
    mixed = {outlet.at for outlet in outlets if not outlet.exclusive}
    return LinkLogs(
        source=_cluster_logs(connect, link.source, sources, ()),
        target=_cluster_logs(connect, link.target, {outlet.at for outlet in outlets}, mixed),
        check=check,
        read_committed=link.fetch.read_committed,
    )


def problem_of(progress: PartitionProgress, outlet: Outlet, logs: LinkLogs) -> CourseProblem | None:
    source, target = logs.source, logs.target
    at, there = progress.source, outlet.at
    if not same_topic(source.ids.get(at.topic), progress.topic_id):
        note = f"{at.topic} was deleted and recreated on the source"
        return CourseProblem(OffsetNote.RECREATED, note, other_log=True)
    if not same_topic(target.ids.get(there.topic), outlet.topic_id):
        note = f"{there.topic} was deleted and recreated on the target"
        return CourseProblem(OffsetNote.RECREATED, note, other_log=True)
    if there.topic in target.gone:
        note = f"the target no longer has {there.topic}"
        return CourseProblem(OffsetNote.LOST, note, other_log=True)
    if progress.begins:
        return CourseProblem(OffsetNote.NOT_YET, BEGINS, other_log=True)
    again = "it lost acknowledged records, and a running driver sends them again"
    if target.ends.get(there, outlet.pair.target) < outlet.pair.target:
        note = f"the target ends at {target.ends[there]}, below {outlet.pair.target}: {again}"
        return CourseProblem(OffsetNote.LOST, note)
    if outlet.producer_id in (last := target.sequences.get(there, {})):
        missing = distance(advance(last[outlet.producer_id], 1), outlet.pair.sequence)
        if 0 < missing < SEQUENCE_SPACE // 2:
            note = f"the target lacks {missing} mirrored records: {again}"
            return CourseProblem(OffsetNote.LOST, note)
    if progress.state is State.STOPPED:
        note = f"the partition has stopped: {progress.reason or 'the reason is not known'}"
        return CourseProblem(OffsetNote.STOPPED, note)
    return None


def known_offsets(
    cluster: Cluster, partitions: Collection[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """See Cluster.list_offsets. Partitions without an answer are missing. Raises CausewayError."""
    if not partitions:
        return {}
    found = cluster.list_offsets(list(partitions), timestamp, patience_s=PATIENCE_S)
    return {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}


def _cluster_logs(
    connect: Connect,
    client: ClientSettings,
    partitions: Collection[TopicPartition],
    mixed: Collection[TopicPartition],
) -> ClusterLogs:
    first_contact = connect(
        replace(
            client,
            request_timeout_ms=min(client.request_timeout_ms, _MOST_MS),
            connect_timeout_ms=min(client.connect_timeout_ms, _MOST_MS),
        )
    )
    if not partitions:
        return ClusterLogs(cluster=first_contact)
    try:
        first_contact.bootstrap_check()
        return logs_on(connect(client), partitions, mixed)
    except CausewayError as error:
        return ClusterLogs(cluster=first_contact, error=error)


def logs_on(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    mixed: Collection[TopicPartition] = (),
) -> ClusterLogs:
    """Returns the logs of `partitions`. Others write to `mixed`. Raises CausewayError."""
    found = cluster.metadata({at.topic for at in partitions}).topics
    there = [at for at in partitions if at.partition in found[at.topic].partitions]
    starts = known_offsets(cluster, there, EARLIEST)
    ends = known_offsets(cluster, there, LATEST)
    last = cluster.last_sequences([at for at in there if at in mixed])
    errors = {name: topic.error for name, topic in found.items() if topic.error is not None}
    gone = frozenset(
        name
        for name, error in errors.items()
        if isinstance(error, BrokerError) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION
    )
    return ClusterLogs(
        cluster=cluster,
        ids={name: topic.topic_id for name, topic in found.items() if topic.error is None},
        gone=gone,
        hidden={name: error for name, error in errors.items() if name not in gone},
        starts=starts,
        ends=ends,
        sequences={at: one for at, one in last.items() if not isinstance(one, CausewayError)},
    )
