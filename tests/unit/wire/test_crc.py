"""Of a payload that nobody reads the CRC comes out as if somebody had."""

from __future__ import annotations

import random

import pytest
from google_crc32c import extend, value
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.records.batches import carried_crc

ZEROS = bytes(1 << 25)


@settings(max_examples=300)
@given(
    st.binary(min_size=40, max_size=40),
    st.binary(min_size=40, max_size=40),
    st.integers(0, 300_000),
    st.integers(0, 1 << 32),
)
def test_two_headers_before_the_same_payload(old: bytes, new: bytes, size: int, seed: int) -> None:
    payload = random.Random(seed).randbytes(size)
    difference = carried_crc(value(old) ^ value(new), size)
    assert extend(value(old), payload) ^ extend(value(new), payload) == difference


@pytest.mark.parametrize(
    "size", [0, 1, 4095, 4096, 4097, 2**18 - 1, 2**18, 2**18 + 4096, 2**24, 2**24 + 2**18 + 4097]
)
@pytest.mark.parametrize("difference", [0, 1, 1 << 31, 0x12345678, 0xFFFFFFFF])
def test_lengths_around_the_digits_of_the_tables(difference: int, size: int) -> None:
    zeros = ZEROS[:size]
    assert extend(0, zeros) ^ extend(difference, zeros) == carried_crc(difference, size)
