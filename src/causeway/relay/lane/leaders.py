"""Checks that the source brokers that a lane reads from are still the leaders.

A broker that was frozen, or is cut off from its cluster, answers a fetch like a leader, without new
records. Its own metadata may still name it as the leader. So a lane asks another broker, each half
of `metadata.max.age.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from causeway.cluster import Cluster, Leader
from causeway.errors import CausewayError
from causeway.model import State, TopicPartition
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.responses import NeedsRecovery

NO_FLOW_S = 1.0  # how often to look for flows if there are none
LEAST_S = 0.5  # the least time between two questions

_Key = tuple[str, int]  # of a cluster, and a broker's node


class Leaders:
    """Not thread-safe; belongs to one lane's loop. `recover`: called if another broker leads."""

    def __init__(self, helpers: Helpers, recover: Callable[[Flow, NeedsRecovery], None]) -> None:
        self._helpers = helpers
        self._recover = recover
        self._look_at = 0.0

    def look(self, flows: Iterable[Flow], cluster: Callable[[str], Cluster], now: float) -> None:
        """Asks which brokers lead, for flows whose last confirmation is half as old as it may be.
        `cluster`: gives a cluster by its key in an assignment."""
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
                flow.led_at = now  # or asked for again, if there is no answer
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
