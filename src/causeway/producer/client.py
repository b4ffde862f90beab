"""What a side's client is, and what it tells the side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from causeway.producer.journal import Record
from causeway.records import Batch

if TYPE_CHECKING:
    from causeway.producer.lanes import SideLane


class Sending:
    """A batch with a client. `records`: those in it, where anybody may want to hear of them.
    `doubtful`: it may be there, though that was not said. `sequence`: -1 where it has none yet.
    `refusal`: what the broker has against it, for good. `offsets`: of its records, as far as they
    were told one by one. `charged`: bytes that the client counts for it: as many as what it was
    made of had, whatever it packs to now."""

    __slots__ = ("batch", "charged", "doubtful", "offsets", "on", "records", "refusal", "sequence")

    def __init__(
        self, on: SideLane, batch: Batch, records: list[Record] | None, charged: int
    ) -> None:
        self.on = on
        self.batch = batch
        self.records = records
        self.charged = charged
        self.sequence = -1
        self.doubtful = False
        self.refusal: Any = None
        self.offsets: list[int | None] = []


class Owner(Protocol):
    """The side. With the lock held."""

    def arrived(self, sending: Sending, offsets: Sequence[int | None] | None) -> None:
        """It is there; None where it is not known at which offsets."""

    def refused_alone(self, sending: Sending, error: Any) -> None:
        """A record, by itself, for good; all before it in the partition are there, and the client
        goes on."""

    def rejected(self, sending: Sending, index: int, error: Any) -> None:
        """A record of it, which ends the client."""

    def failed(self, topic: str | None, error: Any) -> None:
        """The client has ended. `topic`: whose error it is, if it is one's."""

    def troubled(self, error: Any) -> None:
        """What is tried again; None once all is well."""

    def wake(self) -> None:
        """Has the side's own thread call `maintain` soon."""


class Client(Protocol):
    """Takes batches, and sees to it that those of a partition arrive in order, without gaps."""

    def __len__(self) -> int: ...

    def send(self, on: SideLane, batch: Batch, records: list[Record] | None) -> None: ...

    def poll(self, timeout_s: float = 0) -> None: ...

    def maintain(self) -> float | None: ...

    def interrupt(self) -> None: ...

    def end(self) -> None: ...

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any: ...
