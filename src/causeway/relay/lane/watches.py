"""Checks that the source brokers that a lane reads from are still the leaders, and moves up the
pairs of idle outlets.

A broker that was frozen, or is cut off from its cluster, answers a fetch like a leader, without new
records. Its own metadata may still name it as the leader. So after each half of
`metadata.max.age.ms` a lane asks another broker.

If other clients write to the target too, pairs move up to the target's end.

    target  ──T──[others']──[others']──E──►      T: the pair of an outlet that has nothing to send

Recovery reads the target's log from T on. So each recovery would read all records of others behind
T. If the target has deleted the records at T, its log no longer shows which of our records came
after it.

An outlet that has nothing to send has not sent the next record of its series, because the lane has
not read it yet. An earlier lane has not sent it either, if this lane has read beyond the end that
the source had at its last recovery. So that record will be at E or later, and the pair may move to
E.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from causeway.cluster import LATEST, Cluster, Leader, offsets_at
from causeway.errors import CausewayError
from causeway.model import State, TopicPartition
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.outlet import OutletState
from causeway.relay.lane.responses import NeedsRecovery

NO_FLOW_S = 1.0  # how often to look for flows if there are none
LEAST_S = 0.5  # the least time between two questions

_Key = tuple[str, int]  # a cluster's key, and a broker's node


class Leaders:
    """Not thread-safe; belongs to one lane's loop. `recover` is called if another broker leads."""

    def __init__(self, helpers: Helpers, recover: Callable[[Flow, NeedsRecovery], None]) -> None:
        self._helpers = helpers
        self._recover = recover
        self._look_at = 0.0

    def look(self, flows: Iterable[Flow], cluster: Callable[[str], Cluster], now: float) -> None:
        """Asks which brokers lead, for flows whose last confirmation has half of the allowed age.
        `cluster` returns a cluster by its key in an assignment."""
        if now < self._look_at:
            return
        least_s: float | None = None
        due: dict[_Key, list[Flow]] = {}
        for flow in flows:
            if flow.state is not State.RUNNING or flow.leaving:
                continue
            half_s = max(LEAST_S, flow.assignment.metadata_max_age_ms / 2000)
            least_s = half_s if least_s is None else min(least_s, half_s)
            if now >= flow.led_at + half_s:
                flow.led_at = now  # without an answer, the lane asks again after the same time
                due.setdefault((flow.assignment.source, flow.source_node), []).append(flow)
        self._look_at = now + (NO_FLOW_S if least_s is None else least_s)
        for (key, node), led in due.items():
            marks = {flow: flow.recoveries for flow in led}
            places = [flow.assignment.source_partition for flow in led]
            self._helpers.submit(
                partial(cluster(key).leaders, places, refresh=True, last=node),
                partial(self._heard, marks),
            )

    def _heard(
        self,
        marks: Mapping[Flow, int],
        answers: Mapping[TopicPartition, Leader | CausewayError] | CausewayError,
    ) -> None:
        if isinstance(answers, CausewayError):
            return
        for flow, mark in marks.items():
            found = answers[flow.assignment.source_partition]
            if isinstance(found, CausewayError) or flow.recoveries != mark:
                continue
            if flow.state is State.RUNNING and not flow.leaving and _moved(flow, found):
                reason = f"broker {found.node_id} leads its source partition now"
                self._recover(flow, NeedsRecovery(reason, failure=False))


def _moved(flow: Flow, found: Leader) -> bool:
    if found.epoch < 0 or flow.source_epoch < 0:
        return found.node_id != flow.source_node
    return found.epoch > flow.source_epoch


# An end is used one look later, if the outlet sent nothing since. A target may lose its newest
# records, and recovery from a pair beyond the target's end takes longer.
LOOK_S = 60.0


class _Mark(NamedTuple):
    """If two marks are equal, nothing was sent between them."""

    recoveries: int
    sequence: int


class _SeenEnd(NamedTuple):
    mark: _Mark
    end: int


class IdlePairs:
    """Not thread-safe; belongs to one lane's loop."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers
        self._look_at = 0.0
        self._seen: dict[OutletState, _SeenEnd] = {}

    def look(
        self, flows: Iterable[Flow], cluster: Callable[[str], Cluster], now: float
    ) -> dict[Flow, None]:
        """Once in LOOK_S, moves up the pairs of outlets that sent nothing since the last look, and
        asks for the ends of their targets. Returns the flows whose pairs may have moved. `cluster`
        returns a cluster by its key in an assignment."""
        looked_at: dict[Flow, None] = {}
        if now < self._look_at:
            return looked_at
        self._look_at = now + LOOK_S
        before, self._seen = self._seen, {}
        idle: dict[str, dict[OutletState, _Mark]] = {}
        for flow in flows:
            for outlet in _idle_outlets(flow):
                mark = _Mark(flow.recoveries, outlet.sequence)
                seen = before.get(outlet)
                if seen is not None and seen.mark == mark:
                    _move_up(flow, outlet, seen.end)
                    looked_at[flow] = None
                idle.setdefault(flow.assignment.target, {})[outlet] = mark
        for key, marks in idle.items():
            places = {outlet.spec.at for outlet in marks}
            self._helpers.submit(
                partial(offsets_at, cluster(key), places, LATEST), partial(self._heard, marks)
            )
        return looked_at

    def _heard(
        self,
        marks: Mapping[OutletState, _Mark],
        ends: Mapping[TopicPartition, int | CausewayError] | CausewayError,
    ) -> None:
        if isinstance(ends, CausewayError):
            return  # the next look asks again
        for outlet, mark in marks.items():
            end = ends.get(outlet.spec.at)
            if isinstance(end, int):
                self._seen[outlet] = _SeenEnd(mark, end)


def _idle_outlets(flow: Flow) -> list[OutletState]:
    """The outlets whose next record no lane can have read yet, if others may write to the
    target."""
    if flow.state is not State.RUNNING or flow.leaving or flow.through < flow.end_before:
        return []
    alone = flow.assignment.sole_writer
    return [
        outlet
        for outlet in flow.outlets
        if outlet.idempotent
        and not (outlet.exclusive and alone)
        and not outlet.pending
        and not outlet.unanswered
    ]


def _move_up(flow: Flow, outlet: OutletState, end: int) -> None:
    flow.settle()
    if end > outlet.pair.target:
        outlet.pair = outlet.pair._replace(target=end)
        outlet.exclusive = False  # the records between are records of others
        flow.changed = True
