"""A look at the run, as it is answered from."""

from __future__ import annotations

from causeway.http.views import View
from causeway.model import State
from tests.builders.status import at, full, link, partition
from tests.harness.statuses import replace

PLACES = [(topic, number) for topic in ("a", "b", "c") for number in range(2)]


def test_topics_and_states_are_counted() -> None:
    rest = [replace(partition(number), topic=name, **at(100)) for name, number in PLACES]
    stopped = [*rest[:5], replace(rest[5], state=State.STOPPED)]
    view = View(full(link(*stopped))).links["A->B"]
    assert view.states == {State.RUNNING: 5, State.STOPPED: 1}
    assert [(each.topic, each.partitions) for each in view.topics] == [("a", 2), ("b", 2), ("c", 2)]
    assert view.topics[2].state is State.STOPPED
    assert view.topic("d") is None
    assert view.members("d") == ()
    assert view.partition("b", 1) is stopped[3]


def test_pages_of_partitions_are_cut_wherever_they_begin() -> None:
    """Topics outside a page are only counted, so the count is the same for each page."""
    some = [
        replace(partition(number), topic=name, lane=number, state=state)
        for (name, number), state in zip(PLACES, [State.RUNNING, State.STOPPED] * 3, strict=True)
    ]
    view = View(full(link(*some)))
    for states, lane, wanted in (
        ((), None, some),
        ([State.STOPPED], None, some[1::2]),
        ((), 0, some[::2]),
        ([State.STOPPED], 0, []),
    ):
        for offset in range(7):
            for limit in range(1, 7):
                page, total = view.partitions(
                    link=None,
                    topic=None,
                    search="",
                    states=states,
                    lane=lane,
                    offset=offset,
                    limit=limit,
                )
                assert total == len(wanted)
                assert [one for _, one in page] == wanted[offset : offset + limit]
