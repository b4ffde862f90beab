"""The thread that does what is to be done where nobody calls."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from causeway.producer.core import Core

LINGER_S = 0.002  # a record waits no longer for its likes before it is written and sent
_PAUSE_S = 0.005
_LEFT_ALONE_S = 0.01  # so long after a caller's last turn the clerk takes over
_BUSY = 8  # records taken between two looks: whoever writes so fast calls again, and soon
_WATCH_S = 0.02
_IDLE_S = 0.5


class Clerk:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._wake = threading.Event()
        self._watched = 0.0
        self._thread = threading.Thread(target=self._keep, name="causeway-clerk", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def join(self) -> None:
        """Once the core is closed."""
        self._wake.set()
        self._thread.join()

    def _keep(self) -> None:
        core = self._core
        seen = core.taken()
        while not core.closed:
            if not core.in_motion():
                self._wake.wait(_IDLE_S)
            self._wake.clear()
            time.sleep(LINGER_S if core.fresh else _PAUSE_S)
            busy, seen = core.taken() - seen >= _BUSY, core.taken()
            try:
                self._look_after(time.monotonic(), busy=busy)
            except Exception as error:  # else nobody would do it any more
                core.suspend(f"internal error: {error!r}")

    def _look_after(self, now: float, *, busy: bool) -> None:
        """The lock is left alone where nothing is to be done: a busy caller would wait for it."""
        core = self._core
        lingered = core.fresh and not busy and now - core.fresh_since >= LINGER_S
        if lingered or now - core.turned >= _LEFT_ALONE_S:
            with core.lock:
                if not core.closed:
                    core.turn()
        if core.roles.watches and now - self._watched >= _WATCH_S:
            self._watched = now
            with core.lock:
                core.roles.watch(now)
