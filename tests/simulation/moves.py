"""The mirror moves: it ends, applications write to the other side, and their records come back.

Meanwhile drivers, lanes and commands die, and leaders change. After each step both clusters must
have the same records, each once and in the same order, and groups must be at the same records.

    A->B caught up ─► promote, or failover ─► B written ─► failback: B->A ─► both alike
    A->B lags      ─► failover ─────────────┘
      ─► failback --turn-round ─► A written ─► A->B ─► both alike
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from causeway.errors import CausewayError
from causeway.formats import load
from causeway.operate.failover import (
    FailbackStep,
    Keep,
    Otherwise,
    failback,
    failover,
    promote,
)
from tests.simulation.checks import Place, name_of
from tests.simulation.cluster import KafkaCluster
from tests.simulation.kernel import SimulatedProcess
from tests.simulation.scenario import LINK, SOURCE, TARGET, Content, TopicPlan
from tests.simulation.statements import InvariantError, StuckError
from tests.simulation.workload import Application

if TYPE_CHECKING:
    from tests.simulation.run import Run

_FAULTS_S: Final = 60.0  # of each step
_WRITES_S: Final = 10.0
_PATIENCE_S: Final = 900.0
_COMMAND_S: Final = 30.0  # --timeout
_NUMBERS: Final = 1_000_000  # of records that an application writes at most
_PAUSE_S: Final = 4.0  # between two faults, on average

Values = list[tuple[int | None, bytes]]  # offset, if it must be the same on both sides; value


class Moves:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        self.run, self.kernel = run, run.kernel
        self._chance = run.kernel.random
        self._commands = 0
        self._command: SimulatedProcess | None = None
        self._is_repeated = False  # the command was called before
        self._calm_at = 0.0  # nothing fails from then on, until the next step
        self._applications: list[Application] = []
        self._otherwise = self._chance.choice((Otherwise.REFILL, Otherwise.TRANSLATE))
        self._lost: dict[Place, set[bytes]] = {}  # only the old source has these records

    def go(self) -> None:
        """Raises InvariantError and StuckError."""
        self.kernel.trace("the mirror moves")
        self.run.faults.changes.end_commands()
        self.run.write_file(self.run.scenario.file_with_way_back)
        for mirror in self.run.mirrors:
            mirror.reload()
        self._chance.choice((self._promote, self._fail_over, self._lose_source))()
        self._write(self.run.target)
        self._call("failback", self._fail_back)
        self._await_alike()
        self._call("failback --turn-round", lambda s: self._fail_back(s, turn_round=True))
        self._await_alike()
        self._write(self.run.source)
        self._await_alike()
        self.kernel.run_for(1.0)  # a driver that has just been started hears no signal

    def _promote(self) -> None:
        self._call("promote", lambda s: promote(s, link=LINK, **self._asked))
        self._await_alike()
        self._await_leaders()
        self._look_at_groups()

    def _fail_over(self) -> None:
        self._call("failover", lambda s: failover(s, yes=True, link=LINK, **self._asked))
        self._await_alike()

    def _lose_source(self) -> None:
        """The source has records that are not mirrored yet, and perhaps it is gone."""
        source = self.run.source
        applications = self._begin_to_write(source)
        self.kernel.run_for(self._chance.uniform(0.5, 5.0))
        is_gone = self._chance.random() < 0.5
        if is_gone:
            self.kernel.trace(f"all of {source} is gone")
            for node in source.nodes:
                node.stop(clean=True)
        self._call("failover", lambda s: failover(s, yes=True, link=LINK, **self._asked))
        if is_gone:
            for node in source.nodes:
                node.start()
        self._end_writing(applications)
        self._await_leaders()
        for plan in self.run.scenario.topics:
            for partition in range(len(source.topics[plan.name].partitions)):
                values = [self._records_of(each, plan, partition) for each in self._sides]
                on_a, on_b = ([value for _, value in each] for each in values)
                if on_a[: len(on_b)] != on_b:
                    raise InvariantError(
                        f"{plan.name}-{partition}: {len(on_b)} records of {TARGET} are not the"
                        f" first ones of {len(on_a)} on {SOURCE}"
                    )
                self._lost[plan.name, partition] = set(on_a[len(on_b) :])
        self.kernel.trace(f"{sum(map(len, self._lost.values()))} records are only on {source}")

    @property
    def _asked(self) -> dict[str, Any]:
        return {"who": "the simulation", "wait_s": _COMMAND_S}

    def _fail_back(self, settings: Any, *, turn_round: bool = False) -> None:
        found = failback(
            settings,
            link=LINK,
            keep=Keep(drop=True),
            otherwise=self._otherwise,
            turn_round=turn_round,
            **self._asked,
        )
        only_there = sum(each.records for each in (*found.unmirrored, *found.late))
        lost = sum(map(len, self._lost.values()))
        # A call before may have deleted topics, or have begun.
        may_be_less = self._is_repeated or turn_round
        if only_there > lost or (only_there < lost and not may_be_less):
            raise InvariantError(
                f"failback: {lost} records are only on {SOURCE}, and it names {found.unmirrored}"
                f" and {found.late}"
            )
        expected = FailbackStep.GOES_ON if turn_round else FailbackStep.BACK
        if found.step is not expected:
            raise InvariantError(f"failback: {found.step} instead of {expected}")

    # -- commands ---------------------------------------------------------------------------------

    def _call(self, name: str, command: Callable[[Any], object]) -> None:
        """Runs a command until it succeeds. It may be killed at any moment, and is called again."""
        done: list[bool] = []
        said: list[str] = []

        def run(process: SimulatedProcess) -> None:
            try:
                command(load(self.run.file))
                done.append(True)
                said.append("done")
            except CausewayError as error:
                said.append(str(error))
            except InvariantError as error:
                self.kernel.fail(error)
            self.kernel.trace(f"{process.name}: {name}: {said[-1]}")
            process.kill("its command is over")

        end, before = self._step(), self._commands
        while not done:
            if self.kernel.elapsed > end:
                raise StuckError(f"{name} does not succeed: {said[-3:]}")
            self._is_repeated = self._commands > before
            self._commands += 1
            process = self.kernel.process(f"move {self._commands}", "ops.sim")
            self._command = process
            process.start(lambda process=process: run(process))  # type: ignore[misc]
            while process.alive:
                self._live()
            self.kernel.run_for(1.0)
        self._command = None

    def _live(self) -> None:
        """Time passes, and something may fail."""
        self.kernel.run_for(self._chance.expovariate(1 / _PAUSE_S))
        if self.kernel.elapsed < self._calm_at and self._chance.random() < 0.5:
            self._chance.choice((self._kill_command, *self.run.faults.brief))()
        for mirror in self.run.mirrors:
            if not mirror.alive:
                mirror.start()

    def _step(self) -> float:
        """Things fail again for a while. Returns when the step must be over."""
        self._calm_at = self.kernel.elapsed + _FAULTS_S
        return self.kernel.elapsed + _PATIENCE_S

    def _kill_command(self) -> None:
        if self._command is not None and self._command.alive:
            self._command.kill("killed")

    # -- records ----------------------------------------------------------------------------------

    def _write(self, cluster: KafkaCluster) -> None:
        """Applications write to the topics of `cluster` for a while."""
        applications = self._begin_to_write(cluster)
        self._step()
        end = self.kernel.elapsed + _WRITES_S
        while self.kernel.elapsed < end:
            self._live()
        self._end_writing(applications)

    def _begin_to_write(self, cluster: KafkaCluster) -> list[Application]:
        self.kernel.trace(f"applications write to {cluster}")
        started = []
        for plan in self.run.scenario.topics:
            for partition in range(len(cluster.topics[plan.name].partitions)):
                number = _NUMBERS * (len(self._applications) + 1)
                one = Application(self.kernel, cluster, plan, partition, number=number)
                self._applications.append(one)
                started.append(one)
                one.start()
        return started

    def _end_writing(self, applications: list[Application]) -> None:
        for each in applications:
            each.stop()
        end = self.kernel.elapsed + _PATIENCE_S
        while not all(each.idle for each in applications):
            if self.kernel.elapsed > end:
                raise StuckError("a transaction stays open")
            self.kernel.run_for(1.0)

    def _await_leaders(self) -> None:
        end = self._step()
        while not all(map(self.run.faults.is_calm, self._sides)):
            if self.kernel.elapsed > end:
                raise StuckError("a cluster does not recover")
            self.kernel.run_for(1.0)

    def _await_alike(self) -> None:
        end = self._step()
        while differing := self._differing():
            if self.kernel.elapsed > end:
                raise StuckError(differing)
            self._live()

    def _differing(self) -> str:
        """The first partition that differs on the two sides. Empty if there is none."""
        for plan in self.run.scenario.topics:
            if (there := self.run.source.topics.get(plan.name)) is None:
                return f"{plan.name} is missing on {SOURCE}"
            for partition in range(len(there.partitions)):
                try:
                    on_a, on_b = (self._values(each, plan, partition) for each in self._sides)
                except LookupError:
                    return f"{plan.name}-{partition} has no leader"
                if on_a != on_b:
                    return f"{plan.name}-{partition} has {len(on_a)} records on {SOURCE} and" + (
                        f" {len(on_b)} on {TARGET}: {self._difference(on_a, on_b)}"
                    )
        return ""

    @property
    def _sides(self) -> tuple[KafkaCluster, KafkaCluster]:
        return self.run.source, self.run.target

    def _values(self, cluster: KafkaCluster, plan: TopicPlan, partition: int) -> Values:
        """Without those that only the old source has. Raises LookupError."""
        lost = self._lost.get((plan.name, partition), ())
        records = self._records_of(cluster, plan, partition)
        return [each for each in records if each[1] not in lost]

    def _records_of(self, cluster: KafkaCluster, plan: TopicPlan, partition: int) -> Values:
        same_offsets = plan.content is Content.PRESERVED and not (
            any(self._lost.values()) and self._otherwise is Otherwise.TRANSLATE
        )
        found: Values = [
            (each.offset if same_offsets else None, each.value or b"")
            for each in cluster.records(plan.name, partition)
        ]
        values = [value for _, value in found]
        if len(set(values)) < len(values):
            doubled = next(value for value in values if values.count(value) > 1)
            raise InvariantError(f"{cluster}: {plan.name}-{partition} has {name_of(doubled)} twice")
        return found

    def _difference(self, on_a: Values, on_b: Values) -> str:
        for a, b in zip(on_a, on_b, strict=False):
            if a != b:
                return f"{a[0]} {name_of(a[1])} and {b[0]} {name_of(b[1])}"
        return "one is the beginning of the other"

    def _look_at_groups(self) -> None:
        """After a promotion, each group is at the same record on both sides."""
        for group in list(self.run.source.groups.groups):
            there = self.run.target.committed(group)
            for (topic, partition), offset in self.run.source.committed(group).items():
                read = self._read_below(self.run.source, topic, partition, offset)
                found = there.get((topic, partition), 0)
                if self._read_below(self.run.target, topic, partition, found) != read:
                    raise InvariantError(
                        f"{group}: {topic}-{partition} {offset} on {SOURCE} is {found} on {TARGET}"
                    )

    def _read_below(self, cluster: KafkaCluster, topic: str, partition: int, offset: int) -> int:
        return sum(each.offset < offset for each in cluster.records(topic, partition))
