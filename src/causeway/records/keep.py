"""Decides which records of a fetched part of a log are relayed. This module defines the relayed
series.

Lanes and recovery both read the source through `keep`, so they number the same records alike. A
record is relayed if its batch is not a control batch. If only committed data is read, the batch
must not be part of an aborted transaction either.

The CRC of each batch is checked before the batch is unpacked or left out. Only a lane passes on
dense batches unread (`Unread`), because its target checks them.
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
_CHECKED = Struct(f"{HEADER_SIZE - CRC_START}s")  # the bytes of the header that the CRC covers


ANY_CODEC = (1 << (CODEC_MASK + 1)) - 1  # a bit for each codec


@dataclass(slots=True)
class Kept:
    """`batches` are dense and in order. `position` is the next source offset to fetch; each record
    below it is in `batches` or was rightly dropped. `leader_epoch` is the epoch of the last batch
    that was seen, -1 if there was no batch."""

    position: int
    batches: list[Batch] = field(default_factory=list)
    leader_epoch: int = -1


class Unread(NamedTuple):
    """Says which batches a lane may pass on without reading their records.

    They are dense, have up to `most_bytes`, and go to the only outlet of a flow. The target checks
    their CRC. If it refuses a batch as damaged, it must also refuse all later batches; it does so
    as long as it knows our producer. It forgets a producer by the timestamp of its newest batch. So
    the batch before must not be older than `since` (ms). `before` is the newest timestamp of the
    last batch, -1 if there is none. `codecs` has a bit for each codec that such a batch may have.
    """

    most_bytes: int
    since: int
    before: int
    codecs: int = ANY_CODEC


NOTHING = Unread(0, 0, -1)


def newest(batches: Sequence[Batch], most_bytes: int) -> int:
    """The newest timestamp (ms) in the last batch that the target gets of `batches`. -1 if that is
    not known: there is no batch, or the last batch has more than `most_bytes` and is sent in
    parts."""
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
    """Reads the batches of a Fetch response from source offset `position` on.

    `aborted` is the response's list of (producer id, first offset). It is empty if uncommitted data
    is wanted. A partial batch at the end is ignored. Once UNPACKED_BYTES have been unpacked, the
    next batches are left to the next fetch, so one partition does not hold up the others for long.

    If a batch cannot be kept, it is left to the next fetch, too. If nothing before it was kept, an
    error is raised, which names `subject` and the offset: ProtocolError for a wrong CRC (a damaged
    batch is never passed on, except `unread`), TooLargeError for a batch that must be unpacked and
    takes too much memory.

    After a batch was passed on unread, `position` and all other results are only certain when the
    target has acknowledged that batch. If there are `aborted` transactions, all batches are read.
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
    """Passes on the run of batches at `start` that may stay unread (see `Unread`). Returns the
    place after the run."""
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
            or not 0 < count < length  # the sequences in flight must stay below 2**31
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
    """Joins the run of small batches at `start`, if there is one, into one batch. Returns the place
    after the run. Only plain, dense batches of one codec are joined.
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
        return False  # compaction keeps a producer's last batch without records, for its sequence
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
