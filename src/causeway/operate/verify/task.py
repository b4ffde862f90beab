"""What runs on an executor: a few ranges of one link, compared one after the other."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cryptography.fernet import Fernet

from causeway.cluster import Cluster
from causeway.config import ClientSettings, from_wire, to_wire
from causeway.errors import CausewayError
from causeway.operate.verify.compare import compare
from causeway.operate.verify.outcome import Outcome
from causeway.operate.verify.ranges import Range
from causeway.relay import SECRET_VARIABLE

Answer = Outcome | CausewayError


@dataclass(frozen=True, slots=True)
class Task:
    """`clusters`: how to reach both, sealed: the key is in the executor's environment, never in
    what Spark sends or shows. `bytes_per_s`: None for as fast as it goes."""

    clusters: bytes
    ranges: Sequence[Range]
    look_into: bool
    bytes_per_s: float | None

    def __call__(self, _: Iterator[int]) -> Iterator[list[Answer]]:
        source, target = _opened(self.clusters)
        pace = Pace(self.bytes_per_s)
        yield [answer(each, source, target, self.look_into, pace) for each in self.ranges]


def answer(part: Range, source: Cluster, target: Cluster, look_into: bool, pace: Pace) -> Answer:
    """An error of one range holds up no other."""
    try:
        return compare(part, source, target, look_into=look_into, spent=pace.spent)
    except CausewayError as error:
        return error


class Pace:
    """Makes whoever reads wait: no more than so many bytes a second are read in the mean."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self._rate = bytes_per_s
        self._due = time.monotonic()

    def spent(self, size: int) -> None:
        if self._rate is None:
            return
        now = time.monotonic()
        # What was not used is not saved up.
        self._due = max(self._due, now - 1.0) + size / self._rate
        if self._due > now:
            time.sleep(self._due - now)


def seal(secret: str, source: ClientSettings, target: ClientSettings) -> bytes:
    return Fernet(secret).encrypt(json.dumps([to_wire(source), to_wire(target)]).encode())


@lru_cache(maxsize=1)
def _opened(clusters: bytes) -> tuple[Cluster, Cluster]:
    """Connections stay for the next task of the same worker."""
    key = os.environ[SECRET_VARIABLE]
    source, target = json.loads(Fernet(key).decrypt(clusters))
    return Cluster(from_wire(source)), Cluster(from_wire(target))
