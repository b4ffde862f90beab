"""Sending while a lease lasts, and a process that is stopped in the midst of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from causeway.relay.lane import clock
from causeway.relay.lane.lease import LeaseGuard, _IntervalTimer
from tests.harness.waiting import await_until

LEASE_S = 1.0
TIMERS = Path("/proc/self/timers")

# Stops itself between the look at the lease and what would be the system call.
STOPPED = f"""
import os, signal
from causeway.relay.lane.lease import LeaseGuard, _IntervalTimer, clock
lease = LeaseGuard()
%s
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


@pytest.fixture
def alarms() -> Iterator[list[int]]:
    alarms: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: alarms.append(number))
    yield alarms
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not TIMERS.exists(), reason="this system shows no timers")
def test_the_timer_counts_while_the_machine_sleeps(lease: LeaseGuard) -> None:
    found: list[str] = []

    lease.send(lambda: found.append(TIMERS.read_text()))

    assert f"ClockID: {time.CLOCK_BOOTTIME}\n" in found[0]
    assert f"signal: {signal.SIGALRM.value}/" in found[0]


@pytest.mark.parametrize("plain", [False, True], ids=["usual", "no timer_create"])
@pytest.mark.parametrize("fails", [False, True])
def test_no_timer_is_left_by_what_was_sent_or_failed(
    alarms: list[int], plain: bool, fails: bool
) -> None:
    lease = LeaseGuard()
    if plain:
        lease._timer = _IntervalTimer()
    lease.renew(over := clock() + 0.3)
    done: list[float] = []

    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        lease.send(lambda: done.append(1 / (not fails)))

    assert len(done) == (not fails)
    await_until(lambda: clock() > over)
    assert not alarms


@pytest.mark.parametrize("plain", [False, True], ids=["usual", "no timer_create"])
def test_does_not_send_when_it_is_over(alarms: list[int], plain: bool) -> None:
    lease = LeaseGuard()
    if plain:
        lease._timer = _IntervalTimer()
    lease.renew(clock())
    done: list[bool] = []

    lease.send(lambda: done.append(True))

    assert not done
    assert not alarms


@pytest.mark.parametrize("plain", [False, True], ids=["usual", "no timer_create"])
def test_stopped_while_it_sends_it_ends_before_it_does(plain: bool) -> None:
    script = STOPPED % ("lease._timer = _IntervalTimer()" if plain else "")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
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
