"""Tries a transform on existing records: reads them from the source, and runs Spark on this
machine. Writes nothing, and does not need the target."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from causeway.operate.try_transform.trials import (
    Content,
    Decoded,
    OnStep,
    Read,
    Trials,
    Tried,
    content_of,
)
from causeway.records import records_of
from causeway.relay import new_secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`transform`: None if the link relays `topic` unchanged; then nothing was tried."""

    link: LinkSettings
    topic: str
    transform: TransformSettings | None
    sql: str | None
    records: tuple[Tried, ...]


def try_out(
    settings: Settings,
    topic: str,
    *,
    limit: int,
    on_step: OnStep,
    link: str | None = None,
    start: int | None = None,
) -> Trial:
    """Tries the transform of `link` (default: the only link with a transform for `topic`) on the
    newest `limit` records of the topic, or on the first ones since `start` (ms). Raises
    CausewayError; ConfigError for an invalid transform."""
    chosen = _choose(settings, topic, link)
    transform = chosen.transform_of(topic)
    if transform is None:
        return Trial(link=chosen, topic=topic, transform=None, sql=None, records=())
    on_step(f"reading {topic} of {chosen.source.alias}")
    with clusters() as connect:
        records = _read(connect(chosen.source), chosen, topic, limit, start)
    on_step("starting Spark")
    with local_spark(settings.spark) as session:
        query = prepared(session, transform)
        on_step(f"trying {transform.name}")
        tried = Trials(session, query, transform, on_step, Routes.of(chosen)).of(records)
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
    """Returns the records by timestamp and offset."""
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
    """Reads from an earlier offset if markers and gaps leave fewer records than offsets."""
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
            content = None if record is None else content_of(record)
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
    """Yields a SparkSession on this machine; its JVM ends with the block. Of `conf` (from the file)
    only the settings count that change the meaning of a query or the classes that it may use. Spark
    encrypts its files (closures above 1 MB are written to disk), and its log, which quotes records,
    is off. Raises PrerequisiteError."""
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
        # This JVM ends before optimised compilation would save time.
        java_options=f" -XX:TieredStopAtLevel=1{archive_option()}",
        staged=1,
    )
    spark.start()
    try:
        yield spark.session
    finally:
        spark.stop()


def prepared(session: Any, transform: TransformSettings) -> Any:
    """Returns the prepared query (transform.plan). Raises ConfigError with all errors of the text,
    or if the schema registry does not answer."""
    from causeway.schemas import check_registry
    from causeway.transform.plan import prepare

    if transform.registry is not None:
        check_registry(transform.registry)
    return prepare(session, transform)


# -- JSON


def as_json(trial: Trial) -> dict[str, Any]:
    """Returns JSON for `--json`. Data with a known schema is `{"schema_id": …, "json": …}`; other
    data that is not UTF-8 is `{"base64": …}`."""
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
    """Returns the topic on the target, by the policy of the link."""
    policy, alias = trial.link.policy, trial.link.source.alias
    return policy.format_remote_topic(alias, made.topic or trial.topic)


def _content_json(content: Content) -> dict[str, Any]:
    return {
        "timestamp": content.timestamp,
        "key": _part_json(content.key, content.decoded.get("key")),
        "value": _part_json(content.value, content.decoded.get("value")),
        "headers": [[name, _bytes_json(value)] for name, value in content.headers],
    }


def _part_json(data: bytes | None, decoded: Decoded | None) -> Any:
    if decoded is None:
        return _bytes_json(data)
    return {"schema_id": decoded.schema, "json": json.loads(decoded.json)}


def _bytes_json(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
