"""Sends fetched batches through a transform's stage, and the results to the outlets.

kept batches ─► chunks ─► the stage ─► pieces, in order ─► outlets
                                         │ refused: dead letters, or the flow stops there
                                         └ for a partition without an outlet: the flow waits

A dead letter is the record as it was, in a topic of the source cluster, which refused records never
leave. Its headers that begin with `causeway.` say where it came from, which transform refused it,
and why. A lane that dies right after writing one writes it again; its position tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import Outlet, TopicLog, Transformed
from causeway.model import State, TopicPartition
from causeway.records import (
    NO_PRODUCER,
    Batch,
    Kept,
    PlainRecord,
    clip,
    header,
    part_of,
    records_of,
)
from causeway.relay.lane.chunks import DIES, Work, WorkResult
from causeway.relay.lane.connections import Connections
from causeway.relay.lane.flow import Flow, OnTheWay
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.outlet import OutletState
from causeway.relay.lane.responses import NeedsRecovery, must_wait
from causeway.relay.lane.stage import Stage
from causeway.relay.messages import Assignment, OutletWanted
from causeway.relay.series import Series, as_relayed, treated
from causeway.transform import OutletBatch, Refusal

CHUNK_BYTES = 512 * 1024
Place = tuple[str, int]  # topic, as on the source, and partition


class Transforming:
    """Not thread-safe; belongs to one lane's loop. `offer`: an outlet has something to send;
    `recover`, `stop`: as `start_recovery` and `stop` of RecoveryQueue; `settled`: the flow may be
    done."""

    def __init__(
        self,
        connections: Connections,
        helpers: Helpers,
        *,
        recover: Callable[[Flow, NeedsRecovery], None],
        stop: Callable[[Flow, str], None],
        settled: Callable[[Flow], object],
    ) -> None:
        self._connections = connections
        self._helpers = helpers
        self._recover, self._stop, self._settled = recover, stop, settled

    def send(self, flow: Flow, on_the_way: OnTheWay, kept: Kept) -> None:
        """Sends what was `kept` of a fetch to the flow's stage."""
        if flow.assignment.finish and flow.assignment.stop_at is not None:
            # A faulty transform is to treat no records beyond.
            stop_at = flow.assignment.stop_at
            parts = (clip(batch, stop=stop_at) for batch in kept.batches)
            batches = [part for part in parts if part is not None]
            kept = Kept(min(kept.position, stop_at), batches, kept.leader_epoch)
        if not kept.batches:
            if on_the_way.idle:
                flow.through = kept.position
                return
            self._submit(flow, on_the_way, kept.position, ())
        chunks = list(_cut(kept.batches))
        for number, batches in enumerate(chunks, 1):
            following = kept.position if number == len(chunks) else batches[-1].next
            self._submit(flow, on_the_way, following, batches)

    def _submit(
        self, flow: Flow, on_the_way: OnTheWay, following: int, batches: Sequence[Batch]
    ) -> None:
        topic, partition = flow.assignment.source_partition
        work = Work(flow, topic, partition, following, tuple(batches), partial(self._take, flow))
        if not on_the_way.chunks:
            on_the_way.since = time.time()
        on_the_way.chunks += 1
        on_the_way.size += work.size
        on_the_way.stage.submit(work)

    def _take(self, flow: Flow, piece: WorkResult) -> None:
        on_the_way = flow.on_the_way
        assert on_the_way is not None
        on_the_way.chunks -= piece.last
        on_the_way.since = time.time()
        on_the_way.pieces.append(piece)
        self._pass_on(flow, on_the_way)

    def _pass_on(self, flow: Flow, on_the_way: OnTheWay) -> None:
        """Passes on all results, up to the first that has to wait."""
        while on_the_way.pieces and not on_the_way.writing and on_the_way.halt is None:
            piece = on_the_way.pieces[0]
            letters = on_the_way.stage.spec.dead_letters
            if piece.outcome.refused and letters is not None and not _dies(piece):
                self._write_letters(flow, on_the_way, piece, letters)
                return
            on_the_way.take()
            if not self._put(flow, on_the_way, piece):
                return
        self.look(flow)

    def look(self, flow: Flow) -> None:
        """Ends `flow` if its last batch has a response now."""
        on_the_way = flow.on_the_way
        if on_the_way is not None and on_the_way.halt is not None and _all_sent(flow):
            reason = on_the_way.halt
            flow.settle()
            self._stop(flow, reason)
        else:
            self._settled(flow)

    def _write_letters(
        self, flow: Flow, on_the_way: OnTheWay, piece: WorkResult, letters: str
    ) -> None:
        on_the_way.writing = True
        source = self._connections.cluster(flow.assignment.source)
        at, name = flow.assignment.source_partition, on_the_way.stage.spec.name
        counted = flow.recoveries

        def written(answer: CausewayError | None) -> None:
            if flow.recoveries != counted or flow.state is not State.RUNNING or flow.leaving:
                return  # it will come to this record again
            if answer is not None:
                self._recover(
                    flow, NeedsRecovery(f"its dead letters could not be written: {answer}")
                )
                return
            on_the_way.writing = False
            on_the_way.take()
            if self._put(flow, on_the_way, piece):
                self._pass_on(flow, on_the_way)

        self._helpers.submit(
            partial(write, source, letters, at, name, piece.batches, piece.outcome.refused), written
        )

    def _put(self, flow: Flow, on_the_way: OnTheWay, piece: WorkResult) -> bool:
        """Its records go to the outlets; False where the flow does not go on as it is."""
        stops = on_the_way.stage.spec.dead_letters is None or _dies(piece)
        outputs = list(usable(piece, stops=stops))
        known = places(flow.assignment, flow.outlets)
        wants = _wants(flow.assignment, known, outputs)
        if wants:
            flow.wants = wants
            # Unnamed: until the driver has looked at them, names may be anything of a record.
            reason = f"waits for {len(wants)} more target partitions that its transform leads to"
            self._recover(flow, NeedsRecovery(reason, failure=False))
            return False
        batches = [output.batch for output in outputs]
        if must_wait(flow, batches):
            # As arrivals.take_in: a transform may give records a time that is long gone.
            reason = "its transformed records are so old that the target may have forgotten them"
            self._recover(
                flow, NeedsRecovery(reason, unsettled=True, failure=False, not_before=flow.late_by)
            )
            return False
        touched: dict[OutletState, None] = {}
        for output in outputs:
            outlet = known[place_of(flow.assignment, output)]
            try:
                batch = clip(output.batch, outlet.start)
            except CausewayError as error:  # one record became more than can be unpacked again
                self._recover(flow, NeedsRecovery(str(error)))
                return False
            if batch is not None:
                outlet.put(batch)
                touched[outlet] = None
        on_the_way.counts = on_the_way.counts.plus(_counted(piece))
        flow.changed = True
        refused = piece.outcome.refused
        if refused and stops:
            first = refused[0]
            flow.through = first.offset
            on_the_way.halt = _why(flow, on_the_way, first)
            on_the_way.stage.cancel(flow)
            on_the_way.pieces.clear()
            on_the_way.chunks = on_the_way.size = 0
            flow.position = first.offset
        else:
            flow.through = piece.next
        for outlet in touched:
            self._connections.offer(flow, outlet)
        return True


