"""Record batches made by aiokafka's codec, which shares no code with ours."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder


def make_batch(
    values: Sequence[bytes],
    *,
    timestamp: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch with a record for each value, a millisecond apart; no keys.

    `producer`: producer id, epoch and base sequence.
    """
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for position, value in enumerate(values):
        builder.append(position, timestamp + position, None, value, [])
    return bytes(builder.build())
