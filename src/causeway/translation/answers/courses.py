"""What a link's progress topic tells of each source partition and each partition that it feeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from causeway.cluster import EARLIEST, LATEST, Cluster, Connect, OffsetAt
from causeway.config import ClientSettings, LinkSettings, Settings
from causeway.daemon.partitions.rows import offset_maps_of, place_of
from causeway.daemon.partitions.transforms import Transforms
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics.offset_map import OffsetMap
from causeway.link_topics.progress import Contents, Progress, ProgressTopic, recognise
from causeway.model import State, TopicPartition, same_topic
from causeway.records import SEQUENCE_SPACE, advance, distance
from causeway.relay.messages import Outlet
from causeway.translation.answers.values import Why
from causeway.wire import codes

_MOST_MS = 10_000  # to wait for a cluster that may be gone
PATIENCE_S = 3.0  # with partitions that have no leader


@dataclass(frozen=True, slots=True)
class Doubt:
    """`astray`: an offset may be of another log than the one that was mirrored."""

    why: Why
    note: str
    astray: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One source partition and one target partition that it feeds. `multiplied`: see OffsetMap;
    `shared`: others feed that target partition as well."""

    source: TopicPartition
    target: TopicPartition
    outlet: Outlet
    map: OffsetMap
    transformed: bool
    multiplied: bool
    shared: bool
    doubt: Doubt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One cluster of a link. `error`: why it cannot be asked. Offsets of logs that did not answer
    are missing; `gone`: topics that it has no more; `hidden`: those that it tells nothing of;
    `sequences`: the last of each producer, of logs whose ends tell nothing, as far as the brokers
    remember."""

    cluster: Cluster
    error: CausewayError | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    hidden: Mapping[str, CausewayError] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    sequences: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)

    def why_not(self, topic: str) -> str | None:
        """Why a log of the topic cannot be read; None where it can."""
        if self.error is not None:
            return str(self.error)
        if topic in self.hidden:
            return str(self.hidden[topic])
        return f"{self.cluster} no longer has {topic}" if topic in self.gone else None


@dataclass(frozen=True, slots=True)
class Book:
    """A link's progress."""

    link: LinkSettings
    contents: Contents

    @classmethod
    def read(cls, link: LinkSettings, connect: Connect) -> Book:
        """Raises CausewayError where the target cannot be asked."""
        progress = ProgressTopic(connect(link.target_admin), link.progress_topic)
        contents = progress.read() if progress.exists() else Contents()
        return cls(link, recognise(link, connect, contents))

    def by_target(self) -> dict[TopicPartition, list[Progress]]:
        """Of the source partitions that feed each target partition."""
        found: dict[TopicPartition, list[Progress]] = defaultdict(list)
        for progress in self.contents.partitions.values():
            for outlet in progress.outlets:
                found[place_of(outlet)].append(progress)
        return found

    def target_topics(self) -> set[str]:
        known = self.contents.partitions.values()
        return {outlet.topic for progress in known for outlet in progress.outlets}


def sides(link: LinkSettings, connect: Connect, known: Collection[Progress]) -> tuple[Side, Side]:
    """Source and target, as far as these partitions go."""
    sources = {progress.source for progress in known}
    outlets = [outlet for progress in known for outlet in progress.outlets]
    mixed = {place_of(outlet) for outlet in outlets if not outlet.exclusive}
    return (
        _side(connect, link.source, sources, ()),
        _side(connect, link.target, {place_of(outlet) for outlet in outlets}, mixed),
    )


