"""What the brokers answer, and what becomes of its flow: relayed further, or in doubt."""

from __future__ import annotations

import time
from itertools import chain

from causeway.errors import CausewayError, DivergedError, ProtocolError, TooLargeError
from causeway.model import age_ms
from causeway.records import Kept
from causeway.relay.lane.flow import UNKNOWN, Diverging, Flow, OutletState, Sent
from causeway.relay.lane.late_requests import must_wait
from causeway.relay.lane.outgoing import send_smaller
from causeway.relay.lane.route import take
from causeway.relay.recovery.damage import Damage
from causeway.relay.treatment import NotYetError
from causeway.wire import EpochEnd, Fetched, Produced, codes


class NeedsRecovery(Exception):  # noqa: N818 - it is no error, but a turn that a flow takes
    """It is not known for sure what the target holds of the flow: its place has to be found anew.

    `unsettled`: a batch may have reached the target that nobody told us of. `failure`: it counts as
    one, so that tries that follow each other wait longer and longer. `not_before` (monotonic): it
    is looked for then at the earliest. `damage`: a batch that cannot be mirrored while it stays so.
    """

    def __init__(
        self,
        reason: str,
        *,
        unsettled: bool = False,
        failure: bool = True,
        not_before: float = 0.0,
        damage: Damage | None = None,
    ) -> None:
        super().__init__(reason)
        self.unsettled = unsettled
        self.failure = failure
        self.not_before = not_before
        self.damage = damage


class StopPartition(Exception):  # noqa: N818
    """There is no safe way on without a person."""


def take_in(flow: Flow, fetched: Fetched) -> tuple[Kept, list[OutletState]]:
    """Accounts for what was fetched of a running flow: what was kept of it, and the outlets that
    have something new to send (none where it is to be transformed first).

    Raises NeedsRecovery, StopPartition.
    """
    if fetched.error:
        corrupt = fetched.error == codes.CORRUPT_MESSAGE
        if corrupt and not flow.idle:  # what lies before it is relayed first
            flow.unreadable_at = flow.position
            return Kept(flow.position), []
        at = flow.assignment.source_partition
        place, needs = f"{at} at offset {flow.position}", f"READ on topic {at.topic}"
        reason = str(codes.broker_error(fetched.error, "fetch", place, needs=needs))
        raise NeedsRecovery(reason, damage=Damage(flow.position, reason) if corrupt else None)
    if fetched.diverging is not None:
        if not flow.idle:  # our place may follow from a batch that is damaged, and not refused yet
            flow.unreadable_at = flow.position
            return Kept(flow.position), []
        raise _diverged(flow, fetched.diverging)
    committed = flow.assignment.read_committed
    end, high_watermark = fetched.last_stable, fetched.high_watermark
    flow.note_ends(end if committed else high_watermark, high_watermark)
    if not len(fetched.records):
        if flow.idle:
            flow.failures = 0
        return Kept(flow.position), []
    try:
        kept, touched = take(flow, fetched)
        if kept.position == flow.position:  # an answer that is not empty begins with a whole batch
            cause = f"the batch at offset {flow.position} is longer than the source's answer"
            raise ProtocolError("read", flow.subject, cause)  # noqa: TRY301
    except CausewayError as error:
        if not flow.idle:  # what lies before it is relayed first
            flow.unreadable_at = flow.position
            return Kept(flow.position), []
        if isinstance(error, TooLargeError):
            remedy = "start with --from a time after it to go on without it"
            raise StopPartition(f"{error} ({remedy})") from error
        if isinstance(error, DivergedError):
            raise StopPartition(str(error)) from error
        flow.unprepared = isinstance(error, NotYetError)
        is_damage = isinstance(error, ProtocolError)
        damage = Damage(flow.position, str(error)) if is_damage else None
        raise NeedsRecovery(str(error), damage=damage) from error
    except Exception as error:
        # What no codec foresaw is one partition's trouble, not that of the whole lane.
        reason = f"what was fetched at {flow.position} cannot be read: {error!r}"
        damage = Damage(flow.position, reason) if flow.idle else None
        raise NeedsRecovery(reason, damage=damage) from error
    flow.position = kept.position
    if flow.on_the_way is None:
        flow.through = kept.position
    # An outlet's part of a batch may be old, though the batch begins and ends with young records.
    parts = chain.from_iterable(outlet.pending for outlet in touched)
    if must_wait(flow, chain(kept.batches, parts)):
        raise NeedsRecovery(
            "its records are so old that the target may have forgotten what it got of them: waits "
            "until nothing that was sent before can arrive any more",
            unsettled=True,
            failure=False,
            not_before=flow.late_by,
        )
    if kept.batches:
        age = age_ms(kept.batches[-1].max_timestamp, wall_ms())
        if age is not None:
            flow.ages.note(age)
        flow.waiting.note(kept.batches)
    if kept.leader_epoch >= 0:
        flow.leader_epoch = kept.leader_epoch
    return kept, list(dict.fromkeys(touched))


