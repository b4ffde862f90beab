"""A lane: one Spark task's loop that relays many partitions, in one thread.

    fetch (reader.py) → keep or drop (source.py) → header, send (target.py) → answers → pairs

The loop never blocks but in `select`: connections are opened and places found (recovery.py) by
helper threads. Any doubt about a flow sends it through recovery. A lane can be killed at any
instant; nothing that it would still have done is needed for correctness.
"""

from __future__ import annotations

import gc
import os
import resource
import selectors
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from causeway.errors import CausewayError, DivergedError, TooLargeError
from causeway.model import State, TopicPartition
from causeway.relay.control import SECRET_VARIABLE, ControlClient
from causeway.relay.lane import flow as flows
from causeway.relay.lane.connections import Connections
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.idle import IdlePairs
from causeway.relay.lane.late import must_wait
from causeway.relay.lane.lease import LeaseGuard, clock
from causeway.relay.lane.memory import keep_freed_memory
from causeway.relay.lane.reader import SourceConnection
from causeway.relay.lane.route import take
from causeway.relay.lane.target import Answer, TargetConnection
from causeway.relay.messages import (
    Assign,
    Assignment,
    Clusters,
    Drain,
    Drained,
    Hello,
    Lease,
    PartitionReport,
    Report,
    Revoke,
)
from causeway.relay.recovery.recover import Resumption, recover
from causeway.relay.recovery.survey import Request
from causeway.wire import codes
from causeway.wire.fetch import SESSION_ERRORS, Fetched

FLOW_BYTES = 8 * 1024 * 1024  # a flow with more than this unsent is not fetched further
HELPER_THREADS = 8
RECOVERIES = 2  # jobs at once for one pair of clusters: one that is down must not hold up others
RECOVERED_TOGETHER = 64  # flows in one recovery job
TICK_S = 0.25  # at least this often: timeouts, retries, the lease
DRAIN_S = 10.0  # how long a lane that should end waits for its answers
BACKOFF_S = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
GOODBYE_S = 5.0  # and how long for the driver to hear that it has ended
SHOWN_AS_FAILED = 3  # failures in a row after which a flow no longer counts as recovering


