"""What is kept of a fetched stretch of log, against a model that looks at every record."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from causeway.errors import ProtocolError, TooLargeError
from causeway.records import Batch, Kept, keep, records_of, unpacked_total
from tests.harness.examples import examples
from tests.harness.raw_batches import ABORT, COMMIT, Rec, damaged, marker, raw_batch


def _kept(data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None) -> Kept:
    return keep(memoryview(data), position, aborted or [], "A.t-0")


def _rows(kept: Kept) -> list[tuple[int, bytes | None]]:
    """Source offset and value of each record."""
    return [
        (batch.source_offset(index), record.value)
        for batch in kept.batches
        for index, record in enumerate(records_of(batch))
    ]


def _recs(first: int, count: int, size: int = 1) -> list[Rec]:
    return [Rec(offset=o, value=b"%d " % o + b"x" * size) for o in range(first, first + count)]


def _large(first: int, count: int) -> list[Rec]:
    return _recs(first, count, 3000)


# -- transactions ----------------------------------------------------------------------------------


@dataclass
class Log:
    """A log of transactions by several producers, and what became of each record."""

    batches: list[tuple[int, int, bytes]]  # first and last offset
    committed: list[tuple[int, bytes | None]]
    everything: list[tuple[int, bytes | None]]
    aborted: list[tuple[int, int, int]]  # producer id, first offset, the marker's offset
    end: int

    def fetched(self, position: int) -> bytes:
        return b"".join(raw for _, last, raw in self.batches if last >= position)

    def aborted_from(self, position: int) -> list[tuple[int, int]]:
        """As a broker answers: the aborted transactions that touch the range, in any order."""
        return [(p, first) for p, first, last in self.aborted if last >= position]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log([], [], [], [], 0)
    open_since: dict[int, int] = {}
    rows: dict[int, list[tuple[int, bytes | None]]] = {}
    committed: list[tuple[int, bytes | None]] = []

    def end(producer: int, kind: int) -> None:
        log.batches.append((log.end, log.end, marker(log.end, producer, kind)))
        first = open_since.pop(producer)
        if kind == ABORT:
            log.aborted.append((producer, first, log.end))
        else:
            committed.extend(rows[producer])
        rows[producer] = []
        log.end += 1

    for _ in range(draw(st.integers(1, 15))):
        producer = draw(st.integers(0, 3))  # 0 writes no transactions
        if producer in open_since and draw(st.booleans()):
            end(producer, draw(st.sampled_from([ABORT, COMMIT])))
            continue
        gaps = draw(st.lists(st.booleans(), min_size=1, max_size=4))
        size = draw(st.sampled_from([1, 3000]))
        records = [
            Rec(offset=log.end + i, value=b"%d" % (log.end + i) + b"x" * size)
            for i, gap in enumerate(gaps)
            if not gap
        ]
        last = log.end + len(gaps) - 1
        transactional = producer > 0
        raw = raw_batch(
            records,
            producer_id=producer,
            epoch=0,
            sequence=log.end,
            transactional=transactional,
            compressed=draw(st.booleans()) if records else False,
            base=log.end,
            last=last,
        )
        log.batches.append((log.end, last, raw))
        written = [(r.offset, r.value) for r in records]
        log.everything += written
        if transactional:
            open_since.setdefault(producer, log.end)
            rows.setdefault(producer, []).extend(written)
        else:
            committed.extend(written)
        log.end += len(gaps)
    for producer in list(open_since):
        end(producer, draw(st.sampled_from([ABORT, COMMIT])))
    log.committed = sorted(committed)
    return log


@settings(max_examples=examples(300))
@given(logs(), st.data())
def test_exactly_the_committed_records_from_the_position_on(log: Log, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, log.end))
    aborted = data.draw(st.permutations(log.aborted_from(position)))

    kept = _kept(log.fetched(position), position, aborted)

    assert _rows(kept) == [row for row in log.committed if row[0] >= position]
    assert kept.position == log.end
    _check_batches(kept.batches, position, log.end)


def test_a_marker_that_the_cleaner_has_emptied_ends_no_transaction() -> None:
    """It stays for its producer's sequence, amid the aborted transaction of another."""
    emptied = raw_batch(
        [], base=5, last=5, producer_id=1, epoch=0, transactional=True, control=True
    )
    kept = _kept(emptied, 5, [(2, 3)])
    assert (kept.batches, kept.position) == ([], 6)


@settings(max_examples=examples(100))
@given(logs())
def test_readers_of_uncommitted_records_get_all_but_the_markers(log: Log) -> None:
    kept = _kept(log.fetched(0))
    assert _rows(kept) == log.everything
    assert kept.position == log.end


