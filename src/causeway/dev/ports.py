"""Free TCP ports on the loopback interface, kept for one owner.

Ports are below the range that the kernel gives to outgoing connections, so that nothing else takes
a port while its broker is down. A locked file for each port keeps two clusters of this machine's
user from choosing the same one.
"""

from __future__ import annotations

import fcntl
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

from causeway.errors import CausewayError

_FIRST, _LAST = 20_000, 32_000
_TRIES = 500


class Ports:
    """The ports of one owner, locked until `release` or the end of this Python process."""

    def __init__(self) -> None:
        self._locks: list[IO[str]] = []

    def take(self) -> int:
        """Returns a port that is free and that no other `Ports` has."""
        folder = Path(tempfile.gettempdir()) / "causeway-ports"
        folder.mkdir(mode=0o777, exist_ok=True)
        for _ in range(_TRIES):
            port = random.randrange(_FIRST, _LAST)  # noqa: S311 - not a secret
            try:
                lock = (folder / str(port)).open("a")
            except PermissionError:  # another user's
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            if _is_free(port):
                self._locks.append(lock)
                return port
            lock.close()
        raise CausewayError("find a free port", f"{_FIRST}-{_LAST}", f"none in {_TRIES} tries")

    def release(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
