"""Record batches out of Arrow columns, without a Python object for each record.

Layout of a record, from Kafka's DefaultRecord; numbers are zigzag varints, a length of -1 is null:

    length | attributes 1 | timestamp delta | offset delta | key | value | count | (name | value) …

Each part of it is a column: the numbers are encoded with numpy, and Arrow joins the parts of all
records into one buffer, which is the batch's payload.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from causeway.records import Batch, pack

Ints = npt.NDArray[np.int64]
RECORD_OVERHEAD, HEADER_OVERHEAD = 36, 10  # bytes, the most that lengths and numbers take


class Columns(NamedTuple):
    """Records of one outlet, in order. `timestamps` in ms, -1 where there is none; names in
    `headers` are not null."""

    offsets: Ints  # on the source
    timestamps: Ints
    keys: pa.Array
    values: pa.Array
    headers: pa.Array

    def slice(self, start: int, stop: int) -> Columns:
        length = stop - start
        return Columns(
            self.offsets[start:stop],
            self.timestamps[start:stop],
            self.keys.slice(start, length),
            self.values.slice(start, length),
            self.headers.slice(start, length),
        )

    def take(self, rows: Ints) -> Columns:
        return Columns(
            self.offsets[rows],
            self.timestamps[rows],
            self.keys.take(rows),
            self.values.take(rows),
            self.headers.take(rows),
        )

    def sizes(self) -> Ints:
        """Bytes that each record takes at most, not compressed."""
        counts = _counts(self.headers)
        sizes = np.maximum(_lengths(self.keys), 0) + np.maximum(_lengths(self.values), 0)
        sizes += RECORD_OVERHEAD
        if counts.any():
            ends = np.zeros(len(sizes) + 1, np.int64)
            np.cumsum(counts, out=ends[1:])
            pairs = self.headers.flatten()
            of_pair = sum(np.maximum(_lengths(pairs.field(side)), 0) for side in (0, 1))
            before = np.zeros(len(pairs) + 1, np.int64)
            np.cumsum(of_pair + HEADER_OVERHEAD, out=before[1:])
            sizes += before[ends[1:]] - before[ends[:-1]]
        return sizes


def encode(columns: Columns, *, codec: int, next: int, leader_epoch: int) -> Batch:
    """One dense batch of all of `columns` (at least one record); the rest as in `Batch`."""
    offsets, timestamps = columns.offsets, columns.timestamps
    count, first = len(offsets), int(offsets[0])
    payload, codec = pack(_records(columns), codec)
    dense = offsets[-1] - first == count - 1 and bool((np.diff(offsets) == 1).all())
    return Batch(
        payload=payload,
        codec=codec,
        base_timestamp=int(timestamps[0]),
        max_timestamp=int(timestamps.max()),
        records=count,
        first=first,
        next=next,
        leader_epoch=leader_epoch,
        offsets=None if dense else offsets.tolist(),
    )


def _records(columns: Columns) -> bytes:
    count = len(columns.offsets)
    key_lengths, value_lengths = _lengths(columns.keys), _lengths(columns.values)
    header_counts = _counts(columns.headers)
    head = [
        np.zeros((count, 1), np.uint8),  # attributes
        _varints(columns.timestamps - columns.timestamps[0]),
        _varints(np.arange(count)),
        _varints(key_lengths),
    ]
    middle, tail = [_varints(value_lengths)], [_varints(header_counts)]
    headers = _header_bytes(columns.headers, header_counts) if header_counts.any() else None
    lengths = sum(_widths(part) for part in (*head, *middle, *tail))
    lengths += np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    if headers is not None:
        lengths += _lengths(headers)
    parts = [
        _joined([_varints(lengths), *head]),
        columns.keys,
        _joined(middle),
        columns.values,
        _joined(tail),
    ]
    if headers is not None:
        parts.append(headers)
    joined = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    return bytes(joined.buffers()[2])


def _header_bytes(headers: pa.Array, counts: Ints) -> pa.Array:
    """What follows the count of headers, of each record."""
    pairs = headers.flatten()
    names, values = pairs.field(0).cast(pa.binary()), pairs.field(1)
    one = pc.binary_join_element_wise(
        _joined([_varints(_lengths(names))]),
        names,
        _joined([_varints(_lengths(values))]),
        values,
        b"",
        null_handling="replace",
        null_replacement=b"",
    )
    _, ends, data = one.buffers()
    before = np.frombuffer(ends, np.int32, len(one) + 1)
    last = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=last[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(before[last].tobytes()), data]
    )


def _lengths(column: pa.Array) -> Ints:
    """Bytes of each value, -1 for null."""
    found: Ints = pc.binary_length(column).fill_null(-1).to_numpy().astype(np.int64)
    return found


def _counts(headers: pa.Array) -> Ints:
    found: Ints = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    return found


# A column of texts of different lengths is a matrix of bytes here, a row each. Bytes of a varint
# that are not the last have their highest bit set, so a row's end is seen by itself.
Bytes = npt.NDArray[np.uint8]


def _varints(numbers: Ints) -> Bytes:
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(1, -(-int(rest.max()).bit_length() // 7))
    found = np.empty((len(numbers), width), np.uint8)
    for at in range(width):
        found[:, at] = rest & np.uint64(0x7F)
        rest = rest >> np.uint64(7)
        if at + 1 < width:
            found[:, at] |= (rest > 0).view(np.uint8) << 7
    return found


def _there(numbers: Bytes) -> npt.NDArray[np.bool_]:
    """Which bytes belong to a number: the first, and what follows one that goes on."""
    there = np.ones(numbers.shape, np.bool_)
    there[:, 1:] = numbers[:, :-1] >= 0x80
    return there


def _widths(numbers: Bytes) -> Ints:
    found: Ints = _there(numbers).sum(axis=1)
    return found


def _joined(parts: list[Bytes]) -> pa.Array:
    """The parts of each row behind each other, as a column."""
    there = np.hstack([_there(part) for part in parts])
    ends = np.zeros(len(there) + 1, np.int32)
    np.cumsum(there.sum(axis=1), out=ends[1:])
    data = np.hstack(parts)[there]
    return pa.Array.from_buffers(
        pa.binary(), len(there), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(data)]
    )
