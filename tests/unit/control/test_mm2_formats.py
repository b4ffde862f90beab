"""Records of MirrorMaker 2's internal topics, against bytes written by hand from its schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.control import Checkpoint, OffsetSync
from causeway.control.mm2_topics import Heartbeat
from causeway.errors import ProtocolError
from causeway.model import TopicPartition

SYNC = OffsetSync(partition=TopicPartition("orders", 7), upstream=1000, downstream=998)
CHECKPOINT = Checkpoint(
    group="gr",
    partition=TopicPartition("A.ö", 1),
    upstream=258,
    downstream=-1,
    metadata="m",
)
HEARTBEAT = Heartbeat(source="A", target="B2", timestamp=1_700_000_000_000)

GOLDEN: list[tuple[Any, str, str]] = [
    (
        SYNC,
        "00 06 6f 72 64 65 72 73  00 00 00 07",
        "00 00 00 00 00 00 03 e8  00 00 00 00 00 00 03 e6",
    ),
    (
        CHECKPOINT,
        "00 02 67 72  00 04 41 2e c3 b6  00 00 00 01",
        "00 00  00 00 00 00 00 00 01 02  ff ff ff ff ff ff ff ff  00 01 6d",
    ),
    (
        HEARTBEAT,
        "00 01 41  00 02 42 32",
        "00 00  00 00 01 8b cf e5 68 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_golden_bytes(record: Any, key: str, value: str) -> None:
    assert record.encode() == (bytes.fromhex(key), bytes.fromhex(value))
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record


texts = st.text(max_size=50)
offsets = st.integers(-1, 2**63 - 1)
partitions = st.builds(TopicPartition, texts, st.integers(0, 2**31 - 1))


@given(
    st.one_of(
        st.builds(OffsetSync, partition=partitions, upstream=offsets, downstream=offsets),
        st.builds(
            Checkpoint,
            group=texts,
            partition=partitions,
            upstream=offsets,
            downstream=offsets,
            metadata=texts,
        ),
        st.builds(Heartbeat, source=texts, target=texts, timestamp=offsets),
    )
)
def test_what_is_written_is_read(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    assert type(record).decode(*record.encode()) == record


@pytest.mark.parametrize("kind", [OffsetSync, Checkpoint, Heartbeat])
@given(key=st.binary(max_size=40), value=st.binary(max_size=40))
def test_other_bytes_are_an_error_and_nothing_else(kind: Any, key: bytes, value: bytes) -> None:
    try:
        kind.decode(key, value)
    except ProtocolError:
        pass


def test_another_version_is_refused() -> None:
    key, value = CHECKPOINT.encode()
    with pytest.raises(ProtocolError, match="version 1, only 0 is known"):
        Checkpoint.decode(key, b"\0\1" + value[2:])


def test_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at most 32767 fit"):
        Heartbeat(source="x" * 32768, target="B", timestamp=0).encode()