def courses(
    book: Book, settings: Settings, known: Iterable[Progress], source: Side, target: Side
) -> dict[TopicPartition, list[Course]]:
    """By source partition; those whose offsets cannot be mapped have none."""
    feeding = Counter(
        place_of(outlet) for one in book.contents.partitions.values() for outlet in one.outlets
    )
    found: dict[TopicPartition, list[Course]] = defaultdict(list)
    for progress in known:
        multiplied = _may_multiply(book.link, settings, progress)
        records = book.contents.maps.get(progress.source, {})
        maps = offset_maps_of(progress, records, multiplied=multiplied)
        for outlet in progress.outlets:
            at = place_of(outlet)
            if at in maps:
                found[progress.source].append(
                    Course(
                        source=progress.source,
                        target=at,
                        outlet=outlet,
                        map=maps[at],
                        transformed=progress.transform is not None,
                        multiplied=multiplied,
                        shared=feeding[at] > 1,
                        doubt=_doubt(progress, outlet, source, target),
                    )
                )
    return dict(found)


def _may_multiply(link: LinkSettings, settings: Settings, progress: Progress) -> bool:
    """Unless it went through what the file says now, and those are rules, nobody knows."""
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


def _doubt(progress: Progress, outlet: Outlet, source: Side, target: Side) -> Doubt | None:
    at, there = progress.source, place_of(outlet)
    if not same_topic(source.ids.get(at.topic), progress.topic_id):
        return Doubt(Why.MADE_ANEW, f"{at.topic} was made anew on the source", astray=True)
    if not same_topic(target.ids.get(there.topic), outlet.topic_id):
        return Doubt(Why.MADE_ANEW, f"{there.topic} was made anew on the target", astray=True)
    if there.topic in target.gone:
        return Doubt(Why.LOST, f"the target no longer has {there.topic}", astray=True)
    again = "it lost what it had acknowledged, and gets it again from a running driver"
    if target.ends.get(there, outlet.pair.target) < outlet.pair.target:
        end = target.ends[there]
        note = f"the target ends at {end}, below {outlet.pair.target}: {again}"
        return Doubt(Why.LOST, note)
    if outlet.producer_id in (last := target.sequences.get(there, {})):
        missing = distance(advance(last[outlet.producer_id], 1), outlet.pair.sequence)
        if 0 < missing < SEQUENCE_SPACE // 2:
            return Doubt(Why.LOST, f"the target lacks {missing} records of ours: {again}")
    if progress.state is State.STOPPED:
        why = progress.reason or "it has stopped"
        return Doubt(Why.STOPPED, f"what an offset stands for is not certain: {why}")
    return None


def _side(
    connect: Connect,
    client: ClientSettings,
    places: Collection[TopicPartition],
    mixed: Collection[TopicPartition],
) -> Side:
    topics = {at.topic for at in places}
    first_contact = connect(_short(client))
    if not topics:
        return Side(cluster=first_contact)
    cluster = connect(client)
    try:
        first_contact.bootstrap_check()
        found = cluster.metadata(topics).topics
        there = [at for at in places if at.partition in found[at.topic].partitions]
        starts = cluster.list_offsets(there, EARLIEST, patience_s=PATIENCE_S)
        ends = cluster.list_offsets(there, LATEST, patience_s=PATIENCE_S)
        last = cluster.last_sequences([at for at in there if at in mixed])
    except CausewayError as error:
        return Side(cluster=first_contact, error=error)
    errors = {name: topic.error for name, topic in found.items() if topic.error is not None}
    gone = {name for name, error in errors.items() if _is_unknown(error)}
    return Side(
        cluster=cluster,
        ids={name: topic.topic_id for name, topic in found.items() if topic.error is None},
        gone=frozenset(gone),
        hidden={name: error for name, error in errors.items() if name not in gone},
        starts={at: one.offset for at, one in starts.items() if isinstance(one, OffsetAt)},
        ends={at: one.offset for at, one in ends.items() if isinstance(one, OffsetAt)},
        sequences={at: one for at, one in last.items() if not isinstance(one, CausewayError)},
    )


def _is_unknown(error: CausewayError) -> bool:
    return isinstance(error, BrokerError) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION


def _short(client: ClientSettings) -> ClientSettings:
    return replace(
        client,
        request_timeout_ms=min(client.request_timeout_ms, _MOST_MS),
        connect_timeout_ms=min(client.connect_timeout_ms, _MOST_MS),
    )
