from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.transform.schema_formats.protobuf import Protobuf
from causeway.transform.schema_formats.registry import MisfitError, NamedSchema, place_of

ORDER = Protobuf(
    """
    syntax = "proto3";
    package shop;
    import "common/money.proto";
    import "google/protobuf/timestamp.proto";
    import "google/protobuf/wrappers.proto";
    message Other { message Inner { string in = 1; } }
    message Order {
      int64 order_id = 1;
      optional string note = 2;
      repeated uint64 codes = 3;
      map<string, int64> counts = 4;
      common.Money price = 5;
      google.protobuf.Timestamp made = 6;
      google.protobuf.Int64Value boxed = 7;
      repeated Order parts = 8;
      bytes raw = 9;
      oneof who { string name = 10; int64 number = 11; }
      double weight = 12;
    }
    """,
    [
        NamedSchema(
            "common/money.proto",
            'syntax = "proto3"; package common; message Money { sint64 cents = 1; }',
        )
    ],
)
AT = place_of((1,))
_LONG = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _order(parts: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "order_id": _LONG,
            "codes": st.lists(st.integers(0, 2**64 - 1), max_size=2),
            "counts": st.dictionaries(_TEXT, _LONG, max_size=2),
            "parts": st.lists(parts, max_size=2) if parts is not None else st.just([]),
            "raw": st.just("/w=="),
            "weight": st.floats(allow_nan=False, allow_infinity=False),
        },
        optional={
            "note": _TEXT,
            "price": st.fixed_dictionaries({"cents": _LONG}),
            "made": st.just("2024-05-06T07:08:09.123456789Z"),
            "boxed": _LONG,
            "name": _TEXT,
        },
    )


@settings(deadline=None)
@given(st.recursive(_order(), _order, max_leaves=3))
def test_json_and_bytes_are_the_same_message(order: Any) -> None:
    data = ORDER.message(AT).encode(json.dumps(order))
    text = ORDER.message(AT).decode(data)
    assert json.loads(text) == order  # 64-bit integers are numbers, exactly
    assert ORDER.message(AT).encode(text) == data


def test_messages_by_their_indexes() -> None:
    inner = ORDER.message(place_of((0, 0)))
    assert inner.name == "shop.Other.Inner"
    assert ORDER.like(ORDER.message(AT)).place == AT
    assert inner.decode(b"\n\1a") == '{"in":"a"}'
    with pytest.raises(MisfitError):
        ORDER.message(place_of((5,))).decode(b"")


@pytest.mark.parametrize("data", [b"\xff", b"\x08", b"\xf8\x07\x01"])  # the last: another field
def test_what_cannot_be_read(data: bytes) -> None:
    with pytest.raises(MisfitError):
        ORDER.message(AT).decode(data)


@pytest.mark.parametrize("text", ['{"nope":1}', '{"order_id":"a"}', '{"order_id":1', "[]"])
def test_what_does_not_fit(text: str) -> None:
    with pytest.raises(MisfitError):
        ORDER.message(AT).encode(text)


def test_required_fields_are_required() -> None:
    old = Protobuf('syntax = "proto2"; message M { required string a = 1; }')
    with pytest.raises(MisfitError):
        old.message(b"\0").encode("{}")


@pytest.mark.parametrize(
    ("text", "name"), [("message {", "a.proto"), ('syntax = "proto3";', "../a.proto")]
)
def test_a_schema_that_cannot_be_used(text: str, name: str) -> None:
    with pytest.raises(ValueError, match="proto"):
        Protobuf(text, [NamedSchema(name, "")])
