"""The mirror: a file, two drivers of which one leads, and commands for them."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from causeway.errors import CausewayError
from tests.fire.sites import Site
from tests.fire.topics import PREFIX, RULES, SQL
from tests.harness.command import causeway
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.waiting import await_until

LINK = "A->B"
_COMMAND_S = 300.0
# No broker or driver answers in time, another command is at work, or something still lags.
_LATER = {3, 7, 8, 9, 10, 11}
_LINES = (
    f"{LINK}.enabled = true",
    "replication.factor = -1",
    "B->A.enabled = true",
    "B->A.causeway.way.back = true",
    f"topics = {PREFIX}.*",
    "replication.policy.class = IdentityReplicationPolicy",
    f"causeway.offsets.preserve.topics = {PREFIX}same",
    f"{LINK}.causeway.transform.rules.topics = {PREFIX}rules",
    f"{LINK}.causeway.transform.rules.rules = {RULES}",
    "groups = fire-.*",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 2",
    "emit.checkpoints.interval.seconds = 2",
    "refresh.groups.interval.seconds = 5",
    "refresh.topics.interval.seconds = 3",
    "sync.topic.configs.interval.seconds = 5",
    "causeway.lease.ms = 6000",
    "A.consumer.request.timeout.ms = 10000",
    "B.producer.request.timeout.ms = 10000",
)
_WITHOUT_SPARK = (f"{LINK}.causeway.transforms = rules",)
_WITH_SPARK = (
    f"{LINK}.causeway.transforms = rules, spark",
    f"{LINK}.causeway.transform.spark.topics = {PREFIX}spark",
    f"{LINK}.causeway.transform.spark.value.format = string",
    f"{LINK}.causeway.transform.spark.sql = {SQL}",
)
# Of these settings, a reload takes others.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "B.producer.compression.type": ("none", "lz4", "zstd"),
    "A.consumer.fetch.max.wait.ms": ("500", "200"),
    f"{LINK}.causeway.throttle.bytes.per.second": ("50000000", "300000"),
    "emit.checkpoints.interval.seconds": ("2", "3"),
}


class FireMirror:
    def __init__(self, a: Site, b: Site, directory: Path, *, spark: bool) -> None:
        self._lines = (*_LINES, *(_WITH_SPARK if spark else _WITHOUT_SPARK))
        self._clusters = {"A": a.cluster, "B": b.cluster}
        self.directory = directory
        self.file = directory / "mirror.properties"
        self.runs: list[Running] = []
        self.ended = threading.Event()
        self.logs: list[Path] = []
        self._write({})

    def _write(self, changed: Mapping[str, str]) -> None:
        lines = [*self._lines, *(f"{key} = {value}" for key, value in changed.items())]
        mm2_file(self.directory, self._clusters, *lines).replace(self.file)

    def start(self) -> None:
        self.runs = [self._begin()]

    def add_standby(self) -> None:
        self.runs.append(self._begin())

    def _begin(self) -> Running:
        return Running("run", self.file, directory=self.directory)

    def stop(self) -> None:
        """In good order."""
        for run in self.runs:
            code = run.stop()
            assert code == 0, f"a driver ended with code {code}:\n{run.log[-4000:]}"

    def add_notes(self, failure: BaseException) -> None:
        """The status, and the end of the log, of each driver."""
        for run in self.runs:
            run.add_note(failure)

    def kill(self) -> None:
        for run in self.runs:
            run.kill()

    def wait(self, seconds: float) -> None:
        self.ended.wait(seconds)

    def leader(self) -> Running | None:
        """The driver that leads the link, by the newest lease."""
        try:
            found = status_of(self.file)[LINK]["driver"]
        except CausewayError:
            return None
        pid = None if found is None else int(found["owner"].rpartition("/")[2])
        return next((run for run in self.runs if run.pid == pid), None)

    def await_leader(self) -> Running:
        return await_until(self.leader, PATIENCE_S, "a driver leads", 1)

    # Drivers

    def _one(self, leads: bool) -> Running:
        leader = self.await_leader()
        return leader if leads else next(run for run in self.runs if run is not leader)

    def _replace(self, run: Running) -> None:
        self.runs[self.runs.index(run)] = fresh = self._begin()
        await_until(lambda: fresh.workers() or not fresh.alive, PATIENCE_S, "a driver has lanes")
        assert fresh.alive, f"a driver did not start:\n{fresh.log[-4000:]}"

    def kill_driver(self, chance: random.Random, *, leads: bool) -> None:
        """With all its processes, or alone."""
        run = self._one(leads)
        if chance.random() < 0.5:
            run.kill()
        else:
            run.kill_driver()
        self.wait(chance.uniform(0, 5))
        self._replace(run)

    def stop_driver(self, chance: random.Random) -> None:
        run = self._one(chance.random() < 0.7)
        code = run.stop()
        assert code == 0, f"a driver ended with code {code}:\n{run.log[-4000:]}"
        self._replace(run)

    def freeze_driver(self, chance: random.Random, *, leads: bool) -> None:
        """With its lanes, or alone: for a moment, or beyond its lease."""
        run = self._one(leads)
        alone = chance.random() < 0.5
        if alone:
            psutil.Process(run.pid).suspend()
        else:
            run.freeze()
        self.wait(chance.choice([chance.uniform(0.5, 4), chance.uniform(8, 20)]))
        if alone:
            psutil.Process(run.pid).resume()
        else:
            run.thaw()

    # Lanes, and the workers of transforms

    def _worker(self, chance: random.Random) -> psutil.Process:
        leader = self.await_leader()
        return chance.choice(await_until(leader.workers, PATIENCE_S, "lanes"))

    def kill_lane(self, chance: random.Random) -> None:
        _send(self._worker(chance), signal.SIGKILL)

    def freeze_lane(self, chance: random.Random) -> None:
        worker = self._worker(chance)
        _send(worker, signal.SIGSTOP)
        self.wait(chance.choice([chance.uniform(0.2, 4), chance.uniform(7, 15)]))
        _send(worker, signal.SIGCONT)

    # Commands

    def command(self, *arguments: str | Path) -> str:
        """What the command prints. It is called again while clusters or drivers cannot answer."""
        deadline = time.monotonic() + _COMMAND_S
        while True:
            done = causeway(*arguments, timeout_s=_COMMAND_S)
            if done.code == 0:
                return done.out
            told = f"causeway {' '.join(map(str, arguments))} ended with {done.code}:\n"
            told += done.out + done.err
            if done.code not in _LATER or time.monotonic() > deadline:
                raise AssertionError(told)
            self.wait(1)

    def restart(self, chance: random.Random) -> None:
        self.command("restart", self.file, "--link", LINK)

    def pause(self, chance: random.Random, topic: str) -> None:
        scope = (self.file, "--link", LINK, "--topic", topic)
        self.command("pause", *scope)
        self.wait(chance.uniform(0, 5))
        self.command("resume", *scope)

    def throttle(self, chance: random.Random) -> None:
        self.command("throttle", self.file, "--link", LINK, "--rate", "100kB")
        self.wait(chance.uniform(1, 8))
        self.command("throttle", self.file, "--link", LINK, "--off")

    def step_down(self, chance: random.Random) -> None:
        self.command("step-down", self.file, "--link", LINK)

    def reload(self, chance: random.Random) -> None:
        self._write({key: chance.choice(values) for key, values in _CHOICES.items()})
        self.command("reload", self.file)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        pass
