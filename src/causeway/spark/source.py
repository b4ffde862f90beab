"""Spark's data source `format("causeway")`: reads for `spark.read` and `spark.readStream`, and
makes the writers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from causeway.cluster import EARLIEST, LATEST, Cluster
from causeway.errors import BrokerError, ConfigError
from causeway.model import TopicPartition
from causeway.spark import columns
from causeway.spark import log as ranges
from causeway.spark.log import Offsets, ReadRange, read_range
from causeway.spark.options import Options, connection, read_options, refuse_secrets
from causeway.spark.writer import BatchWriter, StreamWriter
from causeway.wire import Deadline

if TYPE_CHECKING:
    import pyarrow as pa

Nested = Mapping[str, Mapping[str, int]]  # topic -> partition (as text) -> offset


class ReadTask(InputPartition):  # type: ignore[misc]
    """The range that one task reads; None if there is nothing to read."""

    def __init__(self, value: ReadRange | None) -> None:
        super().__init__(value)


class _SparkReader:
    """The common part of batch and stream readers. Pickled to executors, so it has options and
    never resolved secrets."""

    def __init__(self, options: Options, schema: StructType, *, streaming: bool) -> None:
        self._raw = dict(options)
        self._options = read_options(self._raw, streaming=streaming)
        columns.check_schema(schema, self._options)
        self._schema = schema

    def _open(self) -> Cluster:
        return Cluster(connection(self._raw, "read"))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part: ReadRange | None = partition.value
        if part is None:
            return
        with self._open() as cluster:
            runs = read_range(
                cluster,
                part.tp,
                part.start,
                part.end,
                read_committed=self._options.read_committed,
                fail_on_data_loss=self._options.fail_on_data_loss,
            )
            schema = columns.arrow_schema(self._schema)
            late_is_null = self._options.late_is_null
            yield from columns.batches(part.tp, runs, schema, late_is_null=late_is_null)


class BatchReader(_SparkReader, DataSourceReader):  # type: ignore[misc]
    """Reads the offsets that exist when the query is planned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema, streaming=False)
        self._filters: list[Filter] = []

    @property
    def pushes_filters(self) -> bool:
        return self._options.push_filters

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with self._open() as cluster:
            tps = ranges.partitions_of(cluster, options)
            # For all partitions, because options name each partition, needed by the query or not.
            start = ranges.resolved(cluster, tps, options.start, options)
            end = ranges.resolved(cluster, tps, options.end, options)
            tps = [tp for tp in tps if all(_may_hold(tp, one) for one in self._filters)]
            after = _earliest_time(self._filters)
            if after is not None:
                found = ranges.looked_up(cluster, tps, after, options.read_committed)
                start = {
                    tp: max(start[tp], found[tp]) if found[tp] >= 0 else start[tp] for tp in tps
                }
        whole = [
            _narrowed(ReadRange(tp=tp, start=start[tp], end=end[tp]), self._filters) for tp in tps
        ]
        parts = ranges.split(whole, options.min_partitions)
        return [ReadTask(part) for part in parts] or [ReadTask(None)]


