"""The words for how a link stands, and what comes first among them."""

from __future__ import annotations

import pytest

from causeway.model import State
from causeway.status import (
    NO_DRIVER,
    RANKING,
    SOURCE_UNAVAILABLE,
    DriverStatus,
    LinkStatus,
    rank,
    topics_of,
    word,
    worst,
)
from tests.builders import status as snapshots
from tests.builders.served import client
from tests.builders.settings import link as settings
from tests.builders.status import partition_status
from tests.harness.statuses import ends


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ([], "mirroring"),
        ([State.RUNNING, State.WAITING, State.RECOVERING, State.DONE], "mirroring"),
        ([State.PAUSED, State.PAUSED], "paused"),
        ([State.PAUSED, State.RUNNING], "paused"),
        ([State.STOPPED, State.PAUSED, State.FAILED], "stopped"),
        ([State.FAILED], "failed"),
        ([State.FAILED_OVER, State.RUNNING], "mirroring"),
        ([State.FAILED_OVER], "failed over"),
    ],
)
def test_a_link_is_as_the_worst_of_its_partitions(states: list[State], shown: str) -> None:
    assert of_clusters(states).state == shown


def test_every_state_has_its_place() -> None:
    assert {*RANKING} == {*State, SOURCE_UNAVAILABLE, NO_DRIVER}
    assert len(RANKING) == len({*RANKING})
    assert rank("never heard of") < rank(State.STOPPED)
    assert worst([]) is None


@pytest.mark.parametrize("state", list(State))
def test_every_output_shows_the_same_state_of_link_and_topic(state: State) -> None:
    """Beside a partition that runs: in the live table, the API, for the page and in commands."""
    link = snapshots.link(snapshots.partition(0, state), snapshots.partition(1))
    expected = max([state, State.RUNNING], key=lambda each: -rank(each))
    (topic,) = topics_of(link)
    with client(lambda: snapshots.full(link)) as api:
        shown = api.get("/api/v1/overview").json()
    assert (topic.state, shown["links"][0]["worst"]) == (expected, expected)
    assert shown["ranking"] == [*RANKING]
    by_command = of_clusters([state, State.RUNNING])
    assert by_command.state == link.state == shown["links"][0]["state"] == word(expected)


def of_clusters(states: list[State]) -> LinkStatus:
    return LinkStatus(
        **ends(settings()),
        driver=DriverStatus(owner="host-1", running=True, last_seen_ms=0),
        partitions=tuple(
            partition_status("orders", number, state=state) for number, state in enumerate(states)
        ),
        problems=(),
    )
