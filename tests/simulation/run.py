"""One run: clusters, applications and drivers live for a while, things go wrong, then all is well
again and the mirror catches up."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.checks import Checks
from tests.simulation.cluster import BrokerNode, BrokerSettings, KafkaCluster
from tests.simulation.faults import Faults
from tests.simulation.kernel import Kernel
from tests.simulation.mirror import SimulatedMirror, patch_causeway
from tests.simulation.mutations import Mutation
from tests.simulation.network import Network
from tests.simulation.scenario import SOURCE, TARGET, Content, Scenario, choose
from tests.simulation.workload import Application, Group

_LOOK_S: Final = 1.0
_CATCH_UP_S: Final = 900.0  # after all faults


class StuckError(AssertionError):
    """The mirror has not caught up though nothing fails any more."""


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
        self.checks = Checks(kernel, self.source, self.target, self.scenario)
        self.applications: list[Application] = []
        self.groups: list[Group] = []
        self.mirrors: list[SimulatedMirror] = []

    @property
    def _clients(self) -> list[Application | Group]:
        return [*self.applications, *self.groups]

    def _broker_at(self, host: str, port: int) -> BrokerNode | None:
        return self.source.node_at(host, port) or self.target.node_at(host, port)

    def run(self) -> None:
        """Raises what is wrong."""
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch_causeway(patch)
            if self.mutation is not None:
                self.mutation.apply(patch)
            file = Path(folder) / "mm2.properties"
            file.write_text(self.scenario.file)
            self._begin(file)
            self._live()
            self._recover()
            self._end()

    def _begin(self, file: Path) -> None:
        scenario = self.scenario
        self.kernel.trace(f"{scenario}")
        for plan in scenario.topics:
            self.source.create_topic(
                plan.name,
                plan.partitions,
                scenario.replication,
                {"min.insync.replicas": str(min(2, scenario.nodes)), **plan.configs},
            )
            for partition in range(plan.partitions):
                self.applications.append(Application(self.kernel, self.source, plan, partition))
        places = [(plan.name, number) for plan, number in self.checks.places]
        self.groups = [Group(self.kernel, self.source, f"group-{n}", places) for n in range(2)]
        for number in range(scenario.drivers):
            self.mirrors.append(SimulatedMirror(self.kernel, file, f"m-{number}.sim"))
        for client in self._clients:
            client.start()
        for mirror in self.mirrors:
            mirror.start()

    def _live(self) -> None:
        faults = Faults(self)
        end = self.kernel.elapsed + self.scenario.faults_s
        self.kernel.run_for(5 + self.kernel.random.random() * 10)
        while self.kernel.elapsed < end:
            faults.step()
            self.kernel.run_for(self.kernel.random.expovariate(1 / 3))
            self.checks.look()
        faults.heal()

    def _recover(self) -> None:
        for client in self._clients:
            client.stop()
        deadline = self.kernel.elapsed + _CATCH_UP_S
        while True:
            self.kernel.run_for(_LOOK_S)
            self.checks.look()
            for mirror in self.mirrors:
                if not mirror.alive:
                    mirror.start()
            if all(each.idle for each in self.applications) and not self.checks.missing():
                break
            if self.kernel.elapsed > deadline:
                left = self.checks.missing() or ["a transaction stays open"]
                raise StuckError("; ".join([*left, *self._reasons()]))
        self.kernel.run_for(30.0)
        self.checks.look()
        if wrong := self.checks.groups([group.name for group in self.groups]):
            raise StuckError("; ".join(wrong))

    def _reasons(self) -> list[str]:
        """What the drivers say of partitions that do not run."""
        return [
            f"{place} {state}"
            for mirror in self.mirrors
            for place, state in mirror.states.items()
            if state != "running"
        ]

    def _end(self) -> None:
        """The drivers end as SIGTERM ends them."""
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
        self.checks.look()
        self._check_preserved()

    def _check_preserved(self) -> None:
        """The ends of both logs are equal."""
        for plan, partition in self.checks.places:
            if plan.content is not Content.PRESERVED:
                continue
            source = self.source.log_range(plan.name, partition)
            target = self.target.log_range(plan.mirrored, partition)
            if source[1] != target[1]:
                raise StuckError(f"{plan.name}-{partition}: {source} is mirrored as {target}")
