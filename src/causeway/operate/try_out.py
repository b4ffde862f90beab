"""What a transform makes of records that are there: read from the source, treated by a Spark on
this machine. Writes nothing; the target is not asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from causeway.config.settings import LinkSettings, Settings, TransformSettings
from causeway.errors import CausewayError, ConfigError, ProtocolError
from causeway.model import TopicPartition
from causeway.operate.clusters import clusters
from causeway.operate.local_spark import local_spark
from causeway.operate.transforms import Told, prepared
from causeway.relay.walk import relayed
from causeway.wire.batches import Batch
from causeway.wire.cluster import Cluster
from causeway.wire.offsets import EARLIEST, LATEST, OffsetAt
from causeway.wire.records import records_of

if TYPE_CHECKING:
    import pyarrow as pa

    from causeway.transform.schemas import Schemas


class Outcome(StrEnum):
    SAME = "same"  # byte for byte
    CHANGED = "changed"  # or several, or to another topic or partition
    DROPPED = "dropped"
    REFUSED = "refused"  # it would stop its partition, or go to the dead letters
    FAILS = "fails"  # the query throws, with the same effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A record's own. `topic`, `partition`: where it is led to, None: where all go; the topic's
    name is one as on the source."""

    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """`before` is None where the record cannot be decoded; `reason`: why it is refused, or the
    class of Spark's error."""

    at: TopicPartition
    offset: int
    before: Content | None
    after: tuple[Content, ...]
    outcome: Outcome
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`transform` None: the link relays `topic` as it is, and nothing was tried."""

    link: LinkSettings
    topic: str
    transform: TransformSettings | None
    sql: str | None
    records: tuple[Tried, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    at: TopicPartition
    offset: int
    content: Content | None
    batch: Batch


def try_out(
    settings: Settings,
    topic: str,
    *,
    limit: int,
    told: Told,
    link: str | None = None,
    start: int | None = None,
) -> Trial:
    """Tries the transform that `link` (or the only link that has one for `topic`) has for it on the
    newest `limit` records of the topic; with `start`, on the first since then (ms). Raises
    CausewayError; ConfigError also for what is wrong with the transform."""
    chosen = _choose(settings, topic, link)
    transform = chosen.transform_of(topic)
    if transform is None:
        return Trial(link=chosen, topic=topic, transform=None, sql=None, records=())
    told(f"reading {topic} of {chosen.source.alias}")
    with clusters() as connect:
        records = _read(connect(chosen.source), chosen, topic, limit, start)
    told("starting Spark")
    with local_spark(settings.spark) as session:
        query = prepared(session, transform)
        told(f"trying {transform.name}")
        tried = _Trials(session, query, transform).of(records)
    return Trial(link=chosen, topic=topic, transform=transform, sql=query.sql, records=tried)


def _choose(settings: Settings, topic: str, name: str | None) -> LinkSettings:
    if name is not None:
        found = [link for link in settings.links if link.name == name]
        names = ", ".join(link.name for link in settings.links)
        if not found:
            raise ConfigError("try", name, "no such flow runs", remedy=f"one of {names}")
        return found[0]
    able = [link for link in settings.links if link.transform_of(topic) is not None]
    if len(able) > 1:
        names = " or ".join(link.name for link in able)
        raise ConfigError(
            "try", topic, "several flows transform it", remedy=f"choose with --link {names}"
        )
    if not (able or settings.links):
        raise ConfigError("try", topic, "no flow is enabled", remedy="set A->B.enabled = true")
    return (able or settings.links)[0]


# -- reading


def _read(
    source: Cluster, link: LinkSettings, topic: str, limit: int, start: int | None
) -> list[_Read]:
    """In the order of timestamps; of one partition, of offsets."""
    found = source.metadata([topic]).topics.get(topic)
    if found is None or not found.partitions:
        error = found.error if found is not None else None
        raise error or ConfigError("try", topic, f"there is no such topic on {link.source.alias}")
    committed = link.fetch.read_committed
    places = [TopicPartition(topic, number) for number in range(len(found.partitions))]
    ends = source.list_offsets(places, LATEST, read_committed=committed)
    since = source.list_offsets(places, EARLIEST if start is None else start)
    read: list[_Read] = []
    for at in places:
        first, end = _offset(since[at]), _offset(ends[at])
        if first is None or end is None or first >= end:
            continue
        if start is None:
            read += _newest(source, at, first, end, limit, committed)
        else:
            read += _first(source, at, first, limit, committed)
    read.sort(key=lambda one: (_time(one), one.at, one.offset))
    return read[:limit] if start is not None else read[-limit:]


def _offset(answer: OffsetAt | CausewayError) -> int | None:
    if isinstance(answer, CausewayError):
        raise answer
    return answer.offset if answer.offset >= 0 else None


def _time(one: _Read) -> int:
    return one.content.timestamp if one.content else -1


def _newest(
    source: Cluster, at: TopicPartition, first: int, end: int, limit: int, committed: bool
) -> list[_Read]:
    """Looks further back where markers and gaps leave fewer records than offsets."""
    back = limit
    while True:
        position = max(first, end - back)
        found = list(_records(source, at, position, committed))[-limit:]
        if len(found) == limit or position == first:
            return found
        back *= 8


def _first(
    source: Cluster, at: TopicPartition, position: int, limit: int, committed: bool
) -> list[_Read]:
    found: list[_Read] = []
    for one in _records(source, at, position, committed):
        found.append(one)
        if len(found) == limit:
            break
    return found


def _records(
    source: Cluster, at: TopicPartition, position: int, committed: bool
) -> Iterator[_Read]:
    for batch in relayed(source, at, position, read_committed=committed):
        try:
            records: Sequence[Any] = records_of(batch)
        except ProtocolError:
            records = [None] * batch.records
        for index, record in enumerate(records):
            content = None
            if record is not None:
                content = Content(
                    timestamp=-1 if record.timestamp is None else record.timestamp,
                    key=record.key,
                    value=record.value,
                    headers=tuple(record.headers),
                )
            yield _Read(at, batch.source_offset(index), content, batch)


# -- treating


class _Trials:
    def __init__(self, session: Any, query: Any, transform: TransformSettings) -> None:
        self._session = session
        self._query = query
        self._secrets = {name: value.reveal() for name, value in transform.secrets.items()}
        self._registry = transform.registry

    def of(self, records: Sequence[_Read]) -> tuple[Tried, ...]:
        """All at once; where the query throws, half of them each, down to those that it is for."""
        from causeway.transform.stage import explain

        if not records:
            return ()
        try:
            after = self._apply(records)
        except Exception as error:
            if len(records) > 1:
                half = len(records) // 2
                return self.of(records[:half]) + self.of(records[half:])
            return (_tried(records[0], (), Outcome.FAILS, explain(error)),)
        return tuple(self._judged(one, after[one.at, one.offset]) for one in records)

    def _judged(self, one: _Read, rows: Sequence[Any]) -> Tried:
        reason = next((row["_reason"] for row in rows if row["_reason"] is not None), None)
        if reason is not None:
            return _tried(one, (), Outcome.REFUSED, reason)
        made = tuple(_content(row) for row in rows)
        if not made:
            return _tried(one, (), Outcome.DROPPED)
        return _tried(one, made, Outcome.SAME if made == (one.content,) else Outcome.CHANGED)

    def _apply(
        self, records: Sequence[_Read]
    ) -> defaultdict[tuple[TopicPartition, int], list[Any]]:
        """The rows that come out, by the record that they come from."""
        import pyarrow as pa

        from causeway.transform.schemas import encoded

        batches = list(self._batches(records))

        # As a stage does: what is secret reaches a worker in its closure, never a plan.
        def given(start: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in start:
                pass
            yield from batches

        rows = self._session.range(0, 1, 1, 1).mapInArrow(given, self._query.input)
        made = self._query.apply(rows).toArrow()
        if (schemas := self._schemas(self._query.encodes)) is not None:
            topic = records[0].at.topic
            made = pa.Table.from_batches(
                [encoded(batch, schemas, topic) for batch in made.to_batches()], made.schema
            )
        after: defaultdict[tuple[TopicPartition, int], list[Any]] = defaultdict(list)
        # A chunk is a partition here: what comes out may have lost its own.
        partitions = {one.at.partition: one.at for one in records}
        for row in made.to_pylist():
            if row["offset"] is not None:
                after[partitions[row["_chunk"]], row["offset"]].append(row)
        return after

    def _schemas(self, formats: Mapping[str, str]) -> Schemas | None:
        """For the parts whose formats these are."""
        from causeway.transform.registry import Registry
        from causeway.transform.schemas import Schemas

        if not formats or self._registry is None:
            return None
        return Schemas(Registry(self._registry.as_json()), formats)

    def _batches(self, records: Sequence[_Read]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        from causeway.transform.channel import Chunk
        from causeway.transform.rows import TEXTS
        from causeway.transform.source_worker import Rows

        texts = [name for name in TEXTS.values() if name in self._query.input.names]
        rows = Rows(self._secrets, texts, self._schemas(self._query.decodes))
        by_partition: dict[TopicPartition, list[_Read]] = {}
        for one in records:
            by_partition.setdefault(one.at, []).append(one)
        for at, found in by_partition.items():
            batches = tuple({one.batch.first: one.batch for one in found}.values())
            chunk = Chunk(at.partition, at.topic, at.partition, batches[-1].next, batches)
            offsets = pa.array([one.offset for one in found], pa.int64())
            for batch in rows.of(chunk):
                kept = batch.filter(pc.is_in(batch.column("offset"), offsets))
                if kept.num_rows:
                    yield kept


def _tried(
    one: _Read, after: tuple[Content, ...], outcome: Outcome, reason: str | None = None
) -> Tried:
    return Tried(
        at=one.at,
        offset=one.offset,
        before=one.content,
        after=after,
        outcome=outcome,
        reason=reason,
    )


def _content(row: Any) -> Content:
    stamp = row["timestamp"]
    return Content(
        timestamp=-1 if stamp is None else round(stamp.timestamp() * 1000),
        key=row["key"],
        value=row["value"],
        headers=tuple((one["key"], one["value"]) for one in row["headers"] or ()),
        topic=row["topic"],
        partition=row["partition"],
    )


def as_json(trial: Trial) -> dict[str, Any]:
    """For `--json`: what is not UTF-8 is `{"base64": …}`."""
    transform = trial.transform
    return {
        "link": trial.link.name,
        "topic": trial.topic,
        "transform": transform and transform.name,
        "kind": transform and transform.kind,
        "sql": trial.sql,
        "records": [
            {
                "partition": one.at.partition,
                "offset": one.offset,
                "outcome": one.outcome,
                "reason": one.reason,
                "before": one.before and _content_json(one.before),
                "after": [
                    {
                        **_content_json(made),
                        "topic": target_topic(trial, made),
                        "partition": made.partition,
                    }
                    for made in one.after
                ],
            }
            for one in trial.records
        ],
    }


def target_topic(trial: Trial, made: Content) -> str:
    """On the target, by the link's policy."""
    policy, alias = trial.link.policy, trial.link.source.alias
    return policy.format_remote_topic(alias, made.topic or trial.topic)


def _content_json(content: Content) -> dict[str, Any]:
    return {
        "timestamp": content.timestamp,
        "key": _bytes_json(content.key),
        "value": _bytes_json(content.value),
        "headers": [[name, _bytes_json(value)] for name, value in content.headers],
    }


def _bytes_json(data: bytes | None) -> Any:
    import base64

    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
