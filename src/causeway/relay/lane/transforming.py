"""Sends fetched batches through a transform's stage, and the results to the outlets.

kept batches ─► chunks ─► the stage ─► pieces, in order ─► outlets
                                         │ refused: dead letters, or the flow stops there
                                         └ for a partition without an outlet: the flow waits

A dead letter is the unchanged record, in a topic of the source cluster: refused records never leave
that cluster. Its headers that begin with `causeway.` have its place on the source, the transform
that refused it, and the reason. A lane may die right after it has written a dead letter. Then the
next lane writes it again, with the same place in the headers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from causeway.cluster import Cluster
from causeway.errors import CausewayError, DivergedError
from causeway.link_topics import TopicLog, Transformed
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
from causeway.relay.lane.recovery_queue import RecoveryQueue
from causeway.relay.lane.responses import NeedsRecovery, must_wait
from causeway.relay.lane.stages import Place, cut_chunks, dies, place_of, place_of_outlet, usable
from causeway.relay.messages import Assignment, OutletWanted
from causeway.transform import OutletBatch, Refusal


class Transforming:
    """Not thread-safe; belongs to one lane's loop."""

    def __init__(
        self,
        connections: Connections,
        helpers: Helpers,
        recovery: RecoveryQueue,
        on_put: Callable[[Flow], None],
    ) -> None:
        """`on_put` is called when outlets of a flow got more records."""
        self._connections, self._helpers, self._recovery = connections, helpers, recovery
        self._on_put = on_put

    def send(self, flow: Flow, on_the_way: OnTheWay, kept: Kept) -> None:
        """Sends the `kept` batches of a fetch to the flow's stage."""
        if flow.assignment.finish and flow.assignment.stop_at is not None:
            # The transform may be faulty, so it must treat no records beyond the end.
            stop_at = flow.assignment.stop_at
            parts = (clip(batch, stop=stop_at) for batch in kept.batches)
            batches = [part for part in parts if part is not None]
            kept = Kept(min(kept.position, stop_at), batches, kept.leader_epoch)
        if not kept.batches:
            if on_the_way.idle:
                self._pass(flow, kept.position)
                return
            self._submit(flow, on_the_way, kept.position, ())
        chunks = list(cut_chunks(kept.batches))
        for number, batches in enumerate(chunks, 1):
            following = kept.position if number == len(chunks) else batches[-1].next
            self._submit(flow, on_the_way, following, batches)

    def _pass(self, flow: Flow, through: int) -> None:
        """There is nothing to relay below source offset `through`."""
        if flow.gaps is not None:
            flow.put_runs((), through)
        flow.through = through
        self._on_put(flow)

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
        """Passes on all results before the first result that has to wait."""
        while on_the_way.pieces and not on_the_way.writing and on_the_way.halt is None:
            piece = on_the_way.pieces[0]
            letters = on_the_way.stage.spec.dead_letters
            if piece.outcome.refused and letters is not None and not dies(piece):
                self._write_letters(flow, on_the_way, piece, letters)
                return
            if not self._put(flow, on_the_way):
                return
        self.look(flow)

    def look(self, flow: Flow) -> None:
        """Ends `flow` if it should end, and its last batch has a response now."""
        on_the_way = flow.on_the_way
        if on_the_way is not None and on_the_way.halt is not None and flow.all_sent:
            reason = on_the_way.halt
            flow.settle()
            self._recovery.stop(flow, reason)
        else:
            self._recovery.done(flow)

    def _write_letters(
        self, flow: Flow, on_the_way: OnTheWay, piece: WorkResult, letters: str
    ) -> None:
        on_the_way.writing = True
        source = self._connections.cluster(flow.assignment.source)
        at, name = flow.assignment.source_partition, on_the_way.stage.spec.name
        counted = flow.recoveries

        def written(answer: CausewayError | None) -> None:
            if flow.recoveries != counted or flow.state is not State.RUNNING or flow.leaving:
                return  # the flow will read this record again
            if answer is not None:
                reason = f"its dead letters could not be written: {answer}"
                self._recovery.start_recovery(flow, NeedsRecovery(reason))
                return
            on_the_way.writing = False
            if self._put(flow, on_the_way):
                self._pass_on(flow, on_the_way)

        self._helpers.submit(
            partial(write, source, letters, at, name, piece.batches, piece.outcome.refused), written
        )

    def _put(self, flow: Flow, on_the_way: OnTheWay) -> bool:
        """Puts the records of the first piece into the outlets. False if the flow needs recovery or
        stops."""
        try:
            for outlet in self._routed(flow, on_the_way, on_the_way.take()):
                self._connections.offer(flow, outlet)
        except NeedsRecovery as needed:
            self._recovery.start_recovery(flow, needed)
            return False
        except DivergedError as error:  # one record became several, but offsets are kept
            self._recovery.stop(flow, str(error))
            return False
        self._on_put(flow)
        return True

    def _routed(self, flow: Flow, on_the_way: OnTheWay, piece: WorkResult) -> Iterable[OutletState]:
        """Puts the records of `piece` into outlets. Returns these outlets. Raises NeedsRecovery and
        DivergedError."""
        stops = on_the_way.stage.spec.dead_letters is None or dies(piece)
        outputs = list(usable(piece, stops=stops))
        known = places(flow.assignment, flow.outlets)
        wants = _wants(flow.assignment, known, outputs)
        if wants:
            flow.wants = wants
            # The names are not shown: they may be any content of a record until the driver has
            # checked them.
            reason = f"waits for {len(wants)} more target partitions that its transform leads to"
            raise NeedsRecovery(reason, failure=False)
        if must_wait(flow, [output.batch for output in outputs]):
            # As in responses.take_in: a transform may give records an old timestamp.
            reason = "its transformed records are so old that the target may have forgotten them"
            raise NeedsRecovery(reason, unsettled=True, failure=False, not_before=flow.late_by)
        refused = piece.outcome.refused if stops else ()
        through = refused[0].offset if refused else piece.next
        touched: dict[OutletState, None] = {}
        if flow.gaps is not None:
            touched = dict.fromkeys(flow.put_runs([each.batch for each in outputs], through))
            outputs = []
        for output in outputs:
            outlet = known[place_of(flow.assignment, output)]
            try:
                batch = clip(output.batch, outlet.start)
            except CausewayError as error:  # one record became too many to be unpacked again
                raise NeedsRecovery(str(error)) from error
            if batch is not None:
                outlet.put(batch)
                touched[outlet] = None
        on_the_way.counts = on_the_way.counts.plus(_counted(piece))
        flow.changed = True
        flow.through = through
        if refused:
            on_the_way.cancel(flow)
            on_the_way.halt = _why(flow, on_the_way, refused[0])
            flow.position = through
        return touched


def _why(flow: Flow, on_the_way: OnTheWay, refusal: Refusal) -> str:
    remedy = "correct the transform, or send such records to a dead-letter topic"
    if refusal.reason == DIES:
        remedy = "correct the transform, or give its stage more memory"
    return (
        f"transform {on_the_way.stage.spec.name} refuses the record at offset {refusal.offset} of "
        f"{flow.assignment.source_partition}: {refusal.reason} (look at it with `causeway try`; "
        f"{remedy}, and start with --adopt)"
    )


def places(assignment: Assignment, outlets: Iterable[OutletState]) -> dict[Place, OutletState]:
    return {place_of_outlet(assignment, outlet.spec): outlet for outlet in outlets}


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


REPLICATION_FACTOR = 3


def write(
    source: Cluster,
    topic: str,
    at: TopicPartition,
    transform: str,
    batches: Sequence[Batch],
    refused: Sequence[Refusal],
) -> None:
    """Writes a dead letter for each of `refused`, records of `batches`. Returns when all are
    durably in `topic`, which is created if it is missing. Raises CausewayError."""
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
