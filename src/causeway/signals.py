"""The effects of signals on a run.

SIGTERM and SIGINT end a run in good order; a second signal ends it at once. After SIGHUP the run
reads its file again. If the terminal of the run is gone, SIGHUP ends the run (`daemon(7)`,
`nohup(1)`).
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def hang_ups_remembered() -> Iterator[None]:
    """Lets a SIGHUP not end the process while a run starts or ends: the run reads the file again
    once `handled` begins. Changes nothing outside of the main thread, or if SIGHUP is ignored or
    has a handler."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, _Remembering())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


class _Remembering:
    def __init__(self) -> None:
        self._on_terminal = _terminal_is_there()
        self.seen = False

    def __call__(self, number: int, _: FrameType | None) -> None:
        self.seen = True
        if self._on_terminal and not _terminal_is_there():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@contextmanager
def handled(
    stop: threading.Event, reload: Callable[[str], object] = lambda _: None
) -> Iterator[None]:
    """The first SIGTERM or SIGINT sets `stop`, a second one ends the process at once. SIGHUP calls
    `reload`, also one that `hang_ups_remembered` saw; if the terminal is gone, SIGHUP sets `stop`.
    Changes nothing outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    on_terminal = _terminal_is_there()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        # The signal may interrupt this thread while it holds the event's lock.
        _thread.start_new_thread(stop.set, ())

    def hang_up(number: int, frame: FrameType | None) -> None:
        if on_terminal and not _terminal_is_there():
            handle(number, frame)
        else:
            _thread.start_new_thread(reload, ("SIGHUP",))

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as with nohup
        before[signal.SIGHUP] = earlier = signal.signal(signal.SIGHUP, hang_up)
        if isinstance(earlier, _Remembering) and earlier.seen:
            earlier.seen = False
            reload("SIGHUP")
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminal_is_there() -> bool:
    """Returns whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
