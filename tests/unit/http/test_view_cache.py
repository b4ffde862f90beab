"""However many ask, a look is made as seldom as was said; nobody waits where an old one will do."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from causeway.http.views import SharedValue


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    # Its own alone: the event loop goes on by the real one.
    monkeypatch.setattr("causeway.http.views.time", SimpleNamespace(monotonic=found))
    return found


class Looks:
    """Counts; each takes `cost_s` of the clock, and waits where it is held."""

    def __init__(self, clock: Clock, cost_s: float = 0.0) -> None:
        self.made = 0
        self.cost_s = cost_s
        self._clock = clock
        self.free = threading.Event()
        self.free.set()

    def __call__(self) -> int:
        self.free.wait(30)
        self.made += 1
        self._clock.now += self.cost_s
        return self.made


def test_who_asks_at_once_gets_the_same(clock: Clock) -> None:
    looks = Looks(clock)
    paced = SharedValue(looks, name="test")

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(paced.newest() for _ in range(50)))

    assert asyncio.run(all_at_once()) == [1] * 50
    clock.now += 0.4
    assert asyncio.run(paced.newest()) == 1
    assert looks.made == 1


def test_what_costs_much_is_made_seldom(clock: Clock) -> None:
    looks = Looks(clock, cost_s=2.0)
    paced = SharedValue(looks, name="test")

    async def ask_for_a_minute() -> None:
        until = clock.now + 60
        while clock.now < until:
            await paced.newest()
            clock.now += 0.1

    asyncio.run(ask_for_a_minute())
    assert looks.made in (3, 4), "a tenth of the time"
    assert paced.cost_s == 2.0


def test_a_recent_view_is_served_without_waiting_for_a_new_one(clock: Clock) -> None:
    looks = Looks(clock)
    paced = SharedValue(looks, name="test")

    async def scene() -> None:
        assert await paced.newest() == 1
        looks.free.clear()
        clock.now += 1.5
        assert await paced.newest() == 1
        assert await paced.newest() == 1
        clock.now += 60  # now it is too old
        waits = asyncio.ensure_future(paced.newest())
        await asyncio.sleep(0.05)
        assert not waits.done()
        looks.free.set()
        assert await waits == 2

    asyncio.run(scene())
    assert looks.made == 2


def test_without_patience_it_is_as_new_as_can_be(clock: Clock) -> None:
    looks = Looks(clock)
    paced = SharedValue(looks, name="test", patience_s=0)
    found = []
    for _ in range(3):
        found.append(asyncio.run(paced.newest()))
        clock.now += 0.6
    assert found == [1, 2, 3]


def test_a_caller_that_leaves_does_not_end_the_look_of_others(clock: Clock) -> None:
    looks = Looks(clock)
    looks.free.clear()
    paced = SharedValue(looks, name="test")

    async def scene() -> int:
        leaves, stays = (asyncio.ensure_future(paced.newest()) for _ in range(2))
        await asyncio.sleep(0.02)
        leaves.cancel()
        await asyncio.sleep(0.02)
        looks.free.set()
        return await stays

    assert asyncio.run(scene()) == 1


def test_a_failed_look_is_reported_and_tried_again() -> None:
    answers = iter((ValueError("once"), None))

    def look() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "well"

    paced = SharedValue(look, name="test")
    with pytest.raises(ValueError, match="once"):
        asyncio.run(paced.newest())
    assert asyncio.run(paced.newest()) == "well"
