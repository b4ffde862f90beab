"""The driver of simulated lanes, one after another. What must hold, whatever happens:

each append    the next records of the outlet's series: none is left out, doubled or misplaced
each report    its pairs are true
in the end     once nothing fails any more, all of it has been relayed, and the lane says so
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from causeway.config import ClientSettings, to_wire
from causeway.errors import CausewayError, UnreachableError
from causeway.link_topics import Outlet
from causeway.model import Pair, State, TopicPartition
from causeway.relay import Assign, Clusters, Drain, LaneReport, Throttle
from causeway.relay.recovery import PartitionLeader, RecoveryRequest, ResumedOutlet, Resumption
from tests.harness.simulated_brokers import LATE_S, SOURCE
from tests.harness.simulated_cluster import SimulatedCluster
from tests.harness.simulated_lane import SimulatedLane
from tests.harness.simulated_logs import Place
from tests.harness.simulated_setting import Mirrored, Setting

PATIENCE_S = 200.0  # within which all is relayed once nothing fails any more
TICK_S = 0.2


class SimulatedDriver:
    """`setting`: what its lanes are to relay."""

    lane: SimulatedLane

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.brokers, self.clock = setting.brokers, setting.clock
        self.mirrored = list(setting.mirrored.values())

    def start(self) -> None:
        """A new lane, that is to relay all that there is."""
        kind = self.setting.kind
        names = [SOURCE, *self.setting.targets]
        settings = {name: ClientSettings(alias=name, bootstrap=(("h", 1),)) for name in names}
        clusters = Clusters(
            clusters={name: to_wire(one) for name, one in settings.items()},
            lease_s=10.0,
            report_interval_s=1.0,
            connections=kind.per_broker,
            in_flight=3,
            buffer_bytes=64 << 20,
        )
        self.lane = SimulatedLane(self.brokers, self.clock, clusters)
        for one in self.mirrored:
            self.assign(one)

    def succeed(self) -> None:
        """The lane is gone, in whatever way: here is the next one."""
        self.close()
        self.start()

    def close(self) -> None:
        self.lane.close()
        self.brokers.close()

    def assign(self, one: Mirrored) -> None:
        self.lane.tell(Assign(assignments=(one.assignment(),)))
        one.assigned, one.settled = True, False

    def drain(self) -> None:
        self.lane.draining = True
        self.lane.tell(Drain())

    def hear(self) -> None:
        """What the lane reports, which must be true."""
        for message in self.lane.control.sent:
            for report in message.partitions if isinstance(message, LaneReport) else ():
                one = self.setting.mirrored[report.link, report.topic, report.partition]
                for number, outlet in enumerate(report.outlets):
                    self._check(one, number, outlet.pair, f"{report.state}, final: {report.final}")
                one.outlets = report.outlets
                one.settled = report.final and report.settled
                one.assigned &= not report.final
        self.lane.control.sent.clear()

    def until(self, so: Callable[[], bool]) -> None:
        until = self.clock.now + PATIENCE_S
        while not so():
            assert self.clock.now < until, f"stalled: {list(self.lane.flows.values())}"
            self.clock.now += TICK_S
            self.brokers.serve_late()
            self.lane.advance()
            self.hear()

    def relay_the_rest(self) -> None:
        """Nothing fails any more: everything is relayed, and what the lane says at last is so."""
        self.brokers.faulty = self.lane.lease.over = False
        self.brokers.room.clear()
        if self.lane.draining:
            self.until(lambda: self.lane.ended)
            self.succeed()
        self.lane.tell(Throttle(rates=()))
        self.until(lambda: not any(flow.leaving for flow in self.lane.flows.values()))
        for one in self.mirrored:
            if not one.assigned:
                self.assign(one)
        self.until(self.has_relayed)
        # Nothing can arrive any more, also behind a throttle.
        late_by = max(flow.late_by for flow in self.lane.flows.values())
        self.clock.now = max(self.clock.now + 2 * LATE_S, late_by)
        self.until(self.has_relayed)
        self.drain()
        self.until(lambda: self.lane.ended)
        for one in self.mirrored:
            # A lane that has sent nothing since a recovery may still doubt that no marker is on its
            # way, though none is.
            assert one.settled or one.preserve is not None
            for number, outlet in enumerate(one.outlets):
                series, log = one.series(number), self.brokers.targets[outlet.at]
                assert self.held(outlet) == series
                if one.preserve is None:
                    assert outlet.pair.sequence == len(series)
                else:
                    assert log.end == one.log.end == outlet.pair.source == outlet.pair.target

    def has_relayed(self) -> bool:
        """Whether its lane has relayed everything."""
        return all(map(self._is_relayed, self.mirrored))

    def held(self, outlet: Outlet) -> list[int]:
        log = self.brokers.targets[outlet.at]
        return log.held(outlet.producer_id if log.keeps is None else None)

    def recover(
        self, requests: Sequence[RecoveryRequest], *_: SimulatedCluster
    ) -> dict[TopicPartition, Resumption | CausewayError]:
        """In place of relay.recovery: it finds what the logs hold."""
        answers: dict[TopicPartition, Resumption | CausewayError] = {}
        for request in requests:
            spec = request.assignment
            failed = UnreachableError("ask", "a broker", "gone", retriable=True)
            lost = self.brokers.happens(0.05)
            answers[spec.source_partition] = failed if lost else self._resumption(request)
        return answers

    def ends(self, _: object, places: Collection[TopicPartition], __: int) -> Mapping[Place, int]:
        """In place of walk.offsets_at, where a lane looks for what others have written."""
        return {place: self.brokers.targets[place].end for place in places}

    def _resumption(self, request: RecoveryRequest) -> Resumption:
        spec = request.assignment
        one = self.setting.mirrored[spec.key]
        leaders = [(one.log.node, one.log.epoch, one.log.end)]
        if one.log.stale and self.brokers.happens(0.5):  # somebody asks one that was cut off
            leaders = [(node, *known) for node, known in one.log.stale.items()]
        node, epoch, end = self.setting.chance.choice(leaders)
        return Resumption(
            outlets=tuple(
                self._resumed(one, number, outlet, request)
                for number, outlet in enumerate(spec.outlets)
            ),
            leader_epoch=0,
            source_leader=PartitionLeader(node, epoch),
            source_end=end,
        )

    def _resumed(
        self, one: Mirrored, number: int, outlet: Outlet, request: RecoveryRequest
    ) -> ResumedOutlet:
        self._check(one, number, outlet.pair, "at recovery")
        log, held = self.brokers.targets[outlet.at], self.held(outlet)
        if log.keeps is not None:
            epoch, sequence = log.producer(outlet.producer_id) or (
                outlet.producer_epoch,
                outlet.pair.sequence,
            )
            return ResumedOutlet(
                pair=Pair(source=log.end, target=log.end, sequence=sequence),
                end=log.end,
                exclusive=True,
                node=log.node,
                producer_epoch=epoch,
            )
        for batch in log.of(outlet.producer_id):
            told = batch.sequence < outlet.pair.sequence
            assert told or batch.late or request.unsettled, f"{one.key}: nobody told of {batch}"
        more = len(held) > outlet.pair.sequence
        source = held[-1] + 1 if more else outlet.pair.source
        return ResumedOutlet(
            pair=Pair(source=source, target=log.end, sequence=len(held)),
            end=log.end,
            exclusive=request.assignment.is_ours_alone(outlet),
            append_times=False,
            node=log.node,
        )

    def _check(self, one: Mirrored, number: int, pair: Pair, when: str) -> None:
        """That `pair` is true of an outlet."""
        outlet = one.outlets[number]
        log = self.brokers.targets[outlet.at]
        if log.keeps is not None:
            assert pair.source == pair.target <= log.end, f"{one.key}, {when}: {pair}"
            return
        before = sum(offset < pair.source for offset in one.series(number))
        own = log.of(outlet.producer_id)
        places = [batch.base + at for batch in own for at in range(len(batch.offsets))]
        below = sum(place < pair.target for place in places)
        told = f"{one.key}, outlet {number}, {when}: {pair}"
        assert before == pair.sequence, f"{told}, {before} of its series come before that"
        assert below == pair.sequence, f"{told}, {below} of its records lie before that"
        assert pair.target <= log.end, f"{told}, its log ends at {log.end}"

    def _is_relayed(self, one: Mirrored) -> bool:
        flow = self.lane.flows[one.key]
        if flow.state is State.RUNNING:
            return one.stop_at is None and flow.position >= one.log.end and flow.idle
        if flow.state is State.STOPPED:
            assert one.refused is not None, flow.reason
        return flow.state in (State.DONE, State.STOPPED)
