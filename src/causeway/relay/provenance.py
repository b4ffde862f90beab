"""Names the source of a record in its headers, and leaves out records by their headers.

    provenance     a header names the source; what has been on the target is left out, or (`local`)
                   all that has been mirrored before
    skip-header    records with a header of that name are left out: they are on both sides

    written on A ─► B: A/orders ─► C: A/orders, B/orders        left out on the way to A or B

The first of these headers names the cluster that a record was written on; the others, in their
order, those that it has come through. The first alone would stop what goes round through the
cluster where it was written, but not what goes to and fro between two others.

Next to the cluster is the topic that the mirror has written to. Programs that hand on a record's
headers, such as Kafka Streams, write them to other topics: there they tell of another record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from causeway.records import Record
from causeway.relay.treatment import Changed, Records, Topics, Treatment

ORIGIN = "causeway.origin"
Header = tuple[str, bytes | None]


def build(kind: str, settings: Mapping[str, Any]) -> Treatment:
    if kind == "provenance":
        local = settings.get("local", False)
        return Provenance(settings["source"], settings["target"], local=local)
    return SkipHeader(settings["name"])


class _Ready:
    def prepare(self) -> None:
        """It lacks nothing."""


class SkipHeader(_Ready):
    def __init__(self, name: str) -> None:
        self._name = name

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        name = self._name
        return [
            None if any(header[0] == name for header in record.headers) else record
            for record in records
        ]


class Provenance(_Ready):
    """`source`, `target`: their aliases. `local`: of what was written on the source alone."""

    def __init__(self, source: str, target: str, *, local: bool = False) -> None:
        self._source, self._target, self._local = source, target, local

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        mark = (ORIGIN, _value(self._source, topics.target))
        from_target = (ORIGIN, _value(self._target, topics.source))
        renamed = topics.source != topics.target
        treated: list[Record | None] = []
        for record in records:
            headers = record.headers
            if from_target in headers or (self._local and _is_mirrored(headers, topics)):
                treated.append(None)
                continue
            earlier = [_renamed(header, topics) for header in headers] if renamed else headers
            treated.append(
                Changed(record.offset, record.timestamp, record.key, record.value, [*earlier, mark])
            )
        return treated


def _is_mirrored(headers: Sequence[Header], topics: Topics) -> bool:
    ending = b"/" + topics.source.encode()
    return any(name == ORIGIN and value and value.endswith(ending) for name, value in headers)


@lru_cache(1_000)
def _value(alias: str, topic: str) -> bytes:
    return f"{alias}/{topic}".encode()


def _renamed(header: Header, topics: Topics) -> Header:
    """What an earlier mirror has said of the record counts on the target under its name there."""
    name, value = header
    if name == ORIGIN and value is not None:
        alias, _, topic = value.partition(b"/")
        if topic == topics.source.encode():
            return name, alias + b"/" + topics.target.encode()
    return header
