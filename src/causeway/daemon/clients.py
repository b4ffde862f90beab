"""The clients of all clusters: one for equal settings, known to lanes by a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from causeway.config.expiry import clients_of
from causeway.config.settings import ClientSettings, Settings
from causeway.wire.cluster import Cluster
from causeway.wire.security import ssl_context


class Clients:
    def __init__(self) -> None:
        self._open: list[tuple[str, ClientSettings, Cluster]] = []  # settings: the first ones

    def open(self, settings: ClientSettings) -> Cluster:
        for _, known, cluster in self._open:
            if known == settings:
                return cluster
        cluster = Cluster(settings)
        self._open.append((f"{settings.alias}/{len(self._open)}", settings, cluster))
        return cluster

    def key(self, settings: ClientSettings) -> str:
        return next(key for key, known, _ in self._open if known == settings)

    @property
    def by_key(self) -> Mapping[str, ClientSettings]:
        return {key: cluster.settings for key, _, cluster in self._open}

    def renew(self, first: Settings, now: Settings) -> dict[str, ClientSettings]:
        """Certificates, keys and passwords of `now` in place of those there were, for connections
        to come; nothing else of it. `first`: the settings that the clients were opened with. Those
        that changed, by key. Raises ConfigError where some cannot be used: all stay as they are."""
        found = clients_of(now)
        changed: dict[str, tuple[Cluster, ClientSettings]] = {}
        for role, opened in clients_of(first).items():
            new = found.get(role)
            key, cluster = next((key, c) for key, known, c in self._open if known == opened)
            if new is None or new == cluster.settings or not _same_way(cluster.settings, new):
                continue
            if new.tls is not None:
                ssl_context(new.tls)  # a certificate may be here before its key is
            changed[key] = cluster, new
        for cluster, new in changed.values():
            cluster.renew(new)
        return {key: new for key, (_, new) in changed.items()}

    def close(self) -> None:
        for _, _, cluster in self._open:
            cluster.close()


def _same_way(before: ClientSettings, now: ClientSettings) -> bool:
    """Whether only what proves who is who has changed."""
    if (before.tls is None) != (now.tls is None) or (before.sasl is None) != (now.sasl is None):
        return False
    if before.sasl and now.sasl and before.sasl.mechanism != now.sasl.mechanism:
        return False
    return replace(now, tls=before.tls, sasl=before.sasl) == before
