"""Replaces schema ids in records with the ids that the target's registry has for the same schemas.

    0 | id, 4 bytes | data                  key or value: the id is rewritten
    header __value_schema_id: id or GUID    the header is

The target's registry never changes the id of a schema (see causeway.schemas.link). So each lane
gives a record the same new id, also after a crash. Data in another form passes unchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from causeway.errors import CausewayError
from causeway.records import Record
from causeway.relay.treatment import Changed, Records, Topics, Treatment, TreatmentNotReadyError
from causeway.schemas import (
    IdLookup,
    Ids,
    SchemaId,
    SchemaRegistry,
    Unknown,
    find_schema_id,
    with_schema_id,
)

_E = TypeVar("_E", bound=CausewayError)
_OPERATION = "translate the id of the schema of"
_ASKING = "the registries are asked for it"


def build(settings: Mapping[str, Any]) -> Treatment:
    registries = settings["registries"]
    source = SchemaRegistry(registries["source"])
    target = SchemaRegistry(registries["target"], settings["context"])
    return SchemaIds(
        Ids(source, target, settings["names"]),
        parts=settings["parts"],
        pass_unknown=settings["unknown"] == "pass",
    )


class SchemaIds:
    def __init__(self, ids: Ids, *, parts: Sequence[str], pass_unknown: bool) -> None:
        self._ids = ids
        self._parts = tuple(parts)
        self._pass_unknown = pass_unknown
        self._mine = threading.local()

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        """Notes all missing ids of a batch before it raises, so they are asked for together."""
        self._mine.lacking = None
        met: dict[tuple[str, int | str], int] = {}  # the ids, each with its first offset
        for record in records:
            for part, found in self._found(record):
                met.setdefault((part, found.name), record.offset)
        names: dict[tuple[str, int | str], int | str] = {}
        lacking: TreatmentNotReadyError | None = None
        for (part, name), offset in met.items():
            asked = IdLookup(topics.source, topics.target, part, name)
            there = self._ids.get(asked, settled=self._pass_unknown)
            if isinstance(there, Unknown) and self._passes(there):
                continue
            if there is None or isinstance(there, Unknown):
                if lacking is None:
                    self._mine.lacking = asked, offset
                    reason = _ASKING if there is None else there.reason
                    lacking = _told(TreatmentNotReadyError, asked, offset, reason)
            elif there != name:
                names[part, name] = there
        if lacking is not None:
            raise lacking
        return [self._written(record, names) for record in records] if names else records

    def prepare(self) -> None:
        """Asks the registries for missing ids. Other flows may wait for the same call. An unknown
        schema must not delay them, so only the thread that asked for it gets the error."""
        lacking: tuple[IdLookup, int] | None = getattr(self._mine, "lacking", None)
        self._mine.lacking = None
        self._ids.find_out()
        if lacking is not None:
            asked, offset = lacking
            found = self._ids.get(asked)
            if isinstance(found, Unknown) and not self._passes(found):
                raise _told(CausewayError, asked, offset, found.reason)

    def _found(self, record: Record) -> Iterator[tuple[str, SchemaId]]:
        for part in self._parts:
            data = record.key if part == "key" else record.value
            found = find_schema_id(part, data, record.headers)
            if found is not None:
                yield part, found

    def _written(self, record: Record, names: Mapping[tuple[str, int | str], int | str]) -> Record:
        parts, headers = {"key": record.key, "value": record.value}, record.headers
        changed = False
        for part, found in self._found(record):
            name = names.get((part, found.name))
            if name is None:
                continue
            changed = True
            if found.header is not None:
                key, told = headers[found.header]
                headers = list(headers)
                headers[found.header] = key, with_schema_id(told or b"", name)
            else:
                parts[part] = with_schema_id(parts[part] or b"", name)
        if not changed:
            return record
        return Changed(record.offset, record.timestamp, parts["key"], parts["value"], headers)

    def _passes(self, unknown: Unknown) -> bool:
        return self._pass_unknown and unknown.nowhere


def _told(kind: type[_E], asked: IdLookup, offset: int, reason: str) -> _E:
    """The error does not show the id: the bytes may be other content of the record."""
    return kind(_OPERATION, f"the {asked.part} at offset {offset} of {asked.source}", reason)
