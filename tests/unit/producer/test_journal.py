"""The spool's log on real files: what is read is what was written, whatever was cut short."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway_producer.journal import Journal, JournalCursor
from causeway_producer.records import Chunk, Record

MOST = 1 << 20


def append(journal: Journal, first: int, count: int, size: int = 10) -> list[Record]:
    records: list[Record] = [
        (position, 1, 1, None, b"v" * size, None) for position in range(first, first + count)
    ]
    journal.append(Chunk(records))
    return records


def read(journal: Journal) -> Iterator[Chunk]:
    cursor = JournalCursor()
    while (chunk := journal.read(cursor)) is not None:
        yield chunk
    cursor.close()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, max_bytes=MOST, durable=False)


def positions(journal: Journal) -> list[int]:
    return [record[0] for chunk in read(journal) for record in chunk.records]


def test_what_was_written_is_read_also_after_a_restart(journal: Journal, tmp_path: Path) -> None:
    written = [append(journal, 1, 5), append(journal, 6, 7)]
    assert [chunk.records for chunk in read(journal)] == written
    again = Journal(tmp_path, max_bytes=MOST, durable=True)
    assert [chunk.records for chunk in read(again)] == written
    append(again, 20, 1)
    assert positions(again) == [*range(1, 13), 20]
    assert again.size == sum(path.stat().st_size for path in tmp_path.glob("*.log"))


def test_a_reader_goes_on_where_it_was(journal: Journal) -> None:
    cursor = JournalCursor()
    assert journal.read(cursor) is None
    append(journal, 1, 2)
    assert journal.behind(cursor) == journal.size
    chunk = journal.read(cursor)
    assert chunk is not None
    assert (chunk.first, chunk.last) == (1, 2)
    assert journal.read(cursor) is None
    assert journal.behind(cursor) == 0
    for first in range(3, 60):  # several files
        append(journal, first, 1, 20_000)
    assert [each.first for each in iter(lambda: journal.read(cursor), None)] == [*range(3, 60)]


def test_files_go_when_nothing_in_them_is_wanted(journal: Journal, tmp_path: Path) -> None:
    for first in range(1, 101):
        append(journal, first, 1, 10_000)
    files = len(list(tmp_path.glob("*.log")))
    assert files > 4
    journal.trim(50)
    left = positions(journal)
    assert 30 < left[0] <= 50
    assert left[-1] == 100
    assert len(list(tmp_path.glob("*.log"))) < files
    journal.trim(101, everything=True)
    assert journal.size == 0
    assert list(tmp_path.glob("*.log")) == []
    append(journal, 101, 1)
    assert positions(journal) == [101]


@pytest.mark.parametrize("cut", [1, 10, 23, 24, 30])
def test_a_chunk_that_was_cut_short_is_cut_off(journal: Journal, tmp_path: Path, cut: int) -> None:
    append(journal, 1, 3)
    whole = journal.size
    append(journal, 4, 3)
    (path,) = tmp_path.glob("*.log")
    os.truncate(path, whole + cut)
    again = Journal(tmp_path, max_bytes=MOST, durable=False)
    assert again.size == whole
    append(again, 9, 1)
    assert positions(again) == [1, 2, 3, 9]


@pytest.mark.parametrize("zeros", [10, 24, 5000])
def test_zeros_behind_the_last_chunk_are_cut_off(
    journal: Journal, tmp_path: Path, zeros: int
) -> None:
    """As a crash of the machine leaves them where a file has grown and its content was lost."""
    append(journal, 1, 3)
    (path,) = tmp_path.glob("*.log")
    os.truncate(path, journal.size + zeros)
    again = Journal(tmp_path, max_bytes=MOST, durable=True)
    assert again.size == journal.size
    append(again, 9, 1)
    assert positions(again) == [1, 2, 3, 9]


LIFE = 3 << 40  # positions begin with the number of a life


@pytest.mark.parametrize("where", [0, 4, 24, 5000])
@pytest.mark.parametrize("restarted", [True, False])
def test_damage_in_the_middle_costs_one_chunk_and_is_reported_once(
    tmp_path: Path, where: int, restarted: bool
) -> None:
    """In the file that was written to last, which is cut where it ends, as in others."""
    told: list[str] = []
    journal = Journal(tmp_path, max_bytes=64 << 20, durable=False, on_damage=told.append)
    at = []
    for first in range(1, 11):
        at.append(journal.size)
        append(journal, LIFE + first, 1, 10_000)
    (path,) = tmp_path.glob("*.log")
    content = bytearray(path.read_bytes())
    content[at[4] + where] ^= 0xFF
    path.write_bytes(content)
    if restarted:
        journal = Journal(tmp_path, max_bytes=64 << 20, durable=False, on_damage=told.append)
    append(journal, LIFE + 11, 1)
    for _ in range(2):
        assert positions(journal) == [LIFE + each for each in range(1, 12) if each != 5]
    assert told == [
        f"spool file {path} is damaged: a side that has not got the records in its bytes"
        f" {at[4]} to {at[5]} will not get them"
    ]


def test_a_file_whose_end_is_damaged_leads_to_the_next(tmp_path: Path) -> None:
    told: list[str] = []
    journal = Journal(tmp_path, max_bytes=MOST, durable=False, on_damage=told.append)
    for first in range(1, 101):
        append(journal, LIFE + first, 1, 10_000)
    path = min(tmp_path.glob("*.log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert len(positions(journal)) == 99
    assert len(told) == 1


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file of this process may grow beyond 50 kB: a full disk, for those who write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_takes_all_of_a_chunk_or_nothing(journal: Journal, small_files: None) -> None:
    append(journal, 1, 3, 10_000)
    with pytest.raises(OSError, match="large"):
        append(journal, 4, 3, 10_000)
    assert positions(journal) == [1, 2, 3]
    append(journal, 7, 1, 10_000)
    assert positions(journal) == [1, 2, 3, 7]
