"""What a transform makes of records that are there: read from the source, treated by a Spark on
this machine. Writes nothing; the target is not asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from causeway.cluster import EARLIEST, LATEST, Cluster, OffsetAt, clusters, relayed
from causeway.config import (
    LinkSettings,
    Routes,
    Secret,
    Settings,
    TransformSettings,
    is_local,
    links_of,
)
from causeway.errors import CausewayError, ConfigError, ProtocolError
from causeway.model import TopicPartition
from causeway.operate.try_transform.records import Read, Trials
from causeway.operate.try_transform.result import Content, Told, Trial
from causeway.records import records_of
from causeway.relay import new_secret


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
        tried = Trials(session, query, transform, told, Routes.of(chosen)).of(records)
    return Trial(link=chosen, topic=topic, transform=transform, sql=query.sql, records=tried)


def _choose(settings: Settings, topic: str, name: str | None) -> LinkSettings:
    links = links_of(settings, name, "try")
    if name is not None:
        return links[0]
    able = [link for link in links if link.transform_of(topic) is not None]
    if len(able) > 1:
        names = " or ".join(f"'{link.name}'" for link in able)
        raise ConfigError(
            "try", topic, "several flows transform it", remedy=f"choose with --link {names}"
        )
    return (able or list(links))[0]


# -- reading


def _read(
    source: Cluster, link: LinkSettings, topic: str, limit: int, start: int | None
) -> list[Read]:
    """In the order of timestamps; of one partition, of offsets."""
    found = source.metadata([topic]).topics.get(topic)
    if found is None or not found.partitions:
        error = found.error if found is not None else None
        raise error or ConfigError("try", topic, f"there is no such topic on {link.source.alias}")
    committed = link.fetch.read_committed
    places = [TopicPartition(topic, number) for number in range(len(found.partitions))]
    ends = source.list_offsets(places, LATEST, read_committed=committed)
    since = source.list_offsets(places, EARLIEST if start is None else start)
    read: list[Read] = []
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


def _time(one: Read) -> int:
    return one.content.timestamp if one.content else -1


def _newest(
    source: Cluster, at: TopicPartition, first: int, end: int, limit: int, committed: bool
) -> list[Read]:
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
) -> list[Read]:
    found: list[Read] = []
    for one in _records(source, at, position, committed):
        found.append(one)
        if len(found) == limit:
            break
    return found


def _records(source: Cluster, at: TopicPartition, position: int, committed: bool) -> Iterator[Read]:
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
            yield Read(at, batch.source_offset(index), content, batch)


Conf = Mapping[str, str | Secret]
_OWN = {
    "spark.master": "local[2]",
    "spark.io.encryption.enabled": "true",
    "spark.log.level": "OFF",
    "spark.eventLog.enabled": "false",
    "spark.ui.enabled": "false",
}


@contextmanager
def local_spark(conf: Conf) -> Iterator[Any]:
    """A SparkSession, whose JVM ends with the block. Of `conf`, the file's, counts what decides
    what a query means or may use, not where it would run; what Spark puts on disk, as it does with
    a closure of more than 1 MB, is encrypted, and what it says of its own, which quotes records, is
    neither logged nor shown. Raises PrerequisiteError."""
    from causeway.daemon.spark import Spark, archive_option

    local = is_local(conf)
    kept = {
        key: value
        for key, value in conf.items()
        if local or key.startswith(("spark.sql.", "spark.jars", "spark.driver.memory"))
    }
    spark = Spark(
        {**kept, **_OWN},
        None,
        new_secret(),
        on_lane_ended=lambda *_: None,
        # What a stage's JVM compiles well, for weeks, is over here before it is compiled.
        java_options=f" -XX:TieredStopAtLevel=1{archive_option()}",
        staged=1,
    )
    spark.start()
    try:
        yield spark.session
    finally:
        spark.stop()


def prepared(session: Any, transform: TransformSettings) -> Any:
    """An `analysis.Prepared`. Raises ConfigError with all that is wrong with the text, and for a
    schema registry that does not answer."""
    from causeway.schemas import check_registry
    from causeway.transform.plan import prepare

    if transform.registry is not None:
        check_registry(transform.registry)
    return prepare(session, transform)