def run_lane(lane: int, host: str, port: int) -> None:
    """The whole life of lane number `lane` of the driver that listens at `host`:`port`.

    Returns after a drain, or when the driver is gone.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # as the lease's guard needs it
    keep_freed_memory()
    gc.freeze()  # what is loaded by now is no garbage; to look through it takes 40 ms
    control = ControlClient(host, port, os.environ[SECRET_VARIABLE])
    try:
        Lane(lane, control).run()
    finally:
        control.close()


class Lane:
    def __init__(self, number: int, control: ControlClient) -> None:
        self._number = number
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._helpers = Helpers(HELPER_THREADS)
        self._connections: Connections | None = None
        self._flows: dict[tuple[str, str, int], Flow] = {}
        self._recoveries: Counter[tuple[str, str]] = Counter()  # under way, by pair of clusters
        self._idle_pairs = IdlePairs(self._helpers)
        self._lease = LeaseGuard()
        self._lease_s = 0.0
        self._report_interval_s = 1.0
        self._report_at = 0.0
        self._buffer_bytes = 0
        self._draining_until: float | None = None
        self._ended = False

    def run(self) -> None:
        self._selector.register(self._control, selectors.EVENT_READ, self._on_control)
        self._selector.register(self._helpers, selectors.EVENT_READ, self._on_helpers)
        self._control.send(Hello(lane=self._number, pid=os.getpid(), host=socket.gethostname()))
        try:
            while not self._ended:
                for key, mask in self._selector.select(self._timeout()):
                    key.data(mask)
                if self._connections is not None:
                    self._turn(self._connections, time.monotonic())
        except ConnectionError:
            pass  # the driver is gone; a successor finds our place in the target's log
        finally:
            if self._connections is not None:
                self._connections.close()
            self._helpers.close()
            self._selector.close()

    # -- the driver -------------------------------------------------------------------------------

    def _on_control(self, _: int) -> None:
        for message in self._control.receive():
            match message:
                case Clusters():
                    self._start(message)
                case Assign():
                    for assignment in message.assignments:
                        self._leave(self._flows.get(assignment.key))  # it takes over
                        self._take_over(assignment)
                case Revoke():
                    for key in message.keys:
                        self._leave(self._flows.get(key))
                case Lease():
                    self._lease.renew(message.lane_time + self._lease_s)
                case Drain():
                    self._draining_until = time.monotonic() + DRAIN_S
                    for flow in self._flows.values():
                        self._leave(flow)
                case _:
                    pass

    def _start(self, clusters: Clusters) -> None:
        self._lease_s = clusters.lease_s
        self._report_interval_s = clusters.report_interval_s
        self._buffer_bytes = clusters.buffer_bytes
        self._connections = Connections(
            clusters,
            self._helpers,
            self._selector,
            on_source=self._on_source,
            on_target=self._on_target,
            on_failure=self._doubt,
        )

    def _take_over(self, assignment: Assignment) -> None:
        flow = self._flows[assignment.key] = Flow.of(assignment)
        if flow.unsettled and self._connections is not None:
            # What another lane has sent may still arrive.
            patience_s = self._connections.cluster(assignment.target).timeout_s
            flow.late_by = time.monotonic() + patience_s

    def _leave(self, flow: Flow | None) -> None:
        """Send nothing new of `flow`; it goes once its answers are here."""
        if flow is not None and not flow.leaving:
            flow.leave()
            self._pause(flow)

    def _report(self, now: float) -> None:
        self._report_at = now + self._report_interval_s
        final = [flow for flow in self._flows.values() if flow.leaving and self._is_quiet(flow)]
        reports: list[PartitionReport] = [flow.report(final=True) for flow in final]
        for flow in final:
            del self._flows[flow.assignment.key]
        for flow in self._flows.values():
            flow.settle()
            if flow.changed:
                reports.append(flow.report())
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._control.send(
            Report(
                lane_time=clock(),
                partitions=tuple(reports),
                rss_bytes=_resident_bytes(),
                cpu_s=usage.ru_utime + usage.ru_stime,
            )
        )

    def _is_quiet(self, flow: Flow) -> bool:
        return flow.unanswered == 0 and not flow.recovering

    # -- one turn of the loop ---------------------------------------------------------------------

    def _timeout(self) -> float:
        return max(0.0, min(TICK_S, self._report_at - time.monotonic()))

    def _turn(self, connections: Connections, now: float) -> None:
        if not self._lease.lasts():
            self._hold(connections)
        else:
            self._recover(connections, now)
        room = connections.pending_bytes < self._buffer_bytes
        for source in connections.sources:
            self._guard(source, partial(source.request, self._fetchable(room), now))
        for target in connections.targets:
            self._guard(target, partial(target.send, self._lease, now))
        for dead in connections.timed_out(now):
            self._lose(dead, "no answer in time")
        connections.watch()
        self._idle_pairs.look(self._flows.values(), connections.cluster, now)
        leaving = [f for f in self._flows.values() if f.leaving] if self._draining_until else []
        if self._draining_until is not None and (
            now >= self._draining_until or all(map(self._is_quiet, leaving))
        ):
            self._end(connections, now)
        elif now >= self._report_at or any(f.leaving and self._is_quiet(f) for f in leaving):
            self._report(now)
        self._control.flush()

    def _end(self, connections: Connections, now: float) -> None:
        for flow in connections.abandon_targets():
            flow.unsettled = True
        for flow in self._flows.values():
            flow.recovering = False
        self._report(now)
        self._control.send(Drained())
        self._ended = True
        # The driver closes once it has read this. Closing first, with its last words unread in
        # our socket, would reset the connection and could take ours with it.
        deadline = time.monotonic() + GOODBYE_S
        try:
            while time.monotonic() < deadline:
                self._control.flush()
                self._control.receive()
                self._selector.select(TICK_S)
        except ConnectionError:
            pass

    def _hold(self, connections: Connections) -> None:
        """The lease ran out: a successor may be at work. What is queued must not leave."""
        for flow in connections.abandon_targets():
            flow.unsettled = True
        for flow in self._flows.values():
            if flow.state is State.RUNNING:
                self._doubt(flow, "the lease ran out", unsettled=flow.unsettled, failure=False)

    def _fetchable(self, room: bool) -> Callable[[Flow], bool]:
        def fetchable(flow: Flow) -> bool:
            stop_at = flow.assignment.stop_at
            return (
                room
                and flow.pending_bytes < FLOW_BYTES
                and (stop_at is None or flow.position < stop_at)
            )

        return fetchable

    def _guard(
        self, connection: SourceConnection | TargetConnection, act: Callable[[], Any]
    ) -> None:
        try:
            act()
        except (OSError, CausewayError) as error:
            self._lose(connection, str(error))

    def _lose(self, connection: SourceConnection | TargetConnection, reason: str) -> None:
        assert self._connections is not None
        doubtful = self._connections.drop(connection)
        unsettled = isinstance(connection, TargetConnection)
        for flow in doubtful:
            self._doubt(flow, reason, unsettled=unsettled)

    # -- finding the place ------------------------------------------------------------------------

    def _doubt(
        self, flow: Flow, reason: str, *, unsettled: bool = False, failure: bool = True
    ) -> None:
        """Stop relaying `flow` and find its place anew."""
        if flow.state in (State.STOPPED, State.DONE):
            return
        self._pause(flow)
        flow.unsettled |= unsettled or flow.unanswered > 0
        flow.failures += failure
        flow.recoveries += 1
        delay = BACKOFF_S[min(flow.failures, len(BACKOFF_S)) - 1] if flow.failures else 0.0
        flow.retry_at = time.monotonic() + delay
        flow.state = State.FAILED if flow.failures >= SHOWN_AS_FAILED else State.RECOVERING
        flow.reason = reason
        flow.changed = True

    def _stop(self, flow: Flow, reason: str) -> None:
        self._pause(flow)
        flow.state = State.STOPPED
        flow.reason = reason
        flow.changed = True

    def _pause(self, flow: Flow) -> None:
        if self._connections is not None:
            self._connections.detach(flow)
        for outlet in flow.outlets:
            outlet.drop_pending()

    def _recover(self, connections: Connections, now: float) -> None:
        due: dict[tuple[str, str], list[Flow]] = {}
        for flow in self._flows.values():
            if (
                flow.state in (State.RECOVERING, State.FAILED)
                and not flow.recovering
                and not flow.leaving
                and flow.retry_at <= now
                and flow.unanswered == 0
            ):
                due.setdefault((flow.assignment.source, flow.assignment.target), []).append(flow)
        for pair, together in due.items():
            source, target = (connections.cluster(key) for key in pair)
            for at in range(0, len(together), RECOVERED_TOGETHER):
                if self._recoveries[pair] == RECOVERIES:
                    break
                self._recoveries[pair] += 1
                part = together[at : at + RECOVERED_TOGETHER]
                requests = [
                    Request(
                        assignment=flow.assignment.model_copy(
                            update={
                                "outlets": tuple(outlet.report() for outlet in flow.outlets),
                                "leader_epoch": flow.relayed_epoch,
                            }
                        ),
                        unsettled=flow.unsettled,
                    )
                    for flow in part
                ]
                for flow in part:
                    flow.recovering = True
                self._helpers.submit(
                    partial(recover, requests, source, target), partial(self._recovered, pair, part)
                )

    def _recovered(
        self,
        pair: tuple[str, str],
        part: list[Flow],
        answers: dict[TopicPartition, Resumption | CausewayError] | CausewayError,
    ) -> None:
        self._recoveries[pair] -= 1
        for flow in part:
            flow.recovering = False
            answer = (
                answers
                if isinstance(answers, CausewayError)
                else answers[flow.assignment.source_partition]
            )
            if flow.leaving:
                continue
            if isinstance(answer, DivergedError):
                self._stop(flow, str(answer))
            elif isinstance(answer, CausewayError):
                self._doubt(flow, str(answer), unsettled=flow.unsettled)
            else:
                self._resume(flow, answer)

    def _resume(self, flow: Flow, found: Resumption) -> None:
        for outlet, place in zip(flow.outlets, found.outlets, strict=True):
            # What was appended and never answered counts as relayed, too.
            flow.records += max(0, place.end - outlet.pair.target) if outlet.exclusive else 0
            outlet.resume(place.pair)
            outlet.sequence = place.pair.sequence
            outlet.start = place.pair.source
            outlet.end = place.end
            outlet.exclusive = place.exclusive
            outlet.node = place.node
            outlet.remembered_until = 0.0
            outlet.append_times |= place.append_times
        flow.position = min(outlet.start for outlet in flow.outlets)
        flow.leader_epoch = flow.relayed_epoch = found.leader_epoch
        flow.source_node = found.source_node
        flow.source_end = found.source_end
        flow.unsettled = False
        flow.state = State.RUNNING
        flow.reason = None
        flow.changed = True
        assert self._connections is not None
        if not self._done(flow):
            self._connections.attach(flow)

    def _done(self, flow: Flow) -> bool:
        """Whether a bounded run has copied its share of this partition; then it rests."""
        stop_at = flow.assignment.stop_at
        if stop_at is None or flow.position < stop_at or not flow.idle or flow.leaving:
            return False
        flow.settle()
        self._pause(flow)
        flow.state = State.DONE
        flow.changed = True
        self._report_at = 0.0
        return True

    # -- what arrives -----------------------------------------------------------------------------

    def _on_helpers(self, _: int) -> None:
        self._helpers.finish()

    def _on_source(self, source: SourceConnection, mask: int) -> None:
        if mask & selectors.EVENT_READ:
            self._guard(source, lambda: self._read_source(source))

    def _read_source(self, source: SourceConnection) -> None:
        room = self._connections is not None and (
            self._connections.pending_bytes < self._buffer_bytes
        )
        for error, fetched in source.receive():
            if error and error not in SESSION_ERRORS:
                self._lose(source, codes.name(error))
                return
            for flow, part in fetched:
                self._on_fetched(flow, part)
        source.request(self._fetchable(room), time.monotonic())

    def _on_fetched(self, flow: Flow, fetched: Fetched) -> None:
        if flow.state is not State.RUNNING or flow.leaving:
            return
        if fetched.error:
            at = flow.assignment.source_partition
            needs = f"READ on topic {at.topic}"
            place = f"{at} at offset {flow.position}"
            error = codes.broker_error(fetched.error, "fetch", place, needs=needs)
            self._doubt(flow, str(error))
            return
        if fetched.diverging_offset is not None:
            self._stop(
                flow,
                f"the source was truncated to offset {fetched.diverging_offset}, below "
                f"{flow.position}, which was read: start with --adopt or --from to go on",
            )
            return
        committed = flow.assignment.read_committed
        end, high_watermark = fetched.last_stable, fetched.high_watermark
        flow.note_ends(end if committed else high_watermark, high_watermark)
        if not len(fetched.records):
            if flow.idle:
                flow.failures = 0
            return
        try:
            kept, touched = take(flow, fetched)
        except TooLargeError as error:
            self._stop(flow, f"{error} (start with --from a time after it to go on without it)")
            return
        except CausewayError as error:
            self._doubt(flow, str(error))
            return
        except Exception as error:
            # What no codec foresaw is one partition's trouble, not that of the whole lane.
            self._doubt(flow, f"what was fetched at {flow.position} cannot be read: {error!r}")
            return
        flow.position = kept.position
        if must_wait(flow, kept.batches, time.monotonic()):
            self._doubt(
                flow,
                "its records are so old that the target may have forgotten what it got of them: "
                "waits until nothing that was sent before can arrive any more",
                unsettled=True,
                failure=False,
            )
            flow.retry_at = flow.late_by
            return
        if kept.batches:
            flow.note_age(_wall_ms() - kept.batches[-1].max_timestamp)
        if kept.leader_epoch >= 0:
            flow.leader_epoch = kept.leader_epoch
        assert self._connections is not None
        for outlet in dict.fromkeys(touched):
            self._connections.offer(flow, outlet)
        if not touched:
            self._done(flow)

    def _on_target(self, target: TargetConnection, mask: int) -> None:
        if mask & selectors.EVENT_READ:
            self._guard(target, lambda: self._read_target(target))

    def _read_target(self, target: TargetConnection) -> None:
        for answer in target.receive(time.monotonic()):
            self._on_answer(answer)

    def _on_answer(self, answer: Answer) -> None:
        flow, outlet, sent, produced = answer
        if flow.state is not State.RUNNING:
            return  # in doubt already: recovery reads from the log what became of it
        if produced.error:
            spec = outlet.spec
            error = codes.broker_error(
                produced.error,
                "produce to",
                f"{spec.topic}-{spec.partition}",
                produced.message,
                needs=f"WRITE on topic {spec.topic}",
            )
            self._doubt(flow, str(error), unsettled=True)
            return
        if outlet.idempotent:
            if sent.expected not in (flows.UNKNOWN, produced.base_offset):
                self._doubt(
                    flow,
                    f"the target gave offset {produced.base_offset} where {sent.expected} "
                    "was due: somebody else writes to it",
                    unsettled=True,
                )
                return
            if produced.append_time != -1 and not outlet.append_times:
                # Somebody had sent this sequence before; only the log tells what it holds. Or the
                # target sets the times itself, which the log tells as well.
                self._doubt(
                    flow, "the target had this batch already", unsettled=True, failure=False
                )
                return
        outlet.acknowledged(sent, produced.base_offset)
        # Another outlet may have had newer ones answered before.
        flow.relayed_epoch = max(flow.relayed_epoch, sent.leader_epoch)
        flow.last_timestamp = max(flow.last_timestamp, sent.max_timestamp)
        flow.note_latency(_wall_ms() - sent.max_timestamp)
        flow.records += sent.records
        flow.bytes += sent.size
        flow.failures = 0
        flow.changed = True
        self._done(flow)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
