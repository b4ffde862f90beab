"""A lane's end of a stage: workers that greet, chunks and outcomes, and what a death leaves behind.
The workers are this test's own, over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from causeway.errors import CausewayError
from causeway.relay import StageEnded
from causeway.relay.lane import chunks
from causeway.relay.lane import stage as stage_module
from causeway.relay.lane import stages as second_stage
from causeway.relay.lane.chunks import BLAMED, HANGS, THROWS, Work, WorkResult
from causeway.relay.lane.stage import Stage
from causeway.transform import Greeting, SealedConnection, Setup
from tests.harness.staged_lane import KEY, SECRET, Loop, Workers, batch_at, one_at


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


_OWNERS: dict[int, object] = {}


def _owner(heard: list[WorkResult]) -> object:
    return _OWNERS.setdefault(id(heard), object())


def _submit(stage: Stage, first: int, heard: list[WorkResult]) -> None:
    stage.submit(Work(_owner(heard), "t", 0, first + 10, (batch_at(first),), heard.append))


def test_chunks_wait_for_both_workers_and_come_back_in_order(loop: Loop) -> None:
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    (wanted,) = loop.stages.wanted
    assert wanted.key == KEY
    _submit(stage, 0, heard)
    assert not stage.ready
    workers = Workers(wanted.address, "1")
    _submit(stage, 10, heard)
    loop.until(lambda: len(heard) == 2)
    assert stage.ready
    assert [piece.next for piece in heard] == [10, 20]
    assert heard[0].outcome.outputs[0].batch == batch_at(0)
    assert workers.setups == [Setup({"pepper": "salt"}, None)] * 2
    assert loop.stages.size == 0


def test_from_another_machine_a_stage_is_reached_by_the_lanes_address() -> None:
    try:
        loop = Loop("::1")
        stage = loop.stages.get(KEY)
    except OSError:
        pytest.skip("no IPv6 here")
    heard = list[WorkResult]()
    assert stage.address.startswith("::1:")
    Workers(stage.address, "1")
    _submit(stage, 0, heard)
    loop.until(lambda: heard)
    loop.close()


def test_a_stages_successor_gets_what_it_has_not_answered(loop: Loop) -> None:
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    workers = Workers(stage.address, "1")
    workers.dies_at = 20
    for first in (0, 10, 20, 30):
        _submit(stage, first, heard)
    loop.until(lambda: len(heard) >= 2 and not stage.ready)
    Workers(stage.address, "2")
    loop.until(lambda: len(heard) == 4)
    assert [piece.next for piece in heard] == [10, 20, 30, 40]


def _deaths_on(loop: Loop, first: int, attempts: int, *, told: bool) -> None:
    """So many stages that die of the batch at offset `first`; the driver tells that they threw."""
    stage = loop.stages.get(KEY)
    for attempt in map(str, range(attempts)):
        workers = Workers(stage.address, attempt)
        workers.dies_at = first
        loop.until(lambda w=workers: not w.alive and not stage.ready)  # type: ignore[misc]
        if told:
            loop.stages.ended(StageEnded(key=KEY, attempt=attempt, reason="X", threw=True))


@pytest.mark.parametrize("told", [True, False])
def test_only_a_record_that_throws_is_refused_soon(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    monkeypatch.setattr(chunks, "PAUSES_S", [0.0] * len(chunks.PAUSES_S))
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    stage.submit(Work(_owner(heard), "t", 0, 11, (one_at(10),), heard.append))
    _deaths_on(loop, 10, 1 + BLAMED["threw"], told=told)
    Workers(stage.address, "the next one")
    loop.until(lambda: heard)
    assert [refusal.reason for piece in heard for refusal in piece.outcome.refused] == (
        [THROWS] if told else []
    )


def test_a_stage_that_is_over_is_dropped_though_its_sockets_say_nothing(loop: Loop) -> None:
    """As where its machine is gone."""
    stage = loop.stages.get(KEY)
    workers = Workers(stage.address, "1")
    loop.until(lambda: stage.ready)
    loop.stages.ended(StageEnded(key=KEY, attempt="0", reason="X", threw=False))
    assert stage.ready, "that was another one"
    loop.stages.ended(StageEnded(key=KEY, attempt="1", reason="X", threw=False))
    assert not stage.ready
    loop.until(lambda: not workers.alive)


def test_a_stage_that_does_not_work_is_reported(loop: Loop) -> None:
    """One that has not started yet has longer than one that starts and ends."""
    stage, now = loop.stages.get(KEY), time.monotonic()
    assert stage.trouble(now + stage_module.STARTING_S - 1.0) is None
    assert "no free core" in str(stage.trouble(now + stage_module.STARTING_S + 1.0))
    for attempt in "12":
        workers = Workers(stage.address, attempt)
        workers.dies_at_once = True
        loop.until(lambda w=workers: not w.alive and not stage._ends)  # type: ignore[misc]
        assert not stage.ready
        ended = StageEnded(key=KEY, attempt=attempt, reason="ImportError", threw=False)
        loop.stages.ended(ended)
        assert stage.trouble(now + stage_module.ENDING_S - 1.0) is None
        assert "again and again: ImportError" in str(
            stage.trouble(now + stage_module.ENDING_S + 10.0)
        )
    Workers(stage.address, "3")
    loop.until(lambda: stage.ready)
    loop.until(lambda: stage.trouble(time.monotonic() + stage_module.ENDING_S + 10.0) is None)


def test_a_newer_attempt_takes_the_place_of_one_that_hangs(loop: Loop) -> None:
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    old = Workers(stage.address, "1")
    loop.until(lambda: stage.ready)
    new = Workers(stage.address, "2")
    loop.until(lambda: not old.alive)
    _submit(stage, 0, heard)
    loop.until(lambda: heard)
    assert [batch.first for chunk in new.chunks for batch in chunk.batches] == [0]
    assert not [chunk for chunk in old.chunks if chunk.batches]


def test_a_worker_that_is_there_twice_has_its_chunks_sent_again(loop: Loop) -> None:
    """As where Spark tries a task again before the end of the first try is seen here."""
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    old = Workers(stage.address, "1")
    loop.until(lambda: stage.ready)
    new = Workers(stage.address, "1")
    loop.until(lambda: not old.alive)
    _submit(stage, 0, heard)
    loop.until(lambda: heard)
    assert [batch.first for chunk in new.chunks for batch in chunk.batches] == [0]


def test_who_waits_for_a_busy_stage_waits_on(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "CALL_S", 0.2)
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    found: list[object] = []
    _submit(stage, 0, heard)
    loop.helpers.submit(lambda: stage.call("t", 0, 20, [batch_at(10)]), lambda a: found.append(a))
    loop.until(lambda: stage.size > batch_at(0).size)
    stage.answered_at = time.monotonic() + 60.0  # others are answered all the while
    until = time.monotonic() + 0.5
    loop.until(lambda: time.monotonic() > until)
    assert found == []
    Workers(stage.address, "1")
    loop.until(lambda: found)
    assert isinstance(found[0], list)


def test_workers_that_wait_for_their_registry_are_not_taken_for_dead(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "SLOW_S", 0.4)
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    workers = Workers(stage.address, "1")
    loop.until(lambda: stage.ready)
    workers.waits = 24
    _submit(stage, 0, heard)
    loop.until(lambda: stage.waiting)
    assert not stage.ready
    late = time.monotonic() + stage_module.STARTING_S + 10.0
    assert "waits for the schema registry: no registry" in str(stage.trouble(late))
    loop.until(lambda: heard)
    assert [len(chunk.batches) for chunk in workers.chunks] == [0, 1], "none is sent again"
    assert workers.alive


def test_the_reason_of_a_waiting_worker_is_shown_until_it_answers_or_ends(loop: Loop) -> None:
    stage, heard = loop.stages.get(KEY), list[WorkResult]()

    def told() -> str | None:
        (wanted,) = loop.stages.wanted
        return wanted.waiting

    workers = Workers(stage.address, "1")
    workers.waits = 4
    loop.until(lambda: stage.ready)
    _submit(stage, 0, heard)
    loop.until(lambda: told() == "no registry")
    loop.until(lambda: heard)
    assert told() is None
    workers.waits, workers.dies_after_waiting = 1, True
    _submit(stage, 10, heard)
    loop.until(lambda: told() == "no registry")
    loop.until(lambda: told() is None)
    assert len(heard) == 1


def test_strangers_are_shut_out(loop: Loop) -> None:
    stage = loop.stages.get(KEY)
    stranger = SealedConnection.open(stage.address, "another key")
    stranger.send(Greeting(KEY, "1", "source"))
    other = SealedConnection.open(stage.address, SECRET)
    other.send(Greeting("A->B/other@1", "1", "source"))
    for each in (stranger, other):
        loop.until(partial(_is_shut, each))
    assert not stage.ready


def _is_shut(connection: SealedConnection) -> bool:
    try:
        connection.wait(0)
        connection.flush()
    except ConnectionError:
        return True
    return False


def test_a_helpers_thread_gets_its_answer_through_a_death(loop: Loop) -> None:
    stage = loop.stages.get(KEY)
    workers = Workers(stage.address, "1")
    workers.dies_at = 10
    found: list[object] = []
    loop.helpers.submit(
        lambda: stage.call("t", 0, 20, [batch_at(0), batch_at(10)]), lambda a: found.append(a)
    )
    loop.until(lambda: workers.chunks and not stage.ready)
    Workers(stage.address, "2")
    loop.until(lambda: found)
    (pieces,) = found
    assert isinstance(pieces, list)
    assert [piece.next for piece in pieces] == [20]


def test_a_caller_that_waits_for_a_closed_stage_gets_an_error(loop: Loop) -> None:
    stage = loop.stages.get(KEY)
    found: list[object] = []
    loop.helpers.submit(lambda: stage.call("t", 0, 10, [batch_at(0)]), lambda a: found.append(a))
    loop.until(lambda: stage.size)
    loop.stages.keep([])
    loop.until(lambda: found)
    assert isinstance(found[0], CausewayError)
    assert loop.stages.wanted == ()


def test_an_unknown_stage_is_an_error(loop: Loop) -> None:
    with pytest.raises(CausewayError, match="has not described"):
        loop.stages.get("A->B/other@1")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a twentieth of the time."""
    monkeypatch.setattr(chunks, "SLOW_S", 0.5)
    monkeypatch.setattr(chunks, "ALONE_S", 0.8)