class FilteringReader(BatchReader):
    """If Spark pushes filters down (`spark.sql.python.filterPushdown.enabled`), partitions, offsets
    and times that cannot match are not read. Spark still filters each record."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's
        self._filters = list(filters)
        return filters


def _may_hold(tp: TopicPartition, one: Filter) -> bool:
    column = getattr(one, "attribute", ("",))
    if column not in (("topic",), ("partition",)):
        return True
    own: Any = tp.topic if column == ("topic",) else tp.partition
    if isinstance(one, EqualTo):
        return bool(own == one.value)
    return not isinstance(one, In) or own in one.value


def _narrowed(part: ReadRange, filters: Iterable[Filter]) -> ReadRange:
    start, end = part.start, part.end
    for one in filters:
        if getattr(one, "attribute", None) != ("offset",):
            continue
        match one:
            case EqualTo(value=value):
                start, end = max(start, value), min(end, value + 1)
            case GreaterThan(value=value):
                start = max(start, value + 1)
            case GreaterThanOrEqual(value=value):
                start = max(start, value)
            case LessThan(value=value):
                end = min(end, value)
            case LessThanOrEqual(value=value):
                end = min(end, value + 1)
    return ReadRange(tp=part.tp, start=start, end=max(start, end))


def _earliest_time(filters: Iterable[Filter]) -> int | None:
    """Returns a time (ms): records before the first record of this time cannot match. A broker
    finds the first record that is not earlier, so all records before that record are earlier."""
    found = [
        int(one.value.timestamp() * 1000)
        for one in filters
        if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual)
        and one.attribute == ("timestamp",)
        and isinstance(one.value, datetime)
        and one.value.tzinfo is not None
    ]
    return max((at for at in found if at >= 0), default=None)


class StreamReader(_SparkReader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Offsets are `{topic: {partition: next offset}}`, as in Spark's own source."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema, streaming=True)
        self._cluster: Cluster | None = None
        self._most: Offsets | None = None  # the ends, if a query reads only present records

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cluster": None}

    def _driver(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._open()
        return self._cluster

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's, as below
        cluster = self._driver()
        tps = ranges.partitions_of(cluster, self._options)
        return _nested(ranges.resolved(cluster, tps, self._options.start, self._options))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._most = self._ends()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return _nested(self._ends())

    def latestOffset(self, start: Nested, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begun = _flat(start)
        ends = self._most if self._most is not None else self._ends()
        new = [tp for tp in ends if tp not in begun]
        cluster = self._driver()
        begun |= ranges.looked_up(cluster, new, EARLIEST, False)
        gone = sorted(tp for tp in begun if tp not in ends)
        if gone and self._most is None and self._options.fail_on_data_loss:
            raise BrokerError(
                "read",
                str(gone[0]),
                "it was read, and does not exist any more",
                code=3,
                name="UNKNOWN_TOPIC_OR_PARTITION",
                remedy="set option failOnDataLoss to false to read the remaining partitions",
            )
        short = {tp: begun[tp] for tp, at in ends.items() if at < begun[tp]}
        if short and self._options.fail_on_data_loss:
            self._await_ends(short)
        ends |= short  # offsets never decrease
        if isinstance(limit, ReadMaxRows):
            ends = ranges.limited(begun, ends, limit.max_rows)
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        if most_bytes is not None and not isinstance(limit, ReadAllAvailable):
            ends = ranges.limited_by_bytes(cluster, begun, ends, most_bytes)
        return _nested({tp: at for tp, at in begun.items() if tp in gone and self._most} | ends)

    def _await_ends(self, least: Offsets) -> None:
        """Waits for the ends, because a new leader may not know its end yet. Raises BrokerError if
        the log still ends before `least`: records up to there would never be read."""
        cluster = self._driver()

        def look() -> None:
            found = ranges.looked_up(cluster, least, LATEST, self._options.read_committed)
            for tp, at in found.items():
                if at < least[tp]:
                    raise BrokerError(
                        "read",
                        str(tp),
                        f"it was read up to offset {least[tp]}, and its log now ends at {at}: it"
                        " was truncated or recreated",
                        code=-1,
                        name="BEHIND",
                        retriable=True,
                        remedy="begin with another checkpoint; with option failOnDataLoss = false"
                        " a stream goes on once the log is past that offset",
                    )

        cluster.retry(Deadline(cluster.timeout_s), look)

    def _ends(self) -> Offsets:
        cluster = self._driver()
        tps = ranges.partitions_of(cluster, self._options)
        return ranges.looked_up(cluster, tps, LATEST, self._options.read_committed)

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        begun, ends = _flat(start), _flat(end)
        new = [tp for tp in ends if tp not in begun]
        begun |= ranges.looked_up(self._driver(), new, EARLIEST, False)
        whole = [ReadRange(tp=tp, start=begun[tp], end=at) for tp, at in ends.items()]
        return [ReadTask(part) for part in ranges.split(whole, self._options.min_partitions)]

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


def _nested(offsets: Offsets) -> dict[str, Any]:
    found: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def _flat(offsets: Nested) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, parts in offsets.items()
        for partition, offset in parts.items()
    }


class CausewayDataSource(DataSource):  # type: ignore[misc]
    """Records of Kafka topics as rows, and rows as records.

    `spark.dataSource.register(CausewayDataSource)`, then `format("causeway")`.
    docs/spark-sources.md describes the options. Errors are CausewayErrors; ConfigError names the
    option."""

    @classmethod
    def name(cls) -> str:
        return "causeway"

    def schema(self) -> StructType:
        # The columns are the same for batches and streams, which cannot be distinguished here.
        return columns.whole_schema(read_options(self._checked(), streaming=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = BatchReader(self._checked(), schema)
        return FilteringReader(self.options, schema) if reader.pushes_filters else reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        return StreamReader(self._checked(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(self._checked(overwrite and "mode overwrite"), schema)

    def streamWriter(  # noqa: N802 - Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return StreamWriter(self._checked(overwrite and "output mode complete"), schema)

    def _checked(self, mode: str | bool = False) -> Options:
        """Returns the options. `mode`: of a write that replaces records."""
        refuse_secrets(self.options)
        if mode:
            raise ConfigError("write", str(mode), "records are only added: use append")
        found: Options = self.options
        return found
