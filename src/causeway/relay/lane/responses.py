"""Handles brokers' responses: takes the records of a fetch, and accounts for produced batches."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import chain

from causeway.cluster import is_young, young_since_ms
from causeway.errors import CausewayError, DivergedError, ProtocolError, TooLargeError
from causeway.model import age_ms
from causeway.records import (
    NOTHING,
    UNPACKED_BYTES,
    Batch,
    Kept,
    Unread,
    clip,
    keep,
    newest,
    unpacked_total,
)
from causeway.relay.lane.flow import Diverging, Flow
from causeway.relay.lane.outlet import UNKNOWN, OutletState, Sent, send_smaller
from causeway.relay.recovery import REFILL, Damage
from causeway.relay.treatment import TreatmentNotReadyError, shares, topics_of, treat_kept
from causeway.wire import EpochEnd, Fetched, Produced, codes


class NeedsRecovery(Exception):  # noqa: N818 - not an error, but a change of the flow's state
    """It is not certain which records of the flow the target has: recovery reads its log.

    `unsettled`: a batch without a response may have reached the target. `failure`: this counts as a
    failure, so each further try waits longer. `not_before` (monotonic): the earliest time for
    the recovery. `damage`: a batch that cannot be mirrored while it is damaged. `rival`: another
    lane may write to the target.
    """

    def __init__(
        self,
        reason: str,
        *,
        unsettled: bool = False,
        failure: bool = True,
        not_before: float = 0.0,
        damage: Damage | None = None,
        rival: bool = False,
    ) -> None:
        super().__init__(reason)
        self.unsettled = unsettled
        self.failure = failure
        self.not_before = not_before
        self.damage = damage
        self.rival = rival


class StopPartition(Exception):  # noqa: N818
    """If the partition continued, it could lose or double records. A person has to decide."""


def take_in(flow: Flow, fetched: Fetched) -> tuple[Kept, list[OutletState]]:
    """Accounts for a fetch of a running flow. Returns the kept batches, and the outlets that have
    new batches to send (none if the flow has a transform).

    Raises NeedsRecovery and StopPartition.
    """
    if fetched.error:
        corrupt = fetched.error == codes.CORRUPT_MESSAGE
        if corrupt and not flow.idle:  # earlier records are relayed first
            flow.unreadable_at = flow.position
            return Kept(flow.position), []
        at = flow.assignment.source_partition
        place, needs = f"{at} at offset {flow.position}", f"READ on topic {at.topic}"
        reason = str(codes.broker_error(fetched.error, "fetch", place, needs=needs))
        raise NeedsRecovery(reason, damage=Damage(flow.position, reason) if corrupt else None)
    if fetched.diverging is not None:
        # The position may follow from a damaged batch that the target has not refused yet.
        if not flow.idle:
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
        if kept.position == flow.position:  # a response with records begins with a whole batch
            cause = f"the batch at offset {flow.position} is longer than the source's answer"
            raise ProtocolError("read", flow.subject, cause)  # noqa: TRY301
    except CausewayError as error:
        if not flow.idle:  # earlier records are relayed first
            flow.unreadable_at = flow.position
            return Kept(flow.position), []
        if isinstance(error, TooLargeError):
            remedy = "start with --from a time after it to go on without it"
            raise StopPartition(f"{error} ({remedy})") from error
        if isinstance(error, DivergedError):
            raise StopPartition(str(error)) from error
        flow.unprepared = isinstance(error, TreatmentNotReadyError)
        is_damage = isinstance(error, ProtocolError)
        damage = Damage(flow.position, str(error)) if is_damage else None
        raise NeedsRecovery(str(error), damage=damage) from error
    except Exception as error:
        # An unforeseen error of a codec fails this partition, not the whole lane.
        reason = f"the records at offset {flow.position} cannot be read: {error!r}"
        damage = Damage(flow.position, reason) if flow.idle else None
        raise NeedsRecovery(reason, damage=damage) from error
    flow.position = kept.position
    if flow.on_the_way is None:
        flow.through = kept.position
    # The part of a batch for one outlet may be old, although the first and newest records of the
    # batch are young.
    parts = chain.from_iterable(outlet.pending for outlet in touched)
    if must_wait(flow, chain(kept.batches, parts)):
        raise NeedsRecovery(
            "its records are so old that the target may have forgotten their sequences, or it is "
            "claimed again: waits until no earlier request can arrive",
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
    return kept, touched if len(touched) < 2 else list(dict.fromkeys(touched))


def _diverged(flow: Flow, found: EpochEnd) -> NeedsRecovery | StopPartition:
    """The error for a diverging epoch. Either the source's log has no entry for the leader epoch of
    the batch before our position, or that epoch ends below our position. Only the second case
    proves a truncation: a replica that was rebuilt from a compacted log has no entry for an epoch
    without records. In the first case recovery decides.
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
    """Accounts for the answer to a batch of a running flow at `now_ms`. Raises NeedsRecovery.
    Raises StopPartition if a record must have the source's offset but has another offset."""
    error, base_offset, append_time, message = produced
    _, records, expected, first, _, _, leader_epoch, newest, size, _, _ = sent
    if error:
        spec = outlet.spec
        if error == codes.CORRUPT_MESSAGE:
            # The broker gives no details. The next try reads its first batch, so damage at the
            # source is reported then.
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
        rival = error in codes.OF_A_RIVAL
        raise NeedsRecovery(str(refusal), unsettled=True, damage=damage, rival=rival)
    if outlet.gaps is not None:
        if base_offset != first:
            raise StopPartition(
                f"the record at source offset {first} has got offset {base_offset} on the target: "
                f"another client writes to {outlet.spec.at}, or its leader lost records ({REFILL})"
            )
        outlet.gaps.doubtful = False  # the sequence refuses earlier requests
    if outlet.idempotent:
        if expected not in (base_offset, UNKNOWN):
            raise NeedsRecovery(
                f"the target gave offset {base_offset} instead of {expected}: another client "
                "writes to it",
                unsettled=True,
            )
        if base_offset < outlet.pair.target:
            raise NeedsRecovery(
                f"the target gave offset {base_offset}, but had acknowledged records up to "
                f"{outlet.pair.target}: it has lost records",
                unsettled=True,
            )
        if append_time != -1 and not outlet.append_times:
            # Either this sequence was sent before, with the content that the log shows. Or the
            # target sets the timestamps itself, which the log shows as well.
            already = "the target had this batch already"
            raise NeedsRecovery(already, unsettled=True, failure=False, rival=True)
    outlet.acknowledged(sent, base_offset)
    # Another outlet may already have responses for newer batches.
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