def _diverged(flow: Flow, found: EpochEnd) -> NeedsRecovery | StopPartition:
    """The source's log has no entry for the leader epoch of the batch before our position, or that
    epoch ends below our position. Only the second proves a truncation: a replica that was rebuilt
    from a compacted log has no entry for an epoch without records. Recovery tells the two apart.
    """
    if found.offset < flow.position:
        return StopPartition(
            f"the source was truncated to offset {found.offset}, below "
            f"{flow.position}, which was read: start with --adopt or --from to go on"
        )
    flow.diverging = Diverging(flow.leader_epoch, found.epoch)
    return NeedsRecovery(
        f"the source's log has no entry for leader epoch {flow.leader_epoch}, of the last record "
        f"read before offset {flow.position}"
    )


def account(flow: Flow, outlet: OutletState, sent: Sent, produced: Produced, now_ms: int) -> None:
    """Accounts for the answer to a batch of a running flow at `now_ms`. Raises NeedsRecovery."""
    error, base_offset, append_time, message = produced
    _, records, expected, first, _, _, leader_epoch, newest, size, _, _ = sent
    if error:
        spec = outlet.spec
        if error == codes.CORRUPT_MESSAGE:
            # The broker says no more than that. The first batch of a new try is read, so damage
            # at the source is reported then.
            damaged = f"the batch at source offset {first} came damaged, by its CRC or its form"
            message = f"{damaged} ({message})" if message else damaged
        refusal = codes.broker_error(
            error,
            "produce to",
            f"{spec.topic}-{spec.partition}",
            message,
            needs=f"WRITE on topic {spec.topic}",
        )
        most_bytes = flow.assignment.max_message_bytes
        if error in codes.TOO_LARGE and send_smaller(outlet, sent, most_bytes):
            smaller = (
                f"{refusal}. It was one batch of {records} records: they are sent again in batches"
                f" of at most {outlet.most_unpacked} bytes without compression"
            )
            raise NeedsRecovery(smaller, unsettled=True, failure=False)
        damage = None
        if error in (codes.CORRUPT_MESSAGE, codes.INVALID_RECORD):
            # All records before this batch are acknowledged, or were dropped.
            damage = Damage(outlet.pair.source, str(refusal), sent.next)
        raise NeedsRecovery(str(refusal), unsettled=True, damage=damage)
    if outlet.idempotent:
        if expected not in (base_offset, UNKNOWN):
            raise NeedsRecovery(
                f"the target gave offset {base_offset} where {expected} "
                "was due: somebody else writes to it",
                unsettled=True,
            )
        if base_offset < outlet.pair.target:
            raise NeedsRecovery(
                f"the target gave offset {base_offset}, but had acknowledged records up to "
                f"{outlet.pair.target}: it has lost records",
                unsettled=True,
            )
        if append_time != -1 and not outlet.append_times:
            # Somebody had sent this sequence before; only the log tells what it holds. Or the
            # target sets the times itself, which the log tells as well.
            raise NeedsRecovery("the target had this batch already", unsettled=True, failure=False)
    outlet.acknowledged(sent, base_offset)
    # Another outlet may have had newer ones answered before.
    if leader_epoch > flow.relayed_epoch:
        flow.relayed_epoch = leader_epoch
    age = age_ms(newest, now_ms)
    if age is not None:
        flow.latencies.note(age)
        if newest > flow.last_timestamp:
            flow.last_timestamp = newest
    flow.records += records
    flow.bytes += size
    flow.failures = 0
    flow.changed = True


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
