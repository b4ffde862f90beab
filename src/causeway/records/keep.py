"""Which records of a fetched stretch of log are relayed: the one definition of the relayed series.

Lanes and recovery both read the source through `keep`, so they number the same records alike.
A record is relayed if its batch is not a control batch and, when reading committed data, not part
of an aborted transaction.

Whatever is looked into, left out or passed over had its CRC checked before. A lane alone has dense
batches passed on unread (`Unread`): its target checks them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from causeway.errors import CausewayError, ProtocolError
from causeway.records.batches import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    Batch,
    checksum,
    fast_tuple,
    wrong_crc,
)
from causeway.records.codec import (
    MERGED_BYTES,
    MERGED_RECORDS,
    SMALL_BATCH,
    UNPACKED_BYTES,
    as_is,
    decode,
    decode_legacy,
    densify,
    join,
)
from causeway.records.unpack import unpacked_total

_CONTROL_KEY = Struct(">hh")  # version, type
_ABORT = 0
_OFFSET_AND_LENGTH = Struct(">qi")
# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, records count.
_SMALL_HEADER = Struct(">qiibIhi30xi")
_PLAIN = CODEC_MASK | TRANSACTIONAL
_LEAST, _LEAST_BATCH = 14, HEADER_SIZE - LENGTH_OVERHEAD  # lengths of an old message and of a batch
_OTHERWISE = CONTROL | LOG_APPEND_TIME
_batch = fast_tuple(Batch)
_CHECKED = Struct(f"{HEADER_SIZE - CRC_START}s")  # the header's bytes that the CRC is of


ANY_CODEC = (1 << (CODEC_MASK + 1)) - 1  # a bit for each codec


@dataclass(slots=True)
class Kept:
    """`batches`: dense and in order. `position`: the next source offset to fetch; everything below
    is in `batches` or rightly dropped. `leader_epoch`: of the last batch seen, -1 if none."""

    position: int
    batches: list[Batch] = field(default_factory=list)
    leader_epoch: int = -1


class Unread(NamedTuple):
    """What may be passed on unread: dense batches of up to `most_bytes` for the one outlet of a
    flow, where the target is sure to refuse all that follows one that it refuses as damaged. It is
    where it knows our producer, which it may forget by the time of the newest batch: so where the
    batch before it is not older than `since`, in ms. `before`: that of the last one, -1: of none.
    `codecs`: has a bit for each codec that such a batch may have.
    """

    most_bytes: int
    since: int
    before: int
    codecs: int = ANY_CODEC


NOTHING = Unread(0, 0, -1)


def newest(batches: Sequence[Batch], most_bytes: int) -> int:
    """The newest time in what a target that takes up to `most_bytes` gets last of `batches`, in ms;
    -1 where that is not known, as of a part of a batch."""
    if not batches or batches[-1].size > most_bytes:
        return -1
    return batches[-1].max_timestamp


def keep(
    data: memoryview,
    position: int,
    aborted: Sequence[tuple[int, int]],
    subject: str = "",
    unread: Unread = NOTHING,
) -> Kept:
    """Walk a Fetch response's records from source offset `position` on.

    `aborted` is the response's list of (producer id, first offset), empty when uncommitted data
    is wanted. A partial batch at the end is ignored, and what follows once UNPACKED_BYTES have been
    unpacked is left to the next fetch: no log takes the lane from the others for long. So is what
    cannot be kept, where something before it could. Else raises, naming `subject` and the offset,
    ProtocolError for a wrong CRC: a corrupt batch is never passed on, but for what may be `unread`;
    TooLargeError for a batch that must be unpacked and takes too much room.

    With what is passed on unread nothing is certain that follows from it, as `position`, until its
    target has taken it; where that names aborted transactions, all is read.
    """
    kept = Kept(position)
    try:
        _keep_all(data, kept, aborted, subject, NOTHING if aborted else unread)
    except CausewayError:
        if kept.position == position:
            raise
    return kept


def _keep_all(
    data: memoryview,
    kept: Kept,
    aborted: Sequence[tuple[int, int]],
    subject: str,
    unread: Unread,
) -> None:
    batches = kept.batches
    most_bytes, since, before, codecs = unread
    upcoming = deque(sorted(aborted, key=lambda transaction: transaction[1]))
    aborting: set[int] = set()
    at, end = 0, len(data)
    most_unpacked = unpacked_total() + UNPACKED_BYTES
    unpacked = False
    while end - at >= LENGTH_OVERHEAD:
        if unpacked and unpacked_total() >= most_unpacked:
            break
        offset, length = _OFFSET_AND_LENGTH.unpack_from(data, at)
        stop = at + LENGTH_OVERHEAD + length
        if stop > end:
            break
        if length < _LEAST or (data[at + MAGIC_AT] == MAGIC and length < _LEAST_BATCH):
            what = f"the batch at offset {offset} says that it has {length} bytes"
            raise ProtocolError("read", subject, what)
        after = at
        if length > SMALL_BATCH and before >= since:
            after = _keep_unread(data, at, kept, Unread(most_bytes, since, before, codecs))
        elif length <= SMALL_BATCH and not aborted:
            unpacked = True
            after = _keep_small(data, at, kept, subject)
        if after > at:
            before = newest(batches, most_bytes)
            at = after
            continue
        if data[at + MAGIC_AT] != MAGIC:
            unpacked = True
            _keep_legacy(data[at:stop], kept, subject)
            before = newest(batches, most_bytes)
            at = stop
            continue
        (
            base,
            _,
            leader_epoch,
            _,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            _,
            _,
            count,
        ) = HEADER.unpack_from(data, at)
        last = base + last_delta
        payload = bytes(data[at + HEADER_SIZE : stop])
        if checksum(_CHECKED.unpack_from(data, at + CRC_START)[0], payload) != crc:
            raise wrong_crc(subject, base)
        if last < kept.position:
            at = stop
            continue
        while upcoming and upcoming[0][1] <= last:
            aborting.add(upcoming.popleft()[0])
        if attributes & CONTROL:
            unpacked = True
            if aborting and _is_abort(data[at:stop]):
                aborting.discard(producer_id)
        elif count == 0 or (attributes & TRANSACTIONAL and producer_id in aborting):
            pass
        elif count != last_delta + 1 or base < kept.position or attributes & LOG_APPEND_TIME:
            unpacked = True
            dense = densify(
                decode(data[at:stop], _batch_at(base, subject)),
                kept.position,
                codec=attributes & CODEC_MASK,
                next=last + 1,
                leader_epoch=leader_epoch,
            )
            if dense is not None:
                batches.append(dense)
        else:
            batches.append(
                Batch(
                    payload,
                    attributes & CODEC_MASK,
                    base_timestamp,
                    max_timestamp,
                    count,
                    base,
                    last + 1,
                    leader_epoch,
                )
            )
        if batches:
            before = newest(batches, most_bytes)
        kept.position = last + 1
        kept.leader_epoch = leader_epoch
        at = stop


def _keep_unread(data: memoryview, start: int, kept: Kept, unread: Unread) -> int:
    """Passes on the run of batches at `start` that stay unread; returns the place after. See
    `Unread`."""
    most_bytes, since, before, codecs = unread
    most_length = most_bytes - LENGTH_OVERHEAD
    keep_batch = kept.batches.append
    unpack, checked = HEADER.unpack_from, _CHECKED.unpack_from
    at, end = start, len(data)
    following = kept.position
    while before >= since and end - at >= HEADER_SIZE:
        (
            base,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            _,
            _,
            _,
            count,
        ) = unpack(data, at)
        stop = at + LENGTH_OVERHEAD + length
        if (
            not SMALL_BATCH < length <= most_length
            or stop > end
            or magic != MAGIC
            or attributes & _OTHERWISE
            or not codecs >> (attributes & CODEC_MASK) & 1
            or count != last_delta + 1
            or not 0 < count < length  # so that the sequences under way stay below 2**31
            or base < following
        ):
            break
        following = base + count
        keep_batch(
            _batch(
                (
                    data[at + HEADER_SIZE : stop],
                    attributes & CODEC_MASK,
                    base_timestamp,
                    max_timestamp,
                    count,
                    base,
                    following,
                    leader_epoch,
                    None,
                    (crc, crc32c(checked(data, at + CRC_START)[0])),
                )
            )
        )
        before = max_timestamp
        at = stop
    if at > start:
        kept.position, kept.leader_epoch = following, kept.batches[-1].leader_epoch
    return at


def _keep_small(data: memoryview, start: int, kept: Kept, subject: str) -> int:
    """Join the run of small neighbours at `start`, if it is one, into one batch; the place after.

    Only plain, dense batches of one codec; the first that is not ends the run.
    """
    raws: list[memoryview] = []
    keep_raw = raws.append
    unpack = _SMALL_HEADER.unpack_from
    at, end = start, len(data)
    codec = -1
    following, records = kept.position, 0
    while end - at >= HEADER_SIZE and at - start < MERGED_BYTES and records < MERGED_RECORDS:
        base, length, _, magic, crc, attributes, last_delta, count = unpack(data, at)
        stop = at + LENGTH_OVERHEAD + length
        if (
            not _LEAST_BATCH <= length <= SMALL_BATCH
            or stop > end
            or magic != MAGIC
            or attributes & ~_PLAIN
            or count != last_delta + 1
            or base < following
        ):
            break
        if not raws:
            codec = attributes & CODEC_MASK
        elif attributes & CODEC_MASK != codec:
            break
        if crc32c(bytes(data[at + CRC_START : stop])) != crc:
            if raws:
                break
            raise wrong_crc(subject, base)
        keep_raw(data[at:stop])
        following = base + count
        records += count
        at = stop
    if not raws:
        return start
    batch, taken = join(raws) if len(raws) > 1 else (as_is(raws[0]), 1)
    kept.batches.append(batch)
    kept.position = batch.next
    kept.leader_epoch = batch.leader_epoch
    return start + sum(map(len, raws[:taken]))


def _batch_at(offset: int, subject: str) -> str:
    return f"{subject}, the batch at offset {offset}"


def _is_abort(raw: memoryview) -> bool:
    records = decode(raw)
    if not records:
        return False  # the cleaner keeps a producer's last batch, emptied, for its sequence
    key = records[0].key
    if key is None:
        raise ProtocolError("read", "control batch", "it has no key")
    return bool(_CONTROL_KEY.unpack_from(key)[1] == _ABORT)


def _keep_legacy(raw: memoryview, kept: Kept, subject: str) -> None:
    offset = _OFFSET_AND_LENGTH.unpack_from(raw)[0]
    records = decode_legacy(raw, raw[MAGIC_AT], _batch_at(offset, subject))
    if not records or records[-1].offset < kept.position:
        return
    following = records[-1].offset + 1
    dense = densify(records, kept.position, codec=0, next=following, leader_epoch=-1)
    if dense is not None:
        kept.batches.append(dense)
    kept.position = following
