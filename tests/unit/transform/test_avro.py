from __future__ import annotations

import itertools
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.transform.schema_formats.avro import Avro
from causeway.transform.schema_formats.registry import MisfitError, NamedSchema
from tests.builders.avro import _logical, schemas, written


def avro(schema: Any, *references: NamedSchema) -> Avro:
    return Avro(json.dumps(schema), references)


def of_field(type_: Any, **more: Any) -> Avro:
    return avro({"type": "record", "name": "R", "fields": [{"name": "f", "type": type_, **more}]})


# -- any schema, any datum


@settings(deadline=None)
@given(st.data())
def test_what_was_written_is_written_again(data: st.DataObject) -> None:
    schema, found = data.draw(schemas(itertools.count()))
    before = written(schema, data.draw(found))
    one = avro(schema)
    assert one.encode(one.decode(before)) == before


# -- by example


@pytest.mark.parametrize(
    ("type_", "datum", "text"),
    [
        ("long", 2**63 - 1, "9223372036854775807"),
        ("double", 0.1, "0.1"),
        ("bytes", b"\xff", '"/w=="'),
        (_logical("bytes", "decimal", precision=9, scale=2), Decimal("-1.50"), '"-1.50"'),
        (_logical("int", "date"), date(1970, 1, 2), '"1970-01-02"'),
        (_logical("int", "time-millis"), time(1, 2, 3), '"01:02:03"'),
        (
            _logical("long", "timestamp-millis"),
            datetime(2024, 5, 6, 7, 8, 9, 120000, UTC),
            '"2024-05-06T07:08:09.120000Z"',
        ),
        (["null", "string", "long"], "é", '"é"'),
        (["null", "string", "bytes"], b"a", '{"bytes":"YQ=="}'),
        (["null", "string", "bytes"], None, "null"),
        (["string", _logical("long", "timestamp-millis")], "x", '{"string":"x"}'),
    ],
)
def test_how_it_looks(type_: Any, datum: Any, text: str) -> None:
    one, before = avro(type_), written(type_, datum)
    assert one.decode(before) == text
    assert one.encode(text) == before


def test_branches_that_look_alike_are_named() -> None:
    def record(name: str) -> Any:
        return {"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]}

    schema = [record("n.A"), record("n.B"), {"type": "map", "values": "int"}, "int"]
    one = avro(schema)
    for text in ('{"n.B":{"x":1}}', '{"map":{"y":2}}', "3"):
        assert one.decode(one.encode(text)) == text


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int", '{"f":2147483648}'),
        ("int", '{"f":1.5}'),
        ("int", '{"f":true}'),
        ("int", '{"f":"1"}'),
        ("int", "{}"),
        ("int", '{"f":1,"g":2}'),
        ("int", '{"f":1'),
        ("float", '{"f":1e39}'),
        ("double", '{"f":1e309}'),
        ("double", '{"f":NaN}'),
        ("string", '{"f":null}'),
        ("bytes", '{"f":"no base64"}'),
        ({"type": "fixed", "name": "F", "size": 2}, '{"f":"YQ=="}'),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, '{"f":"B"}'),
        (_logical("string", "uuid"), '{"f":"****"}'),
        (_logical("int", "date"), '{"f":"****-**-**"}'),
        (_logical("long", "timestamp-millis"), '{"f":"2024-05-06T07:08:09.123456Z"}'),
        (_logical("bytes", "decimal", precision=4, scale=2), '{"f":"1.234"}'),
        (_logical("bytes", "decimal", precision=4, scale=2), '{"f":"100.00"}'),
        (["null", "string", "bytes"], '{"f":"which"}'),
    ],
)
def test_what_does_not_fit(type_: Any, text: str) -> None:
    with pytest.raises(MisfitError):
        of_field(type_).encode(text)


def test_what_is_missing_is_null_where_that_may_be_and_else_the_default() -> None:
    assert of_field(["null", "int"]).encode("{}") == b"\0"
    assert of_field(["int", "null"], default=7).encode("{}") == b"\2"
    assert of_field("int", default=7).encode("{}") == b"\x0e"


def test_a_timestamp_is_taken_as_spark_writes_it() -> None:
    one = of_field(_logical("long", "timestamp-micros"))
    same = one.encode('{"f":"2024-05-06T07:08:09.123456Z"}')
    for text in ("2024-05-06 07:08:09.123456", "2024-05-06T09:08:09.123456+02:00"):
        assert one.encode(f'{{"f":"{text}"}}') == same


@pytest.mark.parametrize("data", [b"", b"\2", b"\4a", b"\2\xff", b"\2ab"])
def test_what_cannot_be_read(data: bytes) -> None:
    with pytest.raises(MisfitError):
        avro("string").decode(data)


def test_numbers_that_json_lacks_cannot_be_read() -> None:
    with pytest.raises(MisfitError):
        avro("double").decode(written("double", float("nan")))


def test_a_schema_of_several() -> None:
    leaf = {"type": "record", "name": "n.Leaf", "fields": [{"name": "x", "type": "int"}]}
    node = {
        "type": "record",
        "name": "n.Node",
        "fields": [
            {"name": "leaf", "type": "Leaf"},
            {"name": "next", "type": ["null", "Node"], "default": None},
        ],
    }
    references = (NamedSchema("n.Leaf", json.dumps(leaf)), NamedSchema("n.Node", json.dumps(node)))
    one = avro(["null", "n.Node"], *references)
    text = '{"leaf":{"x":1},"next":{"leaf":{"x":2},"next":null}}'
    assert one.decode(one.encode(text)) == text
