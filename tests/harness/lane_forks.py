"""Forks lanes for tests.harness.lane_process, which has the other end of a socket, and tells it of
their ends."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback

from causeway.relay.lane.loop import run_lane


def main() -> None:
    """Until nobody is at the other end."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.freeze()
    watched: list[socket.socket | int] = [orders, woken]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(orders)
        if orders in ready:
            order = orders.recv(1 << 20)
            if not order:
                return
            number, *words = json.loads(order)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(woken)
                os.close(waker)
                orders.close()
                _live(*words)
            _tell(orders, "begun", number, pid)


def _live(lane: int, host: str, port: int, environment: dict[str, str]) -> None:
    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        run_lane(lane, host, port)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _reap(orders: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell(orders, "ended", pid, os.waitstatus_to_exitcode(status))


def _tell(orders: socket.socket, what: str, one: int, other: int) -> None:
    orders.sendall(json.dumps([what, one, other]).encode())


if __name__ == "__main__":
    main()
