"""Snapshots of the run, shared by all callers: many callers cost as much as one."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from causeway.status import (
    LinkStatus,
    Look,
    PartitionStatus,
    Snapshot,
    TopicStatus,
    Totals,
    topics_of,
    totals,
)

Value = TypeVar("Value")
_LEAST_S = 0.5
_REST = 10.0  # times the cost of a view: views use at most a tenth of a core


class NotBegunError(Exception):
    """The run has no snapshot yet."""


class LinkView:
    """One link, with its topics by name."""

    def __init__(self, link: LinkStatus) -> None:
        self.status = link
        self.topics = topics_of(link)

    @cached_property
    def totals(self) -> Totals:
        return totals(self.status, self.topics)

    @cached_property
    def states(self) -> Mapping[str, int]:
        """The number of partitions in each state."""
        found: Counter[str] = Counter()
        for each in self.topics:
            found.update(each.states)
        return dict(sorted(found.items()))

    def topic(self, name: str) -> TopicStatus | None:
        at = bisect_left(self.topics, name, key=lambda each: each.topic)
        found = self.topics[at] if at < len(self.topics) else None
        return found if found is not None and found.topic == name else None

    def partition(self, topic: str, number: int) -> PartitionStatus | None:
        return next((one for one in self.members(topic) if one.partition == number), None)

    def members(self, topic: str) -> tuple[PartitionStatus, ...]:
        """Returns the partitions of the topic; none if it is not mirrored."""
        found = self.topic(topic)
        return () if found is None else self._members(found)

    def _members(self, topic: TopicStatus) -> tuple[PartitionStatus, ...]:
        return self.status.partitions[topic.first : topic.first + topic.partitions]

    def _matching(self, topic: str | None, search: str) -> Sequence[TopicStatus]:
        if topic is None:
            return [each for each in self.topics if search in each.topic.casefold()]
        found = self.topic(topic)
        return [] if found is None else [found]


class View:
    """One snapshot, with its topics. It never changes. With 100,000 partitions it takes 0.1 s of
    CPU, half of the time that an update of the previous view would take."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now_ms = int(snapshot.taken_at * 1000)
        self.links = {link.name: LinkView(link) for link in snapshot.links}

    def of(self, link: str | None) -> list[LinkView]:
        """Returns the view of this link, or of all links if it is None."""
        return [each for name, each in self.links.items() if link is None or name == link]

    def statuses(self, link: str | None) -> list[LinkStatus]:
        return [each.status for each in self.of(link)]

    def partitions(
        self,
        *,
        link: str | None,
        topic: str | None,
        search: str,
        states: Collection[str],
        lane: int | None,
        offset: int,
        limit: int,
    ) -> tuple[list[tuple[LinkView, PartitionStatus]], int]:
        """Returns one page of the matching partitions, by link, topic and number, and how many
        match. Topics outside the page are only counted: 100,000 partitions take 3 ms."""
        page: list[tuple[LinkView, PartitionStatus]] = []
        total = 0
        for each in self.of(link):
            for row in each._matching(topic, search.casefold()):
                if lane is None:
                    count = _in(row, states)
                    if total + count <= offset or len(page) == limit:
                        total += count
                        continue
                found = [
                    one
                    for one in each._members(row)
                    if (not states or one.state in states) and lane in (None, one.lane)
                ]
                first = max(0, offset - total)
                page += [(each, one) for one in found[first : first + limit - len(page)]]
                total += len(found)
        return page, total


def _in(topic: TopicStatus, states: Collection[str]) -> int:
    """Returns the number of partitions of the topic in one of `states`."""
    if not states:
        return topic.partitions
    return sum(many for state, many in topic.states.items() if state in states)


class SharedValue(Generic[Value]):
    """A value that `make` makes in a separate thread, one call at a time. The end of the run does
    not wait for it. A caller gets the last value if it is at most a few seconds old (`patience_s`
    plus the time that making takes). Otherwise the caller waits for the next value.

    A snapshot of 100,000 partitions and its view take 0.4 to 0.7 s of CPU. If each call made one, a
    page that is open in a browser would use a whole core of the driver.
    """

    def __init__(self, make: Callable[[], Value], *, name: str, patience_s: float = 2.0) -> None:
        self._make = make
        self._patience_s = patience_s
        self._made: _Made[Value] | None = None
        self._lock = threading.Lock()
        self._under_way: Future[Value] | None = None
        self._name = f"http {name}"
        self._closed = False
        self.cost_s = 0.0  # for the last value

    async def newest(self) -> Value:
        """Raises the errors of `make`."""
        made, now = self._made, time.monotonic()
        if made is not None and now < made.again_at:
            return made.value
        under_way = self._begin()
        if made is not None and now < made.stale_at:
            return made.value
        # Other callers wait for the same value: a caller that leaves must not cancel it.
        return await asyncio.shield(asyncio.wrap_future(under_way))

    def close(self) -> None:
        """Drops the value in progress."""
        self._closed = True

    def _begin(self) -> Future[Value]:
        with self._lock:
            if self._under_way is None or self._under_way.done():
                future: Future[Value] = Future()
                run = threading.Thread(
                    target=self._run, args=(future,), name=self._name, daemon=True
                )
                run.start()
                self._under_way = future
            return self._under_way

    def _run(self, future: Future[Value]) -> None:
        began = time.monotonic()
        try:
            value = self._make()
        except Exception as error:
            if not self._closed:
                future.set_exception(error)
            return
        now = time.monotonic()
        self.cost_s = now - began
        again_at = now + max(_LEAST_S, _REST * self.cost_s)
        stale_at = again_at + self._patience_s + (self.cost_s if self._patience_s else 0.0)
        self._made = _Made(value, again_at, stale_at)
        if not self._closed:
            future.set_result(value)


class _Made(NamedTuple, Generic[Value]):
    value: Value
    again_at: float  # monotonic: from then on, a call starts to make the next one
    stale_at: float  # until then, callers get this one while the next one is made


class RunViews:
    """The views of one run. Any thread may call `take` with the function that looks at the run.
    `heard_at`: the time of the last call (monotonic)."""

    def __init__(self) -> None:
        self._look: Look | None = None
        self.heard_at = time.monotonic()
        self.views = SharedValue(lambda: View(self.look()), name="looks")

    def take(self, look: Look) -> None:
        self.heard_at = time.monotonic()
        self._look = look

    @property
    def begun(self) -> bool:
        return self._look is not None

    def look(self) -> Snapshot:
        """Raises NotBegunError."""
        if self._look is None:
            raise NotBegunError
        return self._look()