@settings(max_examples=examples(200))
@given(logs(), st.data())
def test_the_series_does_not_depend_on_where_answers_were_cut(
    log: Log, data: st.DataObject
) -> None:
    """A lane and its successor are answered in other pieces, the last batch cut off anywhere."""
    position, found = 0, []
    while position < log.end:
        raw = log.fetched(position)
        whole = int.from_bytes(raw[8:12], "big") + 12
        piece = raw[: data.draw(st.integers(whole, len(raw)))]
        kept = _kept(piece, position, log.aborted_from(position))
        assert kept.position > position
        found += _rows(kept)
        position = kept.position

    assert found == log.committed


def _check_batches(batches: list[Batch], position: int, end: int) -> None:
    """In order, dense, and their spans cover what they say."""
    before = position
    for batch in batches:
        offsets = [batch.source_offset(i) for i in range(batch.records)]
        assert before <= batch.first == offsets[0]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] < batch.next <= end
        before = batch.next


# -- which path ------------------------------------------------------------------------------------


def test_a_dense_batch_is_passed_on_byte_by_byte() -> None:
    raw = raw_batch(_large(7, 3), compressed=True, producer_id=1, sequence=5, leader_epoch=4)

    kept = _kept(raw, 7)

    (batch,) = kept.batches
    assert batch.payload == raw[61:]
    assert (batch.codec, batch.records, batch.first, batch.next) == (1, 3, 7, 10)
    assert batch.offsets is None
    assert (batch.leader_epoch, kept.leader_epoch, kept.position) == (4, 4, 10)


def test_batches_with_gaps_become_dense_and_remember_their_offsets() -> None:
    records = [_large(o, 1)[0] for o in (3, 5, 8)]
    kept = _kept(raw_batch(records, base=2, last=9))
    (batch,) = kept.batches
    assert [batch.source_offset(i) for i in range(3)] == [3, 5, 8]
    assert (batch.first, batch.next, kept.position) == (3, 10, 10)


def test_a_start_in_the_middle_of_a_batch() -> None:
    kept = _kept(raw_batch(_large(0, 10)), 6)
    assert [offset for offset, _ in _rows(kept)] == [6, 7, 8, 9]


def test_batches_below_the_position_are_passed_over() -> None:
    kept = _kept(raw_batch(_large(0, 3)) + raw_batch(_large(3, 2)), 3)
    assert [offset for offset, _ in _rows(kept)] == [3, 4]


def test_emptied_batches_only_move_the_position() -> None:
    kept = _kept(raw_batch([], base=0, last=7, leader_epoch=2))
    assert (kept.batches, kept.position, kept.leader_epoch) == ([], 8, 2)


@pytest.mark.parametrize("size", [1, 3000])
def test_append_times_become_the_records_times(size: int) -> None:
    kept = _kept(raw_batch(_recs(0, 2, size), append_time=1_800_000_000_000))
    (batch,) = kept.batches
    assert [r.timestamp for r in records_of(batch)] == [1_800_000_000_000] * 2
    assert batch.max_timestamp == 1_800_000_000_000


def test_small_neighbours_are_merged_in_order() -> None:
    raws = [raw_batch(_recs(o, 1), leader_epoch=o) for o in range(50)]
    kept = _kept(b"".join(raws))
    (batch,) = kept.batches
    assert (batch.records, batch.first, batch.next, batch.leader_epoch) == (50, 0, 50, 49)
    assert batch.offsets is None


def test_small_neighbours_around_a_gap_know_their_offsets() -> None:
    kept = _kept(raw_batch(_recs(0, 2)) + raw_batch(_recs(3, 1)))
    (batch,) = kept.batches
    assert [batch.source_offset(i) for i in range(3)] == [0, 1, 3]


def test_only_neighbours_of_one_codec_are_merged_and_large_ones_are_not() -> None:
    data = (
        raw_batch(_recs(0, 1))
        + raw_batch(_recs(1, 1))
        + raw_batch(_recs(2, 1), compressed=True)
        + raw_batch(_large(3, 1))
        + raw_batch(_recs(4, 1))
    )
    kept = _kept(data)
    assert [(b.codec, b.records) for b in kept.batches] == [(0, 2), (1, 1), (0, 1), (0, 1)]
    assert [offset for offset, _ in _rows(kept)] == [0, 1, 2, 3, 4]


def test_small_batches_that_cannot_be_read_go_as_they_are() -> None:
    odd = raw_batch([Rec(offset=1, value=b"odd")])
    body = odd[61:].replace(b"odd", b"odd" * 5)  # longer than the record's own length has it
    checked = odd[21:61] + body
    length = (len(body) + 49).to_bytes(4, "big")
    odd = odd[:8] + length + odd[12:17] + calc_crc32c(checked).to_bytes(4, "big") + checked

    kept = _kept(raw_batch(_recs(0, 1)) + odd + raw_batch(_recs(2, 1)))

    assert [batch.payload for batch in kept.batches][1] == body
    assert [(b.first, b.next) for b in kept.batches] == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("kind", ["small", "gaps", "append times", "from its middle"])
