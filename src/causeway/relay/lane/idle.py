"""Flows that rest where others write too: their pairs follow the target's end.

    target  ──T──[others']──[others']──E──►      T: the pair of a flow that has nothing to send

Recovery reads the target's log from T on, so what others write meanwhile would be read at each one.
But a flow that has read its source to the end can't have sent the next record of its series, nor
can a lane before it: there is none yet. So that record will lie at E or later, and the pair may
say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from causeway.errors import CausewayError
from causeway.model import State, TopicPartition
from causeway.relay.lane.flow import Flow, OutletState
from causeway.relay.lane.helpers import Helpers
from causeway.relay.recovery.survey import place_of
from causeway.relay.walk import offsets_at
from causeway.wire.cluster import Cluster
from causeway.wire.offsets import LATEST

# Ends are used a look later, of flows that have rested all the while: the newest records are those
# that a target may lose, and a pair beyond its end takes more to recover from.
LOOK_S = 60.0


class _Rest(NamedTuple):
    """Two that are equal: nothing was read or sent between."""

    recoveries: int
    position: int
    sequences: tuple[int, ...]


class _Seen(NamedTuple):
    rest: _Rest
    ends: Mapping[TopicPartition, int | CausewayError]


class IdlePairs:
    """Not thread-safe; belongs to one lane's loop."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers
        self._look_at = 0.0
        self._seen: dict[Flow, _Seen] = {}

    def look(self, flows: Iterable[Flow], cluster: Callable[[str], Cluster], now: float) -> None:
        """Once LOOK_S: move up the pairs of flows that rest since the last look, and have the ends
        of their targets asked for. `cluster`: by its key in an assignment."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        before, self._seen = self._seen, {}
        resting: dict[str, dict[Flow, _Rest]] = {}
        for flow in flows:
            rest = _rest_of(flow)
            if rest is None:
                continue
            seen = before.get(flow)
            if seen is not None and seen.rest == rest:
                _move_up(flow, seen.ends)
            resting.setdefault(flow.assignment.target, {})[flow] = rest
        for key, rests in resting.items():
            places = {place_of(outlet.spec) for flow in rests for outlet in _shared(flow)}
            self._helpers.submit(
                partial(offsets_at, cluster(key), places, LATEST), partial(self._heard, rests)
            )

    def _heard(
        self,
        rests: Mapping[Flow, _Rest],
        ends: Mapping[TopicPartition, int | CausewayError] | CausewayError,
    ) -> None:
        if not isinstance(ends, CausewayError):  # else they are asked for again at the next look
            self._seen.update((flow, _Seen(rest, ends)) for flow, rest in rests.items())


def _rest_of(flow: Flow) -> _Rest | None:
    """None unless it has relayed all there is, to a place where others may write."""
    if (
        flow.state is not State.RUNNING
        or flow.leaving
        or not flow.idle
        or flow.position != flow.source_end
        or not _shared(flow)
    ):
        return None
    sequences = tuple(outlet.sequence for outlet in flow.outlets)
    return _Rest(flow.recoveries, flow.position, sequences)


def _shared(flow: Flow) -> list[OutletState]:
    alone = flow.assignment.sole_writer
    return [o for o in flow.outlets if o.idempotent and not (o.exclusive and alone)]


def _move_up(flow: Flow, ends: Mapping[TopicPartition, int | CausewayError]) -> None:
    flow.settle()
    for outlet in _shared(flow):
        end = ends.get(place_of(outlet.spec))
        if isinstance(end, int) and end > outlet.pair.target:
            outlet.pair = outlet.pair._replace(target=end)
            outlet.exclusive = False  # what lies between is others'
            flow.changed = True
