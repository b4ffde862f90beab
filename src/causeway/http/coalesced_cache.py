"""A look at the daemon, shared by all who ask: however many they are, it costs what one does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")
_LEAST_S = 0.5
_REST = 10.0  # times what making took: it gets a tenth of a core, at the most


@dataclass(frozen=True, slots=True)
class _Made(Generic[Value]):
    value: Value
    again_at: float  # monotonic: from then on another is made for who asks
    stale_at: float  # until then nobody waits for that one


class Paced(Generic[Value]):
    """`make` runs in threads of its own, one at a time, that no end of a run waits for. Who asks
    gets the value that is there, if it is a few seconds old at the most (`patience_s` and what
    making takes), and waits else."""

    def __init__(self, make: Callable[[], Value], *, name: str, patience_s: float = 2.0) -> None:
        self._make = make
        self._patience_s = patience_s
        self._made: _Made[Value] | None = None
        self._lock = threading.Lock()
        self._under_way: Future[Value] | None = None
        self._name = f"http {name}"
        self._closed = False
        self.cost_s = 0.0  # of the last one

    async def newest(self) -> Value:
        """Raises what `make` does."""
        made, now = self._made, time.monotonic()
        if made is not None and now < made.again_at:
            return made.value
        under_way = self._begin()
        if made is not None and now < made.stale_at:
            return made.value
        # Others wait for it as well: one who leaves must not end it for them.
        return await asyncio.shield(asyncio.wrap_future(under_way))

    def close(self) -> None:
        """What is under way is told to nobody."""
        self._closed = True

    def _begin(self) -> Future[Value]:
        with self._lock:
            if self._under_way is None or self._under_way.done():
                future: Future[Value] = Future()
                run = threading.Thread(
                    target=self._run, args=(future,), name=self._name, daemon=True
                )
                run.start()
                self._under_way = future
            return self._under_way

    def _run(self, future: Future[Value]) -> None:
        try:
            value = self._timed()
        except Exception as error:
            if not self._closed:
                future.set_exception(error)
        else:
            if not self._closed:
                future.set_result(value)

    def _timed(self) -> Value:
        began = time.monotonic()
        value = self._make()
        now = time.monotonic()
        self.cost_s = now - began
        again_at = now + max(_LEAST_S, _REST * self.cost_s)
        stale_at = again_at + self._patience_s + (self.cost_s if self._patience_s else 0.0)
        self._made = _Made(value, again_at, stale_at)
        return value
