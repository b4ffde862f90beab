"""The clusters that a lane knows, by their keys in assignments."""

from __future__ import annotations

from dataclasses import replace

from causeway.cluster import Cluster
from causeway.config import from_wire
from causeway.relay.messages import Clusters, Renewed


class LaneClusters:
    """Not thread-safe. `settings` are the newest settings of each cluster."""

    def __init__(self, message: Clusters) -> None:
        self.settings = {key: from_wire(value) for key, value in message.clusters.items()}
        self._open = {key: Cluster(settings) for key, settings in self.settings.items()}

    def __getitem__(self, key: str) -> Cluster:
        return self._open[key]

    def renew(self, message: Renewed) -> None:
        """Uses the new settings for new connections. Closes the clusters that are gone, and forgets
        their credentials. Their other settings stay, because a helper may still use them."""
        for key, value in message.clusters.items():
            self.settings[key] = settings = from_wire(value)
            if key in self._open:
                self._open[key].renew(settings)
            else:
                self._open[key] = Cluster(settings)
        for key in self.settings.keys() & set(message.gone):
            self.settings[key] = replace(self.settings[key], tls=None, sasl=None)
            self._open[key].renew(self.settings[key])
            self._open[key].close()

    def close(self) -> None:
        for cluster in self._open.values():
            cluster.close()
