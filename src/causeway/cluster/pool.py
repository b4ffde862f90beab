"""Connections kept for the next request, by broker address."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from causeway.config import ClientSettings
from causeway.errors import AuthenticationError
from causeway.wire.connection import Connection
from causeway.wire.deadline import Deadline
from causeway.wire.frames import wait

MAX_IDLE = 4  # a broker
# Brokers close a connection after connections.max.idle.ms, 10 minutes by default.
MAX_IDLE_S = 240.0
REFUSED_S = 120.0  # longer refusals do not pass by themselves
STALE_S = 600.0  # an older refusal proves nothing about now

Address = tuple[str, int]


class _Refused(NamedTuple):
    since: float  # monotonic, as is `last`
    last: float
    reason: str


class Pool:
    """Thread-safe. A connection has one user at a time. `vet` may refuse a peer: see
    Connection.open."""

    def __init__(
        self,
        settings: ClientSettings,
        vet: Callable[[Connection, Deadline], None] | None = None,
    ) -> None:
        self._settings = settings
        self._vet = vet
        self._lock = threading.Lock()
        self._idle: dict[Address, list[tuple[float, Connection]]] = defaultdict(list)
        self._closed = False
        self._refused: _Refused | None = None  # reset by each new connection that succeeds

    def take(self, address: Address, timeout_s: float) -> Connection:
        """An idle connection that is alive as far as its socket tells, or a new one."""
        while True:
            with self._lock:
                idle, now = self._idle[address], time.monotonic()
                # A connection that is muted by a quota would not answer in time.
                usable = (at for at in range(len(idle)) if idle[at][1].muted_until <= now)
                newest = max(usable, default=-1)
                since, connection = idle.pop(newest) if newest >= 0 else (0.0, None)
            if connection is None:
                break
            if _usable(connection, since):
                return connection
            connection.close()
        limit_s = min(timeout_s, self._settings.connect_timeout_ms / 1000)
        return self.open(address, max(0.001, limit_s))

    def open(self, address: Address, timeout_s: float | None = None) -> Connection:
        """Open a new connection, which belongs to the caller; see Connection.open."""
        try:
            connection = Connection.open(
                self._settings, *address, timeout_s=timeout_s, vet=self._vet
            )
        except AuthenticationError as error:
            now = time.monotonic()
            since = now if self._refused is None else self._refused.since
            self._refused = _Refused(since, now, str(error))
            raise
        self._refused = None
        return connection

    @property
    def refused_for_minutes(self) -> str | None:
        """The reason if all new connections of the last minutes were refused, else None."""
        if (refused := self._refused) is None or refused.last - refused.since < REFUSED_S:
            return None
        return refused.reason if time.monotonic() - refused.last < STALE_S else None

    def renew(self, settings: ClientSettings) -> None:
        """Use `settings` for new connections. Open connections stay."""
        self._settings = settings
        self._refused = None

    def give_back(self, connection: Connection) -> None:
        """For a connection with nothing unanswered; a closed one is dropped."""
        address = (connection.host, connection.port)
        with self._lock:
            idle = self._idle[address]
            if not self._closed and not connection.closed and len(idle) < MAX_IDLE:
                idle.append((time.monotonic(), connection))
                return
        connection.close()

    def known(self) -> set[Address]:
        """Addresses with an idle connection."""
        with self._lock:
            return {address for address, idle in self._idle.items() if idle}

    def clear(self) -> None:
        """Closes all idle connections."""
        with self._lock:
            connections = [c for idle in self._idle.values() for _, c in idle]
            self._idle.clear()
        for connection in connections:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.clear()


def _usable(connection: Connection, idle_since: float) -> bool:
    now = time.monotonic()
    if now - idle_since > MAX_IDLE_S:
        return False
    if connection.session_expires_at is not None and now >= connection.session_expires_at:
        return False
    # Nothing is unanswered, so readable means that the broker has hung up.
    return not wait(connection.socket, write=False, timeout_s=0)
