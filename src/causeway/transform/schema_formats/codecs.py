"""Decodes keys and values in a registry's wire format to JSON for Spark, and encodes Spark's JSON.

    0 | id, 4 bytes | Avro
    0 | id, 4 bytes | message indexes | Protobuf

Spark returns the first HEAD bytes of the original part, which contain the id and the indexes, and
then JSON."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from causeway.errors import PrerequisiteError
from causeway.extras import install_extra
from causeway.schemas import HEADERS
from causeway.transform.rows import REASON, SEEN
from causeway.transform.schema_formats.registry import (
    CIRCULAR,
    MisfitError,
    ResolvedSchema,
    WorkerRegistry,
    indexes,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from causeway.transform.rules import TransformRule
    from causeway.transform.schema_formats.avro import Avro
    from causeway.transform.schema_formats.protobuf import Message, Protobuf

HEAD = 32  # bytes
NO_HEAD = b"\xff" * HEAD  # of a part that was null
FRESH_S = 10.0  # for this time the versions of a subject are not looked up again
_ID = struct.Struct(">bI")
_MODULES = {"avro": "fastavro", "protobuf": "grpc_tools"}
_NAMES = {"avro": "Avro", "protobuf": "Protobuf"}
NO_FIT = "the transformed {} fits no schema of its subject"
NO_SCHEMA = "the record has no {}, and so no schema to write one with"
UNUSABLE = "the schema of its {} cannot be used"
REFERS_TO_ITSELF = "the schema of its {} refers to itself through others"
UNKNOWN = "the registry does not know the schema of its {}"
# Newer clients can write the id into a header. Then the part begins with its data, which may look
# like an id.
IN_HEADER = "the id of the schema of its {} is in a header"


def require(format: str) -> None:
    """Raises PrerequisiteError if the library for `format` is missing."""
    if find_spec(_MODULES[format]) is None:
        raise PrerequisiteError(
            f"read {_NAMES[format]}",
            cause=f"the package {_MODULES[format]} is missing",
            remedy=install_extra(format),
        )


class _UnreadableError(Exception):
    """The message is the reason."""


class _Known(NamedTuple):
    """The codec of a message by the schema `id`. `lacking`: bits of the rules whose path no such
    message has."""

    codec: Avro | Message
    id: int
    lacking: int


class Schemas:
    """The schemas that a worker knows. `formats`: of the parts, key or value, that it treats.
    `rules`: the rules that the JSON is for."""

    def __init__(
        self,
        registry: WorkerRegistry,
        formats: Mapping[str, str],
        rules: Sequence[TransformRule] = (),
    ) -> None:
        self.formats = formats
        self._rules = {
            part: [rule for rule in rules if rule.path.part == part and rule.path.steps]
            for part in formats
        }
        self._registry = registry
        self._schemas: dict[tuple[str, int], Avro | Protobuf | None] = {}
        self._messages: dict[tuple[str, int, bytes], _Known] = {}
        # By schema and preferred subject, and since when.
        self._relatives: dict[tuple[int, str], tuple[float, list[ResolvedSchema]]] = {}

    def decode(
        self, part: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> tuple[str | None, str | None]:
        """Returns the JSON, or the reason why there is none, which quotes nothing. `headers`: the
        record's."""
        if data is None:
            return None, None
        if headers and HEADERS[part] in (name for name, _ in headers):
            return None, IN_HEADER.format(part)
        try:
            known, start = self._read(part, data)
            return known.codec.decode(data[start:]), None
        except _UnreadableError as error:
            return None, str(error)
        except MisfitError as error:
            return None, f"{part} has {error}" if str(error) else self._misfit(part)

    def lacking(self, part: str, data: bytes | None) -> int:
        """Returns the bits of the rules whose path the schema of `data` lacks; 0 if the schema
        cannot be read."""
        if data is None or not self._rules[part]:
            return 0
        try:
            return self._read(part, data)[0].lacking
        except _UnreadableError:
            return 0

    def encode(self, part: str, topic: str, data: bytes) -> tuple[bytes | None, str | None]:
        """Returns the bytes for `data` (a head and JSON), with the head of a schema that fits; or
        the reason why no schema fits."""
        head, text = data[:HEAD], data[HEAD:]
        if head == NO_HEAD:
            return None, NO_SCHEMA.format(part)
        try:
            # A query that replaces the part without reading it has not decoded it.
            known, start = self._read(part, head)
        except _UnreadableError as error:
            return None, str(error)
        try:
            json = text.decode()
        except UnicodeDecodeError:
            return None, NO_FIT.format(part)
        try:
            return head[:start] + known.codec.encode(json), None
        except MisfitError:
            made = self._by_another(part, known, topic, json)
        return (None, NO_FIT.format(part)) if made is None else (made, None)

    def _misfit(self, part: str) -> str:
        return f"{part} is not {_NAMES[self.formats[part]]} of its schema"

    def _read(self, part: str, data: bytes) -> tuple[_Known, int]:
        """Returns the codec, and the offset of the data."""
        format = self.formats[part]
        try:
            id, place, start = _head(format, data)
        except (MisfitError, IndexError, struct.error):
            why = f"{part} is not {_NAMES[format]} with the id of a schema"
            raise _UnreadableError(why) from None
        if (known := self._messages.get((part, id, place))) is None:
            schema = self._schema(part, id)
            if schema is None:
                found = self._registry.schema(id)
                why = UNKNOWN if found is None else UNUSABLE
                if found is not None and found.format == CIRCULAR:
                    why = REFERS_TO_ITSELF
                raise _UnreadableError(why.format(part))
            try:
                codec = schema.message(place)
            except MisfitError:
                raise _UnreadableError(self._misfit(part)) from None
            pairs = zip(self._rules[part], codec.lacks, strict=True)
            lacking = sum(1 << (rule.number - 1) for rule, lacks in pairs if lacks)
            known = self._messages[part, id, place] = _Known(codec, id, lacking)
        return known, start

    def _by_another(self, part: str, own: _Known, topic: str, json: str) -> bytes | None:
        """Returns `json` by another schema of the same subjects; None if none fits."""
        key, asked = (own.id, f"{topic}-{part}"), False
        while True:
            since, relatives = self._relatives.get(key, (0.0, []))
            for relative in relatives:
                schema = self._schema(part, relative.id)
                if schema is None or relative.id == own.id:
                    continue
                try:
                    codec = schema.like(own.codec)
                    return _ID.pack(0, relative.id) + codec.place + codec.encode(json)
                except MisfitError:
                    continue
            now = time.monotonic()
            if asked or (since and now - since < FRESH_S):
                return None
            asked = True
            self._relatives[key] = (now, self._registry.relatives(*key))

    def _schema(self, part: str, id: int) -> Avro | Protobuf | None:
        """Returns None for a schema that the registry does not know, or that has another format."""
        known = (part, id)
        if known not in self._schemas:
            schema = self._registry.schema(id)
            if schema is None:
                return None  # the registry may know it later
            paths = [rule.path.steps or () for rule in self._rules[part]]
            self._schemas[known] = _opened(self.formats[part], schema, paths)
        return self._schemas[known]


