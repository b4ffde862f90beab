"""Drivers and lanes of a simulation: the real ones, without Spark.

Import this module after `patches.install`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from causeway.config import Settings
from causeway.daemon import driver as daemon
from causeway.daemon import processes
from causeway.daemon.partitions import RunOptions, Wish
from causeway.errors import CausewayError
from causeway.formats import load
from causeway.relay import ControlClient
from causeway.relay.lane import lease, loop
from causeway.status import Look, PartitionStatus, Role, Snapshot
from tests.simulation import threads, transforms
from tests.simulation.kernel import Kernel, SimulatedProcess

_LAUNCH_S: Final = 1.0  # Spark needs about so long to start a lane's task again


class LeaseAlarm:
    """In place of LeaseGuard: its timer is that of the simulated process."""

    def __init__(self) -> None:
        self._until = 0.0
        self._process = threads.kernel().here().process

    def renew(self, until: float) -> None:
        self._until = until - lease.MARGIN_S

    def lasts(self) -> bool:
        return lease.clock() < self._until

    def send(self, act: Callable[[], object]) -> None:
        if lease.clock() >= self._until:
            return
        self._process.set_alarm(self._until)
        threads.kernel().may_give_way()
        try:
            act()
        finally:
            self._process.set_alarm(None)


class LaneLauncher:
    """In place of daemon.spark.Engine, and of the Spark that it keeps: each lane is a process."""

    local = True

    def __init__(
        self,
        conf: Mapping[str, str],
        lanes: int | None,
        secret: str,
        on_lane_ended: Callable[[int, str, bool], None],
        staged: int = 0,
    ) -> None:
        del conf, staged
        self.lanes = lanes or 2
        self._secret = secret
        self._on_lane_ended = on_lane_ended
        self._stopping = False
        self._driver = threads.kernel().here().process
        self.processes: dict[int, SimulatedProcess] = {}
        self.spark = self

    def start(self) -> None: ...

    def tick(self) -> None: ...

    def launch(self, lane: int, host: str, port: int) -> None:
        threading.Thread(target=self._keep, args=(lane, host, port), name=f"lane-{lane}").start()

    def _keep(self, lane: int, host: str, port: int) -> None:
        kernel = threads.kernel()
        while not self._stopping:
            ended = threading.Event()
            returned: list[bool] = []
            process = kernel.process(f"{self._driver.name}/lane-{lane}", self._driver.host)
            process.on_end.append(ended.set)
            process.start(lambda p=process, r=returned: self._run(p, r, lane, host, port))  # type: ignore[misc]
            self.processes[lane] = process
            ended.wait()
            self._on_lane_ended(lane, "ended", bool(returned))
            kernel.wait(_LAUNCH_S)

    def _run(
        self, process: SimulatedProcess, returned: list[bool], lane: int, host: str, port: int
    ) -> None:
        try:
            control = ControlClient(host, port, self._secret)
            try:
                loop.LaneLoop(lane, control, self._secret).run()
            finally:
                control.close()
            returned.append(True)
        except (ConnectionError, TimeoutError) as error:
            threads.kernel().trace(f"{process.name}: {error}")
        process.kill("its task is over")

    def quiesce(self) -> None:
        self._stopping = True

    def stop(self) -> None:
        self._stopping = True
        for process in self.processes.values():
            process.kill("Spark ends")


class SimulatedMirror:
    """A driver that is started again after its end, as a service is."""

    def __init__(self, kernel: Kernel, file: Path, host: str) -> None:
        self.kernel = kernel
        self.file = file
        self.host = host
        self.process: SimulatedProcess | None = None
        self.driver: daemon.Driver | None = None
        self.result: int | CausewayError | None = None
        self._starts = 0
        self._look: Snapshot | None = None
        self._states: dict[str, str] = {}

    def start(self) -> None:
        self._starts += 1
        self.result = self.driver = self._look = None
        name = f"driver-{self.host}-{self._starts}"
        self.process = self.kernel.process(name, self.host)
        self.kernel.trace(f"{name} starts")
        self.process.start(self._run)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def failed(self) -> bool:
        """Whether the driver has ended by an error."""
        return isinstance(self.result, CausewayError) and not self.alive

    def lanes(self) -> list[SimulatedProcess]:
        """The lanes that live."""
        prefix = f"{self.process.name}/" if self.process is not None else "-"
        every = self.kernel.processes
        return [one for one in every if one.alive and one.name.startswith(prefix)]

    def kill(self) -> None:
        """The driver; its lanes lose their connection."""
        if self.process is not None:
            self.process.kill("killed")

    def crash(self) -> None:
        """The machine loses its power: driver and lanes are gone, and no peer hears of that."""
        for process in self.kernel.processes:
            if process.host == self.host:
                process.kill("its machine has no power", silently=True)

    def reload(self) -> None:
        """As `causeway reload` does."""
        if self.driver is not None and self.alive:
            assert self.process is not None
            driver = self.driver
            self.process.start(lambda: driver.reload("the simulation"), "reload")

    def stop(self) -> None:
        """As SIGTERM does."""
        if self.driver is not None and self.process is not None and self.process.alive:
            self.process.start(self.driver.stop.set, "signal")

    @property
    def partitions(self) -> list[PartitionStatus]:
        """As the driver last had them in its status."""
        look = None if self.driver is None else self._look
        return [] if look is None else [each for link in look.links for each in link.partitions]

    @property
    def led(self) -> list[PartitionStatus]:
        """Those of the links that the driver leads. A frozen one says nothing."""
        process = self.process
        speaks = process is not None and process.alive and not process.frozen
        look = self._look if self.driver is not None and speaks else None
        links = () if look is None else look.links
        return [each for link in links if link.role == Role.LEADING for each in link.partitions]

    def _run(self) -> None:
        process = self.process
        assert process is not None
        try:
            settings = load(self.file)
            self.driver = _driver(settings, self._on_status)
            self.result = self.driver.run()
        except CausewayError as error:
            self.result = error
            self.kernel.trace(f"{process.name} fails: {error}")
        process.kill("its run is over")

    def _on_status(self, look: Look) -> None:
        self._look = snapshot = look()
        states = {
            f"{link.name} {each.topic}-{each.partition}": " ".join(
                filter(None, (each.state, each.reason))
            )
            for link in snapshot.links
            for each in link.partitions
        }
        states |= {
            f"{link.name} {each.topic}": each.reason
            for link in snapshot.links
            for each in link.problems
        }
        for place, state in states.items():
            if self._states.get(place) != state:
                self.kernel.trace(f"{self.host}: {place} {state}")
        self._states = states

    @property
    def states(self) -> dict[str, str]:
        """State and reason of each partition, as the status has them."""
        return self._states


def _driver(settings: Settings, on_status: Callable[[Look], None]) -> daemon.Driver:
    options = RunOptions(
        settings=settings.run, wish=Wish(start_from=None, adopt=False), bounded=False, finish=False
    )
    return daemon.Driver(settings, options, on_status, lambda _: None, threading.Event())


def patch_causeway(patch: pytest.MonkeyPatch) -> None:
    """Replaces Spark, the lease's timer, and the look at processes of the machine."""
    transforms.patch_transforms(patch)
    patch.setattr(daemon, "Engine", LaneLauncher)
    patch.setattr(loop, "LeaseGuard", LeaseAlarm)
    patch.setattr(loop, "_resident_bytes", lambda: 1 << 26)
    patch.setattr(processes, "started_at", _started_at)
    patch.setattr(processes, "here", lambda: f"boot-{threads.kernel().here().process.host}/1")
    patch.setattr(processes, "kill", _kill)


def _found(pid: int) -> SimulatedProcess | None:
    kernel = threads.kernel()
    host = kernel.here().process.host
    here = (one for one in kernel.processes if one.pid == pid and one.host == host and one.alive)
    return next(here, None)


def _started_at(pid: int) -> str | None:
    found: Any = _found(pid)
    return None if found is None else str(pid)


def _kill(pid: int, start: str) -> None:
    found = _found(pid)
    if found is not None and start == str(pid):
        found.kill("the driver ends it")
