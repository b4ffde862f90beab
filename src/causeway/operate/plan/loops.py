"""Flows of other files that mirror topics to a link's source which the link would mirror back.

A file's own flows are checked when it is read (config/reading/circles.py). Flows of other files
show in their progress topics on their targets: with their sources, and the names of their mirrors.
Longer loops, over a third cluster, do not show there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.errors import CausewayError
from causeway.link_topics import ProgressTopic
from causeway.model import ENDED

_PROGRESS = re.compile(r"__causeway\.(.+)\.progress")
_SHOWN = 3


def warnings(
    link: LinkSettings, source: Cluster, target: Cluster, names: Collection[str]
) -> Iterator[str]:
    """`names`: of all topics on the source."""
    if link.has_provenance or link.way_back or target.cluster_id is None:
        return  # headers tell where a record came from; nothing is mirrored back unasked
    for name in sorted(names):
        if _PROGRESS.fullmatch(name) is None:
            continue
        try:
            contents = ProgressTopic(source, name).read(maps=False)
        except CausewayError:
            continue  # we may not read it
        if contents.clusters.source != target.cluster_id:
            continue
        brought = {
            outlet.topic
            for progress in contents.partitions.values()
            if progress.state not in ENDED
            for outlet in progress.outlets
        }
        back = sorted(
            topic for topic in brought if link.decide_topic(topic).target_name is not None
        )
        if back:
            more = f", and {len(back) - _SHOWN} more" if len(back) > _SHOWN else ""
            shown = f"{', '.join(back[:_SHOWN])}{more}"
            yield (
                f"a loop: by {name} on {link.source.alias}, a flow brings {shown} from"
                f" {link.target.alias}, and {link.name} would mirror them back. Leave them out of"
                " topics, or call each cluster by the same alias in all files"
            )