def _opened(format: str, schema: ResolvedSchema, paths: Sequence[Any]) -> Avro | Protobuf | None:
    if schema.format != format.upper():
        return None
    try:
        if format == "avro":
            from causeway.transform.schema_formats.avro import Avro

            return Avro(schema.text, schema.references, paths)
        from causeway.transform.schema_formats.protobuf import Protobuf

        return Protobuf(schema.text, schema.references, paths)
    except Exception:  # the library refuses the schema
        return None


def _head(format: str, data: bytes) -> tuple[int, bytes, int]:
    """Returns the id, the place in the schema, and the offset of the data."""
    magic, id = _ID.unpack_from(data)
    if magic != 0:
        raise MisfitError
    if format == "avro":
        return id, b"", _ID.size
    size = indexes(data[_ID.size : HEAD])[1]
    return id, data[_ID.size : _ID.size + size], _ID.size + size


def encoded(rows: pa.RecordBatch, schemas: Schemas, topic: str) -> pa.RecordBatch:
    """Returns `rows` of `rows.OUTPUT`, with bytes in place of heads and JSON. A part that fits no
    schema gets a reason. `topic`: the source's."""
    import pyarrow as pa

    reasons: list[str | None] = rows.column(REASON).to_pylist()
    dropped = [bits is not None and bits < 0 for bits in rows.column(SEEN).to_pylist()]
    for part in schemas.formats:
        for row in _with_header(rows, HEADERS[part]):
            reasons[row] = reasons[row] or IN_HEADER.format(part)
        made: list[bytes | None] = []
        for row, data in enumerate(rows.column(part).to_pylist()):
            found = None
            if data is not None and reasons[row] is None and not dropped[row]:
                found, reasons[row] = schemas.encode(part, topic, data)
            made.append(found)
        at = rows.schema.get_field_index(part)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(made, pa.binary()))
    at = rows.schema.get_field_index(REASON)
    return rows.set_column(at, rows.schema.field(at), pa.array(reasons, pa.string()))


def _with_header(rows: pa.RecordBatch, name: str) -> list[int]:
    """Returns the rows that have a header of this name."""
    import pyarrow.compute as pc

    headers = rows.column("headers")
    named = pc.equal(headers.flatten().field(0), name)
    found: list[int] = pc.list_parent_indices(headers).filter(named).to_pylist()
    return found
