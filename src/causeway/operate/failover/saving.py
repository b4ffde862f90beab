"""Saves records that only one side has, to a file or a topic. An interrupted call can continue."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from causeway.cluster import Cluster, relayed
from causeway.errors import ConfigError
from causeway.link_topics import TopicLog
from causeway.model import TopicPartition
from causeway.operate.failover.unmirrored import Unmirrored
from causeway.records import Batch, PlainRecord, build, header, records_of

_REPLICAS: Final = 3
# Records have their old times: with the broker's own retention they would be deleted soon.
_KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_TOGETHER_BYTES: Final = 500_000
_PLACE: Final = ("causeway.topic", "causeway.partition", "causeway.offset")  # headers


def save(source: Cluster, what: Sequence[Unmirrored], path: Path, *, read_committed: bool) -> None:
    """Writes one line of JSON for each record, with keys and values in base64. The file appears
    only once it is complete, and only its owner may read it. If `path` has exactly these records,
    because a call was killed after it wrote them, nothing is done. Raises ConfigError if `path` has
    other content."""
    lines = _lines(source, what, read_committed)
    try:
        if path.exists():
            with path.open("rb") as there:
                for number, (one, other) in enumerate(zip_longest(there, lines), 1):
                    if one != other:
                        cause = f"the file exists and is kept: from line {number} on it differs "
                        cause += "from the records to save now"
                        remedy = "give another path"
                        raise ConfigError("save records", str(path), cause, remedy=remedy)
            return
        part = path.with_name(f"{path.name}.part")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        raise ConfigError("save records", str(path), error.strerror or str(error)) from error


def _lines(source: Cluster, what: Iterable[Unmirrored], read_committed: bool) -> Iterator[bytes]:
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
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"


def save_to_topic(
    source: Cluster,
    what: Sequence[Unmirrored],
    target: Cluster,
    topic: str,
    *,
    read_committed: bool,
) -> None:
    """Appends the records to `topic` of the target, each with its place in headers. Creates the
    topic if it is missing; it keeps records for ever. Records that the topic has already, by these
    headers, from a call that was killed, are not written again. Raises CausewayError."""
    TopicLog(target, topic).ensure(_REPLICAS, configs=_KEPT)
    there = _saved(target, topic)
    waiting: list[PlainRecord] = []
    size = 0

    def flush() -> None:
        if waiting:
            batch = _batch(waiting)
            stamped = header(batch, -1, -1, -1) + batch.payload
            target.produce_batch(TopicPartition(topic, 0), stamped)
            waiting.clear()

    for at, offset, record in _records(source, what, read_committed):
        place = tuple(str(each).encode() for each in (*at, offset))
        if place in there:
            continue
        own = len(record.key or b"") + len(record.value or b"")
        if size + own > _TOGETHER_BYTES:
            flush()
            size = 0
        stamp = -1 if record.timestamp is None else record.timestamp
        headers = [*record.headers, *zip(_PLACE, place, strict=True)]
        waiting.append(PlainRecord(len(waiting), stamp, record.key, record.value, headers))
        size += own
    flush()


def _saved(target: Cluster, topic: str) -> set[tuple[bytes, ...]]:
    """Returns the places of the records that the topic has already."""
    found = set()
    for batch in TopicLog(target, topic).batches():
        for record in records_of(batch):
            headers = dict(record.headers)
            found.add(tuple(headers.get(name) or b"" for name in _PLACE))
    return found


def _batch(records: Sequence[PlainRecord]) -> Batch:
    return build(records, codec=0, first=0, next=len(records), leader_epoch=-1, offsets=None)


def _records(
    source: Cluster, what: Iterable[Unmirrored], read_committed: bool
) -> Iterator[tuple[TopicPartition, int, Any]]:
    for each in what:
        for batch in relayed(source, each.at, each.first, read_committed=read_committed):
            offsets = [batch.source_offset(index) for index in range(batch.records)]
            for offset, record in zip(offsets, records_of(batch), strict=True):
                if each.has(offset):
                    yield each.at, offset, record
            if batch.next >= each.end:
                break


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
