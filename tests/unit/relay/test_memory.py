"""What a lane holds is bounded, however unlike the speeds at which it gets rid of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

import pytest

from causeway.records import Batch
from causeway.relay.lane import memory as module
from causeway.relay.lane.memory import LaneMemory
from causeway.relay.lane.outlet import OutletState
from causeway.wire import SendQueue
from tests.builders.relay import flow
from tests.harness.waiting import await_until

MB = 1 << 20
BATCH = 64 * 1024


class Full:
    """A socket that takes nothing."""

    def sendmsg(self, _: object) -> int:
        raise BlockingIOError


class Takes:
    """One that takes all."""

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        return sum(map(len, parts))


def _outlets(count: int) -> list[OutletState]:
    return [flow(partition).outlets[0] for partition in range(count)]


def _answer(memory: LaneMemory, outlets: Sequence[OutletState], each: int) -> None:
    """One that holds `each` batches of each of `outlets`."""
    frame = memory.buffers.room(len(outlets) * each * BATCH)
    places = iter(range(0, len(frame), BATCH))
    for outlet in outlets:
        views = [frame[at : at + BATCH] for at, _ in zip(places, range(each), strict=False)]
        outlet.put_all([Batch(view, 0, 0, 0, 1, 0, 1, 0, None, (0, 0)) for view in views])


def _in_memory(memory: LaneMemory, outlets: Sequence[OutletState]) -> int:
    payloads = [batch.payload for outlet in outlets for batch in outlet.pending]
    return memory.buffers.held_bytes + sum(len(p) for p in payloads if isinstance(p, bytes))


def _send(outlet: OutletState) -> None:
    while outlet.pending:
        outlet.take()


def test_an_answer_counts_as_a_whole_until_its_last_view_is_gone() -> None:
    memory = LaneMemory(64 * MB)
    (outlet,) = _outlets(1)
    _answer(memory, [outlet], 64)
    held = memory.buffers.held_bytes
    assert held >= 4 * MB
    while len(outlet.pending) > 1:
        outlet.take()
    assert memory.buffers.held_bytes == held
    outlet.take()
    assert memory.buffers.held_bytes == 0


def test_a_slow_partition_among_fast_ones_takes_no_more_than_its_own() -> None:
    """It keeps a batch of each answer, a sixteenth, and the others go on."""
    memory = LaneMemory(32 * MB)
    slow, *fast = outlets = _outlets(16)
    for number in range(100):
        assert memory.has_room(0, outlets, []), f"after {number} answers"
        _answer(memory, outlets, 4)
        assert _in_memory(memory, outlets) < (32 + 5) * MB
        for outlet in fast:
            _send(outlet)
        while len(slow.pending) > 128:
            slow.take()
    kept = [batch.payload for batch in slow.pending]
    assert any(isinstance(payload, bytes) for payload in kept)


def test_what_is_copied_out_keeps_its_bytes_and_its_order() -> None:
    memory = LaneMemory(8 * MB)
    slow, fast = outlets = _outlets(2)
    wanted = []
    for number in range(20):
        assert memory.has_room(0, outlets, [])
        frame = memory.buffers.room(2 * MB)
        frame[:] = random.Random(number).randbytes(len(frame))
        wanted.append(bytes(frame[:BATCH]))
        for outlet, view in ((slow, frame[:BATCH]), (fast, frame[BATCH:])):
            outlet.put_all([Batch(view, 0, 0, 0, 1, number, number + 1, 0, None, (0, 0))])
        del frame, view
        _send(fast)
    assert [batch.payload for batch in slow.pending] == wanted
    assert [batch.first for batch in slow.pending] == list(range(20))
    assert slow.pending_bytes == sum(batch.size for batch in slow.pending)
    copies = [batch.size for batch in slow.pending if isinstance(batch.payload, bytes)]
    assert 0 < len(copies) < 20
    assert slow.copied_bytes == sum(copies)
    for batch in (slow.take(), slow.take()):
        slow.put_back(batch)
    assert slow.copied_bytes == sum(copies)
    slow.drop_pending()
    assert slow.copied_bytes == 0


def test_it_is_full_where_all_wait() -> None:
    memory = LaneMemory(32 * MB)
    outlets = _outlets(8)
    answers = 0
    while memory.has_room(0, outlets, []):
        _answer(memory, outlets, 8)
        answers += 1
        assert _in_memory(memory, outlets) < (32 + 5) * MB
    assert answers >= 7  # dense answers are not copied, and fill it
    assert all(isinstance(b.payload, memoryview) for outlet in outlets for b in outlet.pending)
    for outlet in outlets[:4]:
        _send(outlet)
    await_until(lambda: memory.has_room(0, outlets, []))
    assert not memory.has_room(32 * MB, outlets, []), "what stages hold counts, too"


def test_a_larger_buffer_keeps_more_memory_for_what_comes_next() -> None:
    memory = LaneMemory(64 * MB)
    outlets = _outlets(1)
    for most, kept in ((64, 40), (256, 128), (1024, 160)):
        memory.most_bytes = most * MB
        _answer(memory, outlets, 1)
        assert memory.has_room(0, outlets, [])
        assert memory.buffers.kept_bytes == kept * MB


def test_memory_is_given_back_some_time_after_the_last_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = LaneMemory(256 * MB)
    (outlet,) = outlets = _outlets(1)
    for _ in range(8):
        _answer(memory, outlets, 8 * MB // BATCH)
    assert memory.has_room(0, outlets, [])
    _send(outlet)
    assert memory.has_room(0, outlets, [])
    assert sum(map(len, memory.buffers._kept)) > 64 * MB
    monkeypatch.setattr(module, "KEPT_S", 0.0)
    assert memory.has_room(0, outlets, [])
    assert sum(map(len, memory.buffers._kept)) <= 40 * MB


def test_a_while_nothing_is_copied_while_half_of_the_buffer_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is enough to send. With less, room is found at once."""
    monkeypatch.setattr(module, "PATIENCE_S", 3600.0)
    looks, sparse = 0, module._sparse

    def looked(*given: Any) -> set[int]:
        nonlocal looks
        looks += 1
        return sparse(*given)

    monkeypatch.setattr(module, "_sparse", looked)
    memory = LaneMemory(32 * MB)
    box = SendQueue(cast(Any, Takes()))
    slow, *fast = outlets = _outlets(8)
    while memory.has_room(0, outlets, [box]):
        _answer(memory, outlets, 8)
    for outlet in fast[:3]:
        _send(outlet)
    for _ in range(10):
        assert not memory.has_room(0, outlets, [box])
    for outlet in fast[3:]:
        while outlet.pending:
            box.queue([outlet.take().payload])
    assert not memory.has_room(0, outlets, [box]), "what is on its way waits as well"
    assert looks == 0
    assert box.flush()
    assert memory.has_room(0, outlets, [box])
    assert looks == 1
    assert slow.copied_bytes == slow.pending_bytes > 0