class _Driver:
    """Launches what the lane wants; workers hang on the batch that holds offset `slow`. `cores`:
    of so many stages at once, the one that was wanted last first."""

    def __init__(self, loop: Loop, slow: int, cores: int = 2) -> None:
        self._loop, self._slow, self._cores = loop, slow, cores
        self._running: dict[str, Workers] = {}
        self._gone: set[str] = set()
        self.launched: list[str] = []
        self.holds_back: str | None = None  # a stage for which there is no core

    def step(self) -> bool:
        """True, for a condition."""
        wanted = {each.key: each for each in self._loop.stages.wanted}
        for key in self._running.keys() - wanted.keys():
            del self._running[key]
        for key, each in reversed(wanted.items()):
            if each.hung is not None and each.hung not in self._gone:
                self._gone.add(each.hung)
                self._running.pop(key).let_go()
                ended = StageEnded(key=key, attempt=each.hung, reason="X", threw=False)
                self._loop.stages.ended(ended)
            if key not in self._running and len(self._running) < self._cores:
                if key == self.holds_back:
                    continue
                attempt = f"{len(self.launched)}"
                self._running[key] = Workers(each.address, attempt, key)
                self._running[key].hangs_at = self._slow
                self.launched.append(key)
        return True


@pytest.mark.usefixtures("short")
def test_a_slow_record_is_refused_and_the_other_partitions_go_on(loop: Loop) -> None:
    stage, driver = loop.stages.get(KEY), _Driver(loop, 15)
    slow, others = list[WorkResult](), list[WorkResult]()
    passed: list[int] = []

    def submit(first: int) -> None:
        _submit(stage, first, others)

    for first in (0, 10, 20):
        _submit(stage, first, slow)
    submit(1000)

    def refused() -> list[int]:
        return [refusal.offset for piece in slow for refusal in piece.outcome.refused]

    def done() -> bool:
        driver.step()
        if len(others) == len(passed) + 1 and not refused():
            passed.append(len(driver.launched))
            submit(1000 + 10 * len(passed))
        return bool(slow) and slow[-1].next == 30

    loop.until(done)
    assert refused() == [15]
    assert [piece.outcome.refused[0].reason for piece in slow if piece.outcome.refused] == [HANGS]
    assert [piece.next for piece in slow] == sorted(piece.next for piece in slow)
    assert sum(piece.outcome.records_in for piece in slow) == 30
    # It hung on the record once. A machine that is slow may end one more attempt.
    assert driver.launched.count(KEY) in (2, 3)
    meanwhile = driver.launched[: passed[-1]]
    assert meanwhile.count(f"{KEY}+") >= 2, "others passed while the record was looked for"


