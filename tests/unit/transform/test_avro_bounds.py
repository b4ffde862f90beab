"""Avro records that would take a worker's memory, or its stack, are refused before they do."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.records import PlainRecord
from causeway.transform import Chunk
from causeway.transform.schema_formats import Schemas, avro_bounds
from causeway.transform.schema_formats.avro import Avro
from causeway.transform.schema_formats.avro_bounds import (
    DEEPEST,
    MOST_EMPTY,
    TOO_DEEP,
    TOO_LONG,
    TOO_MUCH,
)
from causeway.transform.schema_formats.registry import MisfitError, NamedSchema
from causeway.transform.schema_formats.registry import ResolvedSchema as Registered
from causeway.transform.stage import Rows
from causeway.transform.stage.source_rows import ROWS_BYTES
from tests.builders.avro import schemas, written
from tests.harness.stage import batch_of

NODE = {"name": "Node", "type": "record", "fields": [{"name": "next", "type": ["null", "Node"]}]}
TREE = {
    "name": "Tree",
    "type": "record",
    "fields": [{"name": "leaves", "type": {"type": "array", "items": "Tree"}}],
}
WIDE = {
    "name": "Wide",
    "type": "record",
    "fields": [{"name": f"field_{at}", "type": "null"} for at in range(2_000)],
}


def avro(schema: Any, *references: NamedSchema) -> Avro:
    return Avro(json.dumps(schema), references)


def varint(number: int) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    return stream.getvalue()


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def nested(depth: int) -> Any:
    return array(nested(depth - 1)) if depth else "int"


@pytest.mark.parametrize(
    ("schema", "data", "why"),
    [
        (array("null"), varint(10_000_000) + b"\0", TOO_MUCH),
        (array("null"), varint(-10_000_000) + varint(0) + b"\0", TOO_MUCH),
        (array("null"), varint(MOST_EMPTY) + b"\0", None),
        (array(array("null")), varint(9) + (varint(500) + b"\0") * 9 + b"\0", TOO_MUCH),
        (array({"type": "fixed", "name": "F", "size": 0}), varint(10**9) + b"\0", TOO_MUCH),
        (array({"type": "record", "name": "E", "fields": []}), varint(10**9) + b"\0", TOO_MUCH),
        (array(["null", WIDE]), varint(9_000) + b"\2" * 9_000 + b"\0", TOO_MUCH),
        (array(array("int")), varint(200) + b"\0" * 200 + b"\0", None),
        (NODE, b"\2" * 200_000 + b"\0", TOO_DEEP),
        (NODE, b"\2" * (DEEPEST + 1) + b"\0", TOO_DEEP),
        (NODE, b"\2" * (DEEPEST - 1) + b"\0", None),
        (TREE, b"\2" * 200_000, TOO_DEEP),
        ({"type": "map", "values": NODE}, b"\2\2a" + b"\2" * 300 + b"\0", TOO_DEEP),
        (nested(DEEPEST + 1), b"\2" * (DEEPEST + 1) + b"\2" + b"\0" * (DEEPEST + 1), TOO_DEEP),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 10**6},
            varint(300_000) + b"\x11" * 300_000,
            TOO_LONG,
        ),
    ],
)
def test_a_record_beyond_a_bound_is_refused_before_it_takes_memory(
    schema: Any, data: bytes, why: str | None
) -> None:
    codec = avro(schema)
    tracemalloc.start()
    try:
        if why is None:
            codec.decode(data)
        else:
            with pytest.raises(MisfitError) as caught:
                codec.decode(data)
            assert str(caught.value) == why
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [varint(2**40) + b"\0", varint(-(2**63)) + b"\0", b"\xff" * 20, varint(3), b"", varint(9) * 9],
)
def test_a_walk_ends_with_the_data(data: bytes) -> None:
    for schema in (array("int"), array("string"), {"type": "map", "values": "null"}, "bytes"):
        codec = avro([schema, array("null")])
        with pytest.raises(MisfitError):
            codec.decode(b"\0" + data)


@pytest.mark.parametrize(
    "schema",
    [
        {"name": "R", "type": "record", "fields": [{"name": "r", "type": "R"}]},
        {"name": "R", "type": "record", "fields": [{"name": "r", "type": ["R"]}]},
    ],
)
def test_a_schema_whose_records_have_no_end_is_none(schema: Any) -> None:
    with pytest.raises(ValueError, match="have no end"):
        avro(schema)


def test_a_schema_that_contains_itself_too_often_is_refused() -> None:
    schema: Any = "null"
    for at in range(40):
        inner = schema if at == 0 else f"R{at - 1}"
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": inner}]
        schema = {"name": f"R{at}", "type": "record", "fields": fields}
    with pytest.raises(ValueError, match="too large"):
        avro(schema)


def test_large_records_that_are_what_they_say_are_read() -> None:
    pair = {"name": "P", "type": "record", "fields": [{"name": n, "type": "int"} for n in "ab"]}
    schema = {
        "name": "R",
        "type": "record",
        "fields": [
            {"name": "pairs", "type": array(pair)},
            {"name": "names", "type": {"type": "map", "values": ["null", "string", "P"]}},
            {"name": "text", "type": "string"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
            {"name": "tree", "type": ["null", TREE]},
            {"name": "kind", "type": {"name": "K", "type": "enum", "symbols": ["X", "Y"]}},
            {"name": "flags", "type": array("boolean")},
        ],
    }
    leaf: dict[str, Any] = {"leaves": []}
    datum = {
        "pairs": [{"a": at, "b": -at} for at in range(100_000)],
        "names": {str(at): None if at % 3 else "x" * at for at in range(100)},
        "text": "é" * 1_000_000,
        "price": Decimal(7),
        "tree": {"leaves": [{"leaves": [leaf] * 50}] * 50},
        "kind": "Y",
        "flags": [True] * 100_000,
    }
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), datum)
    found = json.loads(avro(schema).decode(stream.getvalue()))
    assert (found["pairs"], found["tree"]) == (datum["pairs"], datum["tree"])
    with pytest.raises(MisfitError):
        avro(schema).decode(stream.getvalue()[:-1])


def test_a_name_twice_in_an_object_is_no_json_of_a_schema() -> None:
    codec = avro({"type": "map", "values": "string"})
    assert codec.encode('{"country":"US"}')
    with pytest.raises(MisfitError):
        codec.encode('{"country":"US","co\\u0075ntry":"DE"}')


@given(st.data())
def test_a_walk_takes_all_that_can_be_decoded(data: st.DataObject) -> None:
    schema, found = data.draw(schemas(itertools.count()))
    codec, whole = avro(schema), written(schema, data.draw(found))
    text = codec.decode(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_bounds, "SAFE", -1)
        assert codec.decode(whole) == text
        for end in range(len(whole)):
            with pytest.raises(MisfitError):
                codec.decode(whole[:end])


class _Registry:
    def __init__(self, schema: Any) -> None:
        self._schema = Registered(1, "AVRO", json.dumps(schema))

    def schema(self, id: int) -> Registered:
        return self._schema


def test_the_reason_says_which_bound() -> None:
    known = Schemas(_Registry(NODE), {"value": "avro"})  # type: ignore[arg-type]
    found = known.decode("value", b"\0\0\0\0\1" + b"\2" * 200_000 + b"\0")
    assert found == (None, f"value has {TOO_DEEP}")


def test_rows_are_cut_by_what_their_json_takes() -> None:
    known = Schemas(_Registry(WIDE), {"value": "avro"})  # type: ignore[arg-type]
    rows = Rows({}, ["_value_text"], known)
    records = [PlainRecord(0, 0, None, b"\0\0\0\0\1", [])] * 1_000
    chunk = Chunk(1, "t", 0, len(records), (batch_of(records),))
    sizes = [batch.column("_value_text").nbytes for batch in rows.of(chunk)]
    assert sum(sizes) > 3 * ROWS_BYTES
    assert max(sizes) < 2 * ROWS_BYTES


def test_a_worker_raises_rather_than_take_all_memory() -> None:
    """In a process of its own, whose limit is as before afterwards."""
    code = """
import resource
from causeway.transform.stage.workers import WORKER_BYTES, limited_memory

before = resource.getrlimit(resource.RLIMIT_DATA)
with limited_memory():
    bytearray(1_000_000)
    try:
        bytearray(WORKER_BYTES + 100_000_000)
    except MemoryError:
        print("refused")
assert resource.getrlimit(resource.RLIMIT_DATA) == before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
