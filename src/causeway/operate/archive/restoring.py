"""Restores the topics of an archive to a cluster: key, value, headers, timestamp and partition, in
order, each record once.

Records are written in chunks. Each chunk is one batch of the causeway sink under a name made of the
archive and the topic. So an interrupted restore continues at its last chunk, and records that are
already there are not written again (spark/ledger.py). Chunks are cut by source offsets, run by run:
the same archive always gives the same chunks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from causeway.cluster import EARLIEST, LATEST, Cluster, NewTopic, offsets_at, value_of
from causeway.config import Settings
from causeway.control import topic_configs
from causeway.errors import (
    AuthenticationError,
    BrokerError,
    CausewayError,
    ConfigError,
    DivergedError,
    PartitionsFailedError,
    UnreachableError,
)
from causeway.model import TopicPartition
from causeway.operate.archive.archiving import (
    COLUMNS,
    ORDER_DIGEST,
    Say,
    cluster_of,
    reader,
    spark_session,
    totals,
)
from causeway.operate.archive.store import ArchivedTopic, Manifest, Store
from causeway.patterns import Pattern
from causeway.wire import codes

CHUNK_OFFSETS = 2_000_000  # of all partitions of a topic; a chunk is one transaction for each task
_LEAST_OFFSETS = 20_000  # of one partition
_WHILE = {  # during a restore; the topic's own settings are set at the end
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    # Records may be larger than the limit: the topic's may have changed, or was that of a broker.
    "max.message.bytes": str(2**31 - 1),
    # Records keep their timestamps, even if the source or target uses LogAppendTime.
    topic_configs.TIMESTAMP_TYPE: "CreateTime",
}
# Errors of Spark tasks arrive as text.
_IN_A_TASK = re.compile(r"^causeway\.errors\.\w+: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """`compared`: counts and digests of each partition agree. False: the topic had other records
    before, so they were not compared."""

    topic: str
    records: int
    chunks: int
    compared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChunk:
    """The records with source offsets from `start` up to `end` of each partition."""

    number: int
    run: int
    ranges: Mapping[int, tuple[int, int]]


def restore(
    settings: Settings,
    file: Path,
    path: str,
    *,
    alias: str,
    patterns: tuple[Pattern, ...],
    into_existing: bool = False,
    replication_factor: int = -1,
    say: Say = lambda _: None,
) -> list[Restored]:
    """Restores the topics of the archive at `path` that match `patterns` (all if there are none) to
    cluster `alias`.

    Creates missing topics. Without `into_existing`, topics with records from elsewhere are refused
    before anything is written. If one topic fails, the next ones are still restored, and
    PartitionsFailedError names all that failed. Raises CausewayError.
    """
    client = cluster_of(settings, alias, to_write=True)
    with Cluster(client) as cluster, spark_session(settings) as spark:
        store = Store(spark, path)
        archive_id = store.id(create=False)
        manifests = store.manifests()
        store.settle(manifests)
        names = sorted({name for one in manifests for name in one.topics})
        names = [n for n in names if not patterns or any(one.matches(n) for one in patterns)]
        if not names:
            raise ConfigError("restore", store.path, "the archive holds no such topic")
        work = _Restore(spark, store, manifests, cluster, file, alias, archive_id, say)
        foreign = {name for name in names if work.holds_others(name)}
        if foreign and not into_existing:
            cause = f"already on {alias}, with records that are not from this archive"
            remedy = "delete or rename them, or add records to them with --into-existing"
            raise DivergedError("restore", ", ".join(sorted(foreign)), cause, remedy=remedy)
        return work.restore_all(names, replication_factor, foreign)


def chunks_of(manifests: Collection[Manifest], topic: str) -> Iterator[RestoreChunk]:
    """Yields the chunks in the order of writing."""
    number = 0
    for manifest in manifests:
        found = manifest.topics.get(topic)
        if found is None:
            continue
        step = max(_LEAST_OFFSETS, CHUNK_OFFSETS // max(1, found.partitions))
        shares = {p: share for p, share in found.shares.items() if share.records}
        longest = max((share.end - share.start for share in shares.values()), default=0)
        for begin in range(0, longest, step):
            ranges = {
                p: (share.start + begin, min(share.end, share.start + begin + step))
                for p, share in shares.items()
                if share.start + begin < share.end
            }
            yield RestoreChunk(number=number, run=manifest.number, ranges=ranges)
            number += 1


@dataclass
class _Restore:
    spark: Any
    store: Store
    manifests: list[Manifest]
    cluster: Cluster
    file: Path
    alias: str
    archive_id: str
    say: Say

    def _name(self, topic: str, foreign: bool) -> str:
        """Returns the name of the write. Its length does not depend on the topic's name."""
        named = hashlib.sha256(f"{self.archive_id} {topic}".encode()).hexdigest()[:32]
        return f"{'add' if foreign else 'restore'}-{named}"

    def _begun(self, topic: str, foreign: bool) -> int | None:
        """Returns the number of the last committed chunk; None if there is none."""
        from causeway.spark import marks, write_name

        name = write_name(self._name(topic, foreign))
        mark = marks(self.cluster, [name]).get(name)
        return None if mark is None else mark.batch

    def holds_others(self, topic: str) -> bool:
        """Returns whether the topic exists and has records that are not from this archive."""
        found = self.cluster.metadata([topic]).topics[topic]
        if found.error is not None:
            if isinstance(found.error, BrokerError) and (
                found.error.code == codes.UNKNOWN_TOPIC_OR_PARTITION
            ):
                return False
            raise found.error
        wanted = self._latest(topic).partitions
        if len(found.partitions) != wanted:
            there = f"{len(found.partitions)} partitions on {self.alias}"
            raise DivergedError("restore", topic, f"{there}, {wanted} in the archive")
        if self._begun(topic, foreign=True) is not None:
            return True
        if self._begun(topic, foreign=False) is not None:
            return False
        tps = [TopicPartition(topic, index) for index in found.partitions]
        starts, stops = (offsets_at(self.cluster, tps, when) for when in (EARLIEST, LATEST))
        if all(value_of(starts[tp]) == value_of(stops[tp]) for tp in tps):
            return False
        # A rolled-back attempt leaves offsets without records.
        return bool(self._reading(topic).limit(1).count())

    def _latest(self, topic: str) -> ArchivedTopic:
        return next(m.topics[topic] for m in reversed(self.manifests) if topic in m.topics)

    def restore_all(
        self, topics: Collection[str], replication_factor: int, foreign: Collection[str]
    ) -> list[Restored]:
        """Restores all topics. Raises PartitionsFailedError after all were tried. Raises at once if
        no broker answers or the login is refused, because then all topics would fail."""
        from pyspark.errors import PySparkException

        done, failed = [], []
        for name in topics:
            try:
                done.append(self.restore(name, replication_factor, name in foreign))
            except (UnreachableError, AuthenticationError):
                raise
            except CausewayError as error:
                failed.append(str(error))
            except PySparkException as error:
                failed.append(f"restore {name}: {_in_words(error)}")
            else:
                continue
            self.say(failed[-1])
        if failed:
            raise PartitionsFailedError(
                "restore",
                f"{len(failed)} of {len(topics)} topics",
                f"{'; '.join(failed)}; {len(done)} of {len(topics)} topics are on {self.alias}",
                remedy="correct the cause and run it again: restored records are not written again",
            )
        return done

    def restore(self, topic: str, replication_factor: int, foreign: bool) -> Restored:
        chunks = list(chunks_of(self.manifests, topic))
        begun = self._begun(topic, foreign)
        if not foreign:
            self._make(topic, replication_factor)
        left = [chunk for chunk in chunks if begun is None or chunk.number >= begun]
        if begun is not None:
            self.say(f"{topic}: continues at chunk {begun + 1} of {len(chunks)}")
        for chunk in left:
            self._write(topic, chunk, foreign)
            self.say(f"{topic}: {chunk.number + 1} of {len(chunks)} chunks")
        records = sum(
            share.records
            for manifest in self.manifests
            if topic in manifest.topics
            for share in manifest.topics[topic].shares.values()
        )
        if not foreign:
            self._compare(topic, records)
            self._settle(topic)
        return Restored(topic=topic, records=records, chunks=len(left), compared=not foreign)

    def _make(self, topic: str, replication_factor: int) -> None:
        """Creates or changes the topic, so that it accepts every record and keeps it until the
        restore ends."""
        archived = self._latest(topic)
        during = self._while(archived)
        if self.cluster.metadata([topic]).topics[topic].error is None:
            error = self.cluster.alter_configs({topic: during})[topic]
        else:
            new = NewTopic(
                name=topic,
                partitions=archived.partitions,
                replication_factor=replication_factor,
                configs={**archived.configs, **during},
            )
            error = self.cluster.create_topics([new])[topic]
            self.cluster.forget([topic])
        if error is not None:
            raise error

    def _while(self, archived: ArchivedTopic) -> dict[str, str]:
        """Returns the settings during a restore. They are the same for each attempt, because the
        last attempt replaces them."""
        broker = self.cluster.broker_configs(min(self.cluster.metadata([]).brokers))
        defaults = topic_configs.topic_defaults(broker)
        needed = topic_configs.needed(dict(archived.configs), defaults)
        known = [name for name in topic_configs.TIMESTAMP_LIMITS if name in defaults]
        return {**needed, **dict.fromkeys(known, str(topic_configs.LONG_MAX)), **_WHILE}

    def _settle(self, topic: str) -> None:
        """Sets the topic's own settings."""
        archived = self._latest(topic)
        names = self._while(archived)
        changes = {name: archived.configs.get(name) for name in names}
        error = self.cluster.alter_configs({topic: changes})[topic]
        if error is not None:
            raise error

    def _files(self, topic: str, run: int) -> list[str]:
        (manifest,) = (one for one in self.manifests if one.number == run)
        start = f"topic={topic}/"
        return [self.store.at(name) for name in manifest.files if name.startswith(start)]

    def _archived(self, topic: str, run: int) -> Any:
        return self.spark.read.schema(COLUMNS).parquet(*self._files(topic, run))

    def _write(self, topic: str, chunk: RestoreChunk, foreign: bool) -> None:
        from pyspark.sql import functions as f

        # First the bounds of all partitions, for Parquet's statistics; then each one's range.
        frame = self._archived(topic, chunk.run).where(
            f.col("offset").between(
                min(start for start, _ in chunk.ranges.values()),
                max(end for _, end in chunk.ranges.values()) - 1,
            )
        )
        ranges = self.spark.createDataFrame(
            [(p, start, end) for p, (start, end) in sorted(chunk.ranges.items())],
            "partition INT, from_offset LONG, to_offset LONG",
        )
        frame = frame.join(f.broadcast(ranges), "partition").where(
            "offset >= from_offset AND offset < to_offset"
        )
        columns = ("key", "value", "headers", "timestamp", "partition")
        (
            frame.repartition(min(len(chunk.ranges), 64), "partition")
            .sortWithinPartitions("partition", "offset")
            .select(*columns)
            .write.format("causeway")
            .mode("append")
            .option("config", str(self.file.absolute()))
            .option("cluster", self.alias)
            .option("topic", topic)
            .option("id", self._name(topic, foreign))
            .option("batch", str(chunk.number))
            .option("kafka.compression.type", "zstd")
            .save()
        )

    def _reading(self, topic: str) -> Any:
        return reader(self.spark, self.file, self.alias).option("subscribe", topic).load()

    def _compare(self, topic: str, records: int) -> None:
        """Raises DivergedError if a partition differs from the archive."""
        if not records:
            return
        runs = [m.number for m in self.manifests if topic in m.topics]
        frames = [self._archived(topic, run) for run in runs if self._files(topic, run)]
        whole = reduce(lambda one, other: one.unionByName(other), frames)
        archived, restored = _by_partition(whole), _by_partition(self._reading(topic))
        if archived != restored:
            ((odd,), _), *_ = sorted(set(archived.items()) ^ set(restored.items()))
            before, now = (each.get((odd,), (0, 0))[0] for each in (archived, restored))
            cause = f"{before} records are archived and {now} are on {self.alias}, or they differ"
            remedy = f"delete the topic on {self.alias} and restore it again"
            raise DivergedError("restore", f"{topic}-{odd}", cause, remedy=remedy)
        self.say(f"{topic}: {records} records, counts and digests of each partition agree")


def _in_words(error: Exception) -> str:
    """Returns the error of the Spark task, or the first line of Spark's exception."""
    found = _IN_A_TASK.findall(str(error))
    return str(found[-1] if found else str(error).partition("\n")[0])


def _by_partition(frame: Any) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Returns the number of records by partition, with a digest of the records and their order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("partition").orderBy("offset")
    return totals(frame.withColumn("n", f.row_number().over(order)), ORDER_DIGEST, "partition")
