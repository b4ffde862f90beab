"""Breaks that only a run of the whole mirror finds: recovery, drivers, groups."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from causeway.daemon.leadership import Leadership
from causeway.daemon.tasks import groups
from causeway.link_topics.offset_map import Span
from causeway.relay.lane import responses
from causeway.relay.recovery import resume
from tests.simulation.mirror import LeaseAlarm
from tests.simulation.mutations.mutation import Apply, Mutation, replaced, wrapped
from tests.simulation.scenario import Content, Scenario, TopicPlan


def _small(content: Content, **changes: Any) -> Callable[[Scenario], Scenario]:
    """One partition, two brokers in each cluster, one driver, one lane, half a minute of faults."""
    topic = TopicPlan(name="t0", content=content, partitions=1, configs={})
    less = {
        "nodes": 2,
        "replication": 2,
        "drivers": 1,
        "lanes": 1,
        "faults_s": 30.0,
        "identity": False,
        "sole_writer": None,
    }
    return lambda scenario: replace(scenario, topics=(topic,), **{**less, **changes})


def _with_aborted(
    original: Callable[..., Any], data: Any, position: int, _: Any, *given: Any
) -> Any:
    return original(data, position, (), *given)


def _same_number(original: Callable[..., Any], *given: Any) -> Any:
    return {
        group: {at: place._replace(downstream=place.upstream) for at, place in places.items()}
        for group, places in original(*given).items()
    }


def _believe_pair(_: Any, source: Any, target: Any) -> Any:
    return target.resumed(target.outlet.pair, source.assignment.leader_epoch)


def _believe_kept_pair(_: Any, source: Any, target: Any, __: Any) -> Any:
    outlet = target.outlet
    resumed = target.resumed(outlet.pair, source.assignment.leader_epoch)
    return replace(resumed, end=outlet.pair.target, producer_epoch=outlet.producer_epoch)


def _believe_end(source: Any, target: Any) -> Any:
    return target.resumed(target.outlet.pair, source.assignment.leader_epoch)


def _any_topic(patch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("causeway.") and hasattr(module, "same_topic"):
            patch.setattr(module, "same_topic", lambda *_: True)


def _ignore_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseAlarm, "lasts", lambda _: True)
    patch.setattr(LeaseAlarm, "send", lambda _, act: act())


def _mirror(
    guard: str,
    runs: int,
    focus: Callable[[Scenario], Scenario],
    apply: Apply,
    survives: str = "",
) -> Mutation:
    return Mutation(guard=guard, runs=runs, focus=focus, apply=apply, survives=survives)


MIRROR: dict[str, Mutation] = {
    "records of aborted transactions are relayed": _mirror(
        "relay/lane/responses.py, take",
        3,
        _small(Content.TRANSACTIONS),
        wrapped(responses, "keep", _with_aborted),
    ),
    "a group is committed at its offset of the source": _mirror(
        "translation/course.py, group_offsets",
        10,
        _small(Content.TRANSACTIONS, group_sync=True),
        wrapped(groups, "group_offsets", _same_number),
    ),
    "a stretch of the offset map with gaps counts as straight": _mirror(
        "link_topics/offset_map.py, Span.straight",
        5,
        _small(Content.TRANSACTIONS, group_sync=True),
        replaced(Span, "straight", property(lambda _: True)),
    ),
    "recovery believes the pair instead of the target's log": _mirror(
        "relay/recovery/resume.py, _count_on",
        10,
        _small(Content.PLAIN),
        replaced(resume, "_count_on", _believe_pair),
    ),
    "recovery of a partition that keeps its offsets believes the pair": _mirror(
        "relay/recovery/preserved.py, end_of_copy",
        30,
        _small(Content.PRESERVED, nodes=3, replication=3),
        replaced(resume, "end_of_copy", _believe_kept_pair),
        survives="found now and then: its faults are rare in a small run",
    ),
    "recovery does not count back after the target lost records": _mirror(
        "relay/recovery/retrace.py, count_back",
        30,
        _small(Content.PLAIN, nodes=3, replication=3),
        replaced(resume, "count_back", _believe_end),
        survives="found now and then: its faults are rare in a small run",
    ),
    "a topic that was recreated counts as the same": _mirror(
        "model.py, same_topic",
        40,
        _small(Content.REPLACED, nodes=3, replication=3),
        _any_topic,
        survives="found now and then: its faults are rare in a small run",
    ),
    "a standby leads before the lease of the leader has ended": _mirror(
        "daemon/leadership.py, Leadership._wait_for_lease",
        10,
        _small(Content.PLAIN, drivers=2),
        replaced(Leadership, "_wait_for_lease", lambda *_: True),
        survives="no check counts how often drivers take the lead; what they write stays true",
    ),
    "lanes ignore their lease": _mirror(
        "relay/lane/lease.py, LeaseGuard",
        10,
        _small(Content.PRESERVED, lanes=2),
        _ignore_lease,
        survives="a second line: sequences refuse a second lane; old records alone need it",
    ),
}
