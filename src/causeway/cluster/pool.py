"""Keeps connections for the next request, by broker address. All of them lead to one cluster.

An address may lead to another cluster: bootstrap.servers has a wrong entry, a DNS name has moved,
or a cluster was set up again. So each new connection asks for the cluster's id, and is refused if
it leads to another cluster. Brokers that give no id are accepted.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from causeway.cluster.metadata import metadata_request
from causeway.config import CLUSTER_ID, ClientSettings
from causeway.errors import AuthenticationError, BrokerError, CausewayError, UnreachableError
from causeway.wire import Connection, Deadline, wait

MAX_IDLE = 4  # idle connections for each broker
# Brokers close a connection after connections.max.idle.ms, 10 minutes by default.
MAX_IDLE_S = 240.0
REFUSED_S = 120.0  # refusals for a longer time do not end by themselves
STALE_S = 600.0  # an older refusal says nothing about now
SUSPECT_S = 10.0  # a broker that failed is asked last for this long

Address = tuple[str, int]


class _Refused(NamedTuple):
    since: float  # monotonic, as is `last`
    last: float
    reason: str


class Pool:
    """Thread-safe. Each connection has one user at a time, and all lead to the same cluster."""

    def __init__(
        self, settings: ClientSettings, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        """`on_failure` is called when a broker fails."""
        self._settings = settings
        self._on_failure = on_failure
        self.identity = Identity(settings)
        self._lock = threading.Lock()
        self._idle: dict[Address, list[tuple[float, Connection]]] = defaultdict(list)
        self._closed = False
        self._refused: _Refused | None = None  # reset by each new connection that succeeds
        self._suspects: dict[Address, float] = {}  # each is a suspect until (monotonic)

    def take(self, address: Address, timeout_s: float) -> Connection:
        """Returns an idle connection whose socket is alive, or a new one. Raises UnreachableError
        and AuthenticationError."""
        try:
            connection = self._take(address, timeout_s)
            # A connection that was in use when `expect` was called has stayed open.
            self.identity.check(connection)
        except UnreachableError:
            self.suspect(address)
            raise
        return connection

    def _take(self, address: Address, timeout_s: float) -> Connection:
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
        """Opens a new connection, which belongs to the caller. See Connection.open."""
        try:
            connection = Connection.open(
                self._settings, *address, timeout_s=timeout_s, vet=self.identity.vet
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
        """The reason if all new connections of the last minutes were refused; otherwise None."""
        if (refused := self._refused) is None or refused.last - refused.since < REFUSED_S:
            return None
        return refused.reason if time.monotonic() - refused.last < STALE_S else None

    def renew(self, settings: ClientSettings) -> None:
        """Uses `settings` for new connections. Open connections stay."""
        self._settings = settings
        self._refused = None

    def give_back(self, connection: Connection) -> None:
        """Keeps a connection that has no unanswered request. A closed connection is dropped."""
        address = (connection.host, connection.port)
        with self._lock:
            idle = self._idle[address]
            if not self._closed and not connection.closed and len(idle) < MAX_IDLE:
                idle.append((time.monotonic(), connection))
                return
        connection.close()

    def suspect(self, address: Address) -> None:
        """The broker there failed: it is asked last for a while."""
        with self._lock:
            self._suspects[address] = time.monotonic() + SUSPECT_S
        self._on_failure()

    def take_any(
        self, brokers: Sequence[Address], last: Address | None, deadline: Deadline
    ) -> Connection:
        """Returns a connection to one of `brokers` or of the bootstrap addresses; to `last` only if
        no other broker answers. Raises UnreachableError and AuthenticationError."""
        now = time.monotonic()
        with self._lock:
            suspects = {address for address, until in self._suspects.items() if until > now}
            idle = {address for address, connections in self._idle.items() if connections}
        known = random.sample(brokers, len(brokers))
        known.sort(key=lambda address: address not in idle)
        addresses = list(dict.fromkeys([*known, *self._settings.bootstrap]))
        addresses.sort(key=lambda address: (address == last, address in suspects))
        causes: dict[str, None] = {}
        remedy = "set bootstrap.servers"
        for address in addresses:
            try:
                return self.take(address, deadline.left())
            except UnreachableError as error:
                causes[f"{address[0]}:{address[1]}: {error.cause}"] = None
                remedy = error.remedy
                if deadline.passed():
                    break
        raise UnreachableError(
            "reach",
            f"cluster {self._settings.alias}",
            f"no broker answered in {deadline.seconds:.3g} s: " + "; ".join(causes)
            if causes
            else "no bootstrap servers",
            remedy=remedy,
            retriable=bool(causes),
        )

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
    # No request is unanswered, so a readable socket means that the broker has closed it.
    return not wait(connection.socket, write=False, timeout_s=0)


_ANSWER_S: Final = 3.0  # the wait for each address


class Identity:
    """The identity of the cluster. Thread-safe. `cluster_id`: the id in the settings; without it,
    the expected id; without that, the id of the first broker that gave one."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self.cluster_id = settings.cluster_id
        self._certain = settings.cluster_id is not None

    def expect(self, cluster_id: str) -> str:
        """See ClusterClient.expect."""
        with self._lock:
            if not self._certain or self.cluster_id is None:
                self.cluster_id, self._certain = cluster_id, True
            return self.cluster_id

    def vet(self, connection: Connection, deadline: Deadline) -> None:
        """Asks the broker of a new connection for its cluster's id. Raises UnreachableError if it
        is another cluster."""
        connection.cluster_id = ask_id(connection, deadline)
        self.check(connection)

    def check(self, connection: Connection) -> None:
        """Checks a connection again that `vet` has accepted. Raises UnreachableError as `vet`
        does."""
        theirs = connection.cluster_id
        with self._lock:
            if self.cluster_id is None:
                self.cluster_id = theirs
            ours = self.cluster_id
        if theirs is None or theirs == ours:
            return
        connection.close()
        raise UnreachableError(
            "connect to",
            str(connection),
            f"the broker there belongs to cluster {theirs}, and {self._settings.alias} is cluster"
            f" {ours}",
            remedy=moved_remedy(self._settings.alias, theirs)
            if self._settings.cluster_id is None
            else f"check bootstrap.servers and {CLUSTER_ID}",
            retriable=True,
        )


