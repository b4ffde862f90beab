"""What goes wrong, by chance. Each fault ends by itself, or with `heal`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tests.simulation.changes import Changes
from tests.simulation.cluster import BrokerNode, KafkaCluster, Refused
from tests.simulation.kernel import SimulatedProcess
from tests.simulation.losses import Losses
from tests.simulation.scenario import Content, TopicPlan

if TYPE_CHECKING:
    from tests.simulation.run import Run

_LASTS_LONG: Final = 0.25  # how often
_LONGER: Final = 60, 2000  # 40 s are 22 hours then


class Faults:
    """Of one run. One broker of a cluster at a time is down or frozen, so that acknowledged records
    of the source survive."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.kernel, self.network = run.kernel, run.network
        self._chance = run.kernel.random
        self.places: list[tuple[TopicPlan, int]] = []  # of the source, at this step
        self._healed = False
        self._losses, self.changes = Losses(self), Changes(self)
        every = [*self._weighted(), *self._losses.weighted(), *self.changes.weighted()]
        # Each run has some kinds alone, so that rare ones come often in some runs.
        share = self._chance.choice((0.2, 0.5, 1.0))
        some = [each for each in every if self._chance.random() < share] or every
        self._acts, self._weights = zip(*some, strict=True)

    @property
    def brief(self) -> tuple[Callable[[], None], ...]:
        """Those that are over in less than a minute, if drivers that have ended are started."""
        return (
            self._kill_driver,
            self._freeze_driver,
            self._kill_lane,
            self._elect,
            self._close_connections,
        )

    def step(self) -> None:
        """One fault, or nothing where it does not apply."""
        self.places = self.run.checks.places
        if self.places:
            self.run.hurry()
            (act,) = self._chance.choices(self._acts, self._weights)
            act()

    def lasts(self, *seconds: float) -> float:
        """One of these, in a long run now and then as many hours."""
        chosen = self._chance.choice(seconds)
        if self.run.scenario.long and self._chance.random() < _LASTS_LONG:
            return chosen * self._chance.choice(_LONGER)
        return chosen

    def heal(self) -> None:
        """All faults end now."""
        self._healed = True  # the run starts the drivers itself from now on
        self.run.hurry()
        self.kernel.trace("all faults end")
        self.network.heal()
        for cluster in (self.run.source, self.run.target):
            for node in cluster.nodes:
                node.thaw()
                node.start()
                node.slow_s = node.clock_ahead_s = node.late_s = 0.0
        for process in self.kernel.processes:
            if process.alive:
                process.thaw()
        self._losses.heal()
        self.changes.heal()

    def _weighted(self) -> Iterator[tuple[Callable[[], None], float]]:
        yield self._kill_driver, 3
        yield self._freeze_driver, 2
        yield self._kill_lane, 4
        yield self._freeze_lane, 3
        yield self._stop_broker, 4
        yield self._freeze_broker, 2
        yield self._elect, 4
        yield self._cut_network, 3
        yield self._close_connections, 3
        yield self._slow_broker, 2
        yield self._clean_logs, 3
        yield self._restart_cleanly, 1

    # -- the mirror -------------------------------------------------------------------------------

    def later_started(self, mirror_number: int) -> None:
        mirror = self.run.mirrors[mirror_number]
        if not (mirror.alive or self._healed):
            mirror.start()

    def _kill_driver(self) -> None:
        number = self._chance.randrange(len(self.run.mirrors))
        self.run.mirrors[number].kill()
        delay = self.lasts(0.5, 5.0, 20.0)
        self.run.later(delay, lambda: self.later_started(number))

    def _restart_cleanly(self) -> None:
        number = self._chance.randrange(len(self.run.mirrors))
        self.run.mirrors[number].stop()
        self.run.later(self.lasts(30.0), lambda: self.later_started(number))

    def _freeze(self, process: SimulatedProcess) -> None:
        seconds = self.lasts(1.0, 8.0, 15.0, 40.0)
        self.kernel.trace(f"{process.name} is frozen for {seconds} s")
        process.freeze()
        self.run.later(seconds, process.thaw)

    def _freeze_driver(self) -> None:
        process = self._chance.choice(self.run.mirrors).process
        if process is not None and process.alive:
            self._freeze(process)

    def _lane(self) -> SimulatedProcess | None:
        lanes = self._chance.choice(self.run.mirrors).lanes()
        return self._chance.choice(lanes) if lanes else None

    def _kill_lane(self) -> None:
        if (lane := self._lane()) is not None:
            lane.kill("killed")

    def _freeze_lane(self) -> None:
        if (lane := self._lane()) is not None:
            self._freeze(lane)

    # -- brokers ----------------------------------------------------------------------------------

    def _cluster(self) -> KafkaCluster:
        return self._chance.choice((self.run.source, self.run.target))

    def is_calm(self, cluster: KafkaCluster) -> bool:
        """Whether all brokers run, and all replicas are in sync."""
        if not all(node.runs and node.ready and not node.disk_is_full for node in cluster.nodes):
            return False
        states = [state for topic in cluster.topics.values() for state in topic.partitions]
        return all(len(state.isr) == len(state.replicas) for state in states)

    def calm_node(self) -> BrokerNode | None:
        """A broker of a cluster that is calm."""
        cluster = self._cluster()
        return self._chance.choice(list(cluster.nodes)) if self.is_calm(cluster) else None

    def _stop_broker(self) -> None:
        if (node := self.calm_node()) is not None:
            node.stop(clean=self._chance.random() < 0.5)
            self.run.later(self.lasts(1.0, 10.0, 30.0), node.start)

    def _freeze_broker(self) -> None:
        if (node := self.calm_node()) is not None:
            node.freeze()
            self.run.later(self.lasts(1.0, 6.0, 20.0), node.thaw)

    def _slow_broker(self) -> None:
        node = self._chance.choice(list(self._cluster().nodes))
        node.slow_s = self._chance.choice((0.0, 0.05, 0.5))
        node.late_s = self._chance.choice((0.0, 1.0, 10.0))
        self.kernel.trace(f"{node} is slower by up to {node.slow_s} s, late by {node.late_s} s")

    def _close_connections(self) -> None:
        node = self._chance.choice(list(self._cluster().nodes))
        self.kernel.trace(f"{node} closes its connections")
        node.close_connections()

    def _elect(self) -> None:
        cluster = self._cluster()
        topics = [topic for topic in cluster.topics.values() if not topic.name.startswith("__con")]
        if not topics:
            return
        topic = self._chance.choice(topics)
        partition = self._chance.randrange(len(topic.partitions))
        isr = topic.partitions[partition].isr
        if len(isr) > 1:
            try:
                cluster.elect(topic.name, partition, self._chance.choice(isr))
            except Refused:
                pass  # it leads already, or is down

    def _clean_logs(self) -> None:
        """Compaction of compacted topics; DeleteRecords of what has been mirrored."""
        run = self.run
        plan, partition = self._chance.choice(self.places)
        try:
            run.checks.look()
            if plan.content is Content.COMPACTED:
                cluster = self._cluster()
                name = plan.name if cluster is run.source else plan.mirrored
                if name in cluster.topics:
                    cluster.compact(name, partition)
            elif plan.content is Content.DELETED and plan.mirrored in run.target.topics:
                self._delete(plan.name, plan.mirrored, partition)
        except LookupError:
            pass  # no leader now

    def _delete(self, name: str, mirrored: str, partition: int) -> None:
        """Records that readers of the target see already."""
        records = self.run.source.records(name, partition)
        there = {record.value for record in self.run.target.records(mirrored, partition)}
        done = [record.offset for record in records if record.value in there]
        if done:
            offset = self._chance.choice(done)
            self.kernel.trace(f"{name}-{partition}: records below {offset} are deleted")
            self.run.source.delete_records(name, partition, offset)

    # -- the network ------------------------------------------------------------------------------

    def _cut_network(self) -> None:
        mirror = self._chance.choice(self.run.mirrors).host
        node = self._chance.choice(list(self._cluster().nodes))
        seconds = self.lasts(1.0, 10.0, 30.0)
        self.kernel.trace(f"no bytes between {mirror} and {node} for {seconds} s")
        self.network.cut(mirror, node.host)
        self.run.later(seconds, lambda: self.network.heal_pair(mirror, node.host))
