"""Takes records through a transform by Spark on this machine, as a stage does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from causeway.config import Routes, TransformSettings
from causeway.model import TopicPartition
from causeway.operate.try_transform.result import Content, Decoded, OnStep, TrialOutcome, Tried
from causeway.records import Batch

if TYPE_CHECKING:
    import pyarrow as pa

    from causeway.transform.schema_formats import Schemas, WorkerRegistry

_EXPLAINED = 20


@dataclass(frozen=True, slots=True)
class Read:
    at: TopicPartition
    offset: int
    content: Content | None
    batch: Batch


class Trials:
    """`on_step` is called while the registry does not answer. `routes`: the topics and partitions
    to which records may go."""

    def __init__(
        self,
        session: Any,
        query: Any,
        transform: TransformSettings,
        on_step: OnStep,
        routes: Routes,
    ) -> None:
        from causeway.transform.stage import quiet

        quiet()
        self._session = session
        self._query = query
        self._routes = routes
        self._secrets = {name: value.reveal() for name, value in transform.secrets.items()}
        self._registry = _registry(transform, on_step)
        self._decoder = self._schemas(_formats(transform))
        self._explained = 0

    def of(self, records: Sequence[Read]) -> tuple[Tried, ...]:
        """Tries all records at once; if the query throws, each half, down to the failing
        records."""
        from causeway.transform.stage import explain

        if not records:
            return ()
        try:
            after = self._apply(records)
        except Exception as error:
            if len(records) > 1:
                half = len(records) // 2
                return self.of(records[:half]) + self.of(records[half:])
            return (self._tried(records[0], (), TrialOutcome.FAILS, explain(error)),)
        return tuple(self._judged(one, after[one.at, one.offset]) for one in records)

    def _judged(self, one: Read, rows: Sequence[Any]) -> Tried:
        from causeway.transform.plan import THROWS

        reason = next((row["_reason"] for row in rows if row["_reason"] is not None), None)
        if reason == THROWS:
            return self._tried(one, (), TrialOutcome.FAILS, self._why(one) or reason)
        led = (self._routes.refusal(row["topic"], row["partition"], one.at) for row in rows)
        reason = reason or next((why for why in led if why is not None), None)
        if reason is not None:
            return self._tried(one, (), TrialOutcome.REFUSED, reason)
        made = tuple(_content(row) for row in rows)
        if not made:
            return self._tried(one, (), TrialOutcome.DROPPED)
        return self._tried(
            one, made, TrialOutcome.SAME if made == (one.content,) else TrialOutcome.CHANGED
        )

    def _why(self, one: Read) -> str | None:
        """The class of the error that the query throws on the record. Only for the first records,
        because each costs one Spark job."""
        from causeway.transform.stage import explain

        self._explained += 1
        if self._explained > _EXPLAINED:
            return None
        try:
            self._apply([one], throws=True)
        except Exception as error:
            return explain(error)
        return None

    def _tried(
        self,
        one: Read,
        after: tuple[Content, ...],
        outcome: TrialOutcome,
        reason: str | None = None,
    ) -> Tried:
        return Tried(
            at=one.at,
            offset=one.offset,
            before=one.content and self._decoded(one.content),
            after=tuple(map(self._decoded, after)),
            outcome=outcome,
            reason=reason,
        )

    def _decoded(self, content: Content) -> Content:
        """`content` with key and value decoded by their schemas."""
        if self._decoder is None:
            return content
        found: dict[str, Decoded] = {}
        for part in self._decoder.formats:
            data = content.key if part == "key" else content.value
            json, _ = self._decoder.decode(part, data, content.headers)
            if data is not None and json is not None:
                found[part] = Decoded(int.from_bytes(data[1:5]), json)
        return replace(content, decoded=found)

    def _apply(
        self, records: Sequence[Read], *, throws: bool = False
    ) -> defaultdict[tuple[TopicPartition, int], list[Any]]:
        """The output rows by input record. With `throws`, raises the query's error."""
        import pyarrow as pa

        from causeway.transform import staying
        from causeway.transform.schema_formats import encoded

        batches = list(self._batches(records))

        # As in a stage: secrets reach a worker in the closure, never in a plan.
        def given(start: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in start:
                pass
            yield from batches

        rows = self._session.range(0, 1, 1, 1).mapInArrow(given, self._query.input)
        made = self._query.apply(rows, throws=throws).toArrow()
        left = list(map(staying, made.to_batches()))
        if (schemas := self._schemas(self._query.encodes, self._query.rules)) is not None:
            topic = records[0].at.topic
            left = [encoded(batch, schemas, topic) for batch in left]
        made = pa.Table.from_batches(left, made.schema)
        after: defaultdict[tuple[TopicPartition, int], list[Any]] = defaultdict(list)
        # A chunk is a partition here, because an output row may have lost its partition.
        partitions = {one.at.partition: one.at for one in records}
        at = made.schema.get_field_index("timestamp")  # may be outside of the range of datetime
        made = made.set_column(at, "timestamp", made.column(at).cast(pa.int64()))
        for row in made.to_pylist():
            if row["offset"] is not None:
                after[partitions[row["_chunk"]], row["offset"]].append(row)
        return after

    def _schemas(self, formats: Mapping[str, str], rules: Sequence[Any] = ()) -> Schemas | None:
        """The schemas for the parts with these formats."""
        from causeway.transform.schema_formats import Schemas

        if not formats or self._registry is None:
            return None
        return Schemas(self._registry, formats, rules)

    def _batches(self, records: Sequence[Read]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        from causeway.transform import LACKING, TEXTS, Chunk
        from causeway.transform.stage import Rows

        known = self._query.input.names
        texts = [name for name in (*TEXTS.values(), LACKING) if name in known]
        decodes = self._schemas(self._query.decodes, self._query.rules)
        rows = Rows(self._secrets, texts, decodes, self._query.types)
        by_partition: dict[TopicPartition, list[Read]] = {}
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


def _registry(transform: TransformSettings, on_step: OnStep) -> WorkerRegistry | None:
    if transform.registry is None:
        return None
    from causeway.transform.schema_formats import WorkerRegistry

    def waiting(reason: str) -> None:
        on_step(f"waiting for the schema registry: {reason}")

    return WorkerRegistry(transform.registry.as_json(), waiting)


def _formats(transform: TransformSettings) -> dict[str, str]:
    """The formats of the parts in a registry's wire format."""
    from causeway.transform import SCHEMA_FORMATS

    both = {"key": transform.key_format, "value": transform.value_format}
    return {part: format for part, format in both.items() if format in SCHEMA_FORMATS}


def _content(row: Any) -> Content:
    stamp = row["timestamp"]
    return Content(
        timestamp=-1 if stamp is None else stamp // 1000,
        key=row["key"],
        value=row["value"],
        headers=tuple((one["key"], one["value"]) for one in row["headers"] or ()),
        topic=row["topic"],
        partition=row["partition"],
    )
