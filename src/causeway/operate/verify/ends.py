"""Where the logs of a link start and end, as `verify` has to know it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from causeway.cluster import EARLIEST, LATEST, Cluster, OffsetAt, bytes_an_offset
from causeway.config import LinkSettings
from causeway.control import MirroredTopic, open_transactions
from causeway.errors import CausewayError
from causeway.link_topics import ProgressContents
from causeway.model import TopicPartition
from causeway.operate.verify.stretches import Logs

_MANY = 20_000  # offsets, from which on it is worth while to know how much one takes
_SAMPLED_AT_ONCE = 8
_USUAL_BYTES = 1_000.0


class Ends:
    """Starts and ends of all logs, asked in bulk. `beyond`: of the target, what nothing feeds."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        topics: Sequence[MirroredTopic],
        contents: ProgressContents,
        link: LinkSettings,
        beyond: Sequence[TopicPartition],
    ) -> None:
        known = {
            at: contents.partitions[at]
            for topic in topics
            for number in range(topic.partitions)
            if (at := TopicPartition(topic.source, number)) in contents.partitions
        }
        there = {topic.source for topic in topics if topic.target_id is not None}
        targets = [
            outlet.at for at, one in known.items() for outlet in one.outlets if at.topic in there
        ]
        targets += beyond
        self._starts = source.list_offsets(list(known), EARLIEST) if known else {}
        self._ends, self._written = (
            open_transactions.both_ends(source, known, read_committed=link.fetch.read_committed)
            if known
            else ({}, {})
        )
        self._target_starts = target.list_offsets(targets, EARLIEST) if targets else {}
        self._target_ends = target.list_offsets(targets, LATEST) if targets else {}
        many = [
            (at, start.offset)
            for at, start in self._starts.items()
            if isinstance(start, OffsetAt) and known[at].position - start.offset > _MANY
        ]
        with ThreadPoolExecutor(_SAMPLED_AT_ONCE) as pool:
            sizes = pool.map(lambda one: bytes_an_offset(source, *one), many)
            self._bytes = {at: size for (at, _), size in zip(many, sizes, strict=True)}

    def end(self, at: TopicPartition) -> int | CausewayError:
        """Of the source, as the link reads it."""
        return _offset_of(self._ends[at])

    def written(self, at: TopicPartition) -> int | CausewayError:
        """Of the source, with what open transactions hold back."""
        return _offset_of(self._written[at])

    def of(self, at: TopicPartition, target: TopicPartition) -> Logs | CausewayError:
        start = self._starts[at]
        if isinstance(start, CausewayError):
            return start
        there = self.there(target)
        if isinstance(there, CausewayError):
            return there
        return Logs(
            source_start=start.offset,
            target_start=there[0],
            target_end=there[1],
            offset_bytes=max(1.0, self._bytes.get(at, _USUAL_BYTES)),
        )

    def there(self, target: TopicPartition) -> tuple[int, int] | CausewayError:
        """Where a log of the target starts, and where it ends."""
        target_start, target_end = self._target_starts[target], self._target_ends[target]
        if isinstance(target_start, CausewayError):
            return target_start
        if isinstance(target_end, CausewayError):
            return target_end
        return target_start.offset, target_end.offset


def _offset_of(found: OffsetAt | CausewayError) -> int | CausewayError:
    return found.offset if isinstance(found, OffsetAt) else found
