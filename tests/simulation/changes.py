"""What people do meanwhile: topics, partitions and configs, directives, another file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from causeway.errors import CausewayError
from causeway.formats import load
from causeway.operate import directives
from tests.simulation.cluster import Refused
from tests.simulation.kernel import SimulatedProcess
from tests.simulation.scenario import Content

if TYPE_CHECKING:
    from tests.simulation.faults import Faults

CommandRequest = tuple[Callable[..., Any], dict[str, Any]]

_MOST_PARTITIONS = 4
_CONFIGS = {
    "retention.ms": ("31536000000", "63072000000", "-1"),
    "max.message.bytes": ("2000", "20000", None),
    "segment.bytes": ("4000", "1000000", None),
}


class Changes:
    """Of one run."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.run, self.kernel = faults, faults.run, faults.kernel
        self._chance = faults.kernel.random
        self._commands: list[SimulatedProcess] = []

    def weighted(self) -> Iterator[tuple[Callable[[], None], float]]:
        yield self._create_topic, 3
        yield self._add_partition, 2
        yield self._alter_config, 2
        yield self._pause, 1
        yield self._resume, 2
        yield self._restart, 1
        yield self._throttle, 1
        yield self._step_down, 1
        yield self._change_file, 1
        yield self._lose_unmirrored, 2
        yield self._replace_topic, 1
        yield self._lose_tail_of_source, 1

    def heal(self) -> None:
        """All topics are there. What commands have asked for is taken back in a while."""
        self.end_commands()
        for plan in self.run.scenario.topics:
            self.run.create(plan)
        self.run.write_file(self.run.scenario.file)
        if self._commands:
            # Requests of commands that have ended may arrive late.
            self.run.later(15.0, self._take_back)
        self._reload()

    def end_commands(self) -> None:
        """What has not succeeded by now is not tried again."""
        for command in self._commands:
            command.kill("its person gives up")

    def _reload(self) -> None:
        for mirror in self.run.mirrors:
            mirror.reload()

    def _take_back(self) -> None:
        scopes: list[dict[str, Any]] = [{}]
        scopes += [{"topic": plan.name} for plan in self.run.scenario.topics]
        scopes += [{"topic": plan.name, "partition": at} for plan, at in self.run.checks.places]
        requests: list[CommandRequest] = [(directives.resume, scope) for scope in scopes]
        requests.append((directives.throttle, {"bytes_per_s": None, "off": True}))
        self._ask(*requests, persists=True)

    # -- the source -------------------------------------------------------------------------------

    def _create_topic(self) -> None:
        self.run.create(self._chance.choice(self.run.scenario.topics))

    def _add_partition(self) -> None:
        plan, _ = self._chance.choice(self.faults.places)
        count = len(self.run.source.topics[plan.name].partitions)
        if count < _MOST_PARTITIONS:
            try:
                self.run.source.add_partitions(plan.name, count + 1)
            except Refused:
                return  # too few brokers are up
            self.run.write_to(plan, count)

    def _alter_config(self) -> None:
        plan, _ = self._chance.choice(self.faults.places)
        name = self._chance.choice(list(_CONFIGS))
        if plan.content is Content.RETAINED and name == "retention.ms":
            return
        value = self._chance.choice(_CONFIGS[name])
        self.kernel.trace(f"{plan.name}: {name} is {value}")
        self.run.source.alter_configs(plan.name, {name: value})

    def _lose_unmirrored(self) -> None:
        """Retention deletes records that may not be mirrored; the file says that this is right."""
        run = self.run
        plan, partition = self._chance.choice(run.checks.places)
        if plan.content is not Content.RETAINED:
            return
        try:
            run.checks.look()
            low, high = run.source.log_range(plan.name, partition)
            high = min(high, run.source.replica(plan.name, partition).high_watermark)
            if low < high:
                offset = self._chance.randint(low, high)
                self.kernel.trace(f"{plan.name}-{partition} loses its records below {offset}")
                run.source.delete_records(plan.name, partition, offset)
        except LookupError:
            pass

    def _replace_topic(self) -> None:
        plan = self._chance.choice(self.run.scenario.topics)
        if plan.content is Content.REPLACED and plan.name in self.run.source.topics:
            self.run.checks.look()
            try:
                self.run.checks.replaced(plan.name)
            except LookupError:
                return  # a partition has no leader now
            self.run.source.delete_topic(plan.name)
            self.run.later(self.faults.lasts(0.0, 3.0, 20.0), lambda: self.run.create(plan))

    def _lose_tail_of_source(self) -> None:
        """All replicas of the source lose acknowledged records."""
        source = self.run.source
        plan, partition = self._chance.choice(self.faults.places)
        if plan.content is not Content.REPLACED or not self.faults.is_calm(source):
            return
        try:
            batches = source.batches(plan.name, partition)
            if batches:
                self.run.checks.look()
                self.run.checks.replaced(plan.name)
                last = batches[-self._chance.randint(1, min(5, len(batches)))]
                self.kernel.trace(f"{plan.name}-{partition} loses its records from {last.base} on")
                source.cut(plan.name, partition, last.base)
        except (LookupError, Refused):
            pass

    # -- the mirror -------------------------------------------------------------------------------

    def _ask(self, *requests: CommandRequest, persists: bool) -> None:
        """Runs commands one after the other on another machine. `persists`: each one again and
        again until it succeeds."""
        process = self.kernel.process(f"command {len(self._commands)}", "ops.sim")

        def run() -> None:
            for act, asked in requests:
                while not self._has_asked(process.name, act, asked) and persists:
                    self.kernel.wait(2.0)
            process.kill("its commands are over")

        process.start(run)
        self._commands.append(process)

    def _has_asked(self, who: str, act: Callable[..., Any], asked: dict[str, Any]) -> bool:
        said = "done"
        outcomes: tuple[directives.DirectiveOutcome, ...] = ()
        try:
            outcomes = act(load(self.run.file), wait_s=None, who=who, **asked)
        except CausewayError as error:
            said = str(error)
        said = next((str(each.error) for each in outcomes if each.error is not None), said)
        self.kernel.trace(f"{who}: {act.__name__} {asked}: {said}")
        return said == "done"

    def _ask_once(self, act: Callable[..., Any], **asked: Any) -> None:
        self._ask((act, asked), persists=False)

    def adopt(self, topic: str) -> None:
        """Acknowledges that records are lost."""
        self._ask_once(directives.restart, topic=topic, adopt=True)

    def _scope(self) -> dict[str, Any]:
        plan, partition = self._chance.choice(self.faults.places)
        return self._chance.choice(
            ({}, {"topic": plan.name}, {"topic": plan.name, "partition": partition})
        )

    def _pause(self) -> None:
        scope = self._scope()
        self._ask_once(directives.pause, **scope)
        if self.run.scenario.long:
            # Otherwise most hours of the run could be without a mirror.
            again = (directives.resume, scope)
            self.run.later(self.faults.lasts(60.0), lambda: self._ask(again, persists=True))

    def _resume(self) -> None:
        self._ask_once(directives.resume, **self._scope())

    def _restart(self) -> None:
        self._ask_once(directives.restart, **self._scope())

    def _throttle(self) -> None:
        self._ask_once(directives.throttle, bytes_per_s=self._chance.choice((500, 20_000)))

    def _step_down(self) -> None:
        self._ask_once(directives.step_down)

    def _change_file(self) -> None:
        """Topics are taken out of the file, or come back."""
        topics = [each.name for each in self.run.scenario.topics]
        without = topics[1:] if self._chance.random() < 0.5 else []
        self.kernel.trace(f"the file has no {without}")
        self.run.write_file(self.run.scenario.file_without(without))
        self._reload()