def test_much_that_waits_for_one_broker_leaves_the_others_what_it_does_not_use() -> None:
    memory = LaneMemory(32 * MB)
    stuck, slow, fast = outlets = _outlets(3)
    _answer(memory, [stuck], 17 * MB // BATCH)
    for number in range(20):
        await_until(
            lambda: memory.has_room(0, outlets, []), 10, f"room after {number} answers", 0.01
        )
        frame = memory.buffers.room(4 * MB)
        for outlet, view in ((slow, frame[:BATCH]), (fast, frame[BATCH:])):
            outlet.put_all([Batch(view, 0, 0, 0, 1, 0, 1, 0, None, (0, 0))])
        del frame, view
        _send(fast)
    assert stuck.copied_bytes == 0
    assert slow.copied_bytes > 0


def test_what_a_broker_does_not_take_is_copied_out_of_the_others_answers() -> None:
    memory = LaneMemory(32 * MB)
    box = SendQueue(cast(Any, Full()))
    box.queue([b"a request", b"of which a part may be sent"])
    (fast,) = outlets = _outlets(1)
    queued = []
    for number in range(100):
        assert memory.has_room(0, outlets, [box]), f"after {number} answers"
        _answer(memory, outlets, 64)
        view = fast.take().payload
        box.queue([view])
        queued.append(bytes(view))
        del view
        _send(fast)
        assert memory.buffers.held_bytes < (32 + 5) * MB
    assert [bytes(part) for part in box.waiting()][1:] == queued


def test_room_is_found_though_only_what_was_queued_has_gone() -> None:
    """One broker of two takes nothing more: what it lacks must not keep the other's answers."""
    memory = LaneMemory(32 * MB)
    (outlet,) = outlets = _outlets(1)
    stuck, other = SendQueue(cast(Any, Full())), SendQueue(cast(Any, Takes()))
    for box in (stuck, other):
        box.queue([b"of which a part may be sent"])
    while memory.has_room(0, outlets, [stuck, other]):
        _answer(memory, outlets, 64)
        stuck.queue([outlet.take().payload])
        while outlet.pending:
            other.queue([outlet.take().payload])
    assert other.flush()
    assert memory.buffers.held_bytes >= 32 * MB
    await_until(lambda: memory.has_room(0, outlets, [stuck, other]))
    assert memory.buffers.held_bytes == 0


def test_a_look_in_vain_is_repeated_once_much_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of each answer may be little then."""
    monkeypatch.setattr(module, "LOOK_S", (3600.0, 3600.0))
    memory = LaneMemory(32 * MB)
    slow, *fast = outlets = _outlets(16)
    while memory.has_room(0, outlets, []):
        _answer(memory, outlets, 4)
    fast[0].take()
    assert not memory.has_room(0, outlets, [])
    for outlet in fast:
        _send(outlet)
    assert memory.buffers.held_bytes >= 32 * MB
    assert memory.has_room(0, outlets, [])
    assert memory.buffers.held_bytes == 0
    assert slow.copied_bytes == slow.pending_bytes > 0
