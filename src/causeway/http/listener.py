"""The socket that the server listens on."""

from __future__ import annotations

import errno
import logging
import os
import socket
from typing import Any, Final
from weakref import WeakSet

from causeway.errors import ConfigError

_log = logging.getLogger("causeway.http")
MOST_CONNECTIONS: Final = 256


class TakenError(ConfigError):
    """Another process listens there."""


def listen(host: str, port: int, what: str) -> socket.socket:
    """Raises ConfigError; a TakenError where it may be had later."""
    remedy = f"choose another causeway.{what}.port or causeway.{what}.host"
    where = f"at {host}:{port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.create_server(address[:2], family=family, backlog=128)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        cause = os.strerror(errno.EADDRINUSE) if taken else error.strerror or str(error)
        kind = TakenError if taken else ConfigError
        raise kind(f"serve {what}", where, cause, remedy=remedy) from error
    # Those that are accepted have it, too: an answer's body must not wait for its head's receipt.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Bounded(sock.family, sock.type, sock.proto, sock.detach())


class _Bounded(socket.socket):
    """Where `MOST_CONNECTIONS` are open, TLS handshakes among them, those that come then are closed
    at once: the driver's files are for its clusters and lanes."""

    def __init__(self, family: int, kind: int, proto: int, fileno: int) -> None:
        super().__init__(family, kind, proto, fileno)
        self._accepted: WeakSet[socket.socket] = WeakSet()
        self._full = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises BlockingIOError for one that is closed: as if nobody had come."""
        found, address = super().accept()
        full = sum(each.fileno() >= 0 for each in self._accepted) >= MOST_CONNECTIONS
        if full and not self._full:
            _log.warning("connections refused", extra={"open": MOST_CONNECTIONS})
        self._full = full
        if full:
            found.close()
            raise BlockingIOError
        self._accepted.add(found)
        return found, address
