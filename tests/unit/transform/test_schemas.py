"""The wire format, and which schema a part is written with, with a registry in this process."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest

from causeway.transform.rows import REASON, SEEN
from causeway.transform.rules import parse
from causeway.transform.schema_formats import HEAD, NO_HEAD, Schemas, WorkerRegistry, encoded
from causeway.transform.schema_formats.registry import ResolvedSchema


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


ID = {"name": "id", "type": "long"}
MAIL = {"name": "mail", "type": "string"}
NOTE = {"name": "note", "type": "string", "default": "-"}

AVRO = {7: record(ID), 8: record(ID, MAIL), 9: record(ID, MAIL, NOTE)}
PROTO = {
    3: 'syntax = "proto3"; message Z { string z = 1; } message M { message N { int64 n = 1; } }',
    4: 'syntax = "proto3"; message M { message N { int64 n = 1; string s = 2; } }',
}


class _Registry(WorkerRegistry):
    def __init__(self, kind: str, texts: dict[int, str]) -> None:
        self.schemas = {id: ResolvedSchema(id, kind, text) for id, text in texts.items()}
        self.asked: list[tuple[int, str]] = []

    def schema(self, id: int) -> ResolvedSchema | None:
        return self.schemas.get(id)

    def relatives(self, id: int, preferred: str) -> list[ResolvedSchema]:
        self.asked.append((id, preferred))
        return list(self.schemas.values())


def avro() -> tuple[Schemas, _Registry]:
    registry = _Registry("AVRO", AVRO)
    return Schemas(registry, {"value": "avro"}), registry


def given(id: int, text: str = "", more: bytes = b"") -> bytes:
    """As Spark hands it back."""
    return (struct.pack(">bI", 0, id) + more).ljust(HEAD, b"\0") + text.encode()


def test_the_id_is_kept_where_the_schema_fits() -> None:
    schemas, registry = avro()
    data = b"\0\0\0\0\x08" + b"\2" + b"\6a@b"
    text, reason = schemas.decode("value", data)
    assert (text, reason) == ('{"id":1,"mail":"a@b"}', None)
    made, _ = schemas.encode("value", "t", given(8, '{"id":1,"mail":"***"}'))
    assert made == b"\0\0\0\0\x08" + b"\2" + b"\6***"
    assert registry.asked == []


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ('{"id":1}', 7),  # what a later version requires is gone
        ('{"id":1,"mail":"a","note":"n"}', 9),
    ],
)
def test_another_version_of_the_subject_where_only_that_fits(text: str, id: int) -> None:
    schemas, registry = avro()
    made, reason = schemas.encode("value", "t", given(8, text))
    assert reason is None
    assert made is not None
    assert made[:5] == struct.pack(">bI", 0, id)
    assert schemas.decode("value", made)[0] == text
    assert registry.asked == [(8, "t-value")]


def test_what_fits_none_is_refused_and_not_asked_for_again_at_once() -> None:
    schemas, registry = avro()
    for _ in range(3):
        made, reason = schemas.encode("value", "t", given(8, '{"mail":"a"}'))
        assert (made, reason) == (None, "the transformed value fits no schema of its subject")
    assert len(registry.asked) == 1


def test_a_version_registered_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas, registry = avro()
    monkeypatch.setattr("causeway.transform.schema_formats.codecs.FRESH_S", 0)
    data = given(8, '{"mail":"a"}')
    assert schemas.encode("value", "t", data)[0] is None
    registry.schemas[10] = ResolvedSchema(10, "AVRO", record(MAIL))
    made, _ = schemas.encode("value", "t", data)
    assert made == b"\0\0\0\0\x0a\2a"


def test_a_part_that_was_null_has_no_schema() -> None:
    schemas, _ = avro()
    made, reason = schemas.encode("value", "t", NO_HEAD + b"{}")
    assert (made, reason) == (
        None,
        "the record has no value, and so no schema to write one with",
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "value is not Avro with the id of a schema"),
        (b"{}", "value is not Avro with the id of a schema"),
        (b"\1\0\0\0\7\2", "value is not Avro with the id of a schema"),
        (b"\0\0\0\0\7", "value is not Avro of its schema"),
        (b"\0\0\0\0\7\2\2", "value is not Avro of its schema"),
        (b"\0\0\0\1\7\2", "the registry does not know the schema of its value"),
        (b"\0\0\0\0\x0b\2", "the schema of its value cannot be used"),
        (b"\0\0\0\0\x0c\2", "the schema of its value cannot be used"),
    ],
)
def test_why_a_value_cannot_be_read(data: bytes, reason: str) -> None:
    schemas, registry = avro()
    registry.schemas[11] = ResolvedSchema(11, "AVRO", '"no such type"')
    registry.schemas[12] = ResolvedSchema(12, "PROTOBUF", PROTO[3])
    assert schemas.decode("value", data) == (None, reason)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"text", "value is not Avro with the id of a schema"),
        (b"\0\0\0\1\7\2", "the registry does not know the schema of its value"),
    ],
)
def test_a_value_is_rebuilt_from_one_that_was_not_read(head: bytes, reason: str) -> None:
    schemas, _ = avro()
    assert schemas.encode("value", "t", head.ljust(HEAD, b"\0") + b"{}") == (None, reason)


def test_a_tombstone_is_read_as_one() -> None:
    assert avro()[0].decode("value", None) == (None, None)


def test_a_message_keeps_its_place_in_the_file_or_takes_that_of_another_version() -> None:
    schemas = Schemas(_Registry("PROTOBUF", PROTO), {"key": "protobuf"})
    third = b"\4\2\0"  # indexes [1, 0]
    data = b"\0\0\0\0\3" + third + b"\x08\5"
    assert schemas.decode("key", data) == ('{"n":5}', None)
    made, _ = schemas.encode("key", "t", given(3, '{"n":6}', third))
    assert made == b"\0\0\0\0\3" + third + b"\x08\6"
    made, _ = schemas.encode("key", "t", given(3, '{"n":6,"s":"a"}', third))
    assert made == b"\0\0\0\0\4" + b"\4\0\0" + b"\x08\6\x12\1a"


def test_the_first_message_type_is_one_byte() -> None:
    schemas = Schemas(_Registry("PROTOBUF", PROTO), {"value": "protobuf"})
    data = b"\0\0\0\0\3\0\n\1a"
    assert schemas.decode("value", data) == ('{"z":"a"}', None)
    assert schemas.encode("value", "t", given(3, '{"z":"a"}', b"\0")) == (data, None)


def headers(*rows: list[tuple[str, bytes | None]] | None) -> pa.Array:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.array(rows, pa.list_(header))


GUID = b"\1" + bytes(range(16))


def test_an_id_in_a_header_is_refused() -> None:
    schemas, _ = avro()
    data = b"\0\0\0\0\7\2"
    reason = "the id of the schema of its value is in a header"
    assert schemas.decode("value", data, [("a", b""), ("__value_schema_id", GUID)]) == (
        None,
        reason,
    )
    assert schemas.decode("value", data, [("__key_schema_id", GUID)]) == ('{"id":1}', None)
    batch = pa.RecordBatch.from_pydict(
        {
            REASON: pa.nulls(4, pa.string()),
            SEEN: pa.array([0, 0, 0, 0], pa.int64()),
            "value": pa.array([given(7, '{"id":1}')] * 4, pa.binary()),
            "headers": headers(
                None,
                [("__key_schema_id", GUID)],
                [("a", None), ("__value_schema_id", GUID)],
                [("b", None)],
            ),
        }
    ).slice(1)
    rows = encoded(batch, schemas, "t").to_pylist()
    assert [row[REASON] for row in rows] == [None, reason, None]
    assert [row["value"] for row in rows] == [data, None, data]


def test_rows_get_bytes_or_a_reason() -> None:
    schemas, _ = avro()
    batch = pa.RecordBatch.from_pydict(
        {
            REASON: pa.array([None, "before", None, None], pa.string()),
            SEEN: pa.array([0, 0, 0, 0], pa.int64()),
            "value": pa.array(
                [given(7, '{"id":1}'), None, None, given(7, '{"other":1}')], pa.binary()
            ),
            "headers": headers([("a", None)], [], None, []),
        }
    )
    rows = encoded(batch, schemas, "t").to_pylist()
    assert [row["value"] for row in rows] == [b"\0\0\0\0\7\2", None, None, None]
    assert [row[REASON] for row in rows[:3]] == [None, "before", None]
    assert "fits no schema" in rows[3][REASON]


def test_each_id_is_asked_for_the_paths_of_rules() -> None:
    rules = parse(
        "mask value.$.mail; mask key.$.n; drop value.$.note optional; hash value.$.id with k"
    )
    schemas = Schemas(_Registry("AVRO", AVRO), {"value": "avro"}, rules)
    found = [schemas.lacking("value", struct.pack(">bI", 0, id)) for id in (7, 8, 9, 8, 99)]
    assert found == [0b101, 0b100, 0, 0b100, 0]
    assert (schemas.lacking("value", None), schemas.lacking("value", b"no Avro")) == (0, 0)
    protos = Schemas(_Registry("PROTOBUF", PROTO), {"key": "protobuf"}, rules)
    inner = b"\4\0\0"  # the first message within the first one
    assert protos.lacking("key", struct.pack(">bI", 0, 4) + inner) == 0
    assert protos.lacking("key", struct.pack(">bI", 0, 4) + b"\0") == 0b10
