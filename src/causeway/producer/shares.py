"""What is taken together, a batch for each partition: as sides get it, and as the spool has it.

marshalled:  (lane, records encoded, codec, first timestamp, last one, positions 8 bytes each) …
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from causeway.producer.encode import Packer, batch_of
from causeway.producer.ids import ID_HEADER, NUMBER_BITS, prefix
from causeway.producer.journal import Chunk, Record
from causeway.producer.lanes import Callback, Group, Lane
from causeway.records import Batch, records_of

_FORMAT = 2  # of marshal: unchanged since Python 2.5


class Share(NamedTuple):
    """Of one partition in what was taken together."""

    lane: Lane
    batch: Batch
    records: list[Record]


def share_out(
    records: Sequence[Record], lanes: Mapping[int, Lane], mark: bytes, packer: Packer
) -> list[Share]:
    """`mark`: what the ids of these records begin with."""
    by_lane: dict[int, list[Record]] = {}
    for record in records:
        if (number := record[1]) in by_lane:
            by_lane[number].append(record)
        else:
            by_lane[number] = [record]
    return [
        Share(lanes[number], batch_of(some, mark, packer), some) for number, some in by_lane.items()
    ]


def await_answers(
    shares: Sequence[Share], records: Sequence[Record], callbacks: Sequence[Callback]
) -> None:
    """Each lane has its share among those that wait."""
    told: dict[int, list[Callback]] = {share.lane.number: [] for share in shares}
    for record, callback in zip(records, callbacks, strict=True):
        told[record[1]].append(callback)
    for lane, batch, some in shares:
        lane.waiting.append(Group(batch.offsets, told[lane.number], some))  # type: ignore[arg-type]


def marshalled(shares: Sequence[Share]) -> bytes:
    return marshal.dumps(
        tuple(
            [
                (lane.number, b[0], b[1], b[2], b[3], array("Q", b[8] or ()).tobytes())
                for lane, b, _ in shares
            ]
        ),
        _FORMAT,
    )


def batches_in(chunk: Chunk, name: str) -> list[tuple[int, Batch]]:
    """By lane. `name`: what the ids of the producer's records begin with."""
    found = marshal.loads(chunk.content)  # noqa: S302  (a file of our own)
    if type(found) is list:
        return _of_old(found, name)
    batches = []
    for lane, payload, codec, base, most, packed in found:
        positions = array("Q", packed).tolist()
        batches.append(
            (
                lane,
                Batch(
                    payload, codec, base, most, len(positions), positions[0], positions[-1] + 1,
                    -1, positions,
                ),
            )
        )  # fmt: skip
    return batches


def _of_old(records: list[Record], name: str) -> list[tuple[int, Batch]]:
    """Records one by one, as earlier versions wrote them."""
    by_lane: dict[int, list[Record]] = {}
    for record in records:
        by_lane.setdefault(record[1], []).append(record)
    mark = prefix(name, records[0][0] >> NUMBER_BITS)
    return [(lane, batch_of(some, mark, Packer(0))) for lane, some in by_lane.items()]


def records_in(batch: Batch, lane: int) -> list[Record]:
    """As they were taken: without their ids."""
    return [
        (
            batch.source_offset(index),
            lane,
            record.timestamp or 0,
            record.key,
            record.value,
            [each for each in record.headers if each[0] != ID_HEADER] or None,
        )
        for index, record in enumerate(records_of(batch))
    ]
