"""Decodes keys and values in a registry's wire format to JSON for Spark, and encodes Spark's JSON.

    0 | id, 4 bytes | Avro
    0 | id, 4 bytes | message indexes | Protobuf

Spark returns HEAD bytes of the original part, which contain the id and the indexes, and then
JSON."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from causeway.errors import PrerequisiteError
from causeway.transform.rows import REASON, SEEN
from causeway.transform.schema_formats.registry import (
    CIRCULAR,
    MisfitError,
    ResolvedSchema,
    WorkerRegistry,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from causeway.transform.rules import TransformRule

HEAD = 32  # bytes
NO_HEAD = b"\xff" * HEAD  # of a part that was null
FRESH_S = 10.0  # how long the versions of a subject are not looked up again
_ID = struct.Struct(">bI")
_MODULES = {"avro": "fastavro", "protobuf": "grpc_tools"}
_NAMES = {"avro": "Avro", "protobuf": "Protobuf"}
NO_FIT = "the transformed {} fits no schema of its subject"
NO_SCHEMA = "the record has no {}, and so no schema to write one with"
UNUSABLE = "the schema of its {} cannot be used"
REFERS_TO_ITSELF = "the schema of its {} refers to itself through others"
UNKNOWN = "the registry does not know the schema of its {}"
# Newer clients can write the id here. Then the part begins with its data, which may look like an
# id.
_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
IN_HEADER = "the id of the schema of its {} is in a header"


def require(format: str) -> None:
    """Raises PrerequisiteError if the library for `format` is missing."""
    if find_spec(_MODULES[format]) is None:
        raise PrerequisiteError(
            f"read {_NAMES[format]}",
            cause=f"the package {_MODULES[format]} is missing",
            remedy=f"pip install 'causeway[{format}]'",
        )


class _UnreadableError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Codec(Protocol):
    """The codec of a schema. A place is the encoded message indexes, b"" for Avro."""

    def decode(self, place: bytes, data: bytes) -> str: ...

    def encode(self, place: bytes, text: str) -> bytes: ...

    def place_in(self, other: Any, place: bytes) -> bytes:
        """The same place in the codec of another version."""

    def lacking(self, place: bytes) -> int:
        """Bits of the rules whose path no record of the schema has. Raises MisfitError."""


class Schemas:
    """The schemas that a worker knows. `formats`: of the parts, key or value, that it treats;
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
        self._lacking: dict[tuple[str, int, bytes], int] = {}
        self._registry = registry
        self._codecs: dict[tuple[str, int], _Codec | None] = {}
        self._relatives: dict[
            tuple[int, str], tuple[float, list[ResolvedSchema]]
        ] = {}  # and since when

    def decode(
        self, part: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> tuple[str | None, str | None]:
        """The JSON, or the reason why there is none, which quotes nothing. `headers`: the
        record's."""
        if data is None:
            return None, None
        if headers and _HEADERS[part] in (name for name, _ in headers):
            return None, IN_HEADER.format(part)
        try:
            codec, _, place, start = self._read(part, data)
        except _UnreadableError as error:
            return None, error.reason
        try:
            return codec.decode(place, data[start:]), None
        except MisfitError as error:
            if str(error):
                return None, f"{part} has {error}"
            return None, f"{part} is not {_NAMES[self.formats[part]]} of its schema"

    def lacking(self, part: str, data: bytes | None) -> int:
        """Bits of the rules whose path the schema of `data` lacks; 0 if the schema cannot be
        read."""
        if data is None or not self._rules[part]:
            return 0
        try:
            codec, id, place, _ = self._read(part, data)
            known = (part, id, place)
            if known not in self._lacking:
                self._lacking[known] = codec.lacking(place)
        except (_UnreadableError, MisfitError):
            return 0
        return self._lacking[known]

    def encode(self, part: str, topic: str, data: bytes) -> tuple[bytes | None, str | None]:
        """The bytes for `data`, a head and JSON, with the head of a schema that fits; or the reason
        why none fits."""
        head, text = data[:HEAD], data[HEAD:]
        if head == NO_HEAD:
            return None, NO_SCHEMA.format(part)
        try:
            # A query that replaces the part without reading it has not decoded it.
            own, id, place, start = self._read(part, head)
        except _UnreadableError as error:
            return None, error.reason
        try:
            json = text.decode()
        except UnicodeDecodeError:
            return None, NO_FIT.format(part)
        try:
            return head[:start] + own.encode(place, json), None
        except MisfitError:
            pass
        key = (id, f"{topic}-{part}")
        made = self._by_another(part, own, key, place, json)
        return (None, NO_FIT.format(part)) if made is None else (made, None)

    def _read(self, part: str, data: bytes) -> tuple[_Codec, int, bytes, int]:
        """The codec, the schema's id, the place in it, and the offset of the data."""
        format = self.formats[part]
        try:
            id, place, start = _head(format, data)
        except (MisfitError, IndexError, struct.error):
            raise _UnreadableError(
                f"{part} is not {_NAMES[format]} with the id of a schema"
            ) from None
        codec = self._codec(part, id)
        if codec is None:
            known = self._registry.schema(id)
            why = UNUSABLE if known is not None else UNKNOWN
            if known is not None and known.format == CIRCULAR:
                why = REFERS_TO_ITSELF
            raise _UnreadableError(why.format(part))
        return codec, id, place, start

    def _by_another(
        self, part: str, own: _Codec, key: tuple[int, str], place: bytes, json: str
    ) -> bytes | None:
        """`json` by another schema of the subjects of the schema that it does not fit."""
        asked = False
        while True:
            since, relatives = self._relatives.get(key, (0.0, []))
            for schema in relatives:
                codec = self._codec(part, schema.id)
                if codec is None or codec is own:
                    continue
                try:
                    there = own.place_in(codec, place)
                    made = codec.encode(there, json)
                except MisfitError:
                    continue
                return _ID.pack(0, schema.id) + there + made
            now = time.monotonic()
            if asked or (since and now - since < FRESH_S):
                return None
            asked = True
            self._relatives[key] = (now, self._registry.relatives(*key))

    def _codec(self, part: str, id: int) -> _Codec | None:
        """None for a schema that the registry does not know, or that has another format."""
        known = (part, id)
        if known not in self._codecs:
            schema = self._registry.schema(id)
            if schema is None:
                return None  # the registry may know it later
            self._codecs[known] = _codec_of(self.formats[part], schema, self._rules[part])
        return self._codecs[known]


def _codec_of(format: str, schema: ResolvedSchema, rules: Sequence[TransformRule]) -> _Codec | None:
    if schema.format != format.upper():
        return None
    try:
        if format == "avro":
            return _AvroCodec(schema, rules)
        return _ProtobufCodec(schema, rules)
    except Exception:  # the library refuses the schema
        return None


class _AvroCodec:
    def __init__(self, schema: ResolvedSchema, rules: Sequence[TransformRule]) -> None:
        from causeway.transform.schema_formats.avro import Avro

        paths = [rule.path.steps or () for rule in rules]
        self._avro = Avro(schema.text, schema.references, paths)
        self._lacking = _bits(zip(rules, self._avro.lacks(), strict=True))

    def lacking(self, place: bytes) -> int:
        return self._lacking

    def decode(self, place: bytes, data: bytes) -> str:
        return self._avro.decode(data)

    def encode(self, place: bytes, text: str) -> bytes:
        return self._avro.encode(text)

    def place_in(self, other: Any, place: bytes) -> bytes:
        return place


class _ProtobufCodec:
    def __init__(self, schema: ResolvedSchema, rules: Sequence[TransformRule]) -> None:
        from causeway.transform.schema_formats.protobuf import Protobuf

        self.protobuf = Protobuf(schema.text, schema.references)
        self._rules = rules

    def lacking(self, place: bytes) -> int:
        indexes = _indexes(place)[0]
        return _bits(
            (rule, self.protobuf.lacks(indexes, rule.path.steps or ())) for rule in self._rules
        )

    def decode(self, place: bytes, data: bytes) -> str:
        return self.protobuf.decode(_indexes(place)[0], data)

    def encode(self, place: bytes, text: str) -> bytes:
        return self.protobuf.encode(_indexes(place)[0], text)

    def place_in(self, other: Any, place: bytes) -> bytes:
        found = other.protobuf.indexes(self.protobuf.name(_indexes(place)[0]))
        if found is None:
            raise MisfitError
        return _place(found)


def _bits(rules: Iterable[tuple[TransformRule, bool]]) -> int:
    return sum(1 << (rule.number - 1) for rule, lacks in rules if lacks)


def _head(format: str, data: bytes) -> tuple[int, bytes, int]:
    """The id, the place in the schema, and the offset of the data."""
    magic, id = _ID.unpack_from(data)
    if magic != 0:
        raise MisfitError
    if format == "avro":
        return id, b"", _ID.size
    size = _indexes(data[_ID.size : HEAD])[1]
    return id, data[_ID.size : _ID.size + size], _ID.size + size


def _indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes at the start of `data`, and their length in bytes. [0] is written as []."""
    count, at = _varint(data, 0)
    found = []
    for _ in range(count):
        index, at = _varint(data, at)
        found.append(index)
    return tuple(found) or (0,), at


def _place(indexes: tuple[int, ...]) -> bytes:
    if indexes == (0,):
        return b"\0"
    found = bytearray()
    for number in (len(indexes), *indexes):
        rest = number << 1
        while rest >= 0x80:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint that is not negative, and the position of its end."""
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    if found & 1:
        raise MisfitError
    return found >> 1, at


def encoded(rows: pa.RecordBatch, schemas: Schemas, topic: str) -> pa.RecordBatch:
    """`rows` of `rows.OUTPUT`, with bytes in place of heads and JSON; a part that fits no schema
    gets a reason. `topic`: the source's."""
    import pyarrow as pa

    reasons: list[str | None] = rows.column(REASON).to_pylist()
    dropped = [bits is not None and bits < 0 for bits in rows.column(SEEN).to_pylist()]
    for part in schemas.formats:
        for row in _with_header(rows, _HEADERS[part]):
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
    """The rows that have a header of this name."""
    import pyarrow.compute as pc

    headers = rows.column("headers")
    named = pc.equal(headers.flatten().field(0), name)
    found: list[int] = pc.list_parent_indices(headers).filter(named).to_pylist()
    return found
