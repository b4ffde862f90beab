"""Other links of Causeway that write to the same target topics, by their progress topics there.

    __causeway.<any source>.<any target>.progress     on the target: one for each link

They may run in other drivers, from other files. Their producer ids tell who wrote a record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import MirroredTopic
from causeway.errors import CausewayError
from causeway.link_topics.progress import Contents, ProgressTopic
from causeway.model import NO_TOPIC_ID, TopicPartition, same_topic
from causeway.naming import PROGRESS
from causeway.relay.messages import Outlet

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


def feeds(target: Cluster, own: str) -> dict[TopicPartition, list[OtherFeed]]:
    """By target partition, the other links' feeds. `own`: the progress topic of the link
    that asks. A link whose progress cannot be read is left out. Raises CausewayError."""
    found: dict[TopicPartition, list[OtherFeed]] = {}
    for name in sorted(target.metadata().topics):
        told = PROGRESS.fullmatch(name)
        if told is None or name == own:
            continue
        try:
            contents = ProgressTopic(target, name).read()
        except CausewayError as error:
            _log.debug("progress of another link in %s: %s", name, error)
            continue
        for at, feed in _of(contents, told[1]):
            found.setdefault(at, []).append(feed)
    return found


def _of(contents: Contents, slug: str) -> Iterator[tuple[TopicPartition, OtherFeed]]:
    leases = (lease.link for lease in contents.leases)
    source = next(leases, "").partition("->")[0] or slug
    for progress in contents.partitions.values():
        for outlet in progress.outlets:
            at = TopicPartition(outlet.topic, outlet.partition)
            yield at, OtherFeed(source=source, topic_id=progress.topic_id, outlet=_known(outlet))


def _known(outlet: Outlet) -> Outlet:
    """`outlet` with its place at the claim, if that can be derived: claims of older versions lack
    it. It is 0 if the link has sent all that the topic holds, or nothing to an empty topic."""
    pair = outlet.pair
    if outlet.claimed_at < 0 and pair.target == pair.sequence:
        return outlet.replace(claimed_at=0)
    return outlet


class OthersHere:
    """One look at the other links of `link`'s target, taken once somebody asks. Not
    thread-safe."""

    def __init__(self, target: Cluster, link: LinkSettings) -> None:
        self._target = target
        self._link = link
        self._feeds: dict[TopicPartition, list[OtherFeed]] | None = None

    def brought(self, topic: MirroredTopic, partition: int, ends: Mapping[int, int]) -> bool:
        """Whether other links wrote all records of `partition`'s target partition. False if that
        does not matter for the mirror's beginning. `ends`: the ends of the target partitions that
        it may feed. Raises CausewayError."""
        if not (self._link.stops_on_data and any(ends.values())):
            return False
        if self._feeds is None:
            self._feeds = feeds(self._target, self._link.progress_topic)
        at = TopicPartition(topic.target, partition)
        return _brought_all(self._feeds.get(at, ()), topic)


def _brought_all(feeding: Collection[OtherFeed], topic: MirroredTopic) -> bool:
    """Whether all records of a partition of `topic` on the target came after other links began
    there, and none of these links has the same source topic under another alias."""
    here = [
        each
        for each in feeding
        if same_topic(each.outlet.topic_id, topic.target_id) and each.outlet.producer_id >= 0
    ]
    if any(
        each.topic_id == topic.source_id or NO_TOPIC_ID in (each.topic_id, topic.source_id)
        for each in here
    ):
        return False
    return any(each.outlet.claimed_at == 0 for each in here)
