"""Bounds the connections that are open at a port, TLS handshakes among them, because the driver's
files and memory are for its clusters and lanes.

A new connection always gets in, so a probe always does. The oldest connection that waits for its
client is closed. If none waits, the oldest of all is closed.
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
    """One connection. `busy`: the server works on a request, and waits for no byte of the client.
    `close` ends the connection at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._number = sock.fileno()
        self.busy = False
        self.close: Callable[[], None] = self._shut

    @property
    def is_open(self) -> bool:
        return self._sock.fileno() == self._number

    def _shut(self) -> None:
        """Ends a connection that has no protocol yet. asyncio waits for bytes, and sees the end."""
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
        """The place of an accepted connection."""
        return None if sock is None else self._places.get(sock.fileno())

    def _make_room(self) -> None:
        idle = (at for at, each in self._places.items() if not each.busy)
        at = next(idle, next(iter(self._places)))
        self._places.pop(at).close()
        now = time.monotonic()
        if now >= self._told_at + _AGAIN_S:
            self._told_at = now
            _log.warning("connections closed to make room", extra={"open": MOST_CONNECTIONS})
