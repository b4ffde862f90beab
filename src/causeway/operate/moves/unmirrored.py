"""Records that lie on one side only, once a mirror has ended without its last word.

    old source  … S ─────── E         from S to E: never mirrored. They stay where they are, and
    old target  … T ──────────────    no mirror brings them over later: what comes back from T on
                                      goes behind them

S is what the cut says, or, where the mirror ended without a last word, what its target tells: the
last record there that is of the mirror is looked for in the source.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from causeway.config.settings import LinkSettings
from causeway.control.cuts import Cut
from causeway.control.topics import MirroredTopic
from causeway.daemon.partitions.adopt import find_place
from causeway.daemon.partitions.behind import Behind, places_behind
from causeway.daemon.partitions.discovery import Sides
from causeway.errors import ConfigError
from causeway.model import TopicPartition, same_topic
from causeway.relay import walk
from causeway.relay.progress import Progress
from causeway.relay.topic_log import TopicLog
from causeway.relay.walk import offsets_at, value_of
from causeway.wire.batches import Batch, header
from causeway.wire.cluster import Cluster
from causeway.wire.offsets import EARLIEST, LATEST
from causeway.wire.plain_records import PlainRecord
from causeway.wire.records import build, records_of

_REPLICAS: Final = 3
_TOGETHER_BYTES: Final = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmirrored:
    """Of one partition of the old source: `records` from offset `first` on, before `end`. `surely`
    false: some of them may be on the target all the same, as nothing tells where the mirror
    ended."""

    at: TopicPartition
    first: int
    end: int
    records: int
    surely: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """`unmirrored`: of the partitions that have such records. `starts`: where a mirror the other
    way begins, by partition of the old target; `lost`: those of the old source that end before what
    was mirrored of them, so that it begins earlier there."""

    unmirrored: tuple[Unmirrored, ...]
    starts: Mapping[TopicPartition, int]
    lost: tuple[TopicPartition, ...]


def look(
    link: LinkSettings,
    sides: Sides,
    topics: Mapping[str, MirroredTopic],
    cuts: Mapping[str, Cut],
    progress: Mapping[TopicPartition, Progress],
) -> Sighting:
    """`topics`: those that the ended link would mirror; of these, the ones with `cuts` are looked
    at. What has none was not mirrored at all, and is when the link goes on. A topic that
    was made anew on either side holds nothing of the mirror there. Raises CausewayError;
    ConfigError where the old source lacks a topic, or has lost records and it can't be told
    which."""
    topics = {name: topic for name, topic in topics.items() if name in cuts}
    if missing := sorted(cuts.keys() - topics.keys()):
        raise ConfigError(
            "fail back",
            missing[0],
            f"its mirror has ended, and by now {link.source.alias} lacks it, or the file says that "
            f"{link.name} does not mirror it",
            remedy="restore what the file had; a topic that is lost is brought back as a whole "
            "once it is made anew there, empty",
        )
    places = [TopicPartition(t.source, n) for t in topics.values() for n in range(t.partitions)]
    ends = offsets_at(sides.source, places, LATEST)
    firsts = offsets_at(sides.source, places, EARLIEST)
    recovered = _recovered(link, sides, topics, cuts, progress)
    unmirrored, lost = [], []
    # A partition that had not begun holds nothing of the mirror.
    starts = {
        TopicPartition(t.target, n): 0 for t in topics.values() for n in range(t.target_partitions)
    }
    for at in sorted(places):
        end, first = value_of(ends[at]), value_of(firsts[at])
        topic, cut = topics[at.topic], cuts[at.topic]
        point = cut.point(at.partition)
        surely = True
        if point is not None and same_topic(cut.source_id, topic.source_id):
            first = recovered.get(at, point.source)
            surely = point.exact or at in recovered
            if same_topic(cut.target_id, topic.target_id):
                starts |= dict(point.targets)
            if end < first:
                (target, _), *_ = point.targets
                starts[target] = _where_it_ends(sides, at, target) if end else 0
                lost.append(at)
        if end > first:
            batches = walk.relayed(
                sides.source, at, first, read_committed=link.fetch.read_committed
            )
            count = sum(batch.records for batch in batches)
            if count:
                unmirrored.append(
                    Unmirrored(at=at, first=first, end=end, records=count, surely=surely)
                )
    return Sighting(unmirrored=tuple(unmirrored), starts=starts, lost=tuple(lost))


def _recovered(
    link: LinkSettings,
    sides: Sides,
    topics: Mapping[str, MirroredTopic],
    cuts: Mapping[str, Cut],
    progress: Mapping[TopicPartition, Progress],
) -> dict[TopicPartition, int]:
    """Up to which source offset all is mirrored, of those whose cut does not tell exactly. By now
    others may have written to the target, as they should."""
    unsure = [
        (topics[name], known)
        for name, cut in cuts.items()
        for point in cut.points
        if not point.exact
        and name in topics
        and (known := progress.get(TopicPartition(name, point.partition))) is not None
        and known.transform is None
    ]
    found = places_behind(unsure, sides, replace(link, sole_writer=False)) if unsure else {}
    return {at: each.start for at, each in found.items() if isinstance(each, Behind)}


def _where_it_ends(sides: Sides, at: TopicPartition, target: TopicPartition) -> int:
    """Where the old target has the record after the last one that the old source kept."""
    found = find_place(sides.target, target, sides.source, at)
    if found is None:
        raise ConfigError(
            "fail back",
            str(at),
            "the old source lost records that had been mirrored, and what it ends with is not "
            "found in one place of the target",
            remedy="delete the topic on the old source and make it anew, empty: it is then "
            "mirrored back as a whole",
        )
    return found


# -- saving ----------------------------------------------------------------------------------


def save(source: Cluster, what: Sequence[Unmirrored], path: Path, *, read_committed: bool) -> None:
    """A line of JSON a record, keys and values in base64. The file is there only once it is whole,
    for its owner alone. Raises ConfigError where something is there already."""
    if path.exists():
        raise ConfigError("save records", str(path), "it is there already, and is kept")
    part = path.with_name(f"{path.name}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            _write_lines(file, source, what, read_committed)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        raise ConfigError("save records", str(path), error.strerror or str(error)) from error


def _write_lines(
    file: IO[str], source: Cluster, what: Iterable[Unmirrored], read_committed: bool
) -> None:
    for at, offset, record in _records(source, what, read_committed):
        line: dict[str, Any] = {
            "topic": at.topic,
            "partition": at.partition,
            "offset": offset,
            "timestamp_ms": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers],
        }
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def save_to_topic(
    source: Cluster,
    what: Sequence[Unmirrored],
    target: Cluster,
    topic: str,
    *,
    read_committed: bool,
) -> None:
    """Appends them to `topic` of the target, which is made where it is missing, each with its place
    in headers. Called again, they are there twice. Raises CausewayError."""
    TopicLog(target, topic).ensure(_REPLICAS, configs={})
    waiting: list[PlainRecord] = []
    size = 0

    def flush() -> None:
        if waiting:
            batch = _batch(waiting)
            stamped = header(batch, -1, -1, -1) + batch.payload
            target.produce_batch(TopicPartition(topic, 0), stamped)
            waiting.clear()

    for at, offset, record in _records(source, what, read_committed):
        own = len(record.key or b"") + len(record.value or b"")
        if size + own > _TOGETHER_BYTES:
            flush()
            size = 0
        place = {"topic": at.topic, "partition": at.partition, "offset": offset}
        more = [(f"causeway.{name}", str(value).encode()) for name, value in place.items()]
        stamp = -1 if record.timestamp is None else record.timestamp
        headers = [*record.headers, *more]
        waiting.append(PlainRecord(len(waiting), stamp, record.key, record.value, headers))
        size += own
    flush()


def _batch(records: Sequence[PlainRecord]) -> Batch:
    return build(records, codec=0, first=0, next=len(records), leader_epoch=-1, offsets=None)


def _records(
    source: Cluster, what: Iterable[Unmirrored], read_committed: bool
) -> Iterator[tuple[TopicPartition, int, Any]]:
    for each in what:
        for batch in walk.relayed(source, each.at, each.first, read_committed=read_committed):
            offsets = [batch.source_offset(index) for index in range(batch.records)]
            for offset, record in zip(offsets, records_of(batch), strict=True):
                if offset < each.end:
                    yield each.at, offset, record
            if batch.next >= each.end:
                break


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
