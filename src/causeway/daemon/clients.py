"""The clients of all clusters: one client for equal settings. Lanes know each by its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from causeway.cluster import Cluster
from causeway.config import ClientSettings, Settings
from causeway.config.reading import clients_of
from causeway.wire import ssl_context


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
        """Replace certificates, keys and passwords by those of `now`, for new connections. Other
        values of `now` have no effect. `first`: the settings that the clients were opened with.
        Returns the changed settings by key. Raises ConfigError, and changes no client, if a
        certificate or key cannot be used."""
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
    """Whether both differ at most in certificates, keys and passwords."""
    if (before.tls is None) != (now.tls is None) or (before.sasl is None) != (now.sasl is None):
        return False
    if before.sasl and now.sasl and before.sasl.mechanism != now.sasl.mechanism:
        return False
    return replace(now, tls=before.tls, sasl=before.sasl) == before