def cluster_ids_of(settings: ClientSettings, timeout_s: float) -> dict[tuple[str, int], str]:
    """Returns the id of the cluster that each bootstrap address leads to. Leaves out addresses that
    do not answer in time, or give no id."""
    found = {}
    for address in settings.bootstrap:
        try:
            with Connection.open(settings, *address, timeout_s=timeout_s) as connection:
                cluster_id = ask_id(connection, Deadline(timeout_s))
        except CausewayError:
            continue
        if cluster_id is not None:
            found[address] = cluster_id
    return found


def one_cluster(*clients: ClientSettings) -> str | None:
    """Returns the id of the cluster that the bootstrap addresses lead to. Addresses that do not
    answer soon do not count. None if no address gives an id. Raises UnreachableError if they lead
    to several clusters and the settings name no id."""
    alias = clients[0].alias
    for client in clients:
        if client.cluster_id is not None:
            return client.cluster_id
    seen = {at: found for each in clients for at, found in cluster_ids_of(each, _ANSWER_S).items()}
    ids = sorted(set(seen.values()))
    if len(ids) > 1:
        raise UnreachableError(
            "connect to",
            f"cluster {alias}",
            "its bootstrap addresses lead to several clusters: "
            + ", ".join(f"{host}:{port} to {found}" for (host, port), found in seen.items()),
            remedy=f"correct bootstrap.servers, or set {alias}.{CLUSTER_ID} to the right one",
            retriable=True,
        )
    return ids[0] if ids else None


def moved_remedy(alias: str, cluster_id: str) -> str:
    """Returns the remedy if `alias` leads to another cluster than before."""
    return (
        f"check bootstrap.servers and the name's addresses; if {alias} was replaced by that cluster"
        f" for good, set {alias}.{CLUSTER_ID} = {cluster_id} and start again"
    )


def ask_id(connection: Connection, deadline: Deadline) -> str | None:
    """Returns the id of the broker's cluster, None if it gives none. Raises UnreachableError."""
    try:
        answer = connection.call(metadata_request([]), deadline.left())
    except BrokerError:
        return None
    return answer.cluster_id or None
