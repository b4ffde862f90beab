"""Recovers a lane's flows in helper threads. After that they are relayed again.

running ──needs recovery──► recovering ──due: recover (recovery/) in a thread──► running
                       ▲                                       │
                       └── a temporary error: back-off ────────┴──► stopped: a person decides
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from causeway.cluster import Cluster
from causeway.errors import CausewayError, DivergedError
from causeway.model import State, TopicPartition
from causeway.records import Gap
from causeway.relay.lane.connections import Connections
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.outlet import UNKNOWN
from causeway.relay.lane.responses import NeedsRecovery
from causeway.relay.lane.stage import Stage
from causeway.relay.lane.stages import series_of
from causeway.relay.recovery import (
    LossError,
    RecoveryRequest,
    ResumedOutlet,
    Resumption,
    TooEarlyError,
    recover,
)
from causeway.relay.treatment import Treatment

RECOVERIES = 2  # equal jobs at once: a cluster or stage that is down must not hold up others
RECOVERED_TOGETHER = 64  # flows in one recovery job
BACKOFF_S = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# After this number of tries that find the same batch damaged (about 15 seconds), the partition
# stops. If the network damaged the batch, the second try finds it intact.
DAMAGED_TIMES = 7
SHOWN_AS_FAILED = 3  # failures in a row after which a flow no longer counts as recovering


class _Job(NamedTuple):
    """The common properties of flows that are recovered together. `stage` is None without a
    transform. `unprepared` is the link whose treatment has to prepare first, which may take
    long."""

    source: str
    target: str
    stage: str | None
    unprepared: str | None = None

    @classmethod
    def of(cls, flow: Flow) -> _Job:
        assignment = flow.assignment
        unprepared = assignment.link if flow.unprepared else None
        return cls(assignment.source, assignment.target, assignment.transform, unprepared)


class RecoveryQueue:
    """Not thread-safe; belongs to one lane's loop."""

    def __init__(
        self,
        connections: Connections,
        helpers: Helpers,
        touched: dict[Flow, None],
        on_done: Callable[[], None],
        on_resumed: Callable[[Flow], None] = lambda _: None,
    ) -> None:
        """Flows that change are added to `touched`. `on_done` is called when a flow of a bounded
        run has reached its end, `on_resumed` when a flow is relayed again."""
        self._connections = connections
        self._helpers = helpers
        self._touched = touched
        self._on_done, self._on_resumed = on_done, on_resumed
        self._under_way: Counter[_Job] = Counter()
        self._lost: dict[Flow, None] = {}  # flows that need recovery

    def lost(self, flow: Flow) -> None:
        """Adds a flow that needs recovery."""
        self._lost[flow] = self._touched[flow] = None

    def start_recovery(self, flow: Flow, why: NeedsRecovery) -> None:
        """Stops relaying `flow`, and recovers it."""
        if flow.state in (State.STOPPED, State.DONE):
            return
        if why.damage is not None:
            # If the target refused the batch (`to` >= 0), its records are not acknowledged: the
            # pairs must not move.
            if why.damage.to < 0:
                flow.settle()
            same = flow.damage is not None and flow.damage.start == why.damage.start
            flow.damaged_times = flow.damaged_times + 1 if same else 1
            flow.damage = why.damage
        self.pause(flow)
        flow.unsettled |= why.unsettled or flow.unanswered > 0 or flow.doubtful
        if why.rival and flow.gaps is not None:
            patience_s = self._connections.cluster(flow.assignment.target).timeout_s
            flow.rival_by = time.monotonic() + patience_s
        flow.failures += why.failure
        flow.recoveries += 1
        is_lasting = why.damage is not None and flow.damaged_times >= DAMAGED_TIMES
        waits = flow.failures and not is_lasting
        delay = BACKOFF_S[min(flow.failures, len(BACKOFF_S)) - 1] if waits else 0.0
        flow.retry_at = max(time.monotonic() + delay, why.not_before)
        flow.state = State.FAILED if flow.failures >= SHOWN_AS_FAILED else State.RECOVERING
        flow.reason = str(why)
        flow.changed = True
        self.lost(flow)

    def stop(self, flow: Flow, reason: str) -> None:
        """Stops the partition: only a person can start it again."""
        self.pause(flow)
        flow.state = State.STOPPED
        flow.reason = reason
        flow.changed = True
        self._touched[flow] = None

    def pause(self, flow: Flow) -> None:
        """Stops fetching and sending for the flow."""
        self._connections.detach(flow)
        for outlet in flow.outlets:
            outlet.drop_pending()
        if flow.on_the_way is not None:
            flow.on_the_way.cancel(flow)

    def done(self, flow: Flow) -> bool:
        """Ends the flow if a bounded run has copied its part of the partition. Returns whether it
        did."""
        stop_at = flow.assignment.stop_at
        if stop_at is None or flow.position < stop_at or not flow.idle or flow.leaving:
            return False
        if flow.state is not State.RUNNING:  # its batches were dropped
            return False
        flow.settle()
        self.pause(flow)
        flow.state = State.DONE
        flow.changed = True
        self._touched[flow] = None
        self._on_done()
        return True

    def find(self, transformed: Iterable[Flow], now: float) -> None:
        """Starts the recoveries that are due. `transformed`: flows that have stages."""
        for flow in transformed:
            if flow.on_the_way is not None:
                self._look_at_stage(flow, flow.on_the_way.stage, now)
        due: dict[_Job, list[Flow]] = {}
        for flow in list(self._lost):
            if flow.leaving or flow.state not in (State.RECOVERING, State.FAILED):
                del self._lost[flow]
            elif (
                not flow.recovering
                and flow.retry_at <= now
                and flow.unanswered == 0
                and not flow.wants
                and (flow.on_the_way is None or flow.on_the_way.stage.ready)
            ):
                due.setdefault(_Job.of(flow), []).append(flow)
        for job, together in due.items():
            for at in range(0, len(together), RECOVERED_TOGETHER):
                if self._under_way[job] == RECOVERIES:
                    break
                self._find_together(job, together[at : at + RECOVERED_TOGETHER])

    def _look_at_stage(self, flow: Flow, stage: Stage, now: float) -> None:
        """Shows `flow` as failed while its stage does not work; then recovers it."""
        if (why := stage.trouble(now)) is None:
            return
        shown = flow.state in (State.FAILED, State.STOPPED, State.DONE)
        if not (shown or flow.recovering or flow.leaving or flow.wants):
            self.start_recovery(flow, NeedsRecovery(why, failure=False))
            flow.state = State.FAILED

    def _find_together(self, job: _Job, flows: list[Flow]) -> None:
        source, target = (self._connections.cluster(key) for key in (job.source, job.target))
        asked = [_request(flow) for flow in flows], source, target
        for flow in flows:
            flow.recovering = True
            flow.sought_at = time.monotonic()
        self._under_way[job] += 1
        self._helpers.submit(
            partial(_recover, flows[0].treatment if job.unprepared else None, *asked),
            partial(self._found, job, flows),
            staged=job.stage is not None or job.unprepared is not None,
        )

    def _found(
        self,
        job: _Job,
        flows: list[Flow],
        answers: dict[TopicPartition, Resumption | CausewayError] | CausewayError,
    ) -> None:
        self._under_way[job] -= 1
        for flow in flows:
            flow.recovering = False
            answer = (
                answers
                if isinstance(answers, CausewayError)
                else answers[flow.assignment.source_partition]
            )
            if flow.leaving:
                continue
            if isinstance(answer, LossError):
                self._put(flow, answer.outlets)
                flow.loss = answer.loss
            if isinstance(answer, DivergedError):
                self.stop(flow, str(answer))
            elif isinstance(answer, TooEarlyError):
                at = answer.not_before
                self.start_recovery(
                    flow, NeedsRecovery(str(answer), unsettled=True, failure=False, not_before=at)
                )
            elif isinstance(answer, CausewayError):
                self.start_recovery(flow, NeedsRecovery(str(answer)))
            else:
                self._resume(flow, answer)

    def _put(self, flow: Flow, places: Sequence[ResumedOutlet]) -> None:
        """Sets the positions of the flow's outlets."""
        for outlet, place in zip(flow.outlets, places, strict=True):
            # Batches that were appended count as relayed, also without a response.
            counts = outlet.exclusive and outlet.gaps is None  # otherwise offsets are no records
            flow.records += max(0, place.end - outlet.pair.target) if counts else 0
            outlet.resume(place.pair)
            outlet.sequence = place.pair.sequence
            outlet.start = place.pair.source
            outlet.end = place.end
            outlet.exclusive = place.exclusive
            outlet.node = place.node
            outlet.remembered_until = 0.0
            outlet.append_times |= place.append_times
            if outlet.gaps is not None:
                outlet.gaps.reset(doubtful=flow.unsettled)
                if 0 < place.end == outlet.gaps.settings.begin:
                    # The beginning is filled, but perhaps not yet deleted.
                    outlet.gaps.put(Gap(place.end, place.end))
                outlet.producer = outlet.spec.producer_id, place.producer_epoch

    def _resume(self, flow: Flow, found: Resumption) -> None:
        self._put(flow, found.outlets)
        flow.position = flow.through = min(outlet.start for outlet in flow.outlets)
        if flow.gaps is not None:
            # The source has nothing to read below the beginning, or below passed-over records.
            flow.position = max(flow.position, flow.gaps.settings.begin)
            flow.through = flow.outlets[0].end
            flow.put_runs((), flow.position)
            flow.through = flow.position
        flow.newest_kept = UNKNOWN
        flow.waiting.clear()
        flow.leader_epoch = flow.relayed_epoch = found.leader_epoch
        leads_still = found.source_leader == (flow.source_node, flow.source_epoch)
        flow.lacks, flow.diverging = flow.diverging if leads_still else None, None
        if flow.damaged_times >= DAMAGED_TIMES:  # the damage is repaired
            flow.damage, flow.damaged_times = None, 0
        flow.source_node, flow.source_epoch = found.source_leader
        flow.led_at = time.monotonic()
        flow.source_end = flow.end_before = found.source_end
        flow.unsettled = flow.unprepared = False
        flow.state = State.RUNNING
        flow.reason = None
        flow.changed = True
        self._touched[flow] = None
        if flow.assignment.finish:
            furthest = max(outlet.start for outlet in flow.outlets)
            flow.assignment = flow.assignment.replace(stop_at=furthest)
        if not self.done(flow):
            self._connections.attach(flow)
            self._on_resumed(flow)


def _recover(
    prepare: Treatment | None, requests: Sequence[RecoveryRequest], source: Cluster, target: Cluster
) -> dict[TopicPartition, Resumption | CausewayError]:
    if prepare is not None:
        prepare.prepare()
    return recover(requests, source, target)


def _request(flow: Flow) -> RecoveryRequest:
    """A request with the newest pairs of the flow."""
    outlets = tuple(outlet.report() for outlet in flow.outlets)
    return RecoveryRequest(
        assignment=flow.assignment.replace(outlets=outlets, leader_epoch=flow.relayed_epoch),
        unsettled=flow.unsettled,
        diverging=flow.diverging is not None,
        damage=flow.damage if flow.damaged_times >= DAMAGED_TIMES else None,
        series=series_of(flow),
        late_by=flow.late_by,
    )
