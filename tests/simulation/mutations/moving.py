"""Breaks of the commands that end, move and reverse a mirror."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from causeway.operate.failover import last_groups, unmirrored
from causeway.operate.failover.ending import Ending
from tests.simulation.mutations.mutation import Apply, Mutation, replaced, wrapped
from tests.simulation.scenario import Content, Scenario, TopicPlan


def _moving(scenario: Scenario) -> Scenario:
    topic = TopicPlan(
        name="t0", content=Content.PLAIN, partitions=2, configs={}, identity=True, late=False
    )
    return replace(
        scenario,
        topics=(topic,),
        identity=True,
        back=(),
        sole_writer=None,
        faults_s=5.0,
        rest_s=5.0,
        group_sync=False,
        moves=True,
    )


def _from_the_start(original: Callable[..., Any], *given: Any) -> Any:
    found = original(*given)
    return replace(found, starts=dict.fromkeys(found.starts, 0))


def _move(guard: str, runs: int, apply: Apply) -> Mutation:
    return Mutation(guard=f"operate/failover/{guard}", runs=runs, focus=_moving, apply=apply)


MOVING: dict[str, Mutation] = {
    "a failback does not begin at the cut": _move(
        "unmirrored.py, find_unmirrored",
        3,
        wrapped(unmirrored, "find_unmirrored", _from_the_start),
    ),
    "a failover makes its cut while lanes may write": _move(
        "ending.py, Ending.begin",
        30,
        replaced(Ending, "_await_word", lambda *_: True),
    ),
    "a promotion commits no groups": _move(
        "last_groups.py, sync", 10, replaced(last_groups, "sync", lambda *_: ())
    ),
}
