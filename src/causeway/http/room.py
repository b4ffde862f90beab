"""The connections that are open at a port, TLS handshakes among them, and who of them leaves when
there are too many: the driver's files and memory are for its clusters and lanes.

A new connection always gets in, so a probe always does. The oldest one that waits for its client
makes room; if all have a request that is worked on, the oldest of these.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_log = logging.getLogger("causeway.http")
MOST_CONNECTIONS: Final = 256
_AGAIN_S: Final = 60.0  # between two log lines


class Place:
    """Of one connection. `busy`: the server works on a request of it, and waits for no byte of its
    client. `close` ends it at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._number = sock.fileno()
        self.busy = False
        self.close: Callable[[], None] = self._shut

    @property
    def is_open(self) -> bool:
        return self._sock.fileno() == self._number

    def _shut(self) -> None:
        """Before there is a protocol: asyncio, which waits for bytes, sees the end."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


class Room:
    """Used by one event loop."""

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}  # by number of file, the oldest first
        self._told_at = -_AGAIN_S

    def take(self, sock: socket.socket) -> None:
        """Gives a connection that was just accepted a place."""
        self._places = {at: each for at, each in self._places.items() if each.is_open}
        while len(self._places) >= MOST_CONNECTIONS:
            self._make_room()
        self._places[sock.fileno()] = Place(sock)

    def place(self, sock: socket.socket | None) -> Place | None:
        """The one of an accepted connection."""
        return None if sock is None else self._places.get(sock.fileno())

    def _make_room(self) -> None:
        idle = (at for at, each in self._places.items() if not each.busy)
        at = next(idle, next(iter(self._places)))
        self._places.pop(at).close()
        now = time.monotonic()
        if now >= self._told_at + _AGAIN_S:
            self._told_at = now
            _log.warning("connections closed to make room", extra={"open": MOST_CONNECTIONS})
