"""Records on the target that groups have not read, found by the progress topic alone, without a
running driver. See translation/unread.py."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import Commits, Translated, UnreadRecord
from causeway.daemon.partitions.mirrored import Feed, Mirrored
from causeway.daemon.partitions.rows import Maps, offset_maps_of
from causeway.errors import CausewayError
from causeway.link_topics.progress import MapRecords, Progress
from causeway.model import TopicPartition
from causeway.translation.unread import UnreadRecords


class UnreadByProgress:
    """The unread records of one link's groups. Not thread-safe; a look reuses earlier results."""

    def __init__(self, link: LinkSettings, target: Cluster) -> None:
        self._shared: list[Progress] = []
        self._maps: dict[TopicPartition, Maps] = {}
        self._records = UnreadRecords(target, link, self._fed, self._straight)

    def look(
        self,
        progress: Iterable[Progress],
        maps: Mapping[TopicPartition, MapRecords],
        places: Translated,
        there: Mapping[str, Commits | CausewayError],
        commits: Mapping[str, Commits] | None,
        *,
        wait_s: float,
    ) -> Mapping[str, Mapping[TopicPartition, UnreadRecord]]:
        """The first unread record before each place, by group. `maps`: of the progress topic;
        `there`: the groups' commits on the target; `commits`: see UnreadRecords.look. Records that
        are not checked after `wait_s` count as unread. Raises CausewayError."""
        self._shared = [
            each for each in progress if any(not outlet.exclusive for outlet in each.outlets)
        ]
        if not self._shared:
            return {}
        self._maps = {
            each.source: offset_maps_of(each, maps.get(each.source, {})) for each in self._shared
        }
        ends: dict[TopicPartition, int] = {}
        for stands in places.values():
            for at, stand in stands.items():
                ends[at] = max(ends.get(at, 0), stand.downstream)
        self._records.take()
        deadline = time.monotonic() + wait_s
        while True:
            stretches = self._records.stretches(places, there, ends)
            found = self._records.look(stretches, commits)
            if not self._records.unfinished or time.monotonic() > deadline:
                return found

    def _fed(self) -> list[Mirrored]:
        return [Mirrored.known(each, outlet) for each in self._shared for outlet in each.outlets]

    def _straight(self, feed: Feed, offset: int) -> int:
        found = self._maps[feed.source].get(feed.target)
        return offset if found is None else found.alone_until(offset)
