"""Records: the id that both copies carry, and the form in which the spool holds them.

The header `causeway.id` is `<identity>/<life>-<number>` in ASCII, such as `orders-app.5f3a/3-1042`.
A *life* is one run of a producer on its spool; the spool counts lives. The number counts the
records of a life in the order in which `produce` took them. Inside this package life and number are
one integer, the record's *position*. Positions only grow.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from causeway_producer.earlier_format import records_in_batches

Header = tuple[str, bytes | None]
Callback = Callable[..., Any] | None

ID_HEADER = "causeway.id"
_NUMBER_BITS = 40
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1
_ID = re.compile(rb"([^/]+)/(\d+)-(\d+)")
_FORMAT = 2  # of marshal; the same since Python 2.5


Record = tuple[int, int, int, bytes | None, bytes | None, list[Header] | None]
"""Position, partition (the number by which the spool knows topic and partition), timestamp in ms,
key, value, and the headers without the id. An exact tuple: marshal writes no subclass."""


class Chunk:
    """The records of one write to the spool, in order. `wanted`: the application may wait for the
    delivery of single records. `size`: its bytes in the spool, once it is there."""

    __slots__ = ("_columns", "records", "size", "wanted")

    def __init__(self, records: list[Record], *, wanted: bool = True, size: int = 0) -> None:
        self.records = records
        self.wanted = wanted
        self.size = size
        self._columns: Columns | None = None

    @property
    def first(self) -> int:
        return self.records[0][0]

    @property
    def last(self) -> int:
        return self.records[-1][0]

    def columns(self, identity: str) -> Columns:
        """Built once for both sides."""
        if self._columns is None:
            mark = f"{identity}/{self.first >> _NUMBER_BITS}-".encode()  # a chunk is of one life
            headers = [
                [*(record[5] or ()), (ID_HEADER, mark + b"%d" % (record[0] & _NUMBER_MASK))]
                for record in self.records
            ]
            positions, numbers, timestamps, keys, values, _ = zip(*self.records, strict=True)
            self._columns = Columns(positions, numbers, timestamps, keys, values, headers)
        return self._columns


class Columns(NamedTuple):
    """The records of a chunk by columns. The headers include the id."""

    positions: Sequence[int]
    numbers: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[list[Header]]


def first_position(life: int) -> int:
    """Returns a position: all positions of this life are greater."""
    return life << _NUMBER_BITS


def record_id(identity: str, position: int) -> bytes:
    return f"{identity}/{position >> _NUMBER_BITS}-{position & _NUMBER_MASK}".encode()


def position_of(identity: str, headers: Iterable[Header] | None) -> int | None:
    """Returns the position in the id. None if the record is of another producer."""
    for name, value in headers or ():
        if name == ID_HEADER and value and (found := _ID.fullmatch(value)) is not None:
            whose, life, number = found.groups()
            if whose == identity.encode():
                return int(life) << _NUMBER_BITS | int(number)
    return None


def encode(records: list[Record]) -> bytes:
    """Encodes one chunk of the spool: a list of tuples, by marshal."""
    return marshal.dumps(records, _FORMAT)


def decode(content: bytes) -> list[Record]:
    """Decodes a chunk. Also reads the encoded batches of earlier versions. Raises SettingsError if
    these are compressed and the package that decompresses them is missing."""
    found = marshal.loads(content)  # noqa: S302  (a file of our own)
    if type(found) is list:
        return found
    return sorted(
        (
            (*row[:5], [header for header in row[5] if header[0] != ID_HEADER] or None)
            for row in records_in_batches(found)
        ),
        key=lambda record: record[0],
    )


def message_of(
    topic: str, partition: int, record: Record, identity: str, error: Any = None
) -> Message:
    """Returns a message for a record without an answer of a broker. Its offset is None."""
    return Message(
        topic=topic,
        partition=partition,
        key=record[3],
        value=record[4],
        headers=[*(record[5] or ()), (ID_HEADER, record_id(identity, record[0]))],
        timestamp=(TIMESTAMP_CREATE_TIME, record[2]),
        error=error,
    )
