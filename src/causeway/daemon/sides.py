"""The clusters of one link, and the check that they are the same ones as before, by their ids.

first look           accepts the ids; each lease in the progress topic keeps them
later looks          raise an error for other clusters, and do not act on their topics
causeway.cluster.id  in the file names the cluster, also if it is another one than before
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Self

from causeway.cluster import Cluster, Connect, moved_remedy, one_cluster
from causeway.config import LinkSettings
from causeway.errors import ConfigError
from causeway.link_topics import ClusterIds

_log = logging.getLogger("causeway.link")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The clusters of one link: to read and write data, and to administer. `source_key` and
    `target_key` name them in the messages to lanes; '' outside of a driver."""

    source: Cluster
    target: Cluster
    source_admin: Cluster
    target_admin: Cluster
    source_key: str = ""
    target_key: str = ""

    @classmethod
    def of(cls, link: LinkSettings, connect: Connect) -> Self:
        """For a command."""
        return cls(
            source=connect(link.source),
            target=connect(link.target),
            source_admin=connect(link.source_admin),
            target_admin=connect(link.target_admin),
        )

    @property
    def refused_for_minutes(self) -> str | None:
        """The reason if one of the clusters has refused new connections for minutes."""
        each = (self.source, self.target, self.source_admin, self.target_admin)
        return next((why for one in each if (why := one.refused_for_minutes) is not None), None)


def settle_clusters(sides: Sides, link: LinkSettings, known: ClusterIds) -> ClusterIds:
    """The ids of the link's clusters; `known`: their ids by its progress. From now on all clients
    of `sides` refuse brokers of other clusters.

    Raises UnreachableError for addresses that lead to several clusters, ConfigError for a cluster
    that another flow of this process knows by another id.
    """
    found = ClusterIds(
        source=_side((sides.source, sides.source_admin), link, known.source),
        target=_side((sides.target, sides.target_admin), link, known.target),
    )
    for client, before, now in (
        (sides.source, known.source, found.source),
        (sides.target, known.target, found.target),
    ):
        if before is not None and before != now:
            about = {"link": link.name, "cluster": str(client), "before": before, "now": now}
            _log.warning("another cluster by the file", extra=about)
    return found


def _side(clients: tuple[Cluster, Cluster], link: LinkSettings, known: str | None) -> str | None:
    pinned = (client.settings.cluster_id for client in clients)
    wanted = next(filter(None, pinned), known) or one_cluster(
        *(client.settings for client in clients)
    )
    if wanted is None:
        return None
    for client in clients:
        if (counts := client.expect(wanted)) != wanted:
            by_address = wanted != known  # the other flow has its id from its progress
            raise ConfigError(
                "mirror",
                link.name,
                f"{'the addresses of' if by_address else 'the progress topic says that'} {client}"
                f" {'lead to' if by_address else 'is'} cluster {wanted}, and another flow of the"
                f" file has {counts}",
                remedy=moved_remedy(str(client), wanted if by_address else counts),
            )
    return wanted
