"""MirrorMaker 2's own positions, in Connect's offsets topic on the target.

    mm2-offsets.<source>.internal    25 partitions by default, compacted, JSON
    key     ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]
    value   {"offset":41}            the last source offset copied

Connect finds a position by the bytes of its key, and Kafka compacts by partition. So both must be
as Connect makes them: the members in this order, the partition by the hash of the key. Our entries
have an additional member, which MirrorMaker 2 ignores. It shows whether MirrorMaker 2 has mirrored
since then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.partitioner.default import murmur2

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.config.reading import usual_offsets_topic
from causeway.errors import CausewayError
from causeway.link_topics import KeyValue, TopicLog
from causeway.model import TopicPartition

_OURS = {"writer": "causeway"}


def positions_of(
    link: LinkSettings, target: Cluster, admin: Cluster | None = None
) -> MirrorMakerOffsets:
    """Returns the positions of MirrorMaker 2 for the link."""
    log = TopicLog(target, topic_of(link), admin=admin)
    source, *others = link.control.mm2_aliases or (link.source.alias, "")
    return MirrorMakerOffsets(log, source, link.control.mm2_connector, others)


def topic_of(link: LinkSettings) -> str:
    return link.control.mm2_offsets_topic or usual_offsets_topic(link.source.alias)


class Copied(NamedTuple):
    """The last source offset that MirrorMaker 2's entry has as copied. `ours`: we wrote the
    entry."""

    offset: int
    ours: bool


class UnconfirmedCopy(Copied):
    """From an entry under another alias of the source, or of another connector. The entry may be
    about another cluster, or another target, so the records have to confirm it."""

    __slots__ = ()


@dataclass(slots=True)
class MirrorMakerOffsets:
    """The positions of one source cluster, by its alias. Not thread-safe. `others`: more aliases
    that the source may have in the entries."""

    topic: TopicLog
    source: str
    connector: str = "MirrorSourceConnector"
    others: Sequence[str] = ()
    _written: dict[TopicPartition, int] = field(default_factory=dict)
    _is_fixed: bool = False

    def read(self) -> dict[TopicPartition, Copied]:
        """Returns each partition's entry; empty if MirrorMaker 2 never ran. An entry of another
        connector counts if the partition has no other. Raises CausewayError."""
        found: dict[TopicPartition, Copied] = {}
        unsure: dict[TopicPartition, dict[tuple[str, str], Copied]] = {}  # by connector and alias
        for key, value in self.topic.newest().items():
            try:
                connector, place = json.loads(key)
                at = TopicPartition(str(place["topic"]), int(place["partition"]))
                owner = str(connector), str(place["cluster"])
                entry = json.loads(value)
                copied = Copied(int(entry["offset"]), entry.get("writer") == _OURS["writer"])
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                continue  # no position of a source connector
            if owner == (self.connector, self.source):
                found[at] = copied
            elif owner[1] in (self.source, *self.others):
                unsure.setdefault(at, {})[owner] = copied
        for at in unsure.keys() - found.keys():
            if (likeliest := self._likeliest(unsure[at])) is not None:
                found[at] = UnconfirmedCopy(*likeliest)
        return found

    def _likeliest(self, entries: Mapping[tuple[str, str], Copied]) -> Copied | None:
        """Returns the entry of this connector, or else the only entry. None if several other
        connectors have one."""
        for alias in (self.source, *self.others):
            if (own := entries.get((self.connector, alias))) is not None:
                return own
        return next(iter(entries.values())) if len(entries) == 1 else None

    def forget(self) -> None:
        """Forgets the written positions, because others may have written since."""
        self._written.clear()
        self._is_fixed = False

    def is_there(self) -> bool:
        """Returns whether MirrorMaker 2 ever ran. Raises CausewayError."""
        return self.topic.partitions() > 0

    def write(self, positions: Mapping[TopicPartition, int]) -> None:
        """`positions`: for each source partition, the offset below which all is mirrored. Does
        nothing if the topic does not exist. Writes all that can be written, and then raises
        CausewayError if something could not."""
        due = {at: p for at, p in positions.items() if p > 0 and self._written.get(at) != p}
        values = {at: _dump({"offset": position - 1, **_OURS}) for at, position in due.items()}
        self._append(values, lambda at: self._written.update({at: due[at]}))

    def remove(self, places: Collection[TopicPartition]) -> None:
        """Deletes our own entries of `places`. Writes all that can be written, and then raises
        CausewayError if something could not."""
        ours = [
            at
            for at, copied in self.read().items()
            if copied.ours and at in places and not isinstance(copied, UnconfirmedCopy)
        ]
        self._append(dict.fromkeys(ours), lambda at: None)

    def _append(
        self,
        values: Mapping[TopicPartition, bytes | None],
        on_written: Callable[[TopicPartition], None],
    ) -> None:
        count = self.topic.partitions() if values else 0
        if not count:
            return
        if not self._is_fixed:
            self.topic.keep_compacted(partitions=None)
            self._is_fixed = True
        shares: dict[int, dict[TopicPartition, KeyValue]] = {}
        for at, value in values.items():
            place = {"cluster": self.source, "partition": at.partition, "topic": at.topic}
            key = _dump([self.connector, place])
            where = (murmur2(key) & 0x7FFFFFFF) % count
            shares.setdefault(where, {})[at] = key, value
        failure: CausewayError | None = None
        for partition, share in shares.items():
            try:
                self.topic.append(list(share.values()), partition)
            except CausewayError as error:
                failure = error
            else:
                for at in share:
                    on_written(at)
        if failure is not None:
            raise failure


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