def test_a_header_name_that_is_not_utf_8_passes_unchanged(kind: str) -> None:
    """Brokers take any bytes."""
    odd = [Rec(offset=i, headers=[("\udcff\udcfe", b"1"), ("é", None)]) for i in range(3)]
    if kind == "small":
        data = raw_batch(_recs(0, 1)) + raw_batch(odd[1:2]) + raw_batch(_recs(2, 1))
    elif kind == "gaps":
        data = raw_batch([odd[0], odd[2]])
    elif kind == "append times":
        data = raw_batch(odd, append_time=1_800_000_000_000)
    else:
        data = raw_batch(odd, compressed=True)

    (batch,) = _kept(data, 1 if kind == "from its middle" else 0).batches

    names = [r.headers for r in records_of(batch)]
    assert (
        names
        == {
            "small": [[], odd[0].headers, []],
            "gaps": [odd[0].headers] * 2,
            "append times": [odd[0].headers] * 3,
            "from its middle": [odd[0].headers] * 2,
        }[kind]
    )


# -- what unpacks to too much ----------------------------------------------------------------------


def _zeros(first: int, mib: int, *, append_time: int | None = None) -> bytes:
    """A batch of some kB whose one record is so large."""
    record = Rec(offset=first, value=b"\0" * (mib * 1024 * 1024))
    return raw_batch([record], compressed=True, append_time=append_time)


def test_a_batch_that_is_only_relayed_is_never_unpacked() -> None:
    data = b"".join(_zeros(offset, 40) for offset in range(3)) + raw_batch(_recs(3, 1))
    before = unpacked_total()
    assert [batch.records for batch in _kept(data).batches] == [1, 1, 1, 1]
    assert unpacked_total() == before


def test_small_batches_are_not_merged_beyond_what_they_unpack_to() -> None:
    """Each takes 1,300 bytes and is 1 MiB: merged they would take a lane's memory."""
    data = b"".join(_zeros(offset, 1) for offset in range(50))
    before = unpacked_total()

    kept = _kept(data)

    assert len(data) < 100_000
    assert [batch.records for batch in kept.batches] == [1] * len(kept.batches)
    assert kept.position == len(kept.batches) > 20
    assert unpacked_total() - before < 34 * 1024 * 1024  # the next fetch goes on from here


def test_a_batch_that_must_be_unpacked_and_is_too_large_says_so() -> None:
    """Once all that comes before it is kept."""
    data = raw_batch(_recs(0, 1)) + _zeros(1, 40, append_time=1_800_000_000_000)
    kept = _kept(data)
    assert [offset for offset, _ in _rows(kept)] == [0]
    with pytest.raises(TooLargeError, match=r"A\.t-0, the batch at offset 1: its \d+ bytes unpack"):
        _kept(data, kept.position)


def test_what_must_be_unpacked_is_left_to_the_next_fetch_once_it_is_much() -> None:
    data = b"".join(_zeros(o, 20, append_time=1_800_000_000_000) for o in range(4))
    assert _kept(data).position == 2
    assert _kept(data, 2).position == 4


def test_so_is_what_holds_very_many_records() -> None:
    """Each takes 200 kB and a second."""
    one = raw_batch(_recs(0, 100_000, 0), compressed=True, append_time=1_800_000_000_000)
    data = b"".join((100_000 * i).to_bytes(8, "big") + one[8:] for i in range(4))
    assert _kept(data).position == 200_000


# -- damage and old formats ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3000])
def test_a_damaged_batch_is_never_passed_on(size: int) -> None:
    data = raw_batch(_recs(0, 2, size)) + damaged(raw_batch(_recs(2, 2, size)))
    kept = _kept(data)
    assert [offset for offset, _ in _rows(kept)] == [0, 1]
    with pytest.raises(ProtocolError, match=r"A\.t-0.*offset 2 has a wrong CRC"):
        _kept(data, kept.position)


def test_a_damaged_header_is_noticed() -> None:
    with pytest.raises(ProtocolError):
        _kept(damaged(raw_batch(_large(0, 2)), at=25))


def test_what_lies_below_the_position_by_a_damaged_header_is_not_passed_over() -> None:
    raw = raw_batch(_large(5, 3))
    with pytest.raises(ProtocolError, match="offset 5 has a wrong CRC"):
        _kept(raw[:23] + (-4 & 0xFFFFFFFF).to_bytes(4, "big") + raw[27:], 5)


@pytest.mark.parametrize("left", [0, 5, 11, 12, 40, 61, 70])
def test_a_batch_cut_off_at_the_end_is_left_for_the_next_answer(left: int) -> None:
    whole = raw_batch(_recs(0, 2))
    kept = _kept(whole + raw_batch(_recs(2, 2))[:left])
    assert kept.position == 2
    assert [offset for offset, _ in _rows(kept)] == [0, 1]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_before_new_batches(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for offset in range(3):
        builder.append(offset, 1_500_000_000_000, b"k", b"old %d" % offset)
    data = bytes(builder.build()) + raw_batch(_recs(3, 1))

    kept = _kept(data, 1)

    assert [offset for offset, _ in _rows(kept)] == [1, 2, 3]
    assert kept.position == 4
