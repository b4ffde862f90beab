"""A lane's direct worker, and the stages whose chunks it treats until Spark is needed. In the place
of a process is a thread, but for one test; the stages' workers are the tests' own."""

from __future__ import annotations

import base64
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from causeway.records import Batch
from causeway.relay import StageEnded, StageSpec
from causeway.relay.lane import direct
from causeway.relay.lane import stage as stage_module
from causeway.relay.lane.chunks import Work, WorkResult
from causeway.relay.lane.stage import Stage
from causeway.transform import Chunk, Frame, Greeting, SealedConnection
from causeway.transform.rules import shortcut_of
from causeway.transform.stage import direct_worker
from tests.harness.stage import batch_of, read
from tests.harness.staged_lane import SECRET, Loop, Workers
from tests.harness.transforms import settings

ONE, OTHER, SOON = "A->B/one@1/0", "A->B/other@1/0", "A->B/soon@1/0"
PLAIN, MASKED, ODD = b'{"name":"Ada"}', b'{"name":"***"}', b'{"name":"A\\u0064a"}'
KILLS = b'{"name":"kill"}'


class Dying(SealedConnection):
    """The worker's end: it dies when it gets a record of KILLS, or is to hang."""

    hangs = dies = False

    def wait(self, timeout_s: float | None) -> list[Frame]:
        if self.dies:
            self._socket.shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError("it dies")
        frames = super().wait(timeout_s)
        for at, frame in enumerate(frames):
            if isinstance(frame, Chunk) and any(KILLS in b.payload for b in frame.batches):
                self.dies = True
                return frames[:at]
            if isinstance(frame, Chunk) and self.hangs:
                threading.Event().wait()
        return frames


