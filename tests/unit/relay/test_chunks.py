"""Which chunks are sent through a stage when, and which of them is blamed for its death."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from causeway.records import Batch, PlainRecord, build, records_of
from causeway.relay.lane import chunks as module
from causeway.relay.lane.chunks import (
    ALONE_S,
    BLAMED,
    DIES,
    HANGS,
    PAUSES_S,
    SLOW_S,
    START_S,
    THROWS,
    WINDOW_CHUNKS,
    ChunkQueue,
    Loss,
    Work,
    WorkResult,
)
from causeway.transform import Chunk, ChunkOutcome


def _batch(first: int, count: int) -> Batch:
    records = [PlainRecord(at, 1_000, None, b"v%d" % (first + at), []) for at in range(count)]
    return build(records, codec=0, first=first, next=first + count, leader_epoch=0, offsets=None)


class _Heard:
    def __init__(self) -> None:
        self.pieces: list[WorkResult] = []

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


def _outcome(chunk: Chunk) -> ChunkOutcome:
    return ChunkOutcome(chunk.number, (), records_in=sum(batch.records for batch in chunk.batches))


def _working() -> ChunkQueue:
    """Of a stage that has shown that it works."""
    chunks = ChunkQueue()
    _show_that_it_works(chunks)
    return chunks


def _show_that_it_works(chunks: ChunkQueue) -> None:
    (probe,) = chunks.to_send()
    assert not probe.batches
    chunks.answered(_outcome(probe))


def _run(
    chunks: ChunkQueue,
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


def test_an_early_answer_is_delivered_in_order() -> None:
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
    assert not chunks.overdue(math.inf)


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


def test_a_record_on_which_stages_hang_differs_from_one_that_throws() -> None:
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 100))
    _run(chunks, lambda chunk: _holds(chunk, 17), how="hung")
    (blamed,) = [piece for piece in heard.pieces if piece.outcome.refused]
    assert [tuple(refusal) for refusal in blamed.outcome.refused] == [(17, HANGS)]
    assert heard.upto[-1] == 100
    assert chunks.size == 0


def test_a_record_on_which_processes_die_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSES_S", [0.0] * len(PAUSES_S))
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 100))
    deaths = _run(chunks, lambda chunk: _holds(chunk, 17), threw=False)
    (blamed,) = [piece for piece in heard.pieces if piece.outcome.refused]
    assert [tuple(refusal) for refusal in blamed.outcome.refused] == [(17, DIES)]
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
    ends = ("first", "threw", "killed", "threw", "hung", "killed", "killed")
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


def test_cancelled_work_has_no_result() -> None:
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


def _other_work(owner: _Heard, first: int) -> Work:
    return Work(owner, "t", 1, first + 1, (_batch(first, 1),), owner.pieces.append)


@pytest.mark.parametrize("how", ["died", "hung"])
def test_what_others_wait_for_passes_a_suspect(how: Loss) -> None:
    """Each time that a stage has died of it, and not only once it is known."""
    chunks, heard, other = _working(), _Heard(), _Heard()
    passed: list[int] = []

    def kills(chunk: Chunk) -> bool:
        if chunk.partition or not _holds(chunk, 600):
            return False
        passed.append(len(other.pieces))
        chunks.submit(_other_work(other, len(passed)))
        return True

    chunks.submit(_work(heard, 0, 1000))
    assert _run(chunks, kills, how=how) == len(passed)
    assert heard.refused == [600]
    assert passed == [0, 0, *range(2, len(passed))], "the second time it is the first suspect"
    assert len(other.pieces) == len(passed)


def test_a_slow_record_is_found_with_few_deaths() -> None:
    """Each takes as long as an answer is waited for."""
    chunks, heard = _working(), _Heard()
    chunks.submit(_work(heard, 0, 25_000))
    assert _run(chunks, lambda chunk: _holds(chunk, 17_123), how="hung") <= 6
    assert heard.refused == [17_123]
    assert heard.pieces[-1].next == 25_000
    assert sum(piece.outcome.records_in for piece in heard.pieces) == 25_000
    assert chunks.size == 0


def test_a_record_that_has_a_pause_stops_no_other_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    chunks, heard, other = _working(), _Heard(), _Heard()
    chunks.submit(_work(heard, 0, 1))
    for _ in range(2):
        list(chunks.to_send())
        chunks.lost()
        chunks.judged(threw=False)
        _show_that_it_works(chunks)
    chunks.submit(_work(heard, 1, 1))
    chunks.submit(_other_work(other, 0))
    assert _run(chunks, lambda _: False) == 0
    assert (heard.upto, other.upto) == ([], [1])
    now += PAUSES_S[0] + 0.1
    assert _run(chunks, lambda _: False) == 0
    assert heard.upto == [1, 2]


class _Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_a_new_stage_and_a_single_record_have_longer_than_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, heard, chunks = _Clock(monkeypatch), _Heard(), ChunkQueue()
    (probe,) = chunks.to_send()
    assert not chunks.overdue(clock.now + SLOW_S + 1)
    assert chunks.overdue(clock.now + START_S + 1)
    chunks.answered(_outcome(probe))
    assert not chunks.overdue(clock.now + START_S + 1), "nothing is under way"
    chunks.submit(_work(heard, 0, 1))
    list(chunks.to_send())
    assert not chunks.overdue(clock.now + SLOW_S + 1)
    assert chunks.overdue(clock.now + ALONE_S + 1)
    chunks.submit(_work(heard, 1, 1))
    list(chunks.to_send())
    assert chunks.overdue(clock.now + SLOW_S + 1), "others wait for it"
    clock.now += SLOW_S
    chunks.lives()
    assert not chunks.overdue(clock.now + SLOW_S - 1)


def test_after_a_slow_chunk_they_are_small_until_these_are_quick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, heard, chunks = _Clock(monkeypatch), _Heard(), _working()
    per_record_s = 0.01

    def treat(work: Work) -> list[int]:
        chunks.submit(work)
        sizes = []
        while sent := list(chunks.to_send()):
            for chunk in sent:
                records = sum(batch.records for batch in chunk.batches)
                if records:
                    sizes.append(records)
                if chunks.overdue(clock.now + records * per_record_s):
                    clock.now += SLOW_S
                    chunks.lost("hung")
                    break
                clock.now += records * per_record_s
                chunks.answered(_outcome(chunk))
        return sizes

    first = treat(_work(heard, 0, 6_400))
    assert first[0] == 6_400
    assert max(first[1:]) < SLOW_S / per_record_s
    second = treat(_work(heard, 6_400, 6_400))
    assert 50 < max(second) < SLOW_S / per_record_s
    per_record_s = 0.000_01
    for number in range(20):
        sizes = treat(_work(heard, 12_800 + number * 6_400, 6_400))
    assert sizes == [6_400]
    assert heard.refused == []
    assert heard.upto == sorted(heard.upto)


def test_what_one_stage_gives_up_is_sorted_out_by_another() -> None:
    chunks, aside = _working(), _working()
    heard, other = _Heard(), _Heard()
    chunks.submit(_work(heard, 0, 200))
    chunks.submit(_other_work(other, 0))
    list(chunks.to_send())
    chunks.submit(_work(heard, 200, 50))
    given = chunks.give_up()
    assert [work.next for work in given] == [200, 250]
    aside.suspect(given)
    assert not chunks.has(heard)
    assert aside.has(heard)
    _show_that_it_works(chunks)
    assert _run(chunks, lambda _: False) == 0
    assert other.upto == [1]
    assert chunks.size == 0
    assert _run(aside, lambda chunk: _holds(chunk, 77), how="hung") <= 4
    assert heard.refused == [77]
    assert heard.upto == sorted(heard.upto)
    assert heard.upto[-1] == 250
    assert aside.size == 0
    assert not aside.has(heard)
