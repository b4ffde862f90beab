"""Archives topics as Parquet files by day, each record once; restoring.py writes them back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from causeway.cluster import EARLIEST, LATEST, Cluster, TopicMetadata, offsets_at, value_of
from causeway.config import ClientSettings, LinkSettings, Settings, links_of
from causeway.errors import ConfigError, DivergedError
from causeway.filters import Verdict
from causeway.model import TopicPartition, same_topic
from causeway.operate.archive.store import ArchivedRange, ArchivedTopic, Manifest, Store, ends
from causeway.patterns import Pattern

Say = Callable[[str], None]
_OFFSETS_A_TASK = 2_000_000
_HADOOP_UMASK = 0o022
# Computed from the read records and from the written files; both results must agree.
_CONTENT = "unix_micros(timestamp), key IS NULL, key, value IS NULL, value, headers"
DIGEST = f"sum(cast(xxhash64(`offset`, {_CONTENT}) AS DECIMAL(38, 0)))"
# The same with the index of the record in its partition instead of its offset.
ORDER_DIGEST = f"sum(cast(xxhash64(n, {_CONTENT}) AS DECIMAL(38, 0)))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The additions of one run. `number`: None if there was nothing new."""

    number: int | None
    records: int
    topics: int
    files: int


def cluster_of(settings: Settings, alias: str | None, *, to_write: bool = False) -> ClientSettings:
    """Returns the cluster `alias`, or the file's source if it has only one. If the cluster is a
    source and a target, it has the settings of a source; with `to_write`, those of a target. Raises
    ConfigError."""
    sources = {link.source.alias: link.source for link in settings.links}
    targets = {link.target.alias: link.target for link in settings.links}
    known = sources | targets if to_write else targets | sources
    if alias is None and len(sources) == 1:
        return next(iter(sources.values()))
    names = ", ".join(sorted(known))
    if alias is None:
        raise ConfigError("use", "--cluster", f"name one of {names}")
    if alias not in known:
        cause = f"the file names no cluster {alias}, only {names}"
        raise ConfigError("use", f"--cluster {alias}", cause)
    return known[alias]


@contextmanager
def spark_session(settings: Settings) -> Iterator[Any]:
    """Yields a session with the file's `spark.*` and the causeway source. Raises
    PrerequisiteError."""
    from causeway.daemon.spark import Spark, cores_of
    from causeway.relay import new_secret

    cores = cores_of(settings.spark)
    conf = {
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.task.maxFailures": "4",
        **_file_modes(),
    }
    master = {"spark.master": str(settings.spark.get("spark.master", "local[*]"))}
    if master["spark.master"].startswith("local"):
        conf["spark.driver.memory"] = "1g"
        master["spark.master"] = f"local[{cores or 1},4]"
    spark = Spark(
        {**conf, **settings.spark, **master}, cores, new_secret(), on_lane_ended=lambda *_: None
    )
    spark.start()
    try:
        from causeway.spark import CausewayDataSource

        session = spark.session
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        session.dataSource.register(CausewayDataSource)
        yield session
    finally:
        spark.stop()


def _file_modes() -> dict[str, str]:
    """Returns settings that give Hadoop the umask of the process, if it is stricter than Hadoop's:
    archived files must not be readable by more users than other files of this user."""
    mask = os.umask(0o077)
    os.umask(mask)
    strict = mask & ~_HADOOP_UMASK
    return (
        {"spark.hadoop.fs.permissions.umask-mode": f"{mask | _HADOOP_UMASK:03o}"} if strict else {}
    )


