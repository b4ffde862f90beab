"""Checks that a link is between the same two clusters as before, by their ids.

first look           accepts the ids as they are; each lease in the progress topic keeps them
later looks          raise an error for other clusters: their topics decide nothing
causeway.cluster.id  in the file names the cluster, also if it is another one than before
"""

from __future__ import annotations

import logging

from causeway.cluster import Cluster, moved_remedy, one_cluster
from causeway.config import LinkSettings
from causeway.daemon.partitions.discovery import Sides
from causeway.errors import ConfigError
from causeway.link_topics import ClusterIds

_log = logging.getLogger("causeway.link")


def settle(sides: Sides, link: LinkSettings, known: ClusterIds) -> ClusterIds:
    """The ids of the link's clusters; `known`: by its progress. From now on all clients of `sides`
    refuse brokers of other clusters.

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
