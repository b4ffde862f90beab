"""A signal ends the run at whatever moment it comes."""

from __future__ import annotations

import os
import signal
import threading

from causeway.daemon.driver import _signals


def test_a_signal_amid_the_wait_for_it_does_not_hang() -> None:
    """As when the main thread is about to wait, and has the event's lock."""
    stop = threading.Event()
    with _signals(stop):
        with stop._cond:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)
            assert not stop._flag  # type: ignore[attr-defined]
        assert stop.wait(60)