def archive(
    settings: Settings,
    file: Path,
    path: str,
    *,
    alias: str | None,
    link: str | None,
    patterns: tuple[Pattern, ...],
    allow_loss: bool = False,
    say: Say = lambda _: None,
) -> Archived:
    """Adds new committed records of the topics to the archive at `path`.

    `patterns`: of topics; if there are none, the topics that the flow mirrors. `allow_loss`:
    continues if records were deleted before they were archived. Raises CausewayError; then the
    archive is unchanged.
    """
    if link is not None:
        if alias is not None:
            raise ConfigError("use", "--link and --cluster", "give one of them")
        links = links_of(settings, link, "archive")
        alias = links[0].source.alias
    client = cluster_of(settings, alias)
    if link is None:
        links = tuple(one for one in settings.links if one.source.alias == client.alias)
    with Cluster(client) as cluster:
        found = _topics(cluster, links, patterns)
        if not found:
            raise ConfigError("archive", str(client.alias), "no topic is selected")
        say(f"{len(found)} topics of {client.alias} to archive")
        with spark_session(settings) as spark:
            store = Store(spark, path)
            store.id(create=True)
            done = store.manifests()
            store.settle(done)
            planned = _plan(cluster, found, done, allow_loss)
            return _run(spark, store, cluster, file, client.alias, planned, done, say)


def _topics(
    cluster: Cluster, links: Collection[LinkSettings], patterns: tuple[Pattern, ...]
) -> list[TopicMetadata]:
    def is_selected(topic: TopicMetadata) -> bool:
        if patterns:
            return not topic.internal and any(one.matches(topic.name) for one in patterns)
        return any(link.decide_topic(topic.name).verdict is Verdict.MIRRORED for link in links)

    selected = [each for _, each in sorted(cluster.metadata().topics.items()) if is_selected(each)]
    for topic in selected:
        if topic.error is not None:
            raise topic.error
    return selected


def _plan(
    cluster: Cluster, topics: Collection[TopicMetadata], done: list[Manifest], allow_loss: bool
) -> dict[str, ArchivedTopic]:
    """Returns the topics and offsets of the run. Raises DivergedError if they do not follow the
    archive."""
    tps = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
    starts, stops = (
        {tp: value_of(offset) for tp, offset in found.items()}
        for when in (EARLIEST, LATEST)
        for found in [offsets_at(cluster, tps, when, read_committed=True)]
    )
    archived = ends(done)
    ids = {name: topic.topic_id for one in done for name, topic in one.topics.items()}
    configs = cluster.describe_configs([topic.name for topic in topics])
    planned = {}
    for topic in topics:
        before = ids.get(topic.name)
        if not same_topic(before, topic.topic_id):
            raise DivergedError(
                "archive",
                topic.name,
                "it was deleted and recreated after it was archived",
                remedy="start another archive",
            )
        shares = {}
        for index in sorted(topic.partitions):
            tp = TopicPartition(topic.name, index)
            start, first = archived.get(tp), starts[tp]
            if start is not None and (start < first or stops[tp] < start) and not allow_loss:
                cause = f"it is archived up to offset {start}, and its log now goes from {first} to"
                cause += f" {stops[tp]}: records are missing in between"
                remedy = "--allow-loss continues without them"
                raise DivergedError("archive", str(tp), cause, remedy=remedy)
            begin = first if start is None else max(start, first)
            shares[index] = ArchivedRange(start=begin, end=max(begin, stops[tp]))
        planned[topic.name] = ArchivedTopic(
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            configs={
                name: entry.value
                for name, entry in value_of(configs[topic.name]).items()
                if entry.source == "DYNAMIC_TOPIC_CONFIG" and entry.value is not None
            },
            shares=shares,
        )
    return planned


