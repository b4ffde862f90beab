from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from causeway.wire.varint import put_uvarint, skip_tags, uvarint


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_reads_what_it_wrote_and_what_kafka_python_writes(number: int, before: bytes) -> None:
    out = bytearray(before)
    put_uvarint(out, number)

    assert out[len(before) :] == UnsignedVarInt32.encode(number)
    assert uvarint(memoryview(out + b"\x85"), len(before)) == (number, len(out))


def test_tagged_fields_are_skipped_whatever_they_hold() -> None:
    fields = b"\x02" + b"\x00\x03abc" + b"\x90\x01\x01x"
    assert skip_tags(memoryview(fields + b"rest"), 0) == len(fields)
    assert skip_tags(memoryview(b"\x00rest"), 0) == 1
