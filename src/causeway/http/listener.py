"""Listening sockets, their open connections, and the TLS certificate."""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from causeway.config import HttpSettings, Stamp, stamp_of
from causeway.errors import ConfigError

_log = logging.getLogger("causeway.http")
MOST_CONNECTIONS: Final = 256
_AGAIN_S: Final = 60.0  # between two log lines
# Connections that wait to be accepted. asyncio accepts so many at once, and there is room for many
# more. So a probe is answered before later connections can push it out.
BACKLOG: Final = 64


class TakenError(ConfigError):
    """Another process has the address."""


def listen(host: str, port: int, what: str) -> Listener:
    """Listens at an address. Raises ConfigError; TakenError if the address may become free."""
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
    # Accepted connections inherit it: an answer's body must not wait for its head's receipt.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Listener(sock.family, sock.type, sock.proto, sock.detach())


class Listener(socket.socket):
    """A listening socket. `connections`: those that it has accepted."""

    def __init__(self, family: int, kind: int, proto: int, fileno: int) -> None:
        super().__init__(family, kind, proto, fileno)
        self.connections = OpenConnections()

    def accept(self) -> tuple[socket.socket, Any]:
        found, address = super().accept()
        self.connections.take(found)
        return found, address


class OpenConnection:
    """One connection. `busy`: the server works on a request, and does not wait for bytes of the
    client. `close` ends the connection at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._number = sock.fileno()
        self.busy = False
        self.close: Callable[[], None] = self._shut

    @property
    def is_open(self) -> bool:
        return self._sock.fileno() == self._number

    def _shut(self) -> None:
        """Ends a connection that has no protocol yet. asyncio, which waits for bytes, sees it."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


class OpenConnections:
    """Bounds the number of open connections at a port, including TLS handshakes, because the driver
    needs its file descriptors and its memory for its clusters and lanes.

    A new connection always gets in, so a probe always does. The oldest connection that waits for
    its client is closed. If none waits, the oldest of all is closed. Used by one event loop.
    """

    def __init__(self) -> None:
        self._open: dict[int, OpenConnection] = {}  # by file descriptor, the oldest first
        self._told_at = -_AGAIN_S

    def take(self, sock: socket.socket) -> None:
        """Adds a connection that was just accepted."""
        self._open = {at: each for at, each in self._open.items() if each.is_open}
        while len(self._open) >= MOST_CONNECTIONS:
            self._make_room()
        self._open[sock.fileno()] = OpenConnection(sock)

    def of(self, sock: socket.socket | None) -> OpenConnection | None:
        """Returns the accepted connection of `sock`."""
        return None if sock is None else self._open.get(sock.fileno())

    def _make_room(self) -> None:
        idle = (at for at, each in self._open.items() if not each.busy)
        at = next(idle, next(iter(self._open)))
        self._open.pop(at).close()
        now = time.monotonic()
        if now >= self._told_at + _AGAIN_S:
            self._told_at = now
            _log.warning("connections closed to make room", extra={"open": MOST_CONNECTIONS})


class Certificate:
    """`context` is for new connections; existing ones keep their certificate."""

    def __init__(self, http: HttpSettings) -> None:
        """Raises ConfigError for files that cannot be used."""
        assert http.certificate
        assert http.key
        self._certificate, self._key = http.certificate, http.key
        self._client_ca = http.client_ca
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._stamps()  # first: a file that changes while it is read is read again
        self._load()
        if self._client_ca:
            self.context.verify_mode = ssl.CERT_REQUIRED

    def renew(self) -> None:
        """Loads the files if they have changed. Reports files that cannot be used, and keeps the
        earlier certificate."""
        seen = self._stamps()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._load()
        except ConfigError as error:
            _log.warning("certificate not renewed", extra={"reason": str(error)})
        else:
            _log.info("certificate renewed", extra={"file": self._certificate})

    def _load(self) -> None:
        for name, path in (("certificate", self._certificate), ("key", self._key)):
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise _unusable(f"causeway.http.tls.{name}", path, error) from None
        try:
            # A key that does not fit would leave the context without a key: try another first.
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
                # A key with a password would be asked for on the terminal.
                context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (OSError, ssl.SSLError) as error:
            raise _unusable("causeway.http.tls.certificate", self._certificate, error) from None
        if self._client_ca:
            try:
                # This adds to the trusted authorities: a replaced one is trusted until a restart.
                self.context.load_verify_locations(cafile=self._client_ca)
            except (OSError, ssl.SSLError) as error:
                raise _unusable("causeway.http.tls.client.ca", self._client_ca, error) from None

    def _stamps(self) -> tuple[Stamp, ...]:
        files = (self._certificate, self._key, self._client_ca)
        return tuple(stamp_of(Path(file)) for file in files if file)


def _unusable(key: str, path: str, error: Exception) -> ConfigError:
    if isinstance(error, ssl.SSLError):
        cause = "it and its key are not matching PEM files, or the key has a password"
        if "client" in key:
            cause = "it has no certificate in PEM form"
    else:
        cause = str(getattr(error, "strerror", None) or error)
    return ConfigError("use", f"{key} {path}", cause)
