"""Which records of a fetched stretch of log are relayed: the one definition of the relayed series.

Lanes and recovery both read the source through `keep`, so they number the same records alike.
A record is relayed if its batch is not a control batch and, when reading committed data, not part
of an aborted transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct

from causeway.errors import ProtocolError
from causeway.wire.batches import (
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
)
from causeway.wire.records import (
    MERGED_BYTES,
    MERGED_RECORDS,
    SMALL_BATCH,
    as_is,
    decode,
    decode_legacy,
    densify,
    join,
)

_CONTROL_KEY = Struct(">hh")  # version, type
_ABORT = 0
_OFFSET_AND_LENGTH = Struct(">qi")


@dataclass(slots=True)
class Kept:
    """`batches`: dense and in order. `position`: the next source offset to fetch; everything below
    is in `batches` or rightly dropped. `leader_epoch`: of the last batch seen, -1 if none."""

    position: int
    batches: list[Batch] = field(default_factory=list)
    leader_epoch: int = -1


@dataclass(slots=True)
class _Run:
    """Small neighbours of one codec, which become one batch: see docs/decisions/0003-merging.md."""

    raws: list[memoryview] = field(default_factory=list)
    codec: int = 0
    first: int = 0
    next: int = 0
    records: int = 0
    size: int = 0
    leader_epoch: int = -1
    gapless: bool = True

    @property
    def full(self) -> bool:
        return self.size >= MERGED_BYTES or self.records >= MERGED_RECORDS

    def add(self, raw: memoryview, codec: int, base: int, count: int, leader_epoch: int) -> None:
        if not self.raws:
            self.codec, self.first, self.gapless = codec, base, True
        elif base != self.next:
            self.gapless = False
        self.raws.append(raw)
        self.next = base + count
        self.records += count
        self.size += len(raw)
        self.leader_epoch = leader_epoch

    def end(self, batches: list[Batch]) -> None:
        """The run so far becomes a batch; a new one begins."""
        if not self.raws:
            return
        try:
            batches += [self._joined()] if len(self.raws) > 1 else [as_is(self.raws[0])]
        except ProtocolError:
            # What our codec can't read (a header's name that is no UTF-8) needs no merging.
            batches += [as_is(raw) for raw in self.raws]
        self.raws = []
        self.records = self.size = 0

    def _joined(self) -> Batch:
        return join(
            self.raws,
            codec=self.codec,
            first=self.first,
            next=self.next,
            leader_epoch=self.leader_epoch,
            gapless=self.gapless,
        )


def keep(
    data: memoryview, position: int, aborted: Sequence[tuple[int, int]], subject: str = ""
) -> Kept:
    """Walk a Fetch response's records from source offset `position` on.

    `aborted` is the response's list of (producer id, first offset), empty when uncommitted data
    is wanted. A partial batch at the end is ignored. Raises ProtocolError for a wrong CRC, naming
    `subject` and the offset: a corrupt batch is never passed on.
    """
    kept = Kept(position)
    batches = kept.batches
    upcoming = deque(sorted(aborted, key=lambda transaction: transaction[1]))
    aborting: set[int] = set()
    run = _Run()
    unpack = HEADER.unpack_from
    at, end = 0, len(data)
    while end - at >= LENGTH_OVERHEAD:
        length = _OFFSET_AND_LENGTH.unpack_from(data, at)[1]
        stop = at + LENGTH_OVERHEAD + length
        if stop > end:
            break
        if data[at + MAGIC_AT] != MAGIC:
            run.end(batches)
            _keep_legacy(data[at:stop], kept)
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
        ) = unpack(data, at)
        last = base + last_delta
        if last < kept.position:
            at = stop
            continue
        small = stop - at <= SMALL_BATCH
        payload = b"" if small else bytes(data[at + HEADER_SIZE : stop])
        checked = bytes(data[at + CRC_START : stop if small else at + HEADER_SIZE])
        if checksum(checked, payload) != crc:
            raise ProtocolError("read", subject, f"the batch at offset {base} has a wrong CRC")
        while upcoming and upcoming[0][1] <= last:
            aborting.add(upcoming.popleft()[0])
        if attributes & CONTROL:
            if aborting and _is_abort(data[at:stop]):
                aborting.discard(producer_id)
        elif count == 0 or (attributes & TRANSACTIONAL and producer_id in aborting):
            pass
        elif count != last_delta + 1 or base < kept.position or attributes & LOG_APPEND_TIME:
            run.end(batches)
            dense = densify(
                decode(data[at:stop]),
                kept.position,
                codec=attributes & CODEC_MASK,
                next=last + 1,
                leader_epoch=leader_epoch,
            )
            if dense is not None:
                batches.append(dense)
        elif small:
            codec = attributes & CODEC_MASK
            if run.raws and (codec != run.codec or run.full):
                run.end(batches)
            run.add(data[at:stop], codec, base, count, leader_epoch)
        else:
            run.end(batches)
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
        kept.position = last + 1
        kept.leader_epoch = leader_epoch
        at = stop
    run.end(batches)
    return kept


def _is_abort(raw: memoryview) -> bool:
    key = decode(raw)[0].key
    if key is None:
        raise ProtocolError("read", "control batch", "it has no key")
    return bool(_CONTROL_KEY.unpack_from(key)[1] == _ABORT)


def _keep_legacy(raw: memoryview, kept: Kept) -> None:
    records = decode_legacy(raw, raw[MAGIC_AT])
    if not records or records[-1].offset < kept.position:
        return
    following = records[-1].offset + 1
    dense = densify(records, kept.position, codec=0, next=following, leader_epoch=-1)
    if dense is not None:
        kept.batches.append(dense)
    kept.position = following
