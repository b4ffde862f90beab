"""A signal does what it should at every moment of a run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from causeway.signals import handled, hang_ups_remembered


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """SIGHUP ends the process, as by default. The test's handlers are taken away."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def test_a_signal_while_the_main_thread_waits_does_not_hang() -> None:
    """The main thread has the event's lock at that moment."""
    stop = threading.Event()
    with handled(stop):
        with stop._cond:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)
            assert not stop._flag  # type: ignore[attr-defined]
        assert stop.wait(60)


def test_a_hang_up_before_the_run_has_started_reads_the_file_again_once() -> None:
    asked: list[str] = []
    with hang_ups_remembered():
        hang_up()
        hang_up()
        with handled(threading.Event(), asked.append):
            assert asked == ["SIGHUP"]
        with handled(threading.Event(), asked.append):
            assert asked == ["SIGHUP"]


def test_a_hang_up_while_the_run_ends_does_not_end_the_process() -> None:
    came = threading.Event()
    with hang_ups_remembered():
        with handled(threading.Event(), lambda _: came.set()):
            hang_up()
            assert came.wait(60)
        hang_up()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_ignored_hang_ups_stay_ignored() -> None:
    """As with `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asked: list[str] = []
    with hang_ups_remembered(), handled(threading.Event(), asked.append):
        hang_up()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert asked == []
