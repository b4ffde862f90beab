"""Reads which other links of Causeway write to the same target partitions.

    __causeway.<any source>.<any target>.progress     on the target: one for each link

Other drivers may run these links, from other files. The producer ids in their progress topics show
who wrote a record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics.entries import Outlet
from causeway.link_topics.progress import ProgressContents, ProgressTopic
from causeway.model import TopicPartition
from causeway.naming import PROGRESS

_log = logging.getLogger("causeway.link")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFeed:
    """A partition of another link that feeds `outlet`. `source`: the alias of that link's source;
    `topic_id`: of its source topic."""

    source: str
    topic_id: str
    outlet: Outlet

    @property
    def producers(self) -> tuple[int, ...]:
        """The producer ids of its records on the target."""
        return (*self.outlet.earlier, self.outlet.producer_id)


def feeds_of_other_links(target: Cluster, own: str) -> dict[TopicPartition, list[OtherFeed]]:
    """The feeds of other links, by target partition. `own`: the progress topic of the link that
    asks. A link whose progress cannot be read is left out. Raises CausewayError."""
    found: dict[TopicPartition, list[OtherFeed]] = {}
    for name in sorted(target.metadata().topics):
        match = PROGRESS.fullmatch(name)
        if match is None or name == own:
            continue
        try:
            contents = ProgressTopic(target, name).read()
        except CausewayError as error:
            _log.debug("progress of another link in %s: %s", name, error)
            continue
        for at, feed in _of(contents, match[1]):
            found.setdefault(at, []).append(feed)
    return found


def _of(contents: ProgressContents, slug: str) -> Iterator[tuple[TopicPartition, OtherFeed]]:
    leases = (lease.link for lease in contents.leases)
    source = next(leases, "").partition("->")[0] or slug
    for progress in contents.partitions.values():
        for outlet in progress.outlets:
            yield (
                outlet.at,
                OtherFeed(source=source, topic_id=progress.topic_id, outlet=_known(outlet)),
            )


def _known(outlet: Outlet) -> Outlet:
    """`outlet` with `claimed_at`, if it can be derived: claims of older versions lack it. It is 0
    if the link has sent all records of the topic, or nothing to an empty topic."""
    pair = outlet.pair
    if outlet.claimed_at < 0 and pair.target == pair.sequence:
        return outlet.replace(claimed_at=0)
    return outlet
