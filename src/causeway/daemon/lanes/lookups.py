"""Asks lanes for target offsets of transformed partitions.

Only a lane can compute such a series again, through its stage. The answer may take a while; late
answers are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from itertools import count

from causeway.daemon.lanes.tracked import Key
from causeway.errors import CausewayError
from causeway.relay import LaneConnection, LookedUp, Lookup, Sought

PATIENCE_S = 300.0

_Answer = dict[int, int] | CausewayError


class LaneLookups:
    """Thread-safe. `connect` returns the lane that has a partition; None if no lane has it."""

    def __init__(self, connect: Callable[[Key], LaneConnection | None]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._ids = count(1)
        self._asked: dict[int, tuple[LaneConnection, Future[_Answer]]] = {}

    def find(self, key: Key, sought: Sought, patience_s: float = PATIENCE_S) -> dict[int, int]:
        """See relay.offset_lookup.find. Waits for the answer. Raises CausewayError."""
        connection = self._connect(key)
        if connection is None:
            raise _error(sought, "no lane has the partition now")
        future: Future[_Answer] = Future()
        with self._lock:
            number = next(self._ids)
            self._asked[number] = connection, future
        if self._connect(key) is not connection:
            # `lost` may have been called right before this question.
            self._settle(number, _error(sought, "its lane has ended"))
        connection.send(
            Lookup(
                id=number,
                key=key,
                producer_id=sought.producer_id,
                start=sought.span.start,
                end=sought.span.end,
                offsets=tuple(sought.offsets),
                floor=sought.floor,
                patience_s=patience_s,
            )
        )
        try:
            answer = future.result(patience_s)
        except NotInTimeError:
            answer = _error(sought, "its lane did not answer in time")
        finally:
            with self._lock:
                self._asked.pop(number, None)
        if isinstance(answer, CausewayError):
            raise answer
        return answer

    def take(self, message: LookedUp) -> None:
        """Takes a lane's answer."""
        self._settle(
            message.id,
            dict(message.places)
            if message.reason is None
            else CausewayError("look up offsets in", "the source", message.reason, retriable=True),
        )

    def lost(self, connection: LaneConnection) -> None:
        """Fails the questions to a lane that has ended."""
        with self._lock:
            gone = [number for number, (lane, _) in self._asked.items() if lane is connection]
        for number in gone:
            error = CausewayError(
                "look up offsets in", "the source", "its lane has ended", retriable=True
            )
            self._settle(number, error)

    def _settle(self, number: int, answer: _Answer) -> None:
        with self._lock:
            _, future = self._asked.pop(number, (None, None))
        if future is not None:
            future.set_result(answer)


def _error(sought: Sought, cause: str) -> CausewayError:
    return CausewayError("look up offsets in", str(sought.source), cause, retriable=True)