@pytest.mark.usefixtures("short")
def test_an_unused_second_stage_is_ended(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_stage, "PROBATION_S", 0.5)
    monkeypatch.setattr(second_stage, "LINGERS_S", 0.2)
    stage, driver, heard = loop.stages.get(KEY), _Driver(loop, 5), list[WorkResult]()
    _submit(stage, 0, heard)
    _submit(stage, 10, heard)

    def until(done: Callable[[], object]) -> None:
        loop.until(lambda: driver.step() and done())

    until(lambda: heard and heard[-1].next == 20)
    assert [each.key for each in loop.stages.wanted] == [KEY, f"{KEY}+"]
    _submit(stage, 20, heard)
    until(lambda: heard[-1].next == 30)
    until(lambda: [each.key for each in loop.stages.wanted] == [KEY])
    _submit(stage, 30, heard)
    until(lambda: heard[-1].next == 40)
    assert loop.stages.size == 0


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("taken", ["by the first stage", "by the second stage"])
def test_without_a_core_for_a_second_stage_the_first_one_looks_for_the_slow_record(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    monkeypatch.setattr(second_stage, "SPARE_S", 1.0)
    stage, driver = loop.stages.get(KEY), _Driver(loop, 15, cores=1)
    slow, others = list[WorkResult](), list[WorkResult]()
    for first in (0, 10, 20):
        _submit(stage, first, slow)
    _submit(stage, 1000, others)

    def step() -> bool:
        driver.holds_back = f"{KEY}+" if taken == "by the first stage" else None
        return driver.step()

    loop.until(lambda: step() and others and slow and slow[-1].next == 30, within_s=20.0)
    refusals = [refusal for piece in slow for refusal in piece.outcome.refused]
    assert [refusal.offset for refusal in refusals] == [15]
    assert [piece.next for piece in slow] == sorted(piece.next for piece in slow)
    assert sum(piece.outcome.records_in for piece in slow) == 30
    assert loop.stages.size == 0
    assert [each.key for each in loop.stages.wanted] == [KEY]


def test_a_machine_that_stood_still_is_no_slow_record(loop: Loop) -> None:
    stage, heard = loop.stages.get(KEY), list[WorkResult]()
    workers = Workers(stage.address, "1")
    workers.hangs_at = 5
    _submit(stage, 0, heard)
    loop.until(lambda: stage.ready and workers.chunks[-1:] and workers.chunks[-1].batches)
    now = time.monotonic() + 100 * chunks.SLOW_S
    stage.turn(now)
    assert loop.stages.wanted[0].hung is None
    for _ in range(12):
        now += 1.0
        stage.turn(now)
    assert loop.stages.wanted[0].hung == "1"
    workers.let_go()


@pytest.mark.usefixtures("short")
def test_who_has_left_is_not_treated_aside(loop: Loop) -> None:
    stage, driver, heard = loop.stages.get(KEY), _Driver(loop, 5), list[WorkResult]()
    _submit(stage, 0, heard)
    loop.until(lambda: driver.step() and len(driver.launched) == 3)
    stage.cancel(_owner(heard))
    assert loop.stages.size == 0
    _submit(stage, 10, heard)
    loop.until(lambda: driver.step() and heard)
    assert [piece.next for piece in heard] == [20]
