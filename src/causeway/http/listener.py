"""The socket that the server listens on."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any, Final

from causeway.errors import ConfigError
from causeway.http.room import Room

# Connections that wait to be accepted. asyncio accepts so many at once, far fewer than there is
# room for. So a probe is answered before later connections can push it out.
BACKLOG: Final = 64


class TakenError(ConfigError):
    """Another process listens there."""


def listen(host: str, port: int, what: str) -> Door:
    """Raises ConfigError; a TakenError where it may be had later."""
    remedy = f"choose another causeway.{what}.port or causeway.{what}.host"
    where = f"at {host}:{port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        cause = os.strerror(errno.EADDRINUSE) if taken else error.strerror or str(error)
        kind = TakenError if taken else ConfigError
        raise kind(f"serve {what}", where, cause, remedy=remedy) from error
    # Those that are accepted have it, too: an answer's body must not wait for its head's receipt.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Door(sock.family, sock.type, sock.proto, sock.detach())


class Door(socket.socket):
    """A listening socket. `room` has the accepted connections, and closes the oldest ones."""

    def __init__(self, family: int, kind: int, proto: int, fileno: int) -> None:
        super().__init__(family, kind, proto, fileno)
        self.room = Room()

    def accept(self) -> tuple[socket.socket, Any]:
        found, address = super().accept()
        self.room.take(found)
        return found, address