def must_wait(flow: Flow, batches: Iterable[Batch]) -> bool:
    """Whether the flow must wait until `late_by`, and then recover, before it sends `batches`.

    It must if an earlier request may still arrive, or may have arrived since the last recovery
    began. Besides, one of `batches` must be old, or the batches must follow batches of an earlier
    claim at the source's offsets. Without a producer that the broker could forget, waiting does not
    help.

        sent ── connection reset ── read from the broker's socket, appended: seconds later
                │                                                           │
                └── at latest `late_by` ────────────────────────────────────┘

    A reset does not take back bytes that the broker has read, or will still read from its socket;
    behind a throttled channel it read them 12 s later. As long as the broker remembers our
    producer, it refuses such a request by its sequence. It forgets the producers of old records, so
    these records wait until no request can arrive.

    An earlier request may have other batches of the same records. So the timestamp of a batch's
    first record counts, too, not only the newest timestamp: an old record that is alone in a late
    batch would make the broker forget the producer."""
    return (
        flow.sought_at < flow.late_by
        and any(outlet.idempotent for outlet in flow.outlets)
        and (
            flow.follows_others
            or not all(is_young(min(each.base_timestamp, each.max_timestamp)) for each in batches)
        )
    )


def take(flow: Flow, fetched: Fetched) -> tuple[Kept, list[OutletState]]:
    """Puts the fetched batches into their outlets. Returns the kept batches and these outlets.

    Once UNPACKED_BYTES have been unpacked, the next batches are left to the next fetch, as in
    `keep`. So is a batch that cannot be treated or routed, if something before it could. Raises the
    errors of `keep` and of the treatment.
    """
    aborted = fetched.aborted if flow.assignment.read_committed else ()
    kept = keep(fetched.records, flow.position, aborted, flow.subject, _unread(flow, fetched))
    if kept.batches:
        flow.newest_kept = newest(kept.batches, flow.outlets[0].as_is_bytes)
    if flow.treatment is not None:
        kept = treat_kept(kept, flow.treatment, topics_of(flow.assignment))
    if flow.on_the_way is not None:
        return kept, []  # its transform decides on the outlets
    if flow.gaps is not None:
        return kept, flow.put_runs(kept.batches, kept.position)
    if len(flow.outlets) == 1:
        flow.outlets[0].put_all(kept.batches)
        return kept, flow.outlets if kept.batches else []
    touched: list[OutletState] = []
    most_unpacked = unpacked_total() + UNPACKED_BYTES
    for count, batch in enumerate(kept.batches):
        try:
            touched += route(flow, batch)
        except CausewayError:
            if not count:
                raise
            return _first(kept, count), touched
        if unpacked_total() >= most_unpacked:
            return _first(kept, count + 1), touched
    return kept, touched


def _unread(flow: Flow, fetched: Fetched) -> Unread:
    """The batches that may be passed on unread. The flow must not need their records. The target
    must append each batch only after the batch before, so the producer must have sequences. The
    response must be large: the lane's memory counts only large responses."""
    outlets = flow.outlets
    if (
        fetched.records.readonly
        or len(outlets) > 1
        or flow.treatment is not None
        or flow.on_the_way is not None
        or not outlets[0].idempotent
    ):
        return NOTHING
    outlet = outlets[0]
    return Unread(outlet.as_is_bytes, young_since_ms(), flow.newest_kept, outlet.as_is_codecs)


def _first(kept: Kept, count: int) -> Kept:
    batches = kept.batches[:count]
    return Kept(batches[-1].next, batches, batches[-1].leader_epoch)


def route(flow: Flow, batch: Batch) -> list[OutletState]:
    """Puts the parts of `batch` into several outlets (see `shares`), which may be at different
    positions. Returns the outlets that got a part."""
    outlets = flow.outlets
    parts = [
        None if part is None else clip(part, outlet.start)
        for outlet, part in zip(outlets, shares(batch, flow.assignment), strict=True)
    ]
    touched = []
    for outlet, part in zip(outlets, parts, strict=True):
        if part is not None:
            outlet.put(part)
            touched.append(outlet)
    return touched