def _run(
    spark: Any,
    store: Store,
    cluster: Cluster,
    file: Path,
    alias: str,
    planned: Mapping[str, ArchivedTopic],
    done: list[Manifest],
    say: Say,
) -> Archived:
    """Stages the files, compares them with the records that were read, and adds the run."""
    new = {
        TopicPartition(name, index): share
        for name, topic in planned.items()
        for index, share in topic.shares.items()
        if share.end > share.start
    }
    known = {name for one in done for name in one.topics}
    if not new and known >= planned.keys():
        say("nothing new since the last run")
        return Archived(number=None, records=0, topics=len(planned), files=0)
    number = done[-1].number + 1 if done else 1
    offsets = sum(share.end - share.start for share in new.values())
    say(f"run {number}: {offsets} offsets of {len(new)} partitions")
    found: dict[TopicPartition, tuple[int, int]] = {}
    if new:
        seen = _stage(spark, file, alias, new, store.staging(number))
        found = _read_back(spark, store.staging(number))
        together = (sum(n for n, _ in found.values()), sum(d for _, d in found.values()))
        if seen != together:
            raise DivergedError(
                "archive",
                store.path,
                f"{seen[0]} records were read and {together[0]} are in the files, or their"
                " digests differ: this run is not added",
                remedy="run it again",
            )
    nothing = 0, 0
    topics = {
        name: replace(
            topic,
            shares={
                index: replace(share, records=records, digest=digest)
                for index, share in topic.shares.items()
                for records, digest in [found.get(TopicPartition(name, index), nothing)]
            },
        )
        for name, topic in planned.items()
    }
    files = tuple(sorted(store.staged_files(number).values()))
    cluster_id = cluster.metadata([]).cluster_id
    manifest = Manifest(number=number, cluster_id=cluster_id, topics=topics, files=files)
    store.add(manifest)
    store.settle([manifest])
    records = sum(count for count, _ in found.values())
    say(f"run {number}: {records} records in {len(files)} files, counts and digests agree")
    return Archived(number=number, records=records, topics=len(planned), files=len(files))


def _stage(
    spark: Any, file: Path, alias: str, new: Mapping[TopicPartition, ArchivedRange], where: str
) -> tuple[int, int]:
    """Writes the records. Returns the number and digest of the records as they were read."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    def by_topic(of: Mapping[TopicPartition, int]) -> str:
        nested: dict[str, dict[str, int]] = {}
        for tp, offset in of.items():
            nested.setdefault(tp.topic, {})[str(tp.partition)] = offset
        return json.dumps(nested)

    assigned: dict[str, list[int]] = {}
    for tp in new:
        assigned.setdefault(tp.topic, []).append(tp.partition)
    offsets = sum(share.end - share.start for share in new.values())
    frame = (
        reader(spark, file, alias)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", by_topic({tp: share.start for tp, share in new.items()}))
        .option("endingOffsets", by_topic({tp: share.end for tp, share in new.items()}))
        .option("minPartitions", str(max(len(new), offsets // _OFFSETS_A_TASK)))
        .load()
    )
    seen = Observation()
    (
        frame.observe(seen, f.count(f.lit(1)).alias("records"), f.expr(DIGEST).alias("digest"))
        .withColumn("day", f.date_format("timestamp", "yyyy-MM-dd"))
        # In the order of the writer, and by offset, so that a range can be read alone.
        .sortWithinPartitions("topic", "day", "partition", "offset")
        .write.partitionBy("topic", "day")
        .option("compression", "zstd")
        .mode("overwrite")
        .parquet(where)
    )
    found = seen.get
    return int(found["records"]), int(found["digest"] or 0)


def reader(spark: Any, file: Path, alias: str) -> Any:
    """Reads topics of the cluster `alias`."""
    return (
        spark.read.format("causeway")
        .option("config", str(file.absolute()))
        .option("cluster", alias)
        .option("includeHeaders", "true")
        .option("headerKeys", "binary")
    )


def _read_back(spark: Any, where: str) -> dict[TopicPartition, tuple[int, int]]:
    frame = spark.read.schema(f"{COLUMNS}, topic STRING, day STRING").parquet(where)
    found = totals(frame, DIGEST, "topic", "partition")
    return {TopicPartition(*key): total for key, total in found.items()}


def totals(frame: Any, digest: str, *keys: str) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Returns the number of records and their digest, by the columns `keys`."""
    from pyspark.sql import functions as f

    records = f.count(f.lit(1)).alias("records")
    rows = frame.groupBy(*keys).agg(records, f.expr(digest).alias("digest")).collect()
    return {
        tuple(row[key] for key in keys): (int(row.records), int(row.digest or 0)) for row in rows
    }


# The columns that a restore reads.
COLUMNS = (
    "key BINARY, value BINARY, partition INT, offset LONG, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: BINARY, value: BINARY>>"
)
