"""What people have chosen for the links of a file, for commands that ask no driver."""

from __future__ import annotations

from causeway.cluster import clusters
from causeway.config import Settings
from causeway.control import geo_topics
from causeway.errors import CausewayError


def learn(settings: Settings) -> None:
    """Has it count for all who look at `settings`. A target that does not answer, or keeps it from
    us, says so to whoever asks it for more."""
    links = [link for link in settings.links if link.geo or link.way_back]
    if not links:
        return
    with clusters() as connect:
        for link in links:
            try:
                standing = geo_topics.learn(connect(link.target_admin), link)
            except CausewayError:
                continue
            link.chosen.names = geo_topics.names(standing, link)
