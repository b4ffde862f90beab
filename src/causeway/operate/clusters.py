"""Clusters opened for one answer, and closed after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from causeway.cluster.cluster import Cluster
from causeway.config.settings import ClientSettings, LinkSettings
from causeway.link_topics.progress import Contents


class Connect:
    """Gives equal client settings the same Cluster, however many links name it. Thread-safe."""

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


def recognise(link: LinkSettings, connect: Connect, contents: Contents) -> Contents:
    """Make all clients of the link accept only the clusters in `contents`, which is returned."""
    known = contents.clusters
    for cluster_id, clients in (
        (known.source, (link.source, link.source_admin)),
        (known.target, (link.target, link.target_admin)),
    ):
        for client in clients:
            if cluster_id is not None:
                connect(client).expect(cluster_id)
    return contents


@contextmanager
def clusters() -> Iterator[Connect]:
    """Clusters opened inside are closed at the end."""
    with ExitStack() as stack:
        yield Connect(stack)
