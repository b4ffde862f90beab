"""Checks that a client talks to one cluster only, by the id that each broker gives.

An address may lead to another cluster: a wrong entry in bootstrap.servers, a DNS name that moved, a
cluster that was set up again. So each connection first asks for the id, and is refused if it leads
to another cluster. Brokers that give no id are accepted.
"""

from __future__ import annotations

import threading
from typing import Final

from causeway.cluster.metadata import metadata_request
from causeway.config import CLUSTER_ID, ClientSettings
from causeway.errors import BrokerError, CausewayError, UnreachableError
from causeway.wire.connection import Connection
from causeway.wire.deadline import Deadline

_ANSWER_S: Final = 3.0  # the wait for each address


class Identity:
    """Thread-safe. `cluster_id`: the one in the settings, else the expected one, else that of the
    first broker that gave one."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self.cluster_id = settings.cluster_id
        self._certain = settings.cluster_id is not None

    def expect(self, cluster_id: str) -> str:
        """See Client.expect."""
        with self._lock:
            if not self._certain or self.cluster_id is None:
                self.cluster_id, self._certain = cluster_id, True
            return self.cluster_id

    def vet(self, connection: Connection, deadline: Deadline) -> None:
        """Asks a new connection's broker for its cluster's id. Raises UnreachableError if it is not
        ours."""
        connection.cluster_id = ask_id(connection, deadline)
        self.check(connection)

    def check(self, connection: Connection) -> None:
        """Of a connection that was vetted."""
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
            remedy=self._remedy(theirs),
            retriable=True,
        )

    def _remedy(self, theirs: str) -> str:
        if self._settings.cluster_id is not None:
            return f"check bootstrap.servers and {CLUSTER_ID}"
        return moved(self._settings.alias, theirs)


def seen_at(settings: ClientSettings, timeout_s: float) -> dict[tuple[str, int], str]:
    """The cluster id that each bootstrap address leads to. Leaves out addresses that do not answer
    in that time, or give no id."""
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
    """The id of the only cluster that the bootstrap addresses lead to, as far as they answer soon;
    None if none of them gives an id. Raises UnreachableError if they lead to several clusters and
    the settings do not name one."""
    alias = clients[0].alias
    for client in clients:
        if client.cluster_id is not None:
            return client.cluster_id
    seen = {at: found for each in clients for at, found in seen_at(each, _ANSWER_S).items()}
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


def moved(alias: str, cluster_id: str) -> str:
    """The remedy if `alias` leads to another cluster than before."""
    return (
        f"check bootstrap.servers and the name's addresses; if {alias} was replaced by that cluster"
        f" for good, set {alias}.{CLUSTER_ID} = {cluster_id} and start again"
    )


def ask_id(connection: Connection, deadline: Deadline) -> str | None:
    """The id of the broker's cluster, None if it gives none. Raises UnreachableError."""
    try:
        answer = connection.call(metadata_request([]), deadline.left())
    except BrokerError:
        return None
    return answer.cluster_id or None
