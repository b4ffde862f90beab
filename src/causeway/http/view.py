"""One snapshot with what is needed to answer from it quickly: a page of 100,000 partitions is cut
out of lists of places, no partition outside of it is looked at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from operator import is_
from typing import Any

from causeway.model import State
from causeway.status.snapshot import LinkStatus, PartitionStatus, Snapshot
from causeway.status.topics import TopicRow, renewed, topic_rows


class LinkView:
    """One link, with its topics in the order of their names. `before`: the last view of it, which
    serves again as far as nothing has changed."""

    def __init__(self, link: LinkStatus, now_ms: int, before: LinkView | None = None) -> None:
        self.status = link
        self.topics: list[TopicRow]
        self._by_state: Mapping[State, Sequence[int]]
        changed = None if before is None else before._changed(link)
        if before is None or changed is None:
            self.topics, self._by_state = topic_rows(link, now_ms), _by_state(link)
            return
        self.topics = renewed(before.topics, link, changed, now_ms)
        then = before.status.partitions
        moved = any(then[at].state is not link.partitions[at].state for at in changed)
        self._by_state = _by_state(link) if moved else before._by_state

    def _changed(self, link: LinkStatus) -> list[int] | None:
        """Which partitions' statuses are others by now, by their places; None where these are other
        partitions."""
        then, now = self.status.partitions, link.partitions
        if len(then) != len(now):
            return None
        changed = [at for at, same in enumerate(map(is_, then, now)) if not same]
        if any(then[at].topic != now[at].topic for at in changed):
            return None
        return changed

    @property
    def states(self) -> Mapping[State, int]:
        """How many partitions are in each."""
        return {state: len(places) for state, places in sorted(self._by_state.items())}

    def topic(self, name: str) -> TopicRow | None:
        at = bisect_left(self.topics, name, key=lambda row: row.topic)
        found = self.topics[at] if at < len(self.topics) else None
        return found if found is not None and found.topic == name else None

    def partition(self, topic: str, number: int) -> PartitionStatus | None:
        row = self.topic(topic)
        members = () if row is None else self._members(row)
        return next((each for each in members if each.partition == number), None)

    def _members(self, row: TopicRow) -> Sequence[PartitionStatus]:
        return self.status.partitions[row.first : row.first + row.partitions]

    def places(
        self, *, topic: str | None, search: str, states: Collection[State]
    ) -> Iterator[Sequence[int]]:
        """Of partitions, in stretches; `search`: part of a topic's name, case folded."""
        stretches: list[range]
        if topic is not None:
            row = self.topic(topic)
            stretches = [] if row is None else [range(row.first, row.first + row.partitions)]
        elif search:
            stretches = [
                range(row.first, row.first + row.partitions)
                for row in self.topics
                if search in row.topic.casefold()
            ]
        else:
            stretches = [range(len(self.status.partitions))]
        if not states:
            yield from stretches
            return
        chosen = sorted(at for state in set(states) for at in self._by_state.get(state, ()))
        for stretch in stretches:
            found = chosen[bisect_left(chosen, stretch.start) : bisect_left(chosen, stretch.stop)]
            if found:
                yield found


def _by_state(link: LinkStatus) -> dict[State, list[int]]:
    found: dict[State, list[int]] = {}
    for at, partition in enumerate(link.partitions):
        found.setdefault(partition.state, []).append(at)
    return found


class View:
    """Immutable but for `answers`, for any number of readers. `before`: the one before it."""

    def __init__(self, snapshot: Snapshot, before: View | None = None) -> None:
        self.snapshot = snapshot
        self.now_ms = int(snapshot.taken_at * 1000)
        known: Mapping[str, LinkView] = {} if before is None else before.links
        self.links: dict[str, LinkView] = {
            link.name: LinkView(link, self.now_ms, known.get(link.name)) for link in snapshot.links
        }
        # What was answered out of it, by question: used by the event loop alone.
        self.answers: dict[tuple[bytes, bytes], tuple[Any, ...]] = {}

    def of(self, link: str | None) -> list[LinkView]:
        """That one, or all."""
        return [each for name, each in self.links.items() if link is None or name == link]

    def partitions(
        self,
        *,
        link: str | None = None,
        topic: str | None = None,
        search: str = "",
        states: Collection[State] = (),
        lane: int | None = None,
        offset: int = 0,
        limit: int,
    ) -> tuple[list[tuple[LinkView, PartitionStatus]], int]:
        """One page, and how many there are in all; by link, topic and number."""
        page: list[tuple[LinkView, PartitionStatus]] = []
        total = 0
        for each in self.of(link):
            partitions = each.status.partitions
            for found in each.places(topic=topic, search=search.casefold(), states=states):
                places = found
                if lane is not None:
                    places = [at for at in found if partitions[at].lane == lane]
                first = max(0, offset - total)
                page += [(each, partitions[at]) for at in places[first : first + limit - len(page)]]
                total += len(places)
        return page, total

    def topics(
        self,
        *,
        link: str | None = None,
        search: str = "",
        states: Collection[State] = (),
        order: Callable[[TopicRow], float] | None = None,
        offset: int = 0,
        limit: int,
    ) -> tuple[list[tuple[LinkView, TopicRow]], int]:
        """One page, and how many there are in all; by link and name, or the greatest first by
        `order`."""
        wanted = search.casefold()
        found = [
            (each, row)
            for each in self.of(link)
            for row in each.topics
            if (not wanted or wanted in row.topic.casefold())
            and (not states or row.state in states)
        ]
        if order is not None:
            found.sort(key=lambda one: order(one[1]), reverse=True)
        return list(islice(found, offset, offset + limit)), len(found)