def _all_sent(flow: Flow) -> bool:
    return not any(outlet.pending or outlet.unanswered for outlet in flow.outlets)


def _why(flow: Flow, on_the_way: OnTheWay, refusal: Refusal) -> str:
    remedy = "correct the transform, or have such records go to a dead-letter topic"
    if refusal.reason == DIES:
        remedy = "correct the transform, or give its stage more memory"
    return (
        f"transform {on_the_way.stage.spec.name} refuses the record at offset {refusal.offset} of "
        f"{flow.assignment.source_partition}: {refusal.reason} (look at it with `causeway try`; "
        f"{remedy}, and start with --adopt)"
    )


def _dies(piece: WorkResult) -> bool:
    return any(refusal.reason == DIES for refusal in piece.outcome.refused)


def _cut(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """In chunks of about CHUNK_BYTES."""
    chunk: list[Batch] = []
    size = 0
    for batch in batches:
        if chunk and size + batch.size > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(batch)
        size += batch.size
    if chunk:
        yield chunk


def usable(piece: WorkResult, *, stops: bool) -> Iterable[OutletBatch]:
    """Its outputs; where a refused record `stops` the flow, those before it."""
    refused = piece.outcome.refused
    if not refused or not stops:
        return piece.outcome.outputs
    first = refused[0].offset
    return [output for output in piece.outcome.outputs if output.batch.first < first]


def place_of(assignment: Assignment, output: OutletBatch) -> Place:
    topic = assignment.topic if output.topic is None else output.topic
    return topic, assignment.partition if output.partition is None else output.partition


def places(assignment: Assignment, outlets: Iterable[OutletState]) -> dict[Place, OutletState]:
    return {_place_of_outlet(assignment, outlet.spec): outlet for outlet in outlets}


def _place_of_outlet(assignment: Assignment, outlet: Outlet) -> Place:
    return outlet.routed or assignment.topic, outlet.partition


def _wants(
    assignment: Assignment, known: Mapping[Place, OutletState], outputs: Iterable[OutletBatch]
) -> tuple[OutletWanted, ...]:
    first: dict[Place, int] = {}
    for output in outputs:
        place = place_of(assignment, output)
        if place not in known:
            first.setdefault(place, output.batch.first)
    return tuple(
        OutletWanted(topic=topic, partition=partition, offset=offset)
        for (topic, partition), offset in first.items()
    )


def _counted(piece: WorkResult) -> Transformed:
    outcome = piece.outcome
    return Transformed(
        records_in=outcome.records_in,
        records_out=outcome.records_out,
        dropped=outcome.dropped,
        refused=len(outcome.refused),
        seen=sum(1 << at for at, records in enumerate(outcome.found) if records),
        without_spark=outcome.without_spark,
        through_spark=outcome.records_in - outcome.without_spark,
        found=outcome.found,
        missing=outcome.missing,
    )


def series_of(flow: Flow) -> Series:
    """How the source's records become those of the flow's outlets, for a helper's thread."""
    way = flow.on_the_way
    series: Series = as_relayed if way is None else partial(_transformed, way.stage)
    return series if flow.treatment is None else treated(flow.treatment, series)


def _transformed(
    stage: Stage, assignment: Assignment, batches: Iterator[Batch]
) -> Iterator[Sequence[Batch | None]]:
    at = {_place_of_outlet(assignment, o): n for n, o in enumerate(assignment.outlets)}
    stops = stage.spec.dead_letters is None
    for chunk in _cut(batches):
        pieces = stage.call(assignment.topic, assignment.partition, chunk[-1].next, chunk)
        for piece in pieces:
            if _dies(piece):
                raise CausewayError("transform", stage.spec.name, DIES, retriable=True)
            for output in usable(piece, stops=stops):
                number = at.get(place_of(assignment, output))
                if number is not None:
                    yield [output.batch if n == number else None for n in range(len(at))]
            if piece.outcome.refused and stops:
                return


REPLICATION_FACTOR = 3


def write(
    source: Cluster,
    topic: str,
    at: TopicPartition,
    transform: str,
    batches: Sequence[Batch],
    refused: Sequence[Refusal],
) -> None:
    """Returns once a letter of each of `refused`, records of `batches`, is durably in `topic`; it
    is made where it is missing. Raises CausewayError."""
    log = TopicLog(source, topic)
    log.ensure(REPLICATION_FACTOR, configs={})
    place = TopicPartition(topic, at.partition % log.partitions())
    reasons = {refusal.offset: refusal.reason for refusal in refused}
    for letter in _letters(at, transform, batches, reasons):
        stamped = header(letter, NO_PRODUCER, -1, -1) + letter.payload
        source.produce_batch(place, stamped)


def _letters(
    at: TopicPartition, transform: str, batches: Sequence[Batch], reasons: Mapping[int, str]
) -> Iterator[Batch]:
    for batch in batches:
        records = records_of(batch)
        for index, record in enumerate(records):
            offset = batch.source_offset(index)
            if offset not in reasons:
                continue
            about = {
                "topic": at.topic,
                "partition": at.partition,
                "offset": offset,
                "transform": transform,
                "reason": reasons[offset],
            }
            more = [(f"causeway.{name}", str(value).encode()) for name, value in about.items()]
            time = -1 if record.timestamp is None else record.timestamp
            letter = PlainRecord(0, time, record.key, record.value, [*record.headers, *more])
            yield part_of(batch, [letter], [offset], offset + 1)
