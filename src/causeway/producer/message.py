"""What the application is told of a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME

from causeway.producer.ids import ID_HEADER, record_id
from causeway.producer.journal import Header, Record


class Message(tuple[Any, ...]):
    """The interface of confluent-kafka's `Message`, for a record that was sent. `offset` is None
    where the answer was lost and the record was found in the log."""

    __slots__ = ()

    def topic(self) -> str:
        return self[0]  # type: ignore[no-any-return]

    def partition(self) -> int:
        return self[1]  # type: ignore[no-any-return]

    def offset(self) -> int | None:
        return self[2]  # type: ignore[no-any-return]

    def error(self) -> Any:
        return self[4]

    def timestamp(self) -> tuple[int, int]:
        """The kind of it, and ms."""
        return TIMESTAMP_CREATE_TIME, self[3][2]

    def key(self) -> bytes | None:
        return self[3][3]  # type: ignore[no-any-return]

    def value(self) -> bytes | None:
        return self[3][4]  # type: ignore[no-any-return]

    def headers(self) -> list[Header]:
        return [*(self[3][5] or ()), (ID_HEADER, record_id(self[5], self[3][0]))]

    def latency(self) -> float | None:
        return None

    def leader_epoch(self) -> int | None:
        return None

    def __len__(self) -> int:
        """Of the value, in bytes."""
        return len(self.value() or b"")

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:  # nothing of what it holds
        return f"<Message {self.topic()}-{self.partition()} at {self.offset()}>"


_made = partial(tuple.__new__, Message)


def messages(
    topic: str,
    partition: int,
    offsets: Iterable[int | None],
    records: Iterable[Record],
    name: str,
    error: Any = None,
) -> Iterator[Message]:
    """Of a partition's records, one a record; `name`: what their ids begin with."""
    rows = zip(
        repeat(topic),
        repeat(partition),
        offsets,
        records,
        repeat(error),
        repeat(name),
        strict=False,
    )
    return map(_made, rows)
