from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from causeway.errors import ProtocolError
from causeway.wire import FetchSession, produce
from causeway.wire.varint import put_uvarint, skip_tags, uvarint


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_reads_what_it_wrote_and_what_kafka_python_writes(number: int, before: bytes) -> None:
    out = bytearray(before)
    put_uvarint(out, number)

    assert out[len(before) :] == UnsignedVarInt32.encode(number)
    assert uvarint(memoryview(out + b"\x85"), len(before)) == (number, len(out))


def test_tagged_fields_are_skipped() -> None:
    fields = b"\x02" + b"\x00\x03abc" + b"\x90\x01\x01x"
    assert skip_tags(memoryview(fields + b"rest"), 0) == len(fields)
    assert skip_tags(memoryview(b"\x00rest"), 0) == 1


def test_a_number_has_five_bytes_at_most() -> None:
    assert uvarint(memoryview(b"\xff\xff\xff\xff\x0f"), 0) == (2**32 - 1, 5)
    endless = memoryview(b"\xff" * 5_000_000)  # summed up, this took hours
    with pytest.raises(ProtocolError, match="more than 5 bytes"):
        uvarint(endless, 0)


@pytest.mark.parametrize("rest", [b"", b"\xff" * 500, b"\0" * 4 + b"\x7f"])
def test_invalid_answers_are_errors(rest: bytes) -> None:
    frame = b"\0" * 4 + rest
    session = FetchSession(
        version=13, client_id=b"", max_wait_ms=0, min_bytes=0, max_bytes=0, read_committed=True
    )
    with pytest.raises(ProtocolError):
        session.parse(memoryview(frame))
    with pytest.raises(ProtocolError):
        produce.parse(memoryview(frame[:4] + b"\0\x7f" + rest), produce.HIGHEST_VERSION)
