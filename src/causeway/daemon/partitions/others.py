"""Asks whether other links of Causeway wrote the records of a target partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import MirroredTopic
from causeway.link_topics import OtherFeed, feeds_of_other_links
from causeway.model import NO_TOPIC_ID, TopicPartition, same_topic


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
            self._feeds = feeds_of_other_links(self._target, self._link.progress_topic)
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
