"""Sending while a lease lasts, and a process that is stopped in the midst of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from causeway.relay.lane.lease import LeaseGuard, clock
from tests.harness.waiting import await_until

LEASE_S = 1.0

# Stops itself between the look at the lease and what would be the system call.
STOPPED = f"""
import os, signal
from causeway.relay.lane.lease import LeaseGuard, clock
lease = LeaseGuard()
lease.renew(clock() + {LEASE_S})
def act():
    os.kill(os.getpid(), signal.SIGSTOP)
    print("sent", flush=True)
lease.send(act)
"""


@pytest.fixture
def lease() -> LeaseGuard:
    lease = LeaseGuard()
    lease.renew(clock() + 3600)
    return lease


def test_sends_while_it_lasts(lease: LeaseGuard) -> None:
    done: list[float] = []

    lease.send(lambda: done.append(signal.getitimer(signal.ITIMER_REAL)[0]))

    assert 3500 < done[0] < 3600, "a timer ends with the lease"
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_no_timer_is_left_by_what_fails(lease: LeaseGuard) -> None:
    with pytest.raises(ZeroDivisionError):
        lease.send(lambda: 1 / 0)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_does_not_send_when_it_is_over(lease: LeaseGuard) -> None:
    lease.renew(clock())
    done: list[bool] = []

    lease.send(lambda: done.append(True))

    assert not done
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_stopped_while_it_sends_it_ends_before_it_does() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        over = time.monotonic() + LEASE_S
        await_until(lambda: time.monotonic() > over)

        process.send_signal(signal.SIGCONT)

        assert process.wait() == -signal.SIGALRM
        assert process.stdout is not None
        assert process.stdout.read() == b""


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_it_runs_out_while_the_machine_sleeps(
    lease: LeaseGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still meanwhile."""
    read = time.clock_gettime
    slept = {time.CLOCK_BOOTTIME: 3601.0}
    monkeypatch.setattr(time, "clock_gettime", lambda which: read(which) + slept.get(which, 0.0))

    assert not lease.lasts()
