"""A blocking client of one cluster, and clusters opened for one command. Thread-safe.

A call is tried again, with backoff, if that may help (a broker is down, a leader has moved), until
the request timeout of the settings is over. Bulk calls return a value or an error for each item.
They raise an error only if the whole cluster cannot be asked.

A command asks its clusters at the same time. So a cluster that does not answer delays no other, and
several such clusters take no longer than one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Final, TypeVar

from causeway.cluster import acls, admin, groups, offsets, producers
from causeway.cluster.client import ClusterClient
from causeway.config import ClientSettings, LinkSettings
from causeway.errors import CausewayError, UnreachableError

ANSWER_S: Final = 10.0  # how long to wait for a cluster
_AT_ONCE: Final = 16

T = TypeVar("T")
U = TypeVar("U")


class Cluster(ClusterClient):
    """The client, with the functions of the other modules as its methods."""

    describe_configs = admin.describe_configs
    broker_configs = admin.broker_configs
    create_topics = admin.create_topics
    create_partitions = admin.create_partitions
    alter_configs = admin.alter_configs
    delete_topics = admin.delete_topics

    list_offsets = offsets.list_offsets
    log_ends = offsets.log_ends
    fetch = offsets.fetch

    list_groups = groups.list_groups
    committed_offsets = groups.committed_offsets
    committed_offsets_of = groups.committed_offsets_of
    commit_offsets = groups.commit_offsets

    describe_acls = acls.describe_acls
    create_acls = acls.create_acls
    delete_acls = acls.delete_acls

    init_producer_ids = producers.init_producer_ids
    init_transactional_id = producers.init_transactional_id
    knows_transactional_id = producers.knows_transactional_id
    last_sequences = producers.last_sequences
    active_producers = producers.active_producers
    produce_batch = producers.produce_batch


class Connect:
    """Returns the same Cluster for equal client settings, also of several links. Thread-safe."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._lock = threading.Lock()
        self._open: list[tuple[ClientSettings, Cluster]] = []

    def __call__(self, settings: ClientSettings) -> Cluster:
        with self._lock:
            for known, cluster in self._open:
                if known == settings:
                    return cluster
            cluster = Cluster(settings)
            self._stack.callback(cluster.close)
            self._open.append((settings, cluster))
            return cluster


@contextmanager
def clusters() -> Iterator[Connect]:
    """Closes, at its end, the clusters that were opened inside."""
    with ExitStack() as stack:
        yield Connect(stack)


def reach(connect: Connect, client: ClientSettings, patience_s: float = ANSWER_S) -> Cluster:
    """Returns a cluster that answers. Raises UnreachableError if none of its brokers answers within
    `patience_s`, or within the request timeout if that is shorter. Raises AuthenticationError."""
    cluster = connect(client)
    cluster.bootstrap_check(min(patience_s, client.request_timeout_ms / 1000))
    return cluster


def silent_clusters(links: Iterable[LinkSettings], connect: Connect) -> dict[str, UnreachableError]:
    """Returns the clusters of `links` that do not answer, by alias, and why."""
    return silent_clusters_of(
        (client for link in links for client in (link.source_admin, link.target_admin)), connect
    )


def silent_clusters_of(
    wanted: Iterable[ClientSettings], connect: Connect, patience_s: float = ANSWER_S
) -> dict[str, UnreachableError]:
    """Returns the clusters that do not answer within `patience_s`, by alias, and why. Asks all of
    them at the same time. If a cluster has several clients, the last one is used."""
    clients = {client.alias: client for client in wanted}

    def tried(client: ClientSettings) -> CausewayError | None:
        try:
            reach(connect, client, patience_s)
        except CausewayError as error:
            return error
        return None

    found = zip(clients, _all(tried, list(clients.values())), strict=True)
    return {alias: error for alias, error in found if isinstance(error, UnreachableError)}


def ask_each(
    links: Sequence[LinkSettings], ask: Callable[[LinkSettings], T]
) -> list[T | CausewayError]:
    """Returns the result of `ask` for each link, or its error. If `ask` fails for all links, raises
    the first error."""

    def asked(link: LinkSettings) -> T | CausewayError:
        try:
            return ask(link)
        except CausewayError as error:
            return error

    found = _all(asked, links)
    errors = [one for one in found if isinstance(one, CausewayError)]
    if errors and len(errors) == len(found):
        raise errors[0]
    return found


def _all(ask: Callable[[U], T], subjects: Sequence[U]) -> list[T]:
    if len(subjects) <= 1:
        return [ask(one) for one in subjects]
    pool = ThreadPoolExecutor(min(_AT_ONCE, len(subjects)))
    try:
        return list(pool.map(ask, subjects))
    finally:
        # Does not wait for them, for example after Ctrl-C: they end when their clusters are closed.
        pool.shutdown(wait=False, cancel_futures=True)
