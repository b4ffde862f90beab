"""Finds the records that others wrote to a target partition: other links of Causeway, or another
tool.

The last records of the target show how far another tool has come:

    target  ………[r1 r2 … r8]│end
    source  ………………[r1 r2 … r8]│● go on here

The source is searched twice: as readers of committed records see it, and as readers of all records
see it, because MirrorMaker 2 reads all records by default. There must be exactly one match: a guess
would lose or double records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from causeway.cluster import EARLIEST, LATEST, Cluster, Content, content_of, raw_batches, relayed
from causeway.config import LinkSettings
from causeway.control import MirroredTopic
from causeway.daemon.clients import Sides
from causeway.daemon.partitions.decisions import Begin, Candidate, GoOn, IfSame, Stop
from causeway.errors import CausewayError
from causeway.link_topics import OtherFeed, feeds_of_other_links
from causeway.model import NO_TOPIC_ID, TopicPartition, same_topic
from causeway.records import HEADER, LOG_APPEND_TIME, records_of


@dataclass(slots=True)
class OthersHere:
    """One look at the other links of the target, taken when the first answer is needed. Not
    thread-safe."""

    target: Cluster
    link: LinkSettings
    _feeds: Mapping[TopicPartition, Sequence[OtherFeed]] | None = None

    def brought(self, topic: MirroredTopic, partition: int, ends: Mapping[int, int]) -> bool:
        """Returns whether all records of the target partition came after other links began there,
        and none of these links has the same source topic under another alias. False if this makes
        no difference for the beginning of the mirror. `ends`: the ends of the target partitions
        that `partition` may feed. Raises CausewayError."""
        if not (self.link.stops_on_data and any(ends.values())):
            return False
        if self._feeds is None:
            self._feeds = feeds_of_other_links(self.target, self.link.progress_topic)
        here = [
            each
            for each in self._feeds.get(TopicPartition(topic.target, partition), ())
            if same_topic(each.outlet.topic_id, topic.target_id) and each.outlet.producer_id >= 0
        ]
        own = any(
            each.topic_id == topic.source_id or NO_TOPIC_ID in (each.topic_id, topic.source_id)
            for each in here
        )
        return not own and any(each.outlet.claimed_at == 0 for each in here)


_LAST = 8  # records that must agree; all records if there are fewer
_BEFORE = 10_000  # offsets before the floor: they contain _LAST records, unless gaps are huge
_SEARCH_BYTES = 256 * 1024 * 1024  # the most to read from the source, for each kind of reader


def find_place(
    source: Cluster,
    source_at: TopicPartition,
    target: Cluster,
    target_at: TopicPartition,
    *,
    floor: int | None = None,
) -> int | None:
    """Returns the source offset behind the target's last record; None if it is not clear. `floor`:
    the target has all records before this offset. `floor` is the result if the source has no
    records from there on.

    Raises CausewayError.
    """
    last = _Last.of(target, target_at)
    earliest = _offset(source, source_at, EARLIEST)
    times = [content[0] for content in last.records if content[0] is not None and content[0] >= 0]
    start = -1 if floor is None else floor - _BEFORE
    if floor is None and times:
        start = _offset(source, source_at, min(times))
    start, cut_off = max(start, earliest), start <= earliest
    places: set[int] = set()
    whole = True
    for committed in (True, False):
        window: deque[Content] = deque(maxlen=len(last.records))
        newest = -1
        read = 0
        for batch in relayed(source, source_at, start, read_committed=committed):
            for index, record in enumerate(records_of(batch)):
                newest = batch.source_offset(index)
                window.append(_without_time(content_of(record), last.append_times))
                if last.is_like(window, cut_off=cut_off):
                    places.add(newest + 1)
            read += batch.size
            if len(places) > 1:
                return None
            if read > _SEARCH_BYTES:
                whole = False
                break
    if floor is not None and whole and newest < floor:
        return floor
    # Timestamps hardly ever repeat. Without them, the unread records might match as well.
    if not places or (last.append_times and not whole):
        return None
    return max(*places, floor or 0)


def compared(one: Candidate, decision: IfSame, sides: Sides) -> Begin | GoOn | Stop:
    """Returns the decision that `decision` leads to. Raises CausewayError."""
    same = is_same_log(
        sides.source,
        one.at,
        sides.target,
        TopicPartition(one.topic.target, one.partition),
        decision.end,
        compacted=one.topic.compacted,
        marked=decision.marked,
        read_committed=one.link.fetch.read_committed,
    )
    return decision.then if same else decision.otherwise


def is_same_log(
    source: Cluster,
    source_at: TopicPartition,
    target: Cluster,
    target_at: TopicPartition,
    end: int,
    *,
    compacted: bool,
    marked: bool = False,
    read_committed: bool = True,
) -> bool:
    """Returns whether the target's last records before offset `end` are the source's at the same
    offsets, or neither side has a record there. `compacted`: either side may lack some records.
    `marked`: either side may lack some records, and headers may differ. Raises CausewayError."""
    first, back = _offset(target, target_at, EARLIEST), _LAST
    here: dict[int, Content] = {}
    while not here and back < 16 * (end - first):
        here = _contents(target, target_at, max(first, end - back), end)
        back *= 16  # markers, filler and compaction leave gaps
    start = _offset(source, source_at, EARLIEST)
    if not here:  # for example, all transactions were rolled back
        begin = max(first, start)
        found = relayed(source, source_at, begin, read_committed=read_committed, stop=end)
        return begin >= end or all(batch.source_offset(0) >= end for batch in islice(found, 1))
    last = dict(sorted(here.items())[-_LAST:])
    last = {offset: content for offset, content in last.items() if offset >= start}
    if not last:
        return False
    there = _contents(source, source_at, min(last), end, read_committed=read_committed)
    if marked:
        last, there = _without_headers(last), _without_headers(there)
    if not (compacted or marked):
        return last == there
    both = last.keys() & there.keys()
    return bool(both) and all(last[offset] == there[offset] for offset in both)


def _without_headers(contents: Mapping[int, Content]) -> dict[int, Content]:
    return {offset: (*content[:3], ()) for offset, content in contents.items()}


def _contents(
    cluster: Cluster, at: TopicPartition, start: int, end: int, *, read_committed: bool = True
) -> dict[int, Content]:
    """Returns the records from `start` on, below `end`, by offset."""
    found: dict[int, Content] = {}
    for batch in relayed(cluster, at, start, read_committed=read_committed):
        for index, record in enumerate(records_of(batch)):
            offset = batch.source_offset(index)
            if offset >= end:
                return found
            found[offset] = content_of(record)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """A target's last records, oldest first. They have no timestamps if the target sets its own
    (`append_times`)."""

    records: Sequence[Content]
    append_times: bool

    @classmethod
    def of(cls, target: Cluster, at: TopicPartition) -> _Last:
        end, first = _offset(target, at, LATEST), _offset(target, at, EARLIEST)
        back = _LAST
        while True:
            start = max(first, end - back)
            found = [r for batch in relayed(target, at, start) for r in records_of(batch)]
            if len(found) >= _LAST or start == first:
                break
            back *= 16  # markers and compaction leave gaps
        raw = raw_batches(target, at, start, end)
        append_times = any(HEADER.unpack_from(batch)[5] & LOG_APPEND_TIME for batch in raw)
        contents = [_without_time(content_of(r), append_times) for r in found[-_LAST:]]
        return cls(records=contents, append_times=append_times)

    def is_like(self, window: Sequence[Content], *, cut_off: bool) -> bool:
        """Returns whether these records of the source are the last records of the target.
        `cut_off`: they may be fewer, because the source has deleted earlier records."""
        if not window or (len(window) < len(self.records) and not cut_off):
            return False
        return list(window) == self.records[-len(window) :]


def _without_time(content: Content, append_times: bool) -> Content:
    return (None, *content[1:]) if append_times else content


def _offset(cluster: Cluster, at: TopicPartition, timestamp: int) -> int:
    found = cluster.list_offsets([at], timestamp)[at]
    if isinstance(found, CausewayError):
        raise found
    return found.offset
