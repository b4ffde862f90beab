"""One run: clusters, applications and drivers live for a while, things go wrong, then all is well
again and the mirror catches up."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from causeway.model import State
from tests.simulation.checks import Checks
from tests.simulation.cluster import BrokerNode, BrokerSettings, KafkaCluster, Refused
from tests.simulation.faults import Faults
from tests.simulation.kernel import Kernel
from tests.simulation.leaders import watch_leaders
from tests.simulation.mirror import SimulatedMirror, patch_causeway
from tests.simulation.moves import Moves
from tests.simulation.mutations import Mutation
from tests.simulation.network import Network
from tests.simulation.scenario import SOURCE, TARGET, Content, Scenario, TopicPlan, choose
from tests.simulation.statements import StuckError
from tests.simulation.workload import Application, Group, OtherWriter

_LOOK_S: Final = 1.0
_ADOPTS_AGAIN_S: Final = 30.0
_ENDS: Final = 1 / 6  # how often a fault of a long run is the last one for a while
_CALM_H: Final = 0.2, 2.0, 24.0, 72.0, 200.0
_CALM_WITHIN_S: Final = 60.0
_LONG_WAIT_S: Final = 24 * 3600.0  # leases and looks at topics take hours, and threads are late
_LOOKS: Final = 8  # in that time, and more often than the source deletes records
_OFTEN_S: Final = 6 * 3600.0
_CALM_LOOK_S: Final = 60.0


class Run:
    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        mutation: Mutation | None = None,
        scenario: Scenario | None = None,
    ) -> None:
        self.kernel, self.network, self.mutation = kernel, network, mutation
        self.scenario = scenario or choose(kernel.random)
        kernel.long = self.scenario.long
        settings = BrokerSettings(default_replication_factor=self.scenario.replication)
        self.source, self.target = (
            KafkaCluster(
                kernel,
                alias.lower(),
                nodes=self.scenario.nodes,
                cluster_id=f"cluster-{alias}",
                settings=settings,
            )
            for alias in (SOURCE, TARGET)
        )
        network.server_at = self._broker_at
        self.checks = Checks(self.source, self.target, self.scenario.topics, (SOURCE, TARGET))
        back = Checks(self.target, self.source, self.scenario.back, (TARGET, SOURCE))
        self.all_checks = self.checks, back
        self.applications: list[Application] = []
        self.groups: list[Group] = []
        self.others: list[OtherWriter] = []
        self.mirrors: list[SimulatedMirror] = []
        self.file = Path()
        self.patch = pytest.MonkeyPatch()  # for the time of the run
        self.faults = Faults(self)
        self.running_s = 0.0  # how long at least one partition ran
        self._ended: set[tuple[str, int]] = set()  # the partitions that have stopped for good
        self._looked_at = 0.0
        self._adopted: dict[str, float] = {}  # when, by topic
        self._stopping = False  # nothing new is written

    @property
    def _clients(self) -> list[Application | Group | OtherWriter]:
        return [*self.applications, *self.groups, *self.others]

    def _broker_at(self, host: str, port: int) -> BrokerNode | None:
        return self.source.node_at(host, port) or self.target.node_at(host, port)

    def run(self) -> None:
        """Raises what is wrong."""
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch_causeway(patch)
            watch_leaders(patch)
            self.patch = patch
            if self.mutation is not None:
                self.mutation.apply(patch)
            self.file = Path(folder) / "mm2.properties"
            self.write_file(self.scenario.file)
            self._begin()
            self._live()
            if not self.scenario.ends_with_script:
                self._recover()
                moves = self.scenario.moves and not self._ended
                if moves:
                    Moves(self).go()
                self._end(looks=not moves)

    def write_file(self, text: str) -> None:
        """The mirror's file, which has changed at the simulated time."""
        self.file.write_text(text)
        now_ns = int(self.kernel.now() * 1e9)
        os.utime(self.file, ns=(now_ns, now_ns))

    def create(self, plan: TopicPlan) -> None:
        """Creates the topic on its cluster, and applications that write to it, if it is missing."""
        cluster = self._origin(plan)
        if plan.name in cluster.topics:
            return
        configs = {
            "min.insync.replicas": str(min(2, self.scenario.nodes)),
            **self.scenario.configs_of(plan),
        }
        try:
            cluster.create_topic(plan.name, plan.partitions, self.scenario.replication, configs)
        except Refused:
            return  # too few brokers are up
        for partition in range(plan.partitions):
            self.write_to(plan, partition)

    def _origin(self, plan: TopicPlan) -> KafkaCluster:
        return self.source if plan.origin == SOURCE else self.target

    def write_to(self, plan: TopicPlan, partition: int) -> None:
        """Starts an application, if none writes there yet."""
        if any((each.plan, each.partition) == (plan, partition) for each in self.applications):
            return
        cluster = self._origin(plan)
        application = Application(self.kernel, cluster, plan, partition)
        self.applications.append(application)
        if self._stopping:
            application.stop()
        application.start()

    def _begin(self) -> None:
        scenario = self.scenario
        self.kernel.trace(f"{scenario}")
        for plan in (*scenario.topics, *scenario.back):
            if not plan.late:
                self.create(plan)
            if plan.content is Content.SHARED:
                self.others.append(OtherWriter(self.kernel, self.target, plan))
        self.groups = [
            Group(self.kernel, self.source, f"group-{number}", self._places) for number in range(2)
        ]
        for number in range(scenario.drivers):
            self.mirrors.append(SimulatedMirror(self.kernel, self.file, f"m-{number}.sim"))
        for group in self.groups:
            group.start()
        for other in self.others:
            other.start()
        for mirror in self.mirrors:
            mirror.start()

    def _places(self) -> list[tuple[str, int]]:
        return [(plan.name, partition) for plan, partition in self.checks.places]

    def look(self) -> None:
        now = self.kernel.elapsed
        if any(each.state == State.RUNNING for mirror in self.mirrors for each in mirror.led):
            self.running_s += now - self._looked_at
        self._looked_at = now
        for checks in self.all_checks:
            checks.look()
            for mirror in self.mirrors:
                checks.statements.look_at_status(mirror.partitions)

    def live(self, seconds: float, look_s: float = _LOOK_S) -> None:
        """Time passes, and what must hold is checked."""
        end = self.kernel.elapsed + seconds
        while self.kernel.elapsed < end:
            self.kernel.run_for(min(look_s, end - self.kernel.elapsed))
            self.look()

    def _live(self) -> None:
        faults = self.faults
        if self.scenario.script is not None:
            self.scenario.script(self)
            faults.heal()
            return
        end = self.kernel.elapsed + self.scenario.faults_s
        self.kernel.run_for(5 + self.kernel.random.random() * 10)
        while self.kernel.elapsed < end:
            faults.step()
            self.kernel.run_for(self.kernel.random.expovariate(1 / 3))
            self.look()
            self._start_failed()
            if self.scenario.long and self.kernel.random.random() < _ENDS:
                self._be_calm()
        faults.heal()

    def _be_calm(self) -> None:
        """Nothing goes wrong for hours, or for days."""
        chance = self.kernel.random
        seconds = chance.choice(_CALM_H) * 3600 * chance.uniform(0.5, 1.5)
        look_s = min(seconds / _LOOKS, _OFTEN_S)
        end = self.kernel.elapsed + seconds
        while self.kernel.elapsed < end:
            self.live(look_s, look_s)
            self._start_failed()

    def _start_failed(self) -> None:
        """As a service starts a driver again that ended by an error."""
        for mirror in self.mirrors:
            if mirror.failed:
                self.hurry()
                mirror.start()

    def hurry(self) -> None:
        """Something happens, which is more than the passing of time."""
        self.kernel.hurry()
        for client in self._clients:
            client.hurry()

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        def happen() -> None:
            self.hurry()
            act()

        self.kernel.later(delay_s, happen)

    @property
    def _look_s(self) -> float:
        return _CALM_LOOK_S if self.kernel.is_calm else _LOOK_S

    def _recover(self) -> None:
        self._stopping = True
        for client in self._clients:
            client.stop()
        deadline = self.kernel.elapsed + self.scenario.catch_up_s
        if self.scenario.long:
            deadline += _LONG_WAIT_S
        while True:
            self.kernel.run_for(self._look_s)
            self.look()
            for mirror in self.mirrors:
                if not mirror.alive:
                    mirror.start()
            for plan in self.scenario.topics:
                self.create(plan)
            stopped = self.stopped()
            adopts = self._adopt(stopped)
            all_written = all(each.idle for each in self.applications)
            left = [] if all_written else ["a transaction stays open"]
            if all_written and not adopts:
                left = [each for checks in self.all_checks for each in checks.missing(stopped)]
                if not left:
                    break
            if self.kernel.elapsed > deadline:
                raise StuckError("; ".join([*left, *self._reasons()]))
        self.hurry()
        self._await_calm()

    def _await_calm(self) -> None:
        """Raises StuckError."""
        end = self.kernel.elapsed + (_LONG_WAIT_S if self.scenario.long else _CALM_WITHIN_S)
        self.live(self.scenario.rest_s)
        while left := self._not_calm():
            if self.kernel.elapsed > end:
                raise StuckError(left)
            self.live(self._look_s, self._look_s)

    def _adopt(self, stopped: set[tuple[str, int]]) -> bool:
        """A person acknowledges losses that the file does not allow. False if there are none."""
        found = {
            plan.name
            for plan, partition in self.checks.places
            if plan.content is Content.RETAINED and (plan.name, partition) in stopped
        }
        for topic in sorted(found):
            since = self.kernel.elapsed - self._adopted.get(topic, -math.inf)
            if since > _ADOPTS_AGAIN_S:
                self._adopted[topic] = self.kernel.elapsed
                self.hurry()
                self.faults.changes.adopt(topic)
        return bool(found)

    def stopped(self) -> set[tuple[str, int]]:
        """The partitions that a person has to look at."""
        return {
            (each.topic, each.partition)
            for mirror in self.mirrors
            for each in mirror.led
            if each.state == State.STOPPED and each.reason
        }

    def _not_calm(self) -> str:
        """A cluster that has not recovered, or a partition of which no leading driver says that it
        runs and that nothing is left. Empty if there is none."""
        for cluster in (self.source, self.target):
            if not self.faults.is_calm(cluster):
                return f"cluster {cluster} has not recovered"
        led = {(each.topic, each.partition): each for mirror in self.mirrors for each in mirror.led}
        for plan, partition in (each for checks in self.all_checks for each in checks.places):
            place = plan.name, partition
            if self.checks.may_stop(plan, partition) and place in self.stopped():
                self._ended.add(place)
                continue
            found = led.get(place)
            if found is None or found.state != State.RUNNING or found.lag_records != 0:
                said = found and f"{found.state} {found.reason}, lag {found.lag_records}"
                return f"{place} has nothing left to mirror, but its status is {said}"
        return self._other_ends()

    def _reasons(self) -> list[str]:
        """What the drivers say of partitions that do not run."""
        return [
            f"{place} {state}"
            for mirror in self.mirrors
            for place, state in mirror.states.items()
            if state != "running"
        ]

    def _end(self, *, looks: bool) -> None:
        """The drivers end as SIGTERM ends them. `looks`: the mirror has not moved, so the target
        has only its records."""
        self.hurry()
        for mirror in self.mirrors:
            mirror.stop()
        deadline = self.kernel.elapsed + 120.0
        while any(mirror.alive for mirror in self.mirrors):
            if self.kernel.elapsed > deadline:
                raise StuckError("a driver does not end")
            self.kernel.run_for(0.5)
        failed = [str(m.result) for m in self.mirrors if m.result not in (0, None)]
        if failed:
            raise StuckError(f"a driver ends by an error: {failed}")
        if looks:
            self.look()
            if left := self._other_ends():
                raise StuckError(left)

    def _other_ends(self) -> str:
        """A partition whose logs have other ends though its offsets are preserved. Empty if there
        is none."""
        for plan, partition in self.checks.places:
            if plan.content is not Content.PRESERVED or (plan.name, partition) in self._ended:
                continue
            source = self.source.log_range(plan.name, partition)
            target = self.target.log_range(plan.mirrored, partition)
            if source[1] != target[1]:
                return f"{plan.name}-{partition}: {source} is mirrored as {target}"
        return ""
