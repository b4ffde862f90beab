"""Which chunks are sent through a stage when, and which of them is blamed for its death."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from causeway.relay.lane import chunks as module
from causeway.relay.lane.chunks import (
    BLAMED,
    HANGS,
    PAUSES_S,
    THROWS,
    WINDOW_CHUNKS,
    Chunks,
    Loss,
    Piece,
    Work,
)
from causeway.transform.channel import Chunk, Outcome
from causeway.wire.batches import Batch
from causeway.wire.plain_records import PlainRecord
from causeway.wire.records import build, records_of


def _batch(first: int, count: int) -> Batch:
    records = [PlainRecord(at, 1_000, None, b"v%d" % (first + at), []) for at in range(count)]
    return build(records, codec=0, first=first, next=first + count, leader_epoch=0, offsets=None)


class _Heard:
    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    @property
    def upto(self) -> list[int]:
        return [piece.next for piece in self.pieces]

    @property
    def refused(self) -> list[int]:
        return [refusal.offset for piece in self.pieces for refusal in piece.outcome.refused]


def _work(owner: _Heard, first: int, *counts: int) -> Work:
    batches, at = [], first
    for count in counts:
        batches.append(_batch(at, count))
        at += count
    return Work(owner, "t", 0, at, tuple(batches), owner.pieces.append)


def _outcome(chunk: Chunk) -> Outcome:
    return Outcome(chunk.number, (), records_in=sum(batch.records for batch in chunk.batches))


def _working() -> Chunks:
    """Of a stage that has shown that it works."""
    chunks = Chunks()
    _show_that_it_works(chunks)
    return chunks


def _show_that_it_works(chunks: Chunks) -> None:
    (probe,) = chunks.to_send()
    assert not probe.batches
    chunks.answered(_outcome(probe))


def _run(
    chunks: Chunks,
    kills: Callable[[Chunk], bool],
    most: int = 1000,
    how: Loss = "died",
    *,
    threw: bool = True,
) -> int:
    """A stage that dies whenever `kills` a chunk, of which it is told later; how often it did."""
    deaths = 0
    for _ in range(most):
        sent = list(chunks.to_send())
        if not sent:
            return deaths
        for chunk in sent:
            if kills(chunk):
                chunks.lost(how)
                if how == "died":
                    chunks.judged(threw=threw)
                deaths += 1
                break
            chunks.answered(_outcome(chunk))
    raise AssertionError("it never ends")


def _holds(chunk: Chunk, offset: int) -> bool:
    return any(batch.first <= offset < batch.next for batch in chunk.batches)


def test_answers_come_in_the_order_of_the_works() -> None:
    chunks, heard = _working(), _Heard()
    for first in (0, 10, 20):
        chunks.submit(_work(heard, first, 10))
    assert _run(chunks, lambda _: False) == 0
    assert heard.upto == [10, 20, 30]
    assert chunks.size == 0


def test_no_more_is_under_way_than_a_window() -> None:
    chunks, heard = _working(), _Heard()
    for first in range(WINDOW_CHUNKS + 5):
        chunks.submit(_work(heard, first, 1))
    first_sent = list(chunks.to_send())
    assert len(first_sent) == WINDOW_CHUNKS
    assert not list(chunks.to_send())
    chunks.answered(_outcome(first_sent[0]))
    assert len(list(chunks.to_send())) == 1


def test_an_answer_that_comes_early_is_told_in_its_turn() -> None:
    """What the source worker treats itself overtakes what goes through Spark."""
    chunks, heard = _working(), _Heard()
    for at in range(3):
        chunks.submit(_work(heard, at, 1))
    first, second, third = chunks.to_send()
    chunks.answered(_outcome(third))
    chunks.answered(_outcome(second))
    assert heard.upto == []
    chunks.answered(_outcome(first))
    assert heard.upto == [1, 2, 3]
    assert chunks.size == 0
    assert not chunks.busy


def test_an_early_answer_is_forgotten_with_its_stage() -> None:
    chunks, heard = _working(), _Heard()
    for first in range(2):
        chunks.submit(_work(heard, first, 1))
    _, second = chunks.to_send()
    chunks.answered(_outcome(second))
    chunks.lost()
    chunks.judged(threw=False)
    while chunks.size:
        for chunk in chunks.to_send():
            chunks.answered(_outcome(chunk))
    assert heard.upto == [1, 2]


def test_an_answer_to_what_is_not_under_way_is_refused() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 1))
    chunks.submit(_work(heard, 1, 1))
    first, second = chunks.to_send()
    chunks.answered(_outcome(second))
    with pytest.raises(ValueError, match="not under way"):
        chunks.answered(_outcome(second))
    chunks.answered(_outcome(first))
    with pytest.raises(ValueError, match="not under way"):
        chunks.answered(_outcome(first))


def test_the_record_that_kills_each_stage_is_found_and_refused_alone() -> None:
    chunks, heard, other = _working(), _Heard(), _Heard()
    chunks.submit(_work(heard, 0, 100))
    chunks.submit(_work(other, 0, 50))
    chunks.submit(_work(heard, 100, 30, 70, 100))
    chunks.submit(_work(heard, 300, 10))
    deaths = _run(chunks, lambda chunk: chunk.partition == 0 and _holds(chunk, 171))
    assert heard.refused == [171]
    assert other.refused == []
    assert heard.upto == sorted(heard.upto)
    assert [upto for upto in heard.upto if upto in (100, 171, 172, 300, 310)] == [
        100, 171, 172, 300, 310,
    ]  # fmt: skip
    assert [piece.last for piece in heard.pieces].count(True) == 3
    (blamed,) = [piece for piece in heard.pieces if piece.outcome.refused]
    assert blamed.outcome.refused[0].reason == THROWS
    assert [record.value for batch in blamed.batches for record in records_of(batch)] == [b"v171"]
    assert deaths < 20
    assert chunks.size == 0


def test_a_stage_that_does_not_work_at_all_blames_no_record() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 1))
    for _ in range(10 * BLAMED["threw"]):
        sent = list(chunks.to_send())
        assert len(sent) == 1
        chunks.lost()
    assert heard.pieces == []
    assert _run(chunks, lambda _: False) == 0
    assert heard.upto == [1]
    assert heard.refused == []


def test_a_kill_or_two_at_the_wrong_moment_blames_no_record() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 1))
    kills = iter([True, False, True, False, True])
    assert _run(chunks, lambda _: next(kills, False)) == 3
    assert heard.upto == [1]
    assert heard.refused == []


def test_a_record_on_which_stages_hang_is_told_from_one_that_throws() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 100))
    _run(chunks, lambda chunk: _holds(chunk, 17), how="hung")
    (blamed,) = [piece for piece in heard.pieces if piece.outcome.refused]
    assert [tuple(refusal) for refusal in blamed.outcome.refused] == [(17, HANGS)]
    assert heard.upto[-1] == 100
    assert chunks.size == 0


def test_a_record_on_which_processes_die_is_found_and_told_from_one_that_throws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSES_S", [0.0] * len(PAUSES_S))
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 100))
    deaths = _run(chunks, lambda chunk: _holds(chunk, 17), threw=False)
    (blamed,) = [piece for piece in heard.pieces if piece.outcome.refused]
    assert [tuple(refusal) for refusal in blamed.outcome.refused] == [(17, HANGS)]
    assert deaths < 20
    assert heard.upto[-1] == 100
    assert chunks.size == 0


def test_before_it_is_tried_again_there_are_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 1))
    list(chunks.to_send())
    chunks.lost()
    pauses = []
    while not heard.pieces:
        _show_that_it_works(chunks)
        paused = now
        while not (sent := list(chunks.to_send())):
            now += 1.0
        pauses.append(now - paused)
        assert len(sent) == 1
        chunks.lost()
        assert not heard.pieces, "it is not known yet of what it died"
        chunks.judged(threw=False)
    assert pauses == [0.0, *PAUSES_S]
    assert heard.refused == [0]


def test_who_is_accused_and_gone_is_not_blamed() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 1))
    list(chunks.to_send())
    chunks.lost()
    _show_that_it_works(chunks)
    list(chunks.to_send())
    chunks.lost()
    chunks.cancel(heard)
    chunks.judged(threw=True)
    assert chunks.size == 0
    _show_that_it_works(chunks)
    assert list(chunks.to_send()) == []


def test_ends_of_different_kinds_are_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_S", [0.0] * len(PAUSES_S))
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 1))
    ends = ("first", "threw", "killed", "threw", "hung", "killed", "hung", "killed")
    for end in ends:
        (sent,) = chunks.to_send()
        if not sent.batches:  # first it shows that it works
            chunks.answered(_outcome(sent))
            list(chunks.to_send())
        chunks.lost("hung" if end == "hung" else "died")
        chunks.judged(threw=end == "threw")
    _run(chunks, lambda _: False)
    assert heard.upto == [1]
    assert heard.refused == []


def test_a_stage_that_may_not_have_had_a_chunk_blames_no_record() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 2))
    kills = iter([True, *[False, True] * (10 * BLAMED["threw"])])
    _run(chunks, lambda _: next(kills, False), how="gone")
    assert heard.upto == [2]
    assert heard.refused == []


def test_what_cannot_be_unpacked_is_blamed_as_a_whole() -> None:
    chunks, heard = _working(), _Heard()
    garbage = _batch(5, 3)._replace(payload=b"\xff" * 10)
    chunks.submit(Work(heard, "t", 0, 8, (garbage,), heard.pieces.append))
    _run(chunks, lambda chunk: _holds(chunk, 5))
    assert heard.refused == [5, 6, 7]


def test_nobody_hears_of_what_was_cancelled() -> None:
    chunks, heard, other = _working(), _Heard(), _Heard()
    chunks.submit(_work(heard, 0, 10))
    (sent,) = chunks.to_send()
    chunks.submit(_work(heard, 10, 10))
    chunks.submit(_work(other, 0, 10))
    chunks.cancel(heard)
    chunks.answered(_outcome(sent))
    assert _run(chunks, lambda _: False) == 0
    assert heard.pieces == []
    assert other.upto == [10]
    assert chunks.size == 0


def test_what_was_cancelled_under_way_is_not_sent_again_when_the_stage_dies() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 10))
    list(chunks.to_send())
    chunks.cancel(heard)
    chunks.lost()
    _show_that_it_works(chunks)
    assert list(chunks.to_send()) == []
    assert chunks.size == 0
