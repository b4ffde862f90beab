"""Batches that a lane passes on unread: whatever is damaged, the target holds a prefix of the
series, and nothing is taken for done that is not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from google_crc32c import value
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.errors import CausewayError, ProtocolError
from causeway.records import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    Batch,
    Kept,
    Unread,
    decode,
    header,
    keep,
    records_of,
)
from tests.harness.raw_batches import ABORT, Rec, damaged, marker, raw_batch

NOW = 1_600_000_000_000  # what the records of these tests have
LARGE = 2100


def _recs(first: int, count: int, size: int = LARGE) -> list[Rec]:
    return [Rec(offset=o, value=b"%d " % o + b"x" * size) for o in range(first, first + count)]


def _kept(
    data: bytes,
    position: int = 0,
    *,
    aborted: list[tuple[int, int]] | None = None,
    most: int = 1 << 20,
    since: int = NOW,
    before: int = NOW,
) -> Kept:
    unread = Unread(most, since, before)
    return keep(memoryview(bytearray(data)), position, aborted or [], "A.t-0", unread)


# -- which -----------------------------------------------------------------------------------------


def test_a_dense_batch_is_a_view_with_the_crc_that_it_came_with() -> None:
    raw = raw_batch(_recs(7, 3), compressed=False, producer_id=1, sequence=5, leader_epoch=4)

    kept = _kept(raw, 7)

    (batch,) = kept.batches
    assert isinstance(batch.payload, memoryview)
    assert batch.payload == raw[HEADER_SIZE:]
    assert batch[1:9] == (0, NOW, NOW, 3, 7, 10, 4, None)
    assert batch.unread == (HEADER.unpack_from(raw)[4], value(raw[CRC_START:HEADER_SIZE]))
    assert (kept.leader_epoch, kept.position) == (4, 10)


@pytest.mark.parametrize(
    ("raw", "position", "given"),
    [
        (raw_batch(_recs(0, 2)), 0, {"before": -1}),  # the first since its place was found
        (raw_batch(_recs(0, 2)), 0, {"before": NOW - 1}),  # the target may forget our producer
        (raw_batch(_recs(0, 2)), 0, {"most": 2 * LARGE}),  # to be split
        (raw_batch(_recs(0, 2)), 0, {"aborted": [(1, 9)]}),
        (raw_batch(_recs(0, 3)), 1, {}),  # from its middle
        (raw_batch([*_recs(0, 1), *_recs(2, 1)]), 0, {}),  # with a gap
        (raw_batch(_recs(0, 2), append_time=NOW), 0, {}),
        (raw_batch(_recs(0, 2, 10)), 0, {}),  # small: to be merged
        (raw_batch(_recs(0, 1), control=True), 0, {}),
        (raw_batch([], base=0, last=4), 0, {}),
    ],
)
def test_all_else_is_read(raw: bytes, position: int, given: dict[str, int]) -> None:
    kept = _kept(raw, position, **given)  # type: ignore[arg-type]
    assert all(batch.unread is None for batch in kept.batches)
    assert all(isinstance(batch.payload, bytes) for batch in kept.batches)
    with pytest.raises(ProtocolError, match="offset 0 has a wrong CRC"):
        _kept(damaged(raw, at=30), position, **given)  # type: ignore[arg-type]


def test_one_that_says_it_has_more_records_than_bytes_is_read() -> None:
    """Else what follows it could have the sequence that is due, once they have begun anew."""
    raw = bytearray(raw_batch(_recs(0, 1)))
    raw[23:27], raw[57:61] = (2**31 - 2).to_bytes(4), (2**31 - 1).to_bytes(4)
    with pytest.raises(ProtocolError, match="offset 0 has a wrong CRC"):
        _kept(bytes(raw))


def test_only_behind_one_that_is_young() -> None:
    old = Rec(offset=1, value=b"x" * LARGE, timestamp=NOW - 1)
    data = (
        raw_batch(_recs(0, 1)) + raw_batch([old]) + raw_batch(_recs(2, 1)) + raw_batch(_recs(3, 1))
    )
    kept = _kept(data, before=-1)
    assert [b.unread is not None for b in kept.batches] == [False, True, False, True]


def test_an_old_message_behind_a_young_batch_makes_what_follows_be_read() -> None:
    old = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 30)
    old.append(1, timestamp=NOW - 1, key=None, value=b"x" * LARGE)
    young = [raw_batch(_recs(at, 1)) for at in (0, 2, 3)]
    data = young[0] + bytes(old.build()) + young[1] + young[2]
    kept = _kept(data, before=-1)
    assert [b.unread is not None for b in kept.batches] == [False, False, False, True]


def test_behind_one_that_is_split_as_its_last_part_may_be_old() -> None:
    data = raw_batch(_recs(0, 3)) + raw_batch(_recs(3, 1)) + raw_batch(_recs(4, 1))
    kept = _kept(data, most=2 * LARGE)
    assert [b.unread is not None for b in kept.batches] == [False, False, True]


@pytest.mark.parametrize("length", [-12, -1, 0, 13, 48])
def test_a_length_that_no_batch_has_behind_small_ones_ends_their_run(length: int) -> None:
    """With the CRC of nothing and no records, one of -12 bytes would stand in its own way."""
    empty = bytearray(raw_batch(_recs(1, 1, 10)))
    empty[8:12] = length.to_bytes(4, signed=True)
    empty[17:21] = bytes(4)
    empty[23:27], empty[57:61] = b"\xff" * 4, bytes(4)
    data = raw_batch(_recs(0, 1, 10)) + bytes(empty)
    assert _kept(data).position == 1
    with pytest.raises(ProtocolError, match=f"says that it has {length} bytes"):
        _kept(bytes(empty), 1)


def test_who_looks_into_one_reads_it_first() -> None:
    raw = raw_batch(_recs(0, 2))
    assert [r.value for r in records_of(_kept(raw).batches[0])] == [r.value for r in _recs(0, 2)]
    (batch,) = _kept(damaged(raw)).batches
    with pytest.raises(ProtocolError, match="offset 0 has a wrong CRC"):
        records_of(batch)


# -- damage ----------------------------------------------------------------------------------------


@dataclass
class Target:
    """A broker that knows our producer: it takes what is intact and follows, by its sequence."""

    sequence: int = 0
    rows: list[bytes | None] = field(default_factory=list)

    def produce(self, batch: Batch, sequence: int) -> bool:
        raw = header(batch, 1, 0, sequence) + batch.payload
        if value(raw[CRC_START:]) != HEADER.unpack_from(raw)[4] or sequence != self.sequence:
            return False
        self.rows += [record.value for record in decode(raw)]
        self.sequence += batch.records
        return True


@dataclass
class Source:
    """A log, and what is read of it, which may be damaged."""

    batches: list[tuple[int, int, bytes]]
    aborted: list[tuple[int, int]]
    series: list[tuple[int, bytes | None]]
    damage: dict[int, bytes]

    def fetch(self, position: int) -> bytes:
        return b"".join(
            self.damage.get(number, raw)
            for number, (_, last, raw) in enumerate(self.batches)
            if last >= position
        )

    def place(self, count: int) -> int:
        """Where the series goes on after so many records."""
        return self.series[count][0] if count < len(self.series) else self.batches[-1][1] + 1


# A batch's offset and its leader's epoch are in no CRC: nothing ever tells damage there.
IN_A_CRC = [8, 9, 10, 11, *range(16, HEADER_SIZE)]


@st.composite
def sources(draw: st.DrawFn) -> Source:
    source = Source([], [], [], {})
    end = 0
    for number in range(draw(st.integers(2, 8))):
        kind = draw(st.sampled_from(["large", "large", "large", "small", "gap", "marker", "abort"]))
        count = draw(st.integers(1, 3))
        records = _recs(end, count, 10 if kind == "small" else LARGE)
        if kind == "marker":
            raw, last = marker(end, 9, 1), end
        elif kind == "abort":
            raw, last = raw_batch(records, producer_id=5, transactional=True), end + count
            raw += marker(last, 5, ABORT)
            source.aborted.append((5, end))
        elif kind == "gap":
            raw, last = raw_batch(records, base=end, last=end + count), end + count
        else:
            raw, last = raw_batch(records, producer_id=7, sequence=end), end + count - 1
        if kind not in ("marker", "abort"):
            source.series += [(record.offset, record.value) for record in records]
        if draw(st.booleans()):
            changed = bytearray(raw)
            for _ in range(draw(st.integers(1, 3))):
                at = draw(st.sampled_from([*IN_A_CRC, len(raw) - 1]))
                changed[at] = draw(st.integers(0, 255) | st.just(changed[at] ^ 1))
            if draw(st.booleans()):  # as consistent as damage can be
                delta = draw(st.integers(-5, 5))
                changed[23:27] = (delta & 0xFFFFFFFF).to_bytes(4)
                changed[57:61] = (delta + 1 & 0xFFFFFFFF).to_bytes(4)
            source.damage[number] = bytes(changed)
        source.batches.append((end, last, raw))
        end = last + 1
    return source


@settings(max_examples=1000)
@given(sources(), st.data())
def test_after_any_damage_the_target_holds_a_prefix(source: Source, data: st.DataObject) -> None:
    target = Target()
    for _ in range(30):
        if not _one_try(source, target, data):
            source.damage.clear()  # mended
    assert target.rows == [value for _, value in source.series]


def _one_try(source: Source, target: Target, data: st.DataObject) -> bool:
    """From where the target's log says, until something is refused; whether nothing was."""
    done = len(target.rows)
    position, before, sequence = source.place(done), -1, target.sequence
    taken = True
    while True:
        aborted = [(producer, first) for producer, first in source.aborted]
        try:
            kept = _kept(source.fetch(position), position, aborted=aborted, before=before)
        except CausewayError:
            return False
        for batch in kept.batches:  # all are on their way before the first is answered
            taken &= target.produce(batch, sequence)
            sequence += batch.records
            before = batch.max_timestamp
        rows = [value for _, value in source.series]
        assert target.rows == rows[: len(target.rows)]
        if taken:  # and only then anything is said to be done up to there
            assert target.rows == [v for at, v in source.series if at < kept.position]
        if kept.position == position:
            return taken and target.rows == rows
        position = kept.position
        if not taken and data.draw(st.booleans()):
            return False