class Process:
    """In the place of a process; `made` of them so far."""

    made: list[Process]
    fails = hangs = False

    def __init__(self, arguments: Sequence[str], *, pass_fds: Sequence[int], **_: Any) -> None:
        Process.made.append(self)
        self.pid = len(Process.made)
        self._socket = socket.socket(fileno=os.dup(pass_fds[0]))
        self.chunks = 0
        if Process.fails:
            self._socket.close()
            return
        connection = Dying(self._socket, SECRET, lane=False)
        connection.hangs = Process.hangs
        self._thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
        self._thread.start()

    def _run(self, connection: SealedConnection) -> None:
        try:
            direct_worker.run(connection)
        except (ConnectionError, ValueError):
            pass

    def kill(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def wait(self) -> int:
        return 0


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    Process.made, Process.fails, Process.hangs = [], False, False
    monkeypatch.setattr("causeway.relay.lane.direct.subprocess.Popen", Process)
    return Process


def spec(key: str, *, late: bool = True) -> StageSpec:
    shortcut = shortcut_of(settings(rules="mask value.$.name", value_format="json"))
    pickled = base64.b64encode(pickle.dumps(shortcut)).decode()
    return StageSpec(key=key, name="pii", shortcut=pickled, late=late)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop("127.0.0.1", spec(ONE), spec(OTHER), spec(SOON, late=False))
    yield loop
    loop.close()


class Heard:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.pieces: list[WorkResult] = []
        self._offset = 0

    def submit(self, *values: bytes) -> None:
        batch: Batch = batch_of(values, first=self._offset)
        self._offset = batch.next
        work = Work(self, "t", 0, batch.next, (batch,), self.pieces.append)
        self.stage.submit(work)

    @property
    def values(self) -> list[bytes | None]:
        return [one.value for piece in self.pieces for one in read(piece.outcome)]

    @property
    def offsets(self) -> list[int]:
        return [one.offset for piece in self.pieces for one in read(piece.outcome)]


def wanted(loop: Loop) -> list[str]:
    return [stage.key for stage in loop.stages.wanted]


def test_plain_records_of_all_transforms_need_one_process_and_no_stage(
    loop: Loop, process: type[Process]
) -> None:
    one, other = Heard(loop.stages.get(ONE)), Heard(loop.stages.get(OTHER))
    assert not one.stage.ready
    for _ in range(100):
        one.submit(PLAIN, PLAIN)
        other.submit(PLAIN)
    loop.until(lambda: len(one.values) == 200 and len(other.values) == 100)
    assert one.stage.ready
    assert set(one.values + other.values) == {MASKED}
    assert one.offsets == list(range(200))
    assert [piece.outcome.records_in for piece in one.pieces] == [2] * 100
    assert len(process.made) == 1
    assert wanted(loop) == []
    assert loop.stages.size == 0


def test_a_chunk_without_records_needs_no_spark(loop: Loop, process: type[Process]) -> None:
    """As of a fetch that brought but control batches, while others are on their way."""
    one = Heard(loop.stages.get(ONE))
    one.submit(PLAIN)
    one.stage.submit(Work(one, "t", 0, 5, (), one.pieces.append))
    loop.until(lambda: len(one.pieces) == 2)
    assert one.values == [MASKED]
    assert [(piece.next, piece.last) for piece in one.pieces] == [(1, True), (5, True)]
    assert wanted(loop) == []


def test_a_record_that_is_not_plain_has_the_stage_begin_and_keeps_its_place(
    loop: Loop, process: type[Process]
) -> None:
    one, other = Heard(loop.stages.get(ONE)), Heard(loop.stages.get(OTHER))
    for value in (PLAIN, PLAIN, ODD, PLAIN):
        one.submit(value)
        other.submit(PLAIN)
    loop.until(lambda: wanted(loop) == [ONE] and len(other.values) == 4)
    assert one.values == [MASKED, MASKED]
    assert not one.stage.ready
    workers = Workers(one.stage.address, "1", ONE)
    one.submit(PLAIN)
    loop.until(lambda: len(one.values) == 5)
    assert one.offsets == [0, 1, 2, 3, 4]
    assert one.values == [MASKED, MASKED, ODD, PLAIN, PLAIN], "as these workers leave them"
    assert [len(chunk.batches) for chunk in workers.chunks] == [0, 1, 1, 1]
    other.submit(PLAIN)
    loop.until(lambda: len(other.values) == 5)
    assert wanted(loop) == [ONE]


def test_a_stage_that_dies_while_it_begins_loses_nothing(
    loop: Loop, process: type[Process]
) -> None:
    one = Heard(loop.stages.get(ONE))
    for value in (PLAIN, ODD, PLAIN):
        one.submit(value)
    loop.until(lambda: wanted(loop) == [ONE])
    first = Workers(one.stage.address, "1", ONE)
    first.dies_at_once = True
    loop.until(lambda: not first.alive)
    ended = StageEnded(key=ONE, attempt="1", reason="X", threw=True)
    loop.stages.ended(ended)
    second = Workers(one.stage.address, "2", ONE)
    second.dies_at = 1
    loop.until(lambda: not second.alive)
    Workers(one.stage.address, "3", ONE)
    loop.until(lambda: len(one.values) == 3)
    assert one.offsets == [0, 1, 2]
    assert not [piece for piece in one.pieces if piece.outcome.refused]


def test_a_stage_that_cannot_start_is_reported_when_it_is_needed(
    loop: Loop, process: type[Process]
) -> None:
    one = Heard(loop.stages.get(ONE))
    one.submit(PLAIN)
    loop.until(lambda: one.values)
    late = one.stage._made_at + 2 * stage_module.STARTING_S
    loop.stages.turn(late)
    assert one.stage.trouble(late) is None
    one.submit(ODD)
    loop.until(lambda: wanted(loop) == [ONE])
    began = one.stage.ready_at
    assert one.stage.trouble(began + stage_module.STARTING_S - 1) is None
    assert "has not started" in str(one.stage.trouble(began + stage_module.STARTING_S + 1))
    loop.stages.ended(StageEnded(key=ONE, attempt="1", reason="ImportError", threw=False))
    assert "ImportError" in str(one.stage.trouble(began + stage_module.ENDING_S + 1))


def test_a_stage_that_no_record_needs_any_more_ends(
    loop: Loop, process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Heard(loop.stages.get(ONE))
    one.submit(ODD)
    loop.until(lambda: wanted(loop) == [ONE])
    workers = Workers(one.stage.address, "1", ONE)
    loop.until(lambda: one.values == [ODD])
    one.stage._lingers_s = 0.0
    one.submit(PLAIN)
    loop.until(lambda: not workers.alive and wanted(loop) == [])
    one.submit(PLAIN)
    loop.until(lambda: len(one.values) == 3)
    assert one.offsets == [0, 1, 2]
    assert one.values[-1] == MASKED
    late = SealedConnection.open(one.stage.address, SECRET)  # not stopped in time
    late.send(Greeting(ONE, "2", "source"))
    one.submit(PLAIN)
    loop.until(lambda: len(one.values) == 4)
    assert wanted(loop) == []


def test_a_stage_that_is_not_late_begins_behind_the_first_records_and_takes_over(
    loop: Loop, process: type[Process]
) -> None:
    soon = Heard(loop.stages.get(SOON))
    assert wanted(loop) == []
    soon.submit(PLAIN)
    loop.until(lambda: soon.values)
    assert wanted(loop) == [SOON]
    failing = Workers(soon.stage.address, "1", SOON)
    failing.dies_at_once = True
    soon.submit(PLAIN)
    loop.until(lambda: len(soon.values) == 2 and not failing.alive)
    assert soon.stage.ready
    workers = Workers(soon.stage.address, "2", SOON)

    def taken_over() -> bool:
        soon.submit(PLAIN)
        return len(workers.chunks) > 3

    loop.until(taken_over)
    count = soon._offset
    loop.until(lambda: len(soon.values) == count)
    assert soon.offsets == list(range(count))
    assert process.made[-1].pid == 1


def test_a_successor_gets_what_a_worker_that_died_has_not_answered(
    loop: Loop, process: type[Process]
) -> None:
    one, other = Heard(loop.stages.get(ONE)), Heard(loop.stages.get(OTHER))
    for _ in range(5):
        for heard in (one, other):
            for _ in range(150):  # more than may be under way
                heard.submit(PLAIN)
        process.made[-1].kill()
        loop.until(lambda: len(one.values) == one._offset and len(other.values) == other._offset)
    assert one.offsets == other.offsets == list(range(750))
    assert set(one.values + other.values) == {MASKED}
    assert wanted(loop) == []


def test_the_stage_whose_chunk_kills_the_worker_goes_to_spark_and_no_other(
    loop: Loop, process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "LONGEST_PAUSE_S", 0.0)
    one, other = Heard(loop.stages.get(ONE)), Heard(loop.stages.get(OTHER))
    for _ in range(10):
        one.submit(PLAIN)
        other.submit(PLAIN)
    one.submit(KILLS)
    for _ in range(10):
        one.submit(PLAIN)
        other.submit(PLAIN)
    loop.until(lambda: wanted(loop) and len(other.values) == 20)
    assert wanted(loop) == [ONE]
    Workers(one.stage.address, "1", ONE)
    loop.until(lambda: len(one.values) == 21)
    assert one.offsets == list(range(21))


def test_a_worker_that_cannot_be_started_leaves_all_to_spark(
    loop: Loop, process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "LONGEST_PAUSE_S", 0.0)
    process.fails = True
    one, other = Heard(loop.stages.get(ONE)), Heard(loop.stages.get(OTHER))
    one.submit(PLAIN)
    loop.until(lambda: set(wanted(loop)) == {ONE, OTHER})
    Workers(one.stage.address, "1", ONE)
    Workers(other.stage.address, "1", OTHER)
    other.submit(PLAIN)
    loop.until(lambda: one.values and other.values)
    assert len(process.made) == direct.STARTS
    loop.stages.keep([OTHER])
    assert wanted(loop) == [OTHER]
    assert ONE in wanted(loop) or loop.stages.get(ONE).wanted, "nor are later ones tried"


def test_a_worker_that_hangs_on_cancelled_work_is_ended(loop: Loop, process: type[Process]) -> None:
    process.hangs = True
    one, other = Heard(loop.stages.get(ONE)), Heard(loop.stages.get(OTHER))
    one.submit(PLAIN)
    loop.until(lambda: one.stage.ready)
    process.hangs = False
    loop.stages.keep([OTHER])
    one.stage._direct._due = 0.0
    loop.until(lambda: len(process.made) == 2)
    other.submit(PLAIN)
    loop.until(lambda: other.values == [MASKED])
    assert wanted(loop) == []


def test_a_worker_that_has_died_for_hours_is_started_as_often_as_before(
    loop: Loop, process: type[Process]
) -> None:
    one = Heard(loop.stages.get(ONE))
    loop.until(lambda: one.stage.ready)
    one.stage._direct._deaths = 5_000
    process.made[-1].kill()
    loop.until(lambda: not one.stage.ready)
    assert one.stage._direct._start_at <= time.monotonic() + direct.LONGEST_PAUSE_S


def test_a_worker_that_hangs_is_ended_and_its_chunks_sent_again(
    loop: Loop, process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "ANSWER_S", 0.2)
    process.hangs = True
    one = Heard(loop.stages.get(ONE))
    one.submit(PLAIN)
    loop.until(lambda: process.made)
    process.hangs = False
    loop.until(lambda: one.values == [MASKED])
    assert len(process.made) == 2
    assert wanted(loop) == []


def test_what_cannot_be_opened_is_left_to_its_stage(loop: Loop, process: type[Process]) -> None:
    """Where people are told why."""
    loop.stages.define([StageSpec(key=ONE, name="pii", shortcut="AAAA", late=True)])
    one, other = Heard(loop.stages.get(ONE)), Heard(loop.stages.get(OTHER))
    one.submit(PLAIN)
    other.submit(PLAIN)
    loop.until(lambda: wanted(loop) == [ONE] and other.values)
    assert len(process.made) == 1


def test_the_process_itself_lives_and_dies_with_its_lane(loop: Loop) -> None:
    one = Heard(loop.stages.get(ONE))
    worker = loop.stages._direct
    one.submit(PLAIN)
    loop.until(lambda: one.values == [MASKED], 60)
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    one.submit(PLAIN)
    loop.until(lambda: len(one.values) == 2, 60)
    assert worker.pid != pid
    loop.stages.keep([])
    loop.until(lambda: worker.pid is None)
