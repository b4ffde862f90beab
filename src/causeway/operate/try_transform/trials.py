"""Sends records through a transform by Spark on this machine, as a stage does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from causeway.config import Routes, TransformSettings
from causeway.model import TopicPartition
from causeway.records import Batch, Record, records_of
from causeway.transform import MARK, SCHEMA_FORMATS, Chunk
from causeway.transform.schema_formats import Schemas, WorkerRegistry
from causeway.transform.stage import OutcomeReader, Rows, explain, quiet

if TYPE_CHECKING:
    import pyarrow as pa

_EXPLAINED = 20  # records for which the class of the query's error is found
# Called with the text of a step that takes time.
OnStep = Callable[[str], None]


class TrialOutcome(StrEnum):
    SAME = "same"  # the same bytes
    CHANGED = "changed"  # other bytes, several records, or another topic or partition
    DROPPED = "dropped"
    REFUSED = "refused"  # would stop its partition, or go to the dead-letter topic
    FAILS = "fails"  # the query throws; the effect is that of REFUSED


class Decoded(NamedTuple):
    """The content of a part in a registry's wire format. `schema`: the id in the data."""

    schema: int
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a record. `topic`, `partition`: where the transform sends it; None if to the
    mirror. `topic` is a name on the source. `decoded`: key and value that a schema can decode; only
    the bytes decide whether two contents are equal."""

    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str | None = None
    partition: int | None = None
    decoded: Mapping[str, Decoded] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """`before`: None if the record cannot be decoded. `reason`: why it is refused, or the class of
    the query's error."""

    at: TopicPartition
    offset: int
    before: Content | None
    after: tuple[Content, ...]
    outcome: TrialOutcome
    reason: str | None = None


def content_of(record: Record, topic: str | None = None, partition: int | None = None) -> Content:
    return Content(
        timestamp=-1 if record.timestamp is None else record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
        topic=topic,
        partition=partition,
    )


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
        quiet()
        self._session = session
        self._query = query
        self._routes = routes
        self._secrets = {name: value.reveal() for name, value in transform.secrets.items()}
        self._registry = _registry(transform, on_step)
        formats = transform.formats.items()
        of_registry = {part: format for part, format in formats if format in SCHEMA_FORMATS}
        self._decoder = self._schemas(of_registry)
        self._explained = 0

    def of(self, records: Sequence[Read]) -> tuple[Tried, ...]:
        """Tries all records at once. If the query throws, tries each half, down to the failing
        records."""
        if not records:
            return ()
        try:
            after = self._apply(records)
        except Exception as error:
            if len(records) > 1:
                half = len(records) // 2
                return self.of(records[:half]) + self.of(records[half:])
            return (self._tried(records[0], (), TrialOutcome.FAILS, explain(error)),)
        return tuple(self._judged(one, after.get((one.at, one.offset), ())) for one in records)

    def _judged(self, one: Read, made: Sequence[Content] | str) -> Tried:
        from causeway.transform.plan import THROWS

        if made == THROWS:
            return self._tried(one, (), TrialOutcome.FAILS, self._why(one) or THROWS)
        if isinstance(made, str):
            return self._tried(one, (), TrialOutcome.REFUSED, made)
        if not made:
            return self._tried(one, (), TrialOutcome.DROPPED)
        same = [*made] == [one.content]
        return self._tried(one, made, TrialOutcome.SAME if same else TrialOutcome.CHANGED)

    def _why(self, one: Read) -> str | None:
        """Returns the class of the error that the query throws on the record. Only for the first
        _EXPLAINED records, because each costs one Spark job."""
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
        after: Sequence[Content],
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
        """Returns `content` with key and value decoded by their schemas."""
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
    ) -> dict[tuple[TopicPartition, int], list[Content] | str]:
        """Returns the results of the records that are not dropped: records, or the reason of a
        refusal. With `throws`, raises the query's error."""
        batches = list(self._batches(records))

        # As in a stage: secrets reach a worker in the closure, never in a plan.
        def given(start: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in start:
                pass
            yield from batches

        work = self._query.work
        rows = self._session.range(0, 1, 1, 1).mapInArrow(given, self._query.input)
        made = self._query.apply(rows, throws=throws).toArrow()
        reader = OutcomeReader(self._schemas(work.encodes, work.rules), self._routes.why_not)
        places = {one.at.partition: one.at for one in records}
        after: dict[tuple[TopicPartition, int], Any] = {}
        for batch in made.to_batches():
            for outcome in reader.add(batch):
                at = places[outcome.number]  # a chunk is a partition here
                after |= {(at, one.offset): one.reason for one in outcome.refused}
                for topic, partition, output in outcome.outputs:
                    for index, record in enumerate(records_of(output)):
                        there = after.setdefault((at, output.source_offset(index)), [])
                        there.append(content_of(record, topic, partition))
        return after

    def _schemas(self, formats: Mapping[str, str], rules: Sequence[Any] = ()) -> Schemas | None:
        """Returns the schemas for the parts with these formats."""
        if not formats or self._registry is None:
            return None
        return Schemas(self._registry, formats, rules)

    def _batches(self, records: Sequence[Read]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        work = self._query.work
        decodes = self._schemas(work.decodes, work.rules)
        rows = Rows(self._secrets, work.texts, decodes, work.types)
        by_partition: dict[TopicPartition, list[Read]] = {}
        for one in records:
            by_partition.setdefault(one.at, []).append(one)
        for at, found in by_partition.items():
            batches = tuple({one.batch.first: one.batch for one in found}.values())
            chunk = Chunk(at.partition, at.topic, at.partition, batches[-1].next, batches)
            offsets = pa.array([one.offset for one in found], pa.int64())
            for batch in rows.of(chunk):
                wanted = pc.is_in(batch.column("offset"), offsets)
                kept = batch.filter(pc.or_(wanted, batch.column(MARK).is_valid()))
                if kept.num_rows:
                    yield kept


def _registry(transform: TransformSettings, on_step: OnStep) -> WorkerRegistry | None:
    if transform.registry is None:
        return None

    def waiting(reason: str) -> None:
        on_step(f"waiting for the schema registry: {reason}")

    return WorkerRegistry(transform.registry.as_json(), waiting)
